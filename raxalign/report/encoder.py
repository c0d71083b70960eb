"""What an encoder is, how its tokenizer reads languages, and which methods and tasks take it.

Which methods and tasks, of a grid or of the catalogue, take an encoder.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.config.options import read_options
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.text.samples import TEXTS
from raxalign.corpora.text.words import given_words, tokenize, within_text
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.pieces import encode_texts
from raxalign.errors import RaxalignError
from raxalign.running import Sentence, in_text

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.plan.load import Opened


@dataclass(frozen=True)
class Suitable:
    """Names of what takes an encoder, and name -> why of what does not."""

    names: Sequence[str]
    refused: Mapping[str, str]

    def told(self) -> str:
        """Describe both in words."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.refused.items():
            reasons.setdefault(reason, []).append(name)
        without = [f"not {', '.join(names)}: {reason}" for reason, names in reasons.items()]
        return "; ".join([", ".join(self.names) or "none", *without])


def suitable(
    grid: Grid | None, encoder: TransformerEncoder, *, head: bool
) -> tuple[Suitable, Suitable]:
    """Return the methods and the tasks that take an encoder.

    Args:
        grid: the grid whose methods and tasks are asked (None: the catalogue's, at their defaults).
        encoder: the encoder.
        head: whether it has a masked-LM head.
    """
    found = []
    for folder, plugins in (
        ("methods", _methods(grid) if grid else _defaults("methods")),
        ("tasks", _tasks(grid) if grid else _defaults("tasks")),
    ):
        names, refused = [], {}
        for name, plugin in plugins:
            reason = _refusal(folder, plugin, encoder, head=head, given=grid is not None)
            if reason:
                refused[name] = reason
            elif name not in names:
                names.append(name)
        found.append(Suitable([name for name in names if name not in refused], refused))
    return found[0], found[1]


def _methods(grid: Grid) -> Iterator[tuple[str, Any]]:
    """The methods of a grid, once for each value of their params."""
    for spec in grid.methods:
        for params in spec.points:
            yield spec.name, catalog("methods")[spec.kind](params)


def _tasks(grid: Grid) -> Iterator[tuple[str, Any]]:
    """The tasks of a grid."""
    for spec in grid.tasks:
        yield spec.name, catalog("tasks")[spec.kind](spec.params)


def _defaults(folder: str) -> Iterator[tuple[str, Any]]:
    """Everything in the catalogue at its defaults; options without one are left out."""
    for kind in catalog(folder):
        plugin = catalog(folder)[kind]
        yield kind, plugin(plugin.Params.model_construct())


def _refusal(
    folder: str, plugin: Any, encoder: TransformerEncoder, *, head: bool, given: bool
) -> str:
    """Why a method or a task does not take an encoder; empty where it does."""
    if encoder.family not in plugin.accepts:
        return f"does not take {encoder.family} encoders"
    if plugin.needs().head and not head:
        return "needs a masked-LM head"
    if given:
        try:
            (plugin.acts if folder == "methods" else plugin.reads)(encoder.n_layers)
        except RaxalignError as error:
            return str(error)
    return ""


_WIDTH, _INDENT = 80, 14
_NOTABLE = 0.001
"""A difference between shares of unknown pieces that is remarked on."""
_SENTENCES = 200
"""Sentences of each language that are read of a grid's corpus."""
HEALTHY, DIFFERENT, BROKEN = 0, 1, 2
"""Exit codes: the encoder can be used as it was trained; its pieces are not those of running text,
or a method or a task of the grid does not take it; it cannot be used.
"""


Published = tuple[Sentence, str]
"""A sentence, and its text as it was published."""


@dataclass(frozen=True)
class Found:
    """What was found on one language's sentences.

    Attributes:
        words: how many words they have.
        pieces: how many pieces, without special ones.
        unknown: how many of the pieces are the unknown one.
        sentences: how many there are.
        composed: the share of unknown pieces where the text is composed (Unicode's form C); None
            where it is composed as it was published.
        differing: how many have other pieces than their running text.
        difference: the first such sentence and its two lists of pieces (None: there is none).
    """

    words: int
    pieces: int
    unknown: int
    sentences: int
    composed: float | None
    differing: int
    difference: tuple[str, list[str], list[str]] | None


def examine_encoder(name: str, opened: Opened | None = None) -> tuple[list[str], int]:
    """Return lines about an encoder, at most 80 columns wide, and the exit code.

    Args:
        name: a folder or a hub name.
        opened: the grid whose languages, corpus, methods and tasks are looked at (None: the
            built-in sentences and the whole catalogue).

    Returns:
        The lines, and `HEALTHY`, `DIFFERENT` or `BROKEN`.
    """
    try:
        encoder = _load(name)
        texts, origin = sample_texts(opened)
        by_language = {lang: _found(encoder, lang, texts[lang]) for lang in texts}
    except RaxalignError as error:
        return [*_row("broken", str(error))], BROKEN
    head = has_head(encoder)
    methods, tasks = suitable(opened.grid if opened else None, encoder, head=head)
    lines = [*_row("encoder", name), *_model(encoder, head=head), *_tokenizer(encoder)]
    lines += [*_row("methods", methods.told()), *_row("tasks", tasks.told())]
    lines += [*_row("sentences", origin), *_running_text(by_language), "", *_table(by_language)]
    fine = not any(found.differing for found in by_language.values())
    refused = opened is not None and (methods.refused or tasks.refused)
    return lines, HEALTHY if fine and not refused else DIFFERENT


def _load(name: str) -> TransformerEncoder:
    """Load an encoder as `raxalign align` does. Raises `RaxalignError` where that cannot be."""
    kind = catalog("encoders")["transformer"](
        read_options("encoders", "transformer", [f"name={name}"], Path.cwd())
    )
    for fault in kind.check():
        raise RaxalignError(fault)
    kind.sources()
    encoder: TransformerEncoder = kind.load(EncoderInputs(), "cpu")
    return encoder


def has_head(encoder: TransformerEncoder) -> bool:
    """Return whether the encoder has a masked-LM head that gives a number per piece."""
    import torch

    try:
        with torch.no_grad():
            encoder.lm_logits(torch.zeros(1, encoder.hidden_size, device=encoder.device))
    except RaxalignError:
        return False
    return True


def sample_texts(opened: Opened | None) -> tuple[dict[str, list[Published]], str]:
    """Return sentences of each language, and where they are from: the grid's corpus where it is on
    this machine, else the built-in ones. Raises `RaxalignError` where there are neither.
    """
    if opened is None:
        return {lang: _sentences(lang, TEXTS[lang]) for lang in TEXTS}, "built in"
    languages = (opened.plan.pivot, *opened.grid.languages)
    texts, built_in = dict(_of_corpus(opened)), []
    for lang in languages:
        if lang not in texts and lang in TEXTS:
            texts[lang] = _sentences(lang, TEXTS[lang])
            built_in.append(lang)
    if not texts:
        raise RaxalignError(
            f"{opened.grid.path}: its corpus is not on this machine, and there are built-in"
            f" sentences in {', '.join(TEXTS)} alone"
        )
    without = [lang for lang in languages if lang not in texts]
    parts = [
        "the first of the grid's corpus" if len(texts) > len(built_in) else "",
        f"built in for {', '.join(built_in)}" if built_in else "",
        f"none for {', '.join(without)}" if without else "",
    ]
    in_order = {lang: texts[lang] for lang in languages if lang in texts}
    return in_order, "; ".join(part for part in parts if part)


def _of_corpus(opened: Opened) -> Iterator[tuple[str, list[Published]]]:
    """Yield (language, its first sentences) of both sides of the corpora that need no download."""
    seen: set[str] = set()
    for stage in opened.plan.stages.values():
        lang, pivot = str(stage.params.get("lang")), str(stage.params.get("pivot"))
        there = all(Path(place).is_file() for place in stage.locations.values())
        if stage.kind != "bitext" or lang in seen or not there:
            continue
        inputs = CorpusInputs(stage.locations, opened.storage.local / "downloads", stage.digests)
        pairs = list(islice(stage.plugin().read(lang, pivot, inputs), _SENTENCES))
        how: Any = stage.params.get("segmentation", "characters")
        sides = {
            lang: ([p.source for p in pairs], [p.source_words for p in pairs]),
            pivot: ([p.target for p in pairs], [p.target_words for p in pairs]),
        }
        for code in set(sides) - seen:
            yield code, _sentences(code, *sides[code], how)
        seen |= set(sides)


def _sentences(
    lang: str,
    texts: Sequence[str],
    words: Sequence[Sequence[str] | None] | None = None,
    segmentation: Any = "characters",
) -> list[Published]:
    """Sentences as an encoder gets them, each with its published text: words that the corpus gives
    are the text that they make.
    """
    divide, found = tokenize(lang, segmentation), list[Published]()
    for i, text in enumerate(texts):
        if words is not None and (given := words[i]) is not None:
            sentence = in_text(given_words(given, lang), lang)
            found.append((sentence, sentence.text))
        else:
            found.append((in_text(within_text(divide, text), lang), text.strip()))
    return [(sentence, published) for sentence, published in found if sentence]


def _found(encoder: TransformerEncoder, lang: str, texts: list[Published]) -> Found:
    """Read sentences of one language as words, and as they were published."""
    sentences = [sentence for sentence, _ in texts]
    rows = encoder.pieces(sentences, lang)
    special = set(encoder.tokenizer.all_special_ids) - {encoder.tokenizer.unk_token_id}
    name, unknown = encoder.tokenizer.convert_ids_to_tokens, encoder.tokenizer.unk_token_id
    differing, difference, pieces, unknowns = 0, None, 0, 0
    for row, (_, published) in zip(rows, texts, strict=True):
        ours = row.ids.tolist()
        whole = encoder.tokenizer(published, verbose=False)["input_ids"]  # however long it is
        theirs = list(whole)[: encoder.max_positions]
        # What is cut off at the last position is not compared.
        if ours != theirs and len(ours) < encoder.max_positions:
            differing += 1
            difference = difference or (published, name(ours), name(theirs))
        own = [piece for piece in ours if piece not in special]
        pieces += len(own)
        unknowns += own.count(unknown)
    words = sum(map(len, sentences))
    composed = _composed(encoder, [published for _, published in texts])
    return Found(words, pieces, unknowns, len(sentences), composed, differing, difference)


def _composed(encoder: TransformerEncoder, texts: list[str]) -> float | None:
    """Return the share of unknown pieces of composed texts; None where all are composed."""
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    if composed == texts:
        return None
    ids_P = encode_texts(encoder.tokenizer, composed, None).ids_P
    return float((ids_P == encoder.tokenizer.unk_token_id).mean())


def _model(encoder: TransformerEncoder, *, head: bool) -> Iterator[str]:
    """Lines about the model."""
    from raxalign.encoders.models.packing import can_pack

    model, config = encoder.model, encoder.model.config
    weights = list(model.parameters())
    count, size = (
        sum(w.numel() for w in weights),
        sum(w.numel() * w.element_size() for w in weights),
    )
    yield from _row("architecture", f"{type(model).__name__} ({config.model_type})")
    yield from _row("layers", f"{encoder.n_layers} of {encoder.hidden_size} dimensions")
    yield from _row("parameters", f"{count:,}, {_bytes(size)} in memory")
    yield from _row("positions", f"{encoder.max_positions} pieces per row, special ones included")
    yield from _row("attention", str(getattr(config, "_attn_implementation", None) or "its own"))
    packed = "several sentences share a row in training" if can_pack(encoder) else "padded"
    yield from _row("rows", packed)
    yield from _row("masked LM", "has a head" if head else "has no head")


def _tokenizer(encoder: TransformerEncoder) -> Iterator[str]:
    """Lines about the tokenizer."""
    kind = piece_kind(encoder.tokenizer)
    yield from _row("tokenizer", f"{kind} of {len(encoder.tokenizer):,} pieces")


def piece_kind(tokenizer: Any) -> str:
    """Return which kind of pieces a tokenizer makes: ``WordPiece``, ``Unigram``, ``byte-level
    BPE``, ``BPE with byte fallback`` or the name of its model.
    """
    import json

    record = json.loads(tokenizer.backend_tokenizer.to_str())
    model = record["model"]
    kind = str(model.get("type") or "Unigram")
    if kind != "BPE":
        return kind
    steps = record["pre_tokenizer"] or {}
    if any(step["type"] == "ByteLevel" for step in steps.get("pretokenizers", [steps]) if step):
        return "byte-level BPE"
    return "BPE with byte fallback" if model.get("byte_fallback") else "BPE"


def _running_text(by_language: Mapping[str, Found]) -> Iterator[str]:
    """Lines on whether pieces are those of running text, with the first difference."""
    total = sum(found.sentences for found in by_language.values())
    differing = sum(found.differing for found in by_language.values())
    same = f"{total - differing} of {total} sentences have the pieces of running text"
    yield from _row("running text", same)
    for lang, found in by_language.items():
        if found.difference:
            text, ours, theirs = found.difference
            at = next((k for k, (a, b) in enumerate(zip(ours, theirs)) if a != b), 0)  # noqa: B905
            part = slice(max(at - 1, 0), at + 4)
            yield from _row("", f"{lang}: {text if len(text) <= 60 else text[:59] + '…'}")
            yield from _row("", f"read: … {' '.join(ours[part])} …")
            yield from _row("", f"text: … {' '.join(theirs[part])} …")
            return


def _table(by_language: Mapping[str, Found]) -> Iterator[str]:
    """A line per language."""
    yield f"{'language':{_INDENT}}pieces per word  unknown  other than running text"
    for lang, found in by_language.items():
        unknown = 100 * found.unknown / max(found.pieces, 1)
        yield (
            f"{lang:{_INDENT}}{found.pieces / max(found.words, 1):15.2f}{unknown:7.1f} %"
            f"{found.differing:12d} of {found.sentences}"
        )
    for lang, found in by_language.items():
        published = found.unknown / max(found.pieces, 1)
        if found.composed is not None and abs(found.composed - published) > _NOTABLE:
            yield from _row(
                "form",
                f"{lang}: {100 * published:.1f} % of the pieces are unknown as the text was"
                f" published, and {100 * found.composed:.1f} % where it is composed, as `normalize:"
                " nfc` under `encoder` reads it",
            )


def _bytes(size: int) -> str:
    """A number of bytes in the unit that leaves at most three digits."""
    value, units = float(size), iter(("bytes", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 1000 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.3g} {unit}"


def _row(label: str, text: str) -> Iterable[str]:
    """A label and a text, wrapped within the width of a terminal."""
    return wrap(
        text,
        _WIDTH,
        initial_indent=f"{label:{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
        break_long_words=False,  # paths stay whole
    ) or [label]
