"""What an encoder is, how its tokenizer reads languages, and which methods and tasks, of a grid or
of the catalogue, take it.
"""

from __future__ import annotations

import json
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
from raxalign.corpora.phrases.rows import built_in_texts
from raxalign.corpora.text.words import given_words, tokenize, within_text
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.pieces import encode_texts
from raxalign.errors import RaxalignError
from raxalign.running import Sentence, in_text

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.plan.load import Opened

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
class LanguagePieces:
    """How an encoder reads one language's sentences.

    Attributes:
        words: how many words they have.
        pieces: how many pieces, without special ones.
        unknown: the share of the pieces that are the unknown one.
        composed: that share where the text is composed (Unicode's form C); None where it is
            composed as it was published.
        sentences: how many there are.
        differing: how many have other pieces than their running text.
        difference: the first such sentence and its two lists of pieces (None: there is none).
    """

    words: int
    pieces: int
    unknown: float
    composed: float | None
    sentences: int
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
        readings = {lang: _pieces_of(encoder, lang, texts[lang]) for lang in texts}
    except RaxalignError as error:
        return [*_row("broken", str(error))], BROKEN
    head = _has_head(encoder)
    lines, refused = [*_row("encoder", name), *_model(encoder, head=head)], False
    for folder in ("methods", "tasks"):
        names, reasons = _suitable(folder, opened, encoder, head=head)
        without = (f"not {', '.join(own)}: {reason}" for reason, own in reasons.items())
        lines += _row(folder, "; ".join([", ".join(names) or "none", *without]))
        refused |= bool(reasons)
    lines += [*_row("sentences", origin), *_running_text(readings), "", *_table(readings)]
    fine = not any(found.differing for found in readings.values())
    return lines, HEALTHY if fine and not (refused and opened) else DIFFERENT


def _suitable(
    folder: str, opened: Opened | None, encoder: TransformerEncoder, *, head: bool
) -> tuple[list[str], dict[str, list[str]]]:
    """The plug-ins of a folder that take an encoder, and reason -> those that do not."""
    names, refused, reasons = list[str](), set[str](), dict[str, list[str]]()
    for name, plugin in _plugins(folder, opened):
        reason = _refusal(folder, plugin, encoder, head=head, given=opened is not None)
        names.append(name)
        if reason:
            refused.add(name)
            own = reasons.setdefault(reason, [])
            own += [name] if name not in own else []
    return [name for name in dict.fromkeys(names) if name not in refused], reasons


def _plugins(folder: str, opened: Opened | None) -> Iterator[tuple[str, Any]]:
    """Those of a grid, a method once for each value of its params; without a grid those of the
    catalogue at their defaults, where options without one are left out.
    """
    known = catalog(folder)
    if opened is None:
        yield from ((kind, known[kind](known[kind].Params.model_construct())) for kind in known)
    elif folder == "tasks":
        yield from ((spec.name, known[spec.kind](spec.params)) for spec in opened.grid.tasks)
    else:
        for method in opened.grid.methods:
            yield from ((method.name, known[method.kind](point)) for point in method.points)


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


def _load(name: str) -> TransformerEncoder:
    """Load an encoder as `raxalign align` does. Raises `RaxalignError` where that cannot be."""
    options = read_options("encoders", "transformer", [f"name={name}"], Path.cwd())
    kind = catalog("encoders")["transformer"](options)
    for fault in kind.check():
        raise RaxalignError(fault)
    kind.sources()
    encoder: TransformerEncoder = kind.load(EncoderInputs(), "cpu")
    return encoder


def _has_head(encoder: TransformerEncoder) -> bool:
    """Whether the encoder has a masked-LM head that gives a number per piece."""
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
    known = built_in_texts()
    if opened is None:
        return {lang: _sentences(lang, known[lang]) for lang in known}, "built in"
    languages = (opened.plan.pivot, *opened.grid.languages)
    own = dict(_of_corpus(opened))
    built_in = [lang for lang in languages if lang not in own and lang in known]
    texts = {**own, **{lang: _sentences(lang, known[lang]) for lang in built_in}}
    if not texts:
        raise RaxalignError(
            f"{opened.grid.path}: its corpus is not on this machine, and there are built-in"
            f" sentences in {', '.join(known)} alone"
        )
    without = [lang for lang in languages if lang not in texts]
    parts = ["the first of the grid's corpus"] if own else []
    parts += [f"built in for {', '.join(built_in)}"] if built_in else []
    parts += [f"none for {', '.join(without)}"] if without else []
    return {lang: texts[lang] for lang in languages if lang in texts}, "; ".join(parts)


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


def _pieces_of(encoder: TransformerEncoder, lang: str, texts: list[Published]) -> LanguagePieces:
    """Read sentences of one language as words, and as they were published."""
    tokenizer, sentences = encoder.tokenizer, [sentence for sentence, _ in texts]
    unknown, name = tokenizer.unk_token_id, tokenizer.convert_ids_to_tokens
    special = set(tokenizer.all_special_ids) - {unknown}
    differing, difference, pieces, unknowns = 0, None, 0, 0
    for row, (_, published) in zip(encoder.pieces(sentences, lang), texts, strict=True):
        ours = row.ids.tolist()
        whole = tokenizer(published, verbose=False)["input_ids"]  # however long it is
        theirs = list(whole)[: encoder.max_positions]
        # What is cut off at the last position is not compared.
        if ours != theirs and len(ours) < encoder.max_positions:
            differing += 1
            difference = difference or (published, name(ours), name(theirs))
        own = [piece for piece in ours if piece not in special]
        pieces += len(own)
        unknowns += own.count(unknown)
    composed, texts_ = None, [published for _, published in texts]
    in_form = [unicodedata.normalize("NFC", text) for text in texts_]
    if in_form != texts_:
        composed = float((encode_texts(tokenizer, in_form, None).ids_P == unknown).mean())
    words, share = sum(map(len, sentences)), unknowns / max(pieces, 1)
    return LanguagePieces(words, pieces, share, composed, len(sentences), differing, difference)


def _model(encoder: TransformerEncoder, *, head: bool) -> Iterator[str]:
    """Lines about the model and its tokenizer."""
    from raxalign.encoders.models.packing import can_pack

    model, config = encoder.model, encoder.model.config
    weights = list(model.parameters())
    count = sum(weight.numel() for weight in weights)
    size = sum(weight.numel() * weight.element_size() for weight in weights)
    packed = "several sentences share a row in training" if can_pack(encoder) else "padded"
    pieces = f"{piece_kind(encoder.tokenizer)} of {len(encoder.tokenizer):,} pieces"
    facts = {
        "architecture": f"{type(model).__name__} ({config.model_type})",
        "layers": f"{encoder.n_layers} of {encoder.hidden_size} dimensions",
        "parameters": f"{count:,}, {_bytes(size)} in memory",
        "positions": f"{encoder.max_positions} pieces per row, special ones included",
        "attention": str(getattr(config, "_attn_implementation", None) or "its own"),
        "rows": packed,
        "masked LM": "has a head" if head else "has no head",
        "tokenizer": pieces,
    }
    for label, text in facts.items():
        yield from _row(label, text)


def piece_kind(tokenizer: Any) -> str:
    """Return which kind of pieces a tokenizer makes: ``WordPiece``, ``Unigram``, ``byte-level
    BPE``, ``BPE with byte fallback`` or the name of its model.
    """
    record = json.loads(tokenizer.backend_tokenizer.to_str())
    model = record["model"]
    kind = str(model.get("type") or "Unigram")
    if kind != "BPE":
        return kind
    before = record["pre_tokenizer"] or {}
    if any(one["type"] == "ByteLevel" for one in before.get("pretokenizers", [before]) if one):
        return "byte-level BPE"
    return "BPE with byte fallback" if model.get("byte_fallback") else "BPE"


def _running_text(readings: Mapping[str, LanguagePieces]) -> Iterator[str]:
    """Lines on whether pieces are those of running text, with the first difference."""
    total = sum(found.sentences for found in readings.values())
    differing = sum(found.differing for found in readings.values())
    same = f"{total - differing} of {total} sentences have the pieces of running text"
    yield from _row("running text", same)
    for lang, found in readings.items():
        if found.difference:
            text, ours, theirs = found.difference
            at = next((k for k, (a, b) in enumerate(zip(ours, theirs)) if a != b), 0)  # noqa: B905
            part = slice(max(at - 1, 0), at + 4)
            yield from _row("", f"{lang}: {text if len(text) <= 60 else text[:59] + '…'}")
            yield from _row("", f"read: … {' '.join(ours[part])} …")
            yield from _row("", f"text: … {' '.join(theirs[part])} …")
            return


def _table(readings: Mapping[str, LanguagePieces]) -> Iterator[str]:
    """A line per language, and what composed text would change."""
    yield f"{'language':{_INDENT}}pieces per word  unknown  other than running text"
    for lang, found in readings.items():
        per_word, unknown = found.pieces / max(found.words, 1), 100 * found.unknown
        other = f"{found.differing:12d} of {found.sentences}"
        yield f"{lang:{_INDENT}}{per_word:15.2f}{unknown:7.1f} %{other}"
    for lang, found in readings.items():
        if found.composed is not None and abs(found.composed - found.unknown) > _NOTABLE:
            yield from _row(
                "form",
                f"{lang}: {100 * found.unknown:.1f} % of the pieces are unknown as the text was"
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
    """A label and a text, wrapped within the width of a terminal; paths stay whole."""
    return wrap(
        text,
        _WIDTH,
        initial_indent=f"{label:{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [label]
