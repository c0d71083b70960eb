"""What the grids of papers read of the hub and of OPUS, in small, under its own names: encoders of
their families, data sets as parquet files per configuration, and zip files of corpora. The texts
are the phrasebook's: languages that it lacks are written in one that it has.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.corpora import phrasebook as rows
from raxalign.corpora.opus import HttpFile
from raxalign.corpora.readers.hub import HubRows
from raxalign.encoders.models.hub import HubEncoder
from raxalign.grid.file import Grid
from raxalign.grid.load import remotes
from tests.families.catalogue import FAMILIES, build
from tests.families.family import DECODER
from tests.hub_material import LABELS, bert_files, europarl_zip
from tests.hub_server import HubServer

if TYPE_CHECKING:
    from datasets import Features

PAIRS = 160
PARTS = {"train": "train", "validation": "dev", "test": "test"}
CONVERTED = "refs/convert/parquet"
MOVED = {
    "bert-base-multilingual-cased": "google-bert/bert-base-multilingual-cased",
    "distilbert-base-multilingual-cased": "distilbert/distilbert-base-multilingual-cased",
    "xlm-roberta-base": "FacebookAI/xlm-roberta-base",
    "xlm-roberta-large": "FacebookAI/xlm-roberta-large",
}
"""Old names of encoders, which the hub redirects."""
_LLAMA, _SPM = FAMILIES["Llama"], replace(FAMILIES["Mistral"], architecture="Llama")
ENCODERS = {
    "distilbert/distilbert-base-multilingual-cased": FAMILIES["DistilBERT"],
    "FacebookAI/xlm-roberta-base": FAMILIES["XLM-R"],
    "FacebookAI/xlm-roberta-large": FAMILIES["XLM-R"],
    "google/gemma-2-9b": FAMILIES["Gemma"],
    "google/gemma-7b": replace(FAMILIES["Gemma"], architecture="Gemma", sizes=DECODER),
    "meta-llama/Llama-3.1-8B": _LLAMA,
    "meta-llama/Meta-Llama-3-8B": _LLAMA,
    "meta-llama/Meta-Llama-3-8B-Instruct": _LLAMA,
    "meta-llama/Llama-2-7b-hf": _SPM,
    "huggyllama/llama-7b": _SPM,
    "mistralai/Mistral-7B-v0.3": FAMILIES["Mistral"],
    "allenai/OLMo-7B-hf": replace(_LLAMA, architecture="Olmo"),
    "Qwen/Qwen2.5-7B-Instruct": replace(FAMILIES["Qwen3"], architecture="Qwen2"),
}
GATED = {
    *(name for name in ENCODERS if name.startswith(("meta-llama/", "google/"))),
    "openlanguagedata/flores_plus",
}
_Rows = tuple[list[dict[str, Any]], "Features | None"]


def fill_for(server: HubServer, grids: Iterable[Grid]) -> None:
    """Put what some grids read on a server, but for corpora and encoders that are there."""
    server.moved |= MOVED
    configs: dict[tuple[str, str], dict[str | None, None]] = {}
    for remote in (remote for grid in grids for remote in remotes(grid)):
        if isinstance(remote, HubEncoder):
            _put_encoder(server, MOVED.get(remote.encoder, remote.encoder))
        elif isinstance(remote, HubRows):
            configs.setdefault((remote.dataset, remote.revision), {})[remote.config] = None
        elif isinstance(remote, HttpFile):
            path = remote.place.removeprefix("opus/").split("/")
            server.opus[f"OPUS-{path[0]}/{path[1]}/moses/{path[2]}"] = _zip(path[0], path[2])
    for (name, branch), found in configs.items():
        repo = server.repo(name, "dataset")
        repo.gated = name in GATED
        if "main" not in repo.branches:  # where there is what was converted
            repo.push({"README.md": b"---\nlicense: other\n---\n"})
        repo.push(_data_set(name, list(found), converted=branch == CONVERTED), branch)


def _put_encoder(server: HubServer, name: str) -> None:
    if ("model", name) in server.repos:
        return
    if name not in ENCODERS:
        server.repo(name).push(bert_files())
        return
    with tempfile.TemporaryDirectory() as made:
        folder = build(ENCODERS[name], Path(made) / "encoder")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        server.repo(name).push({**files, "README.md": name.encode()})  # a commit of its own
    server.repo(name).gated = name in GATED


def _zip(corpus: str, file: str) -> bytes:
    """The pairs of a language with English."""
    (lang,) = {*file.removesuffix(".txt.zip").split("-")} - {"en"}
    return europarl_zip(lang, PAIRS, corpus=corpus)


def _data_set(name: str, configs: Iterable[str | None], *, converted: bool) -> Mapping[str, bytes]:
    """The files of a data set: described in a README, or as the hub converts them."""
    from datasets import Dataset

    found, described = dict[str, bytes](), list[str]()
    for config in configs:
        label = config or "default"
        described.append(f'- config_name: "{label}"\n  data_files:\n')
        for split, (table, features) in _splits(name, label):
            out = io.BytesIO()
            Dataset.from_list(table, features).to_parquet(out)
            path = f"{label}/{split}/0000.parquet" if converted else f"{label}/{split}-0.parquet"
            found[path] = out.getvalue()
            described.append(f"  - split: {split}\n    path: {path}\n")
    readme = f"---\nconfigs:\n{''.join(described)}---\n".encode()
    return found if converted else {**found, "README.md": readme}


def _splits(name: str, config: str) -> Iterator[tuple[str, _Rows]]:
    made, splits = SETS[name]
    for split in splits:
        yield split, made(config, PARTS.get(split, "test"))


def _spoken(config: str) -> str:
    """A language of the phrasebook for a configuration: its own, where it has one."""
    parts = config.replace(".", "-").replace("_", "-").split("-")
    return next((part for part in parts if part in rows.LANGS), rows.LANGS[len(config) % 6])


def _xnli(config: str, part: str) -> _Rows:
    from datasets import ClassLabel, Features, Value

    features = Features(
        {
            "premise": Value("string"),
            "hypothesis": Value("string"),
            "label": ClassLabel(names=list(LABELS)),
        }
    )
    found = rows.read("xnli", part, (_spoken(config),), range(12))
    return [
        {"premise": premise, "hypothesis": hypothesis, "label": label}
        for ((premise, hypothesis, label),) in found
    ], features


def _tagged(kind: str, column: str) -> Callable[[str, str], _Rows]:
    """Words with the names of their tags, as numbers."""

    def made(config: str, part: str) -> _Rows:
        from datasets import ClassLabel, Features, Sequence, Value

        splits = {p: list(rows.tagged(kind, 12, _spoken(config), p)) for p in PARTS.values()}
        found = splits[part]
        names = sorted({tag for split in splits.values() for _, tags in split for tag in tags})
        tags = Sequence(ClassLabel(names=names))
        features = Features({"tokens": Sequence(Value("string")), column: tags})
        return [{"tokens": list(words), column: list(tags)} for words, tags in found], features

    return made


def _questions(config: str, part: str) -> _Rows:
    part = "train" if "translate" in config or config == "plain_text" else part
    found = rows.read("mlqa", part, (_spoken(config),), range(12))
    return [
        {
            "id": f"{part}-{number}",
            "context": context,
            "question": question,
            "answers": {"text": [answer], "answer_start": [int(start)]},
        }
        for number, ((context, question, answer, start),) in enumerate(found)
    ], None


def _requests(config: str, part: str) -> _Rows:
    """A request with a slot in brackets."""
    found = rows.tagged("slots", 12, _spoken(config), part)
    return [
        {"locale": config, "annot_utt": " ".join(_bracketed(words, tags))} for words, tags in found
    ], None


def _bracketed(words: rows.Words, tags: rows.Words) -> Iterator[str]:
    for word, tag in zip(words, tags, strict=True):
        yield word if tag == "O" else f"[{tag[2:].lower()} : {word}]"


def _topics(config: str, part: str) -> _Rows:
    names = ("travel", "politics", "sports")
    found = rows.sentences((_spoken(config),), 12, first=20 * len(part))
    return [
        {"text": rows.detokenized(row[0].words), "category": names[number % 3]}
        for number, row in enumerate(found)
    ], None


def _sentences(config: str, part: str) -> _Rows:
    found = rows.sentences((_spoken(config),), 12, first=20 * len(part))
    return [{"id": n, "text": rows.detokenized(row[0].words)} for n, row in enumerate(found)], None


def _tatoeba(config: str, part: str) -> _Rows:
    found = rows.sentences((_spoken(config), "en"), 12, first=20 * len(part))
    texts = [[rows.detokenized(side.words) for side in row] for row in found]
    return [{"source_sentence": own, "target_sentence": en} for own, en in texts], None


def _translations(config: str, part: str) -> _Rows:
    """Pairs in a column of two languages."""
    one, two = config.split("-") if "-" in config else ("en", "hi")
    lang = two if one == "en" else one
    found = rows.sentences((_spoken(lang), "en"), PAIRS, first=len(part))
    texts = ([rows.detokenized(side.words) for side in row] for row in found)
    return [{"translation": {lang: own, "en": en}} for own, en in texts], None


_EVALUATED, _ALL = ("validation", "test"), tuple(PARTS)
SETS: Mapping[str, tuple[Callable[[str, str], _Rows], tuple[str, ...]]] = {
    "facebook/xnli": (_xnli, _ALL),
    "universal-dependencies/universal_dependencies": (_tagged("pos", "upos"), _ALL),
    "unimelb-nlp/wikiann": (_tagged("ner", "ner_tags"), _ALL),
    "AmazonScience/massive": (_requests, _ALL),
    "Davlan/sib200": (_topics, _ALL),
    "rajpurkar/squad": (_questions, ("train", "validation")),
    "facebook/mlqa": (_questions, (*_ALL,)),
    "google/xquad": (_questions, ("validation",)),
    "google/xtreme": (_tatoeba, ("validation",)),
    "openlanguagedata/flores_plus": (_sentences, ("dev", "devtest")),
    "Helsinki-NLP/opus-100": (_translations, _ALL),
    "cfilt/iitb-english-hindi": (_translations, _ALL),
}
"""How the rows of each data set are made, and its splits."""
