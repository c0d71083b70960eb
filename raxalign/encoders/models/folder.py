"""What an encoder's name stands for, a folder or a name on the hub, and whether a folder holds an
encoder, by its file names alone.
"""

from __future__ import annotations

import re
from pathlib import Path

from raxalign.errors import DataError

SAVE_TOKENIZER = "Save the tokenizer next to the model: tokenizer.save_pretrained(folder)"
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")


def is_hub_name(name: str) -> bool:
    """Whether a name can be one on the hub: ``name`` or ``owner/name`` of letters, digits, ``-``,
    ``_`` and ``.``.
    """
    return (
        len(name) <= 96
        and re.fullmatch(r"(\w[\w.-]*/)?\w[\w.-]*", name, re.ASCII) is not None
        and ".." not in name
        and "--" not in name
    )


def looks_like_path(name: str) -> bool:
    """Whether an encoder's name is a folder rather than a hub name: it begins with ``/``, ``./``,
    ``../`` or ``~``, or exists.
    """
    return (
        name.startswith(("/", "./", "../", "~", "\\"))
        or Path(name).is_absolute()
        or Path(name).is_dir()
    )


def check_folder(folder: Path) -> None:
    """Raises `DataError` unless there is a config, safetensors weights and a tokenizer's
    vocabulary.
    """
    if folder.is_file():
        raise DataError(
            folder, "is a file, not an encoder's folder", remedy=f"Name its folder {folder.parent}"
        )
    if not folder.is_dir():
        raise DataError(
            folder,
            "no such encoder folder",
            remedy="Name a folder that AutoModel opens, or a hub name",
        )
    if not (folder / "config.json").is_file():
        remedy = "Name the folder that save_pretrained of transformers wrote"
        raise DataError(folder, "has no config.json, so it is not an encoder", remedy=remedy)
    if not any(folder.glob("*.safetensors")):
        found = (
            ", ".join(sorted(p.name for p in [*folder.glob("*.bin"), *folder.glob("*.pt")]))
            or "no weights at all"
        )
        remedy = "raxalign unpickles nothing: load it in transformers and save_pretrained it again"
        raise DataError(folder, f"has no *.safetensors ({found})", remedy=remedy)
    if not any(path.is_file() for pattern in _TOKENIZERS for path in folder.glob(pattern)):
        # transformers would make a tokenizer of the special pieces alone, to which every word is
        # unknown.
        raise DataError(
            folder, f"has no tokenizer (none of {', '.join(_TOKENIZERS)})", remedy=SAVE_TOKENIZER
        )
