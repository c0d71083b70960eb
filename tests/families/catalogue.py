"""The families of encoders by name."""

from __future__ import annotations

from tests.families.family import Family, build
from tests.families.headless import HEADLESS
from tests.families.masked import MASKED

__all__ = ["FAMILIES", "Family", "build"]

FAMILIES = {family.name: family for family in (*MASKED, *HEADLESS)}
