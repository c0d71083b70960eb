"""What raxalign promises of every family of encoders, each promise as one check that raises."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from raxalign.catalog import catalog
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.plan.load import Opened, open_grid
from raxalign.running import Sentence
from raxalign.single.evaluate import EvaluateRequest, evaluate_encoder
from raxalign.train.runtime import Runtime
from tests.families.catalogue import FAMILIES, Family, build
from tests.families.sentences import TEXTS, sentences
from tests.methods.contract import asked_for, make, vectors

LIMIT = 1e-5
MARKS = "▁ \u0120"
"""What stands for a blank in pieces: SentencePiece's mark, a blank, and that of bytes."""
TASKS = {
    "retrieval": "{layers: 0-1}",
    "dictionary_retrieval": "{dictionary: words.txt}",
    "sentence_retrieval": "{}",
    "representation": "{max_sentences: 20, occurrences: 5, types: 5}",
    "token_translation": "{alpha: [1.0], block_size: 60, max_blocks: 2, dev_sentences: 10}",
    "word_alignment": "{data: {test: {text: text.txt, links: links.txt}}}",
    "xnli": "{data: phrasebook, epochs: 1, phrasebook: {train: 9, dev: 6, test: 6}}",
    "pawsx": (
        "{data: {train: 'train.{pivot}.tsv', dev: 'dev.{lang}.tsv', test: 'test.{lang}.tsv'},"
        " epochs: 1}"
    ),
    "mlqa": (
        "{data: phrasebook, epochs: 1, max_length: 96, doc_stride: 32,"
        " phrasebook: {train: 6, dev: 4, test: 4}}"
    ),
    "ner": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "pos": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "slots": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
}
"""The smallest options of every task of the catalogue."""
GRID = """
name: families
pivot: en
encoder: {encoder}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 120, split: {{test: 20, dev: 20}}}}
pairs: {{aligner: fast_align}}
sentences: 60
methods: {{none: {{}}}}
tasks:
"""


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
            build(FAMILIES[name], folder)
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
        return _base_model(self.family, self.folder)

    @torch.no_grad()
    def states(self, ids: list[int], lang: str) -> list[torch.Tensor]:
        """The states (T, H) of one row at every layer, by transformers alone: what enters each
        block, and what leaves the last one.
        """
        more = {}
        if self.family.adapters:
            adapter = list(self.family.adapters.values()).index(self.family.adapters[lang])
            more = {"lang_ids": torch.tensor([adapter])}
        row = torch.tensor([ids])
        output = self.reference(
            input_ids=row, attention_mask=torch.ones_like(row), output_hidden_states=True, **more
        )
        return [state[0] for state in (*output.hidden_states[:-1], output.last_hidden_state)]


def _base_model(family: Family, folder: Path) -> Any:
    import transformers

    return getattr(transformers, family.base).from_pretrained(folder, dtype=torch.float32).eval()


def check_loads(subject: Subject) -> None:
    """Raise unless the encoder is the whole model: its layers, width and weights."""
    encoder, reference = subject.encoder, subject.reference
    assert encoder.n_layers == 3
    assert encoder.hidden_size == 32
    wanted, found = (model.get_input_embeddings().weight for model in (reference, encoder.model))
    assert torch.equal(found.detach(), wanted.detach())


def check_pieces(subject: Subject) -> None:
    """Raise unless the pieces of every sentence, special ones included, are those of its running
    text.
    """
    for lang in TEXTS:
        rows = subject.encoder.pieces(sentences(lang), lang)
        for row, text in zip(rows, TEXTS[lang], strict=True):
            name = subject.tokenizer.convert_ids_to_tokens
            wanted = subject.tokenizer(text)["input_ids"]
            assert name(row.ids.tolist()) == name(wanted), f"{lang}: {text}"


def check_states(subject: Subject) -> None:
    """Raise unless the states of a padded batch are at every layer those that transformers gives
    each row alone.
    """
    encoder = subject.encoder
    for lang in ("en", "zh", "ru"):
        rows = encoder.pieces(sentences(lang)[:4], lang)
        with torch.no_grad():
            found = encoder.hidden(encoder.collate(rows))
        for i, row in enumerate(rows):
            wanted = subject.states(row.ids.tolist(), lang)
            assert len(found) == len(wanted)
            for layer, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
                _same(ours[i, : len(row)], theirs, f"{lang}, row {i}, layer {layer}")


def check_words(subject: Subject) -> None:
    """Raise unless the vector of each word is the mean over the pieces that share characters with
    it, by transformers' own offsets and states.

    Words next to which a mark of a blank is a piece of its own are left out: such a piece has no
    characters.
    """
    read = left_out = 0
    for lang in TEXTS:
        chosen = sentences(lang)[:3]
        found = subject.encoder.words(chosen, lang, layers=(2,), pooling="mean")
        for i, sentence in enumerate(chosen):
            encoded = subject.tokenizer(sentence.text, return_offsets_mapping=True)
            states = subject.states(encoded["input_ids"], lang)[2]
            pieces = subject.tokenizer.convert_ids_to_tokens(encoded["input_ids"])
            spans = [_without_blanks(sentence.text, span) for span in encoded["offset_mapping"]]
            for k, vector in enumerate(found.vectors_NLH[found.offsets[i] : found.offsets[i + 1]]):
                own = [t for t, span in enumerate(spans) if _meet(span, _span(sentence, k))]
                if not own or any(not pieces[t].strip(MARKS) for t in own):
                    left_out += 1
                    continue
                read += 1
                _same(vector[0], states[own].mean(0), f"{lang}: {sentence[k]} in {sentence.text}")
    assert read > 4 * left_out, (read, left_out)


def check_export(subject: Subject, folder: Path) -> None:
    """Raise unless an exported encoder opens in transformers with the same states, and its
    tokenizer with the same pieces.
    """
    from transformers import AutoTokenizer

    AlignedEncoder(subject.encoder).export(folder)
    text = TEXTS["en"][0]
    ids = subject.tokenizer(text)["input_ids"]
    assert AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == ids
    again = Subject(subject.family, folder)
    _same(again.states(ids, "en")[-1], subject.states(ids, "en")[-1], "of the exported encoder")


NO_TRANSFORM = ("XLM", "EuroBERT", "mDeBERTa-v3", "RemBERT")
"""Families whose masked-LM head has no transform that weam can copy, which it says."""


def check_method(subject: Subject, kind: str, inputs: Path, folder: Path) -> None:
    """Raise unless a method aligns, saves and loads; or refuses, where it reads the masked-LM head
    and the encoder has none.
    """
    method = make(kind, inputs)
    encoder = copy.deepcopy(subject.encoder)
    unknown = kind == "weam" and subject.family.name in NO_TRANSFORM
    if method.needs().head and (unknown or not subject.family.head):
        try:
            method.align(encoder, asked_for(method, inputs), Runtime(seed=1))
        except RaxalignError as error:
            if not re.search("masked-LM head|mask token", str(error)):
                raise
            return
        raise AssertionError(f"{kind} trains a masked-LM head that the encoder does not have")
    aligned = method.align(encoder, asked_for(method, inputs), Runtime(seed=1))
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    aligned.save(folder)
    loaded = AlignedEncoder.load(folder, lambda: subject.encoder)
    assert torch.equal(vectors(loaded), found)


def check_task(subject: Subject, name: str, root: Path) -> None:
    """Raise unless a task evaluates, as `raxalign evaluate` runs it; or refuses, where it reads the
    masked-LM head and the encoder has none.
    """
    opened = task_grid(root, subject.folder)
    request = EvaluateRequest(str(subject.folder), tasks=(name,), device="cpu")
    spec = next(spec for spec in opened.grid.tasks if spec.name == name)
    if catalog("tasks")[name](spec.params).needs().head and not subject.family.head:
        try:
            evaluate_encoder(opened, request)
        except RaxalignError as error:
            if not re.search("masked-LM head|mask token", str(error)):
                raise
            return
        raise AssertionError(f"{name} reads a masked-LM head that the encoder does not have")
    rows, _ = evaluate_encoder(opened, request)
    assert any(row["metric"] == catalog("tasks")[name].main_metric for row in rows)


def task_grid(root: Path, encoder: Path) -> Opened:
    """A grid with every task of the catalogue on a small corpus, its files written under `root`."""
    path = root / "grid.yaml"
    if not path.is_file():
        root.mkdir(parents=True, exist_ok=True)
        _write_task_files(root)
        path.write_text(
            GRID.format(encoder=encoder)
            + "".join(f"  {name}: {options}\n" for name, options in TASKS.items()),
            encoding="utf-8",
        )
    return _opened(path)


@cache
def _opened(path: Path) -> Opened:
    return open_grid(path, storage=str(path.parent / "storage"))


def _write_task_files(root: Path) -> None:
    entries = "Hund dog\nKatze cat\nHaus house\nBrot bread\nWasser water\n"
    (root / "words.txt").write_text(entries, encoding="utf-8")
    pairs = list(zip(sentences("de"), sentences("en"), strict=True))
    (root / "text.txt").write_text(
        "".join(f"{' '.join(a)} ||| {' '.join(b)}\n" for a, b in pairs), encoding="utf-8"
    )
    (root / "links.txt").write_text("0-0 1-1 2-2\n" * len(pairs), encoding="utf-8")
    for split, places in (("train", (0, 1, 2, 3)), ("dev", (4, 5, 6)), ("test", (7, 8, 9))):
        for lang in ("de", "en"):
            rows = [
                f"{place}\t{TEXTS[lang][place]}\t{TEXTS[lang][places[-k % 2]]}\t{k % 2}\n"
                for k, place in enumerate(places)
            ]
            header = "id\tsentence1\tsentence2\tlabel\n"
            (root / f"{split}.{lang}.tsv").write_text(header + "".join(rows), encoding="utf-8")


def _same(found: torch.Tensor, wanted: torch.Tensor, where: str) -> None:
    scale = max(1.0, float(wanted.abs().max()))
    assert found.shape == wanted.shape, where
    worst = float((found - wanted).abs().max())
    assert worst <= LIMIT * scale, f"{where}: differs by {worst:.1e} (values up to {scale:.1e})"


def _span(sentence: Sentence, k: int) -> tuple[int, int]:
    return sentence.starts[k], sentence.starts[k] + len(sentence[k])


def _without_blanks(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """A span of characters without the blanks at its ends."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two spans share a character."""
    return max(one[0], other[0]) < min(one[1], other[1])
