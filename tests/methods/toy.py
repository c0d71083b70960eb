"""A toy bitext of two languages whose words translate one to one, and a tiny encoder for it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.base import MethodInputs
from raxalign.pairing.build import pairs_schema
from tests.tiny import tiny_bert

WORDS = {
    "haus": "house",
    "hund": "dog",
    "katze": "cat",
    "baum": "tree",
    "rot": "red",
    "alt": "old",
    "sieht": "sees",
    "malt": "paints",
    "rothaus": "redhouse",
}
_WHOLE = [word for pair in WORDS.items() for word in pair if word not in ("rothaus", "redhouse")]


def toy_encoder(folder: Path, **options: int) -> TransformerEncoder:
    """A tiny BERT that knows most of the words whole. Its files are written into the folder unless
    an encoder is there.
    """
    if not (folder / "config.json").is_file():
        files, encoder = _toy(frozenset(options.items()))
        shutil.copytree(files.name, folder, dirs_exist_ok=True)
        _READ[folder] = (_state(folder), encoder)
    state = _state(folder)
    if folder not in _READ or _READ[folder][0] != state:
        _READ[folder] = (state, _read(folder))
    made = deepcopy(_READ[folder][1])
    made.model.config.name_or_path = made.model.name_or_path = str(folder)
    return made


_READ: dict[Path, tuple[tuple[object, ...], TransformerEncoder]] = {}
"""The files of each folder as they were when its encoder was read, and this encoder: opening files
takes ten times as long as a copy.
"""


def _read(folder: Path | str) -> TransformerEncoder:
    """The encoder of a folder. What is probed is probed here for all copies."""
    encoder = TransformerEncoder.from_folder(folder)
    encoder.can_pack()
    return encoder


def _state(folder: Path) -> tuple[object, ...]:
    """What changes when somebody writes a file of a folder."""
    files = ((path, path.stat()) for path in sorted(folder.iterdir()))
    return tuple((path.name, found.st_mtime_ns, found.st_size) for path, found in files)


@cache
def _toy(options: frozenset[tuple[str, int]]) -> tuple[TemporaryDirectory[str], TransformerEncoder]:
    """The files of the tiny BERT and the encoder as it is read from them, once per process."""
    folder = TemporaryDirectory()
    tiny_bert(folder.name, _WHOLE, **dict(options))
    return folder, _read(folder.name)


def toy_rows(n: int, seed: int = 0) -> dict[str, list[object]]:
    """Sentence pairs with their links; the other language turns the order of words around."""
    chance, columns = random.Random(seed), {name: [] for name in pairs_schema().names}
    for i in range(n):
        src = chance.choices(list(WORDS), k=chance.randint(2, 7))
        tgt = [WORDS[word] for word in reversed(src)]
        linked = sorted(chance.sample(range(len(src)), k=len(src) - 1))
        for name, value in zip(
            columns, (i, src, tgt, linked, [len(src) - 1 - k for k in linked]), strict=True
        ):
            columns[name].append(value)
    return columns


def write_pairs(
    folder: Path, columns: dict[str, list[object]], record: Mapping[str, object] | None = None
) -> Path:
    with DatasetWriter(folder, pairs_schema(), record or {}) as writer:
        writer.write(columns)
    return folder


def columns_of(
    src: list[list[str]], tgt: list[list[str]], links: list[list[tuple[int, int]]] | None = None
) -> dict[str, list[object]]:
    """Columns of sentence pairs and their links; by default word i is linked with word i."""
    links = links or [[(i, i) for i in range(len(sentence))] for sentence in src]
    ends = ([[link[side] for link in row] for row in links] for side in (0, 1))
    columns = (list(range(len(src))), src, tgt, *ends)
    return dict(zip(("id", "src", "tgt", "src_links", "tgt_links"), columns, strict=True))


def write_bitext(
    folder: Path, columns: dict[str, list[object]], record: Mapping[str, object] | None = None
) -> Path:
    """The sentences of pairs without their links."""
    schema = pa.schema([pairs_schema().field(name) for name in ("id", "src", "tgt")])
    with DatasetWriter(folder, schema, record or {}) as writer:
        writer.write({name: columns[name] for name in schema.names})
    return folder


def write_text(folder: Path, sentences: list[list[str]]) -> Path:
    with DatasetWriter(folder, pa.schema({"words": pa.list_(pa.string())}), {}) as writer:
        writer.write({"words": sentences})
    return folder


def toy_inputs(root: Path, n: int = 24, languages: tuple[str, ...] = ("de",)) -> MethodInputs:
    """All that a method may ask for, written."""
    for k, lang in enumerate(languages):
        columns = toy_rows(n - 5 * k, seed=k)
        record = {"lang": lang, "pivot": "en", "lang_pair": f"{lang}-en"}
        write_pairs(root / f"pairs-{lang}", columns, record)
        write_bitext(root / f"bitext-{lang}", columns, record)
        for side, code in (("src", lang), ("tgt", "en")):
            write_text(root / f"text-{code}", columns[side])
    entries = "".join(f"{src} {tgt}\n" for src, tgt in WORDS.items())
    (root / "dictionary.txt").write_text(f"{entries}Zug train\n", encoding="utf-8")
    return toy_places(root, languages)


def turned(dictionary: Path, into: Path) -> Path:
    """A file with the entries of a dictionary, the pivot's word first."""
    lines = dictionary.read_text(encoding="utf-8").splitlines()
    into.write_text("".join(f"{t} {s}\n" for s, t in map(str.split, lines)), encoding="utf-8")
    return into


def toy_places(root: Path, languages: tuple[str, ...] = ("de",)) -> MethodInputs:
    """Where `toy_inputs` has written."""
    pairs, bitext = ({k: root / f"{kind}-{k}" for k in languages} for kind in ("pairs", "bitext"))
    text = {lang: root / f"text-{lang}" for lang in (*languages, "en")}
    files = {"dictionary": dict.fromkeys(languages, root / "dictionary.txt")}
    return MethodInputs(languages, "en", pairs, bitext, text, files)
