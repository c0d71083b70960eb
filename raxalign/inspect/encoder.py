"""What an encoder is, how its tokenizer reads languages, and what takes it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

from raxalign.catalog import catalog
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import built_in_texts
from raxalign.corpora.text.words import Sentence, given_words, in_text, tokenize, within_text
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.pieces import encode_texts
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.grid.estimates import volume
from raxalign.grid.load import Opened
from raxalign.grid.options import read_options
from raxalign.lazy import torch

_WIDTH, _INDENT = 80, 14
_SENTENCES = 200  # of each language that are read of a grid's corpus
HEALTHY, DIFFERENT, BROKEN = 0, 1, 2
"""Exit codes: the encoder can be used as it was trained; its pieces are not those of running text,
or a method or a task of the grid does not take it; it cannot be used.
"""
Texts = list[tuple[Sentence, str]]
"""Sentences as an encoder gets them, each with its text as it was published."""


def examine_encoder(name: str, opened: Opened | None = None) -> tuple[list[str], int]:
    """Return lines about an encoder (a folder or a hub name), at most 80 columns wide, and
    `HEALTHY`, `DIFFERENT` or `BROKEN`; without a grid for built-in sentences and the whole
    catalogue.
    """
    try:
        options = read_options("encoders", "transformer", [f"name={name}"], Path.cwd())
        kind = catalog("encoders")["transformer"](options)
        for fault in kind.check():
            raise RaxalignError(fault)
        kind.sources()
        encoder: TransformerEncoder = kind.load(EncoderInputs(), "cpu")
        texts, origin = sample_texts(opened)
        lines, differing, count = [], 0, 0
        difference: list[str] = []
        for lang, own in texts.items():
            line, others, first = _read(encoder, lang, own)
            lines += line
            differing, count, difference = differing + others, count + len(own), difference or first
    except RaxalignError as error:
        return _row("broken", str(error)), BROKEN
    head = _has_head(encoder)
    told, refused = [*_row("encoder", name), *_model(encoder, head=head)], False
    for folder in ("methods", "tasks"):
        taken, reasons = _takers(folder, opened, encoder, head=head)
        without = (f"not {', '.join(own)}: {reason}" for reason, own in reasons.items())
        told += _row(folder, "; ".join([", ".join(taken) or "none", *without]))
        refused |= bool(reasons)
    told += _row("sentences", origin)
    same = f"{count - differing} of {count} sentences have the subword tokens of running text"
    told += [*_row("running text", same), *difference, ""]
    told += [
        f"{'language':{_INDENT}}subword tokens per word  unknown  other than running text",
        *lines,
    ]
    return told, HEALTHY if not differing and not (refused and opened) else DIFFERENT


def _takers(
    folder: str, opened: Opened | None, encoder: TransformerEncoder, *, head: bool
) -> tuple[list[str], dict[str, dict[str, None]]]:
    """The plug-ins of a folder that take an encoder, and reason -> those that do not."""
    names, reasons = list[str](), dict[str, dict[str, None]]()
    for name, plugin in _plugins(folder, opened):
        names.append(name)
        if reason := _refusal(folder, plugin, encoder, head=head, given=opened is not None):
            reasons.setdefault(reason, {})[name] = None
    out = {name for own in reasons.values() for name in own}
    return [name for name in dict.fromkeys(names) if name not in out], reasons


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


def _has_head(encoder: TransformerEncoder) -> bool:
    """Whether the encoder has a masked-LM head that gives a number per piece."""
    try:
        with torch.no_grad():
            encoder.lm_logits(torch.zeros(1, encoder.hidden_size, device=encoder.device))
    except RaxalignError:
        return False
    return True


def sample_texts(opened: Opened | None) -> tuple[dict[str, Texts], str]:
    """Return sentences of each language, and where they are from: the grid's corpus where it is on
    this machine, else the built-in ones. Raises `RaxalignError` where there are neither.
    """
    known = {lang: _sentences(lang, texts) for lang, texts in built_in_texts().items()}
    if opened is None:
        return known, "built in"
    languages = (opened.plan.pivot, *opened.grid.languages)
    own = _of_corpus(opened)
    texts = {lang: found for lang in languages if (found := own.get(lang) or known.get(lang))}
    if not texts:
        raise RaxalignError(
            f"{opened.grid.path}: its corpus is not on this machine, and there are built-in"
            f" sentences in {', '.join(known)} alone"
        )
    built_in = [lang for lang in texts if lang not in own]
    without = [lang for lang in languages if lang not in texts]
    parts = ["the first of the grid's corpus"] if own else []
    parts += [f"built in for {', '.join(built_in)}"] if built_in else []
    parts += [f"none for {', '.join(without)}"] if without else []
    return texts, "; ".join(parts)


def _of_corpus(opened: Opened) -> dict[str, Texts]:
    """The first sentences of both sides of the corpora that need no download."""
    found: dict[str, Texts] = {}
    for stage in opened.plan.stages.values():
        lang, pivot = str(stage.params.get("lang")), str(stage.params.get("pivot"))
        there = all(Path(place).is_file() for place in stage.locations.values())
        if stage.kind == "bitext" and lang not in found and there:
            downloads = opened.storage.local / "downloads"
            inputs = CorpusInputs(stage.locations, downloads, stage.digests)
            pairs = list(islice(stage.plugin().read(lang, pivot, inputs), _SENTENCES))
            how = stage.params.get("segmentation", "characters")
            for code, side in ((lang, "source"), (pivot, "target")):
                texts, words = ([getattr(p, f"{side}{s}") for p in pairs] for s in ("", "_words"))
                if code not in found:
                    found[code] = _sentences(code, texts, words, how)
    return found


def _sentences(lang: str, texts: Any, words: Any = None, segmentation: Any = "characters") -> Texts:
    """Sentences with their published texts, or those that the given words make."""
    divide, found = tokenize(lang, segmentation), Texts()
    for i, text in enumerate(texts):
        if words is not None and (given := words[i]) is not None:
            sentence = in_text(given_words(given, lang), lang)
            found.append((sentence, sentence.text))
        else:
            found.append((in_text(within_text(divide, text), lang), text.strip()))
    return [(sentence, published) for sentence, published in found if sentence]


def _read(encoder: TransformerEncoder, lang: str, texts: Texts) -> tuple[list[str], int, list[str]]:
    """Read sentences of one language as words, and as they were published: the line of the
    language, with one on what composed text would change, the number of sentences with other pieces
    than their running text, and lines on the first of these.
    """
    tokenizer, sentences = encoder.tokenizer, [sentence for sentence, _ in texts]
    unknown, name = tokenizer.unk_token_id, tokenizer.convert_ids_to_tokens
    special = set(tokenizer.all_special_ids) - {unknown}
    differing, first, pieces = 0, list[str](), list[int]()
    for row, (_, published) in zip(encoder.pieces(sentences, lang), texts, strict=True):
        ours = row.ids.tolist()
        whole = tokenizer(published, verbose=False)["input_ids"]  # however long it is
        theirs = list(whole)[: encoder.max_positions]
        # What is cut off at the last position is not compared.
        if ours != theirs and len(ours) < encoder.max_positions:
            differing += 1
            at = next((k for k, (a, b) in enumerate(zip(ours, theirs)) if a != b), 0)  # noqa: B905
            read, text = (" ".join(name(ids)[max(at - 1, 0) : at + 4]) for ids in (ours, theirs))
            shown = published if len(published) <= 60 else published[:59] + "…"
            told = (f"{lang}: {shown}", f"read: … {read} …", f"text: … {text} …")
            first = first or [line for part in told for line in _row("", part)]
        pieces += [piece for piece in ours if piece not in special]
    per_word = len(pieces) / max(sum(map(len, sentences)), 1)
    share = pieces.count(unknown) / max(len(pieces), 1)
    other = f"{differing:12d} of {len(texts)}"
    lines = [f"{lang:{_INDENT}}{per_word:23.2f}{100 * share:7.1f} %{other}"]
    composed = [unicodedata.normalize("NFC", text) for _, text in texts]
    if composed != [text for _, text in texts]:
        part = float((encode_texts(tokenizer, composed, None).ids_P == unknown).mean())
        change = (
            f"{100 * part:.1f} % unknown where it is composed (`normalize: nfc` under `encoder`)"
        )
        lines += _row("", change) if abs(part - share) > 0.001 else []
    return lines, differing, first


def _model(encoder: TransformerEncoder, *, head: bool) -> Iterator[str]:
    """Lines about the model and its tokenizer."""
    model, config = encoder.model, encoder.model.config
    weights = list(model.parameters())
    count = sum(weight.numel() for weight in weights)
    size = sum(weight.numel() * weight.element_size() for weight in weights)
    facts = {
        "architecture": f"{type(model).__name__} ({config.model_type})",
        "layers": f"{encoder.n_layers} of {encoder.hidden_size} dimensions",
        "parameters": f"{count:,}, {volume(size)} in memory",
        "positions": f"{encoder.max_positions} subword tokens per row, special ones included",
        "attention": str(getattr(config, "_attn_implementation", None) or "its own"),
        "rows": "several sentences share a row in training" if encoder.can_pack() else "padded",
        "masked LM": "has a head" if head else "has no head",
        "tokenizer": f"{piece_kind(encoder.tokenizer)} of {len(encoder.tokenizer):,} subword"
        " tokens",
    }
    for label, text in facts.items():
        yield from _row(label, text)


def piece_kind(tokenizer: Any) -> str:
    """Return which kind of pieces a tokenizer makes: ``WordPiece``, ``Unigram``, ``byte-level
    BPE``, ``BPE with byte fallback`` or the name of its model.
    """
    record = json.loads(tokenizer.backend_tokenizer.to_str())
    model, before = record["model"], record["pre_tokenizer"] or {}
    kind = str(model.get("type") or "Unigram")
    if kind != "BPE":
        return kind
    if any(one["type"] == "ByteLevel" for one in before.get("pretokenizers", [before]) if one):
        return "byte-level BPE"
    return "BPE with byte fallback" if model.get("byte_fallback") else "BPE"


def _row(label: str, text: str) -> list[str]:
    """A label and a text, wrapped within the width of a terminal; paths stay whole."""
    head, rest = f"{label:{_INDENT}}", " " * _INDENT
    wide = TextWrapper(_WIDTH, head, rest, break_on_hyphens=False, break_long_words=False)
    return wide.wrap(text) or [label]
