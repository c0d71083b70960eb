"""Sentence vectors of an encoder that raxalign aligned, for sentence-transformers.

An export holds a copy of this file, which needs nothing of raxalign::

    model = SentenceTransformer(folder, trust_remote_code=True)
    model.encode(texts, language="de")  # or prompt_name="de"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

try:
    from sentence_transformers.base.modules import Transformer
except ImportError as error:
    raise ImportError(
        "this encoder is opened by sentence-transformers 6 or later: pip install -U"
        " sentence-transformers"
    ) from error

SETTINGS, RECORD, TENSORS = "sentences.json", "transforms.json", "transforms.safetensors"
_MARK = re.compile(r"\[language ([^\]]+)\] ?")


class AlignedTransformer(Transformer):  # type: ignore[misc]
    """The transformer with the transforms of the texts' language, inside and at the pieces read."""

    forward_kwargs = {"language"}  # noqa: RUF012 - as sentence-transformers declares it
    settings: dict[str, Any]
    record: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    @classmethod
    def load(cls, model_name_or_path: str, *args: Any, **kwargs: Any) -> AlignedTransformer:
        """Return what is in a folder or a repository of the hub."""
        if kwargs.get("backend", "torch") != "torch":
            raise ValueError("the transforms of this encoder need `backend='torch'`")
        module: AlignedTransformer = super().load(model_name_or_path, *args, **kwargs)
        names = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        where = {name: kwargs[name] for name in names if name in kwargs}
        wanted = (SETTINGS, RECORD, TENSORS)
        files = [cls.load_file_path(model_name_or_path, name, **where) for name in wanted]
        if None in files:
            raise OSError(f"{model_name_or_path}: needs the files {SETTINGS}, {RECORD}, {TENSORS}")
        settings, record, tensors = map(str, files)
        module.settings = json.loads(Path(settings).read_text(encoding="utf-8"))
        module.record = json.loads(Path(record).read_text(encoding="utf-8"))
        module.tensors = load_file(tensors)
        module._read_as_published()
        return module

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the encoder with its transforms; sentence-transformers adds this file."""
        super().save(output_path, *args, **kwargs)
        for name, record in ((SETTINGS, self.settings), (RECORD, self.record)):
            text = json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True)
            (Path(output_path) / name).write_text(text + "\n", encoding="utf-8")
        save_file(self.tensors, Path(output_path) / TENSORS)

    def preprocess(
        self, inputs: Any, prompt: str | None = None, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the pieces of texts, and their language: a keyword's, prompt's or the export's."""
        marked = _MARK.match(prompt or "")
        if prompt and marked:
            prompt = prompt[marked.end() :]
        language = kwargs.pop("language", None) or (marked and marked[1])
        spoken = self.spoken(language or self.settings["language"])
        features = super().preprocess(inputs, prompt or None, *args, language=spoken, **kwargs)
        return {**features, "language": spoken} if features else features

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add the vectors of pieces, transformed, as ``token_embeddings``."""
        kwargs.pop("language", None)
        spoken = self.spoken(features.pop("language", None))
        code = spoken.partition(">")[0]
        for name, numbers in self.settings["inputs"].items():
            ids, number = features["input_ids"], numbers[code]
            shape = ids.shape[:1] if name == "lang_ids" else ids.shape
            kwargs[name] = torch.full(shape, number, device=ids.device)
        if self.settings["bidirectional"]:
            kwargs["attention_mask"] = self._both_ways(features["attention_mask"])
        with self._watched(spoken) as states:
            features = super().forward(features, **kwargs)
        states[self.settings["depth"]] = features["token_embeddings"]
        layers = self.settings["layers"]
        read = [self._transformed(states[n], spoken, "readout", n) for n in layers]
        features["token_embeddings"] = torch.stack(read).sum(0)
        return features

    def spoken(self, language: str | None) -> str:
        """Return a language as the export writes it; ``en>de`` is the pivot on its way to German.
        Raises `ValueError` where there is none, or none that the encoder was aligned for.
        """
        choices = self.settings["choices"]
        if not choices:  # the same for all languages
            return ""
        choose = f"Choose one of {', '.join(choices)}: encode(texts, language={choices[0]!r})"
        if not language:
            raise ValueError(
                "this encoder is aligned by transforms that depend on the language of the texts,"
                f" and none was given. {choose}, or prompt_name={choices[0]!r}"
            )
        names: dict[str, str] = self.settings["names"]
        parts = [
            names.get(part.strip().lower().replace("_", "-"), part) for part in language.split(">")
        ]
        found = ">".join(parts)
        if found not in choices:
            raise ValueError(f"this encoder is not aligned for the language {language!r}. {choose}")
        return found

    def _transformed(
        self, states: torch.Tensor, spoken: str, sort: str, layer: int
    ) -> torch.Tensor:
        """The states (..., H) after the transforms of one sort at one layer, for a language."""
        code, _, toward = spoken.partition(">")
        for transform in self.record["transforms"]:
            place = (transform["lang"], transform["sort"], transform["layer"])
            if place == (code, sort, layer) and transform["toward"] in (None, toward):
                for step in transform["steps"]:
                    states = self._stepped(states, step)
        return states

    def _stepped(self, states: torch.Tensor, step: dict[str, str]) -> torch.Tensor:
        if step["step"] == "unit":
            return torch.nn.functional.normalize(states, dim=-1)
        if "center" in step:
            states = states - self._tensor(step["center"], states)
        if "weight" in step:
            states = states @ self._tensor(step["weight"], states)
        return states + self._tensor(step["shift"], states) if "shift" in step else states

    def _tensor(self, name: str, like: torch.Tensor) -> torch.Tensor:
        return self.tensors[name].to(like)

    @contextmanager
    def _watched(self, spoken: str) -> Iterator[dict[int, torch.Tensor]]:
        """Collect what enters the first block and leaves each, changed inside, meanwhile."""
        states: dict[int, torch.Tensor] = {}

        def changed(state: torch.Tensor) -> torch.Tensor:
            layer = len(states)
            states[layer] = self._transformed(state, spoken, "inside", layer)
            return states[layer]

        def enter(_: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            if states:  # a block that runs again
                return args, kwargs
            if args:
                return (changed(args[0]), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": changed(kwargs["hidden_states"])}

        def leave(_: torch.nn.Module, __: Any, output: Any) -> Any:
            whole = isinstance(output, tuple)
            return (changed(output[0]), *output[1:]) if whole else changed(output)

        base, handles = self.model.base_model, []
        blocks = [base.get_submodule(name) for name in self.settings["blocks"]]
        if blocks and not self.settings["embeds"]:
            handles = [blocks[0].register_forward_pre_hook(enter, with_kwargs=True)]
        try:
            handles += [block.register_forward_hook(leave) for block in blocks]
            yield states
        finally:
            for handle in handles:
                handle.remove()

    def _both_ways(self, mask: torch.Tensor) -> torch.Tensor:
        """The mask (B, 1, T, T) that lets every piece see the whole row."""
        dtype = next(self.model.parameters()).dtype
        hidden = (mask == 0)[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
        return torch.zeros(hidden.shape, dtype=dtype, device=mask.device).masked_fill(
            hidden, torch.finfo(dtype).min
        )

    def _read_as_published(self) -> None:
        """Put the form that the encoder reads text in before the tokenizer's own steps."""
        from tokenizers import Regex, normalizers

        steps: list[Any] = [
            normalizers.Replace(Regex(step[0]), step[1]) if step else normalizers.NFC()
            for step in self.settings["text_form"]
        ]
        backend = self.tokenizer.backend_tokenizer
        own = [] if backend.normalizer is None else [backend.normalizer]
        if steps:
            backend.normalizer = normalizers.Sequence([*steps, *own])
