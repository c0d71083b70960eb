"""A family of encoders whose files are written: what raxalign makes of them, and what transformers
does.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from raxalign.catalog import catalog
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.loading import half_class
from raxalign.encoders.models.transformer import TransformerEncoder
from tests.families.catalogue import FAMILIES, Family, build


@cache
def _built(name: str) -> TemporaryDirectory[str]:
    """The files of a family, made once per process."""
    folder = TemporaryDirectory()
    build(FAMILIES[name], Path(folder.name))
    return folder


@dataclass(frozen=True)
class Subject:
    """A family whose files are in `folder`: what raxalign makes of them, and what transformers
    does.
    """

    family: Family
    folder: Path

    @classmethod
    def of(cls, name: str, root: Path) -> Subject:
        """The family's files, written where they are not there."""
        folder = root / name.replace(" ", "-")
        if not folder.is_dir():
            shutil.copytree(_built(name).name, folder)
        return cls(FAMILIES[name], folder)

    def load(self) -> TransformerEncoder:
        """A fresh encoder, as a grid that names the folder loads it."""
        kind = catalog("encoders")["transformer"]
        start = kind(kind.Params.model_validate({"name": str(self.folder)}))
        assert start.check() == []
        start.sources()
        encoder = start.load(EncoderInputs(), "cpu")
        assert isinstance(encoder, TransformerEncoder)
        return encoder

    @cached_property
    def encoder(self) -> TransformerEncoder:
        """The loaded encoder, which checks leave as it is."""
        return self.load()

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer as its documentation loads it."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder)

    @cached_property
    def reference(self) -> Any:
        """The bare model as transformers loads it."""
        import transformers

        whole = getattr(transformers, self.family.base)
        exported = self.family.spoken and (self.folder / "transforms.json").is_file()
        kind = (
            half_class(transformers.AutoConfig.from_pretrained(self.folder)) if exported else whole
        )
        made = kind.from_pretrained(self.folder, dtype=torch.float32).eval()
        return made.get_encoder() if self.family.spoken and not exported else made

    @torch.no_grad()
    def states(self, ids: list[int], lang: str) -> list[torch.Tensor]:
        """The states (T, H) of one row at every layer, by transformers alone: what enters each
        block, and what leaves the last one.
        """
        more = {}
        if self.family.adapters:
            adapter = list(self.family.adapters.values()).index(self.family.adapters[lang])
            more = {"lang_ids": torch.tensor([adapter])}
        own = self.family.spoken.get(lang)
        other = self.tokenizer.convert_tokens_to_ids(list(self.family.spoken.values()))
        language = self.tokenizer.convert_tokens_to_ids(own) if own else None
        row = torch.tensor([[language if i in other else i for i in ids]])
        output = self.reference(
            input_ids=row, attention_mask=torch.ones_like(row), output_hidden_states=True, **more
        )
        return [state[0] for state in (*output.hidden_states[:-1], output.last_hidden_state)]
