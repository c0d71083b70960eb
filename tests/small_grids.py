"""Copies of the grids of papers with smaller sizes and nothing else changed, and the files of a
user's own that they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import chain, product
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from raxalign.corpora import phrasebook as rows
from tests.tiny import tiny_vocabulary

GRIDS = Path(__file__).parents[1] / "grids"
LIMITS = {"test": 16, "dev": 16, "max_blocks": 20, "queue_size": 16}
OF_ENCODERS = {"dimension": 8, "layers": 2, "hidden_size": 16, "heads": 2, "intermediate": 32}
TRAINED = {"xnli", "mlqa", "spans", "pos", "ner", "slots", "massive_slots", "classification"}
TAGGED = {"conll": "ner", "atis": "slots", "facebook": "slots", "snips": "slots"}


_Ranks = Mapping[str, Mapping[int, int]]


def write_small(name: str, folder: Path) -> Path:
    """Write a grid with other sizes and no GPU, and its files; return its path."""
    grid = YAML(typ="safe").load(GRIDS / f"{name}.yaml")
    ranks = {name: _ranked(_values(grid, name)) for name in ("steps", "epochs")}
    sizes = _ranked([*_values(grid, "sentences"), *_values(grid, "unseen_in")])
    ranks["sentences"] = ranks["unseen_in"] = {size: 20 + 20 * n for size, n in sizes.items()}
    encoders = grid["encoder"] if isinstance(grid["encoder"], list) else [grid["encoder"]]
    grid = _smaller(grid, ranks, LIMITS)
    grid["encoder"] = [_smaller(encoder, ranks, OF_ENCODERS) for encoder in encoders]
    grid["run"] = {"workers": 1, "threads": 1, "max_failures": 0}
    for method, options in grid["methods"].items():
        if (options or {}).get("kind", method) == "ppa":
            options.setdefault("queue_size", LIMITS["queue_size"])
    for task, options in grid["tasks"].items():
        if (kind := (options or {}).get("kind", task)) in TRAINED:
            options.setdefault("epochs", 1)
        if kind in TAGGED.values() and options.get("profile") == "paper":
            options.setdefault("hidden", 8)
    (spoken,) = grid["languages"].values()
    for lang, library in (("th", "pythainlp"), ("zh", "jieba")):
        if lang in spoken and find_spec(library) is None:  # it is then divided by characters
            grid["corpus"].pop("segmentation", None)
    further = (options.get("languages", ()) for options in grid["tasks"].values() if options)
    write_files(folder, list(dict.fromkeys([*spoken, *chain.from_iterable(further)])))
    path = folder / f"{name}.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(grid, file)
    return path


def _values(found: Any, name: str) -> Iterator[int]:
    """All values of an option, wherever it is."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from _numbers(value) if key == name else _values(value, name)
    elif isinstance(found, list):
        for value in found:
            yield from _values(value, name)


def _numbers(value: Any) -> list[int]:
    return [n for n in (value if isinstance(value, list) else [value]) if isinstance(n, int)]


def _ranked(values: Iterable[int]) -> dict[int, int]:
    """1, 2, ... for the values in their order; 0 stays."""
    return {0: 0} | {value: i for i, value in enumerate(sorted({*values} - {0}), 1)}


def _smaller(found: Any, ranks: _Ranks, limits: Mapping[str, int]) -> Any:
    """The same with small values of the options that have ranks or limits."""
    if isinstance(found, list):
        return [_smaller(value, ranks, limits) for value in found]
    if not isinstance(found, Mapping):
        return found
    small = dict[str, Any]()
    for key, value in found.items():
        if key in ranks and (numbers := _numbers(value)):
            ranked = [ranks[key][number] for number in numbers]
            small[key] = ranked if isinstance(value, list) else ranked[0]
        elif key in limits and isinstance(value, int):
            small[key] = min(value, limits[key])
        else:
            small[key] = _smaller(value, ranks, limits)
    return small


def write_files(folder: Path, langs: list[str]) -> None:
    """Write sentence pairs, gold links, tagged sentences, dictionaries and a vocabulary, in the
    places that grids name.
    """
    for lang in langs:
        texts = list(rows.sentences((_spoken(lang), "en"), 160))
        sides = [[rows.detokenized(row[side].words) for row in texts] for side in (0, 1)]
        for place in ("wikipedia", "translation2019zh", "data", "data/tatoeba"):
            for code, lines in zip((lang, "en"), sides, strict=True):
                _write(folder / place / f"{lang}-en.{code}", lines)
        for place in ("train", "gold"):
            sentences = [" ||| ".join(" ".join(side.words) for side in row) for row in texts]
            _write(folder / place / f"{lang}-en.src-tgt", sentences)
        found = [rows.links(src.senses, tgt.senses) for src, tgt in texts]
        gold = [" ".join(f"{i + 1}-{k + 1}" for i, k in links) for links in found]
        _write(folder / "gold" / f"{lang}-en.gold", gold)
        words = {
            (src.words[i], tgt.words[k])
            for (src, tgt), links in zip(texts, found, strict=True)
            for i, k in links
        }
        _write(folder / "dictionaries" / f"{lang}-en.txt", [f"{a} {b}" for a, b in sorted(words)])
        _write(folder / "dictionaries" / f"en-{lang}.txt", [f"{b} {a}" for a, b in sorted(words)])
    for place, lang in product(TAGGED, (*langs, "en")):
        for split in ("train", "dev", "test"):
            lines = list[str]()
            for sentence, tags in rows.tagged(TAGGED[place], 12, _spoken(lang), split):
                lines += [*map("\t".join, zip(sentence, tags, strict=True)), ""]
            _write(folder / place / f"{split}.{lang}.conll", lines)
    known = [word for row in rows.sentences(rows.LANGS, 160) for side in row for word in side.words]
    _write(folder / "vocab.txt", tiny_vocabulary(known))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _spoken(lang: str) -> str:
    return lang if lang in rows.LANGS else "es"
