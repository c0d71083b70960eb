"""The base of every plug-in's options."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class BaseParams(BaseModel):
    """Frozen options: unknown keys are refused, defaults are part of the identity, names are those of the YAML file.

    A field that YAML names by a Python keyword is declared with an alias: ``reg_weight: float = Field(1.0, alias="lambda")``.
    Identity and YAML use the alias (`model_dump(by_alias=True)`), code uses the field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=True, str_strip_whitespace=True)
