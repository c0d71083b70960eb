"""Masked language modelling of a small BERT from nothing (Devlin et al. 2019: 15 % of pieces; of these 80 % masked, 10 % random, 10 % kept)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from raxalign.caveats import listener
from raxalign.encoders.models.loading import save_masked_lm
from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.training.wordpiece import train_wordpiece
from raxalign.errors import DataError, RaxalignError
from raxalign.losses import check_step, not_lowered

if TYPE_CHECKING:
    from raxalign.encoders.scratch import Scratch
    from raxalign.train.runtime import Runtime

REPORT_EVERY = 20
BUCKET = 32
"""Batches whose rows are sorted by length together."""


def pretrain(params: Scratch.Params, text: Mapping[str, Path], runtime: Runtime, folder: Path) -> Mapping[str, object]:
    """Train vocabulary and model on the text of all languages and save them; returns notes (sentences, vocabulary, losses)."""
    sentences = {lang: read_words(text[lang], params.max_sentences) for lang in sorted(text)}
    if not any(sentences.values()):
        raise RaxalignError("a scratch encoder is trained on text, but there is none: give the grid a corpus")
    with _threads(runtime.threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        tokenizer = train_wordpiece([words for part in sentences.values() for words in part], params.vocab_size, lowercase=params.lowercase)
        encoder = TransformerEncoder(new_bert(params, len(tokenizer)), tokenizer, runtime.device)
        rng = np.random.default_rng(params.seed)
        rows = [row for lang, part in sentences.items() for row in pack_rows(encoder.pieces(part, lang), params.window, rng)]
        losses = _train(params, encoder, rows, rng, runtime)
        save_masked_lm(encoder.model, tokenizer, folder)
    return {
        "sentences": {lang: len(part) for lang, part in sentences.items()},
        "vocabulary": len(tokenizer),
        "pieces": sum(len(row) for row in rows),
        "first_loss": losses[0],
        "last_loss": float(np.mean(losses[-REPORT_EVERY:])),
    }


def read_words(folder: Path, limit: int) -> list[list[str]]:
    """The first `limit` sentences (column ``words``) of a dataset folder."""
    import pyarrow as pa

    try:
        names = [entry["filename"] for entry in json.loads((folder / "state.json").read_text(encoding="utf-8"))["_data_files"]]
        sentences: list[list[str]] = []
        for name in names:
            with pa.memory_map(str(folder / name)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    sentences += batch.column("words")[: max(0, limit - len(sentences))].to_pylist()
                    if len(sentences) >= limit:
                        return sentences
    except (OSError, KeyError, ValueError) as error:
        raise DataError(folder, f"is no text dataset ({error})") from error
    return sentences


def new_bert(params: Scratch.Params, vocabulary: int) -> Any:
    """A BERT with random weights (torch's global random state)."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=params.hidden_size,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        intermediate_size=params.intermediate,
        max_position_embeddings=params.positions,
        hidden_dropout_prob=params.dropout,
        attention_probs_dropout_prob=params.dropout,
        attn_implementation="sdpa",
    )
    return BertForMaskedLM(config)


def pack_rows(singles: Sequence[PieceRow], window: int, rng: np.random.Generator) -> list[PieceRow]:
    """Training rows of at most `window` pieces of one language's sentences: a third single ones, a third pairs with two segments, and a third
    as many as fit. So the encoder knows the positions and segments that words in sentences, pairs and long texts will have.
    """
    order, rows, at = rng.permutation(len(singles)), [], 0
    while at < len(order):
        most = (1, 2, len(order))[rng.integers(3)]
        group = [singles[order[at]]]
        at += 1
        size = len(group[0])
        while at < len(order) and len(group) < most and size + len(singles[order[at]]) - 1 <= window:
            group.append(singles[order[at]])
            size += len(group[-1]) - 1
            at += 1
        # Every sentence but the first goes without its [CLS].
        ids = np.concatenate([group[0].ids, *(row.ids[1:] for row in group[1:])])[:window]
        first = len(group[0]) if len(group) == 2 else len(ids)
        rows.append(PieceRow(ids, np.full(len(ids), -1), first, 0, group[0].languages))
    return rows


def batches(rows: Sequence[PieceRow], budget: int, rng: np.random.Generator) -> Iterator[list[PieceRow]]:
    """Batches of about `budget` pieces for ever: shuffled, then sorted by length among neighbours so that little is padding."""
    lengths = np.array([len(row) for row in rows])
    while True:
        order = rng.permutation(len(rows))
        bounds = np.cumsum(lengths[order]) // (budget * BUCKET)
        for bucket in np.split(order, np.flatnonzero(np.diff(bounds)) + 1):
            chunks = list(token_batches(lengths[bucket], budget))
            for k in rng.permutation(len(chunks)):
                yield [rows[i] for i in bucket[chunks[k]]]


def mask_pieces(
    ids: np.ndarray, candidates: np.ndarray, share: float, mask_id: int, random_ids: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(changed ids, chosen flat places): a `share` of the candidate places, one at least; 80 % become the mask, 10 % random, 10 % stay."""
    places = np.flatnonzero(candidates)
    chosen = np.sort(rng.choice(places, size=max(1, round(share * len(places))), replace=False)) if len(places) else places
    changed = ids.reshape(-1).copy()
    fate = rng.random(len(chosen))
    changed[chosen[fate < 0.8]] = mask_id
    strange = chosen[fate >= 0.9]
    changed[strange] = rng.choice(random_ids, size=len(strange))
    return changed.reshape(ids.shape), chosen


def _train(params: Scratch.Params, encoder: TransformerEncoder, rows: list[PieceRow], rng: np.random.Generator, runtime: Runtime) -> list[float]:
    """The losses of all steps: AdamW, linear warm-up and decay."""
    from dataclasses import replace

    model, tokenizer = encoder.model, encoder.tokenizer
    optimizer = torch.optim.AdamW(model.parameters(), lr=params.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, foreach=True)
    rising = max(1, round(params.warmup * params.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rising, (params.steps - step) / max(1, params.steps - rising))
    )
    specials = np.array(tokenizer.all_special_ids)
    ordinary = np.setdiff1d(np.arange(len(tokenizer)), specials)
    losses = []
    model.train()
    for step, chosen_rows in zip(range(params.steps), batches(rows, params.batch_size * params.window, rng), strict=False):
        batch = encoder.collate(chosen_rows)
        ids = batch.ids_BT.cpu().numpy()
        changed, places = mask_pieces(ids, ~np.isin(ids, specials), params.mask_share, tokenizer.mask_token_id, ordinary, rng)
        where = torch.from_numpy(places).to(encoder.device)
        targets = batch.ids_BT.reshape(-1)[where]
        states = encoder.hidden(replace(batch, ids_BT=torch.from_numpy(changed).to(encoder.device)))[-1]
        # Only masked places reach the head: with a large vocabulary it costs more than the blocks.
        logits = encoder.lm_logits(states.reshape(-1, encoder.hidden_size)[where])
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / max(1, len(places))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        losses.append(float(loss.detach()))
        fault = "" if math.isfinite(norm) else f"gradient norm {norm}"
        check_step("scratch", losses, params.steps, float(schedule.get_last_lr()[0]), params.learning_rate, fault=fault)
        optimizer.step()
        schedule.step()
        if (step + 1) % REPORT_EVERY == 0:
            runtime.report({"scratch/loss": float(np.mean(losses[-REPORT_EVERY:]))}, step + 1)
    model.eval()
    found, flat = listener(), not_lowered(losses)
    if found is not None and flat is not None:
        found.not_lowered["scratch"] = flat
    return losses


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """PyTorch on `count` threads; afterwards on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, count))
    try:
        yield
    finally:
        torch.set_num_threads(before)
