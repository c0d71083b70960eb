"""How a sentence becomes a vector by an encoder's own account: the configuration that
sentence-transformers keeps in a folder, read and written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import ClassVar

from raxalign.encoders.models.folder import POOLING, read_config, read_json
from raxalign.encoders.models.vectors import SentencePooling

_POOLINGS: dict[str, SentencePooling] = {
    "cls": "cls",
    "mean": "mean",
    "weightedmean": "weighted",
    "lasttoken": "last",
}
_LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ALONE = "M2M100Encoder"
"""The architecture of SONAR's text encoder, whose sentences are the means over all pieces."""
_PROMPTS, _CONFIG = "config_sentence_transformers.json", "config.json"
_SETTINGS, _POOLING_FOLDER, _UNIT_FOLDER = "sentence_bert_config.json", "1_Pooling", "2_Normalize"
_KIND = "sentence_transformers.models"  # all its versions open modules of these names
_TRANSFORMER, _ALIGNED = "Transformer", "AlignedTransformer"


@dataclass(frozen=True)
class _Module:
    """An entry of the list of modules."""

    type: str
    path: str


@dataclass(frozen=True)
class _Prompts:
    """The texts that are put before sentences, by their names."""

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None


@dataclass(frozen=True)
class SentenceConfig:
    """The pooling over all pieces, special ones included; `normalize` scales to length 1; the
    `prompt` is put before sentences and left out of a mean unless `include_prompt`. `unread` names
    what a folder has and raxalign does not read: it cannot be used.
    """

    pooling: SentencePooling = "mean"
    normalize: bool = False
    prompt: str = ""
    include_prompt: bool = True
    unread: str = ""
    FILE: ClassVar = "modules.json"
    """The file that is there wherever a folder has a configuration."""

    @classmethod
    def lacking(
        cls, name: str, pooling: str, own: SentenceConfig | None, *, causal: bool
    ) -> Sequence[str]:
        """Return why the encoder `name` has no vectors of sentences by a `pooling`, and what to do;
        nothing where it has them. Of the encoder there are its `own` configuration (None: it has
        none) and whether it is `causal`, a decoder whose pieces see those before them alone.
        """
        if pooling == "own":
            if own is None or own.unread:
                has = own.unread if own else f"no {cls.FILE}"
                told = f"own is what sentence-transformers keeps in a folder, and {name} has {has}"
                return told, "choose cls, mean, last or weighted"
            pooling = own.pooling
        if pooling == "cls" and causal:
            told = f"cls is the first subword token, which in {name}, a decoder, has seen no other"
            return told, "choose last, mean or weighted"
        return ()

    @classmethod
    def trained(cls, pooling: SentencePooling, trailing: int) -> SentenceConfig | None:
        """Return the configuration of trained sentence vectors; None for the `last` piece before
        `trailing` special ones, which sentence-transformers cannot read.
        """
        return None if pooling == "last" and trailing else cls(pooling)

    @classmethod
    def read(
        cls, file: Callable[[str], Path | None], architectures: object = None
    ) -> SentenceConfig | None:
        """Return the configuration of a folder, if any, whose files `file` finds by their names
        (None: not there), or else that of its `architectures`. Of several prompts it is the one
        that the folder names as its default, or else ``query``. Raises `DataError` for a file that
        does not have the known form.
        """
        listed = file(cls.FILE)
        if listed is None:
            return cls() if architectures == [_ALONE] else None
        parts = read_json(listed, list[_Module])
        names = [part.type.rpartition(".")[2].replace(_ALIGNED, _TRANSFORMER) for part in parts]
        other = sorted(set(names) - {_TRANSFORMER, "Pooling", "Normalize"})
        places = [part.path for part, kind in zip(parts, names, strict=True) if kind == "Pooling"]
        if other or names[:2] != [_TRANSFORMER, "Pooling"] or len(places) != 1:
            return cls(unread=f"the modules {', '.join(names)}")
        if "/" in places[0] or not fnmatch(f"{places[0]}/{_CONFIG}", POOLING):
            return cls(unread=f"the pooling in the folder {places[0]}")
        pooled, prompted = file(f"{places[0]}/{_CONFIG}"), file(_PROMPTS)
        settings = {} if pooled is None else read_config(pooled)
        modes = settings.get("pooling_mode") or [
            _LEGACY[key] for key in _LEGACY if settings.get(key)
        ]
        modes = (modes if isinstance(modes, list) else [modes]) or ["mean"]
        if len(modes) != 1 or modes[0] not in _POOLINGS:
            return cls(unread=f"the pooling {' and '.join(map(str, modes))}")
        included = bool(settings.get("include_prompt", True))
        if not included and modes[0] == "cls":
            return cls(unread="the pooling cls without the prompt")
        record = _Prompts() if prompted is None else read_json(prompted, _Prompts)
        prompt = (record.prompts or {}).get(record.default_prompt_name or "query") or ""
        return cls(_POOLINGS[modes[0]], "Normalize" in names, prompt, included)

    def write(
        self,
        folder: Path,
        hidden_size: int,
        max_length: int,
        *,
        transformer: str = f"{_KIND}.{_TRANSFORMER}",
        languages: Sequence[str] = (),
    ) -> None:
        """Write the configuration next to an encoder, so that sentence-transformers opens its
        folder: rows have up to `max_length` pieces, the module `transformer` makes the vectors of
        pieces, and is given one of the `languages`, if any, each of which is the name of a prompt.
        """
        modules = [("", transformer), (_POOLING_FOLDER, f"{_KIND}.Pooling")]
        modules += [(_UNIT_FOLDER, f"{_KIND}.Normalize")] if self.normalize else []
        for place, _ in modules:
            (folder / place).mkdir(exist_ok=True)
        own = {"query": self.prompt} if self.prompt else {}
        spoken = {lang: f"[language {lang}] {self.prompt}" for lang in languages}
        records = {
            self.FILE: [
                {"idx": i, "name": str(i), "path": place, "type": kind}
                for i, (place, kind) in enumerate(modules)
            ],
            _SETTINGS: {"max_seq_length": max_length, "do_lower_case": False},
            _PROMPTS: {
                "prompts": {**own, **spoken},
                "default_prompt_name": "query" if own else None,
            },
            f"{_POOLING_FOLDER}/{_CONFIG}": {
                "word_embedding_dimension": hidden_size,
                **{key: _POOLINGS.get(mode) == self.pooling for key, mode in _LEGACY.items()},
                "include_prompt": self.include_prompt,
            },
        }
        for name, record in records.items():
            (folder / name).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def files_of(folder: Path | str) -> Callable[[str], Path | None]:
    """Return the function from a name to its file in a folder (None: none)."""

    def file(within: str) -> Path | None:
        path = Path(folder) / within
        return path if path.is_file() else None

    return file
