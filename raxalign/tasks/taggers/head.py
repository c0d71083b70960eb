"""The head of tags: how sentences are read, the two taggers and the CRF, and their scores."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from raxalign.arrays import offsets_of, word_pieces
from raxalign.corpora.readers.inspection import Report, refuse
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.rows import Packed, RowSource
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.errors import RaxalignError
from raxalign.lazy import pa
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.taggers.reading import TaggedSentences
from raxalign.tasks.transfer.head import Batches, FineTuned, Head, HeldOut, TaskModel
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.train.devices import on_device
from raxalign.train.group import shared


class ConditionedCrf(nn.Module):
    """Scores of tags and of transitions depend on the hidden state ("bigram"; Ma & Hovy 2016, as in
    the
    tagger of Kulshreshtha et al. 2020).

    p(y | h) is proportional to exp sum_t (u_{y_t} h_t + b_{y_t} + w_{y_{t-1}, y_t} h_t +
    c_{y_{t-1}, y_t}), where y_0 is a tag of its own for the beginning.
    """

    def __init__(self, width: int, n_tags: int) -> None:
        super().__init__()
        self.n_tags = n_tags
        self.tags = nn.Linear(width, n_tags)
        self.transitions = nn.Linear(width, (n_tags + 1) * n_tags)

    def _energies(self, states_BTH: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(scores of the first words' tags (B, K), scores of each later word's tag after each tag
        (B, T - 1, K, K), earlier tag first).
        """
        n = self.n_tags
        # The first word comes after the beginning alone, and no other word does.
        first, later = states_BTH[:, 0], states_BTH[:, 1:]
        weight_SKH = self.transitions.weight.view(n + 1, n, -1)
        bias_SK = self.transitions.bias.view(n + 1, n)
        first_BK = self.tags(first) + nn.functional.linear(first, weight_SKH[n], bias_SK[n])
        pairs = nn.functional.linear(
            later, weight_SKH[:n].reshape(n * n, -1), bias_SK[:n].reshape(-1)
        )
        return first_BK, pairs.reshape(*pairs.shape[:2], n, n) + self.tags(later)[..., None, :]

    def losses(
        self, states_BTH: torch.Tensor, tags_BT: torch.Tensor, mask_BT: torch.Tensor
    ) -> torch.Tensor:
        """-log p(tags | states) of each row, (B,). Rows are filled from the left (`mask_BT` is
        bool) and have one word at least.
        """
        first_BK, later_BTKK = self._energies(states_BTH)
        alpha_BK = first_BK
        for t in range(later_BTKK.shape[1]):
            step_BK = torch.logsumexp(alpha_BK[:, :, None] + later_BTKK[:, t], dim=1)
            alpha_BK = torch.where(mask_BT[:, t + 1, None], step_BK, alpha_BK)
        begin_B = first_BK.gather(1, tags_BT[:, :1])[:, 0]
        index_BT = tags_BT[:, :-1] * self.n_tags + tags_BT[:, 1:]
        went_BT = later_BTKK.flatten(2).gather(2, index_BT[..., None])[..., 0]
        gold_B = begin_B + torch.where(mask_BT[:, 1:], went_BT, went_BT.new_zeros(())).sum(1)
        return torch.logsumexp(alpha_BK, dim=1) - gold_B

    @torch.no_grad()
    def decode(self, states_BTH: torch.Tensor, mask_BT: torch.Tensor) -> list[list[int]]:
        """The most probable tags of each row, as long as the row is (Viterbi)."""
        best_BK, later_BTKK = self._energies(states_BTH)
        stay_BK = torch.arange(self.n_tags, device=best_BK.device).expand_as(best_BK)
        backward = []
        for t in range(1, mask_BT.shape[1]):
            step_BK, came_BK = (best_BK[:, :, None] + later_BTKK[:, t - 1]).max(dim=1)
            counts_B1 = mask_BT[:, t, None]
            best_BK = torch.where(counts_B1, step_BK, best_BK)
            backward.append(torch.where(counts_B1, came_BK, stay_BK))
        path = [best_BK.argmax(1)]
        for came_BK in reversed(backward):
            path.append(came_BK.gather(1, path[-1][:, None])[:, 0])
        tags_BT = torch.stack(path[::-1], dim=1).cpu().tolist()
        lengths = mask_BT.sum(1).tolist()
        return [tags[:length] for tags, length in zip(tags_BT, lengths, strict=True)]


_LSTM_LAYERS, _INPUT_DROPOUT = 2, 0.5  # those of Kulshreshtha et al. (2020)
_CHUNK = 4096
"""Sentences whose words are looked for at once."""
_IN_MEMORY = 2 << 30
"""Bytes of features up to which they are kept in memory."""


@dataclass(frozen=True)
class Features:
    """`flat_PH`, float32: the pieces of all rows; those of row i begin at ``offsets[i]``."""

    flat_PH: np.ndarray
    offsets: np.ndarray

    def padded(self, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """(vectors (B, T, H) of the rows `chosen`, zero beyond their ends, and their lengths)."""
        begins, lengths = self.offsets[chosen], np.diff(self.offsets)[chosen]
        shape = (len(chosen), int(lengths.max()), self.flat_PH.shape[1])
        vectors_BTH = np.zeros(shape, dtype=np.float32)
        for row, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
            vectors_BTH[row, :length] = self.flat_PH[begin : begin + length]
        return torch.from_numpy(vectors_BTH), torch.from_numpy(lengths)


@torch.no_grad()
def extract(
    aligned: AlignedEncoder,
    rows: RowSource,
    layers: Sequence[int],
    in_memory: int = _IN_MEMORY,
) -> Features:
    """The sum of the layers for every piece, each layer after its own readouts; eval mode."""
    lengths = rows.lengths
    offsets = offsets_of(lengths)
    shape = (int(offsets[-1]), aligned.hidden_size)
    if 4 * shape[0] * shape[1] <= in_memory:
        flat_PH = np.empty(shape, dtype=np.float32)
    else:
        with tempfile.TemporaryFile(prefix="raxalign-") as file:  # the mapping outlives it
            flat_PH = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
    for chosen, _, states in aligned.read(rows, layers):
        summed_BTH = torch.stack(states).sum(0).float().cpu()
        for k, i in enumerate(chosen):
            flat_PH[offsets[i] : offsets[i + 1]] = summed_BTH[k, : lengths[i]].numpy()
    return Features(flat_PH, offsets)


@dataclass(frozen=True)
class Placed:
    """Tokenised sentences: for each the pieces, the positions of its words' first pieces, and the
    words of those positions (in order).

    Words without a piece, or beyond what a row may have, are missing there. `features` are those of
    the frozen encoder, where the tagger reads them.
    """

    rows: RowSource
    firsts: Sequence[np.ndarray]
    words: Sequence[np.ndarray]
    features: Features | None = None

    @classmethod
    def of(cls, rows: RowSource, features: Features | None = None) -> Placed:
        """Find the first pieces of all words."""
        firsts, words = list[np.ndarray](), list[np.ndarray]()
        for start in range(0, len(rows), _CHUNK):
            part = rows.take(np.arange(start, min(start + _CHUNK, len(rows))))
            for begin, end in pairwise(part.offsets.tolist()):
                pieces, owners = word_pieces(part.words[begin:end], part.lasts[begin:end])
                present, first = np.unique(owners, return_index=True)
                firsts.append(pieces[first])
                words.append(present)
        return cls(rows, firsts, words, features)


class Tagger(TaskModel):
    """What both taggers do; labels are numbers. Of the sentences `chosen` among those that are
    placed, `units` counts the summands of the loss, `lay_out` returns what `loss` reads, without
    the device, and `best` the most probable labels of their words. The loss is summed over
    sentences of one word at least, by the labels of those of its words that have a piece.
    """

    encoder: TransformerEncoder
    least_words: ClassVar[int] = 0
    """The number of words that a sentence needs to be read."""
    units: Any
    loss: Any
    best: Any

    def placed(self, rows: RowSource) -> Placed:
        """Return sentences that are divided into pieces, as the tagger reads them."""
        return Placed.of(rows)

    def place(self, sentences: Sequence[Sequence[str]], lang: str) -> Placed:
        """Return sentences as the tagger reads them."""
        return self.placed(self.encoder.pieces(sentences, lang))

    @torch.no_grad()
    def predict(self, placed: Placed) -> list[np.ndarray]:
        """Return the label of every word, -1 where there is none; eval mode."""
        found = [np.full(n, -1, np.int64) for n in placed.rows.n_words().tolist()]
        read = [i for i, words in enumerate(placed.words) if len(words) >= self.least_words]
        some = np.array(read, dtype=np.int64)
        batches = token_batches(placed.rows.lengths[some], self.encoder.batch_tokens)
        with evaluating(self):
            for part, labels in shared(batches, lambda part: self.best(placed, some[part])):
                for i, own in zip(some[part], labels, strict=True):
                    found[i][placed.words[i]] = own
        return found


@dataclass(frozen=True)
class TaggedRows:
    """Sentences as the encoder reads them, the places of their words' first pieces in its states,
    and the number of words of each.
    """

    layout: Packed
    places_W: np.ndarray
    counts_S: np.ndarray


class LinearTagger(Tagger, FineTuned):
    """Labels from the last layer's vector of a word's first piece, by the words' cross-entropy."""

    def units(self, placed: Placed, chosen: np.ndarray) -> int:
        """Return the number of words."""
        return sum(len(placed.words[i]) for i in chosen)

    def lay_out(self, placed: Placed, chosen: np.ndarray) -> TaggedRows:
        """Return the sentences `chosen` as the tagger reads them."""
        found = self.packed(placed.rows.take(chosen))
        firsts = [placed.firsts[i] for i in chosen]
        counts_S = np.array(list(map(len, firsts)), np.int64)
        starts_W = np.repeat(found.starts_S[: len(chosen)], counts_S)
        return TaggedRows(found, starts_W + np.concatenate(firsts), counts_S)

    def logits(self, rows: TaggedRows) -> torch.Tensor:
        """Return logits (words of all sentences, labels), one sentence after the other."""
        states_FH = self.aligned.packed_hidden(rows.layout)
        read_WH = states_FH[on_device(rows.places_W, states_FH.device)]
        logits: torch.Tensor = self.head(self.dropout(read_WH))
        return logits

    def loss(self, rows: TaggedRows, labels: Sequence[np.ndarray]) -> torch.Tensor:
        """Return the summed cross-entropy of all words."""
        return self.summed_loss(self.logits(rows), np.concatenate(labels))

    def best(self, placed: Placed, chosen: np.ndarray) -> list[np.ndarray]:
        """Return the most probable label of each word on its own."""
        rows = self.lay_out(placed, chosen)
        labels = self.logits(rows).argmax(1).cpu().numpy()
        return np.split(labels, np.cumsum(rows.counts_S)[:-1])


@dataclass(frozen=True)
class FeatureRows:
    """Features of the pieces of sentences (B, T, H), the number of pieces of each, and for each of
    its words the first piece, and whether there is one (B, W).
    """

    vectors_BTH: torch.Tensor
    lengths_B: torch.Tensor
    index_BW: np.ndarray
    mask_BW: np.ndarray


class BilstmCrf(Tagger):
    """Labels from a BiLSTM over all pieces and a CRF over the words' first pieces; the encoder
    below is frozen and not part of the module.

    The loss is the negative log-likelihood of sentences. Features are computed once for what
    `place` is given.
    """

    least_words = 1

    def __init__(self, aligned: AlignedEncoder, n_labels: int, settings: Any, seed: int) -> None:
        super().__init__()
        if not isinstance(aligned.encoder, TransformerEncoder):
            raise RaxalignError("only a transformer has features of subword tokens")
        self.encoder = copy.copy(aligned.encoder)
        self.encoder.max_positions = min(self.encoder.max_positions, settings.max_length)
        self.aligned = replace(aligned, encoder=self.encoder)
        self.layers = settings.feature_layers(aligned.n_layers)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.input_dropout = nn.Dropout(_INPUT_DROPOUT)
            self.dropout = nn.Dropout(settings.dropout)
            self.lstm = nn.LSTM(
                aligned.hidden_size,
                settings.width,
                _LSTM_LAYERS,
                batch_first=True,
                bidirectional=True,
                dropout=settings.dropout,
            )
            self.crf = ConditionedCrf(2 * settings.width, n_labels)
        self.to(aligned.device)

    def placed(self, rows: RowSource) -> Placed:
        """Return the words of the pieces, and the features of these."""
        return Placed.of(rows, extract(self.aligned, rows, self.layers))

    def lay_out(self, placed: Placed, chosen: np.ndarray) -> FeatureRows:
        """Return the features of the sentences `chosen` as the tagger reads them."""
        assert placed.features is not None
        vectors_BTH, lengths_B = placed.features.padded(chosen)
        counts = np.array([len(placed.firsts[i]) for i in chosen])
        mask_BW = np.arange(max(counts.max(), 1)) < counts[:, None]
        index_BW = np.zeros(mask_BW.shape, dtype=np.int64)
        index_BW[mask_BW] = np.concatenate([placed.firsts[i] for i in chosen])
        return FeatureRows(vectors_BTH, lengths_B, index_BW, mask_BW)

    def _states(self, rows: FeatureRows) -> tuple[torch.Tensor, torch.Tensor]:
        """States of the words (B, W, 2 hidden) and which of them there are (B, W)."""
        dtype, device = next(self.lstm.parameters()).dtype, self.aligned.device
        inputs = self.input_dropout(on_device(rows.vectors_BTH.to(dtype), device))
        packed = nn.utils.rnn.pack_padded_sequence(
            inputs, rows.lengths_B, batch_first=True, enforce_sorted=False
        )
        states_BTH = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]
        index_BW1, mask_BW = on_device(rows.index_BW, device)[..., None], rows.mask_BW
        gather = index_BW1.expand(-1, -1, states_BTH.shape[-1])
        return self.dropout(states_BTH.gather(1, gather)), on_device(mask_BW, device)

    def units(self, placed: Placed, chosen: np.ndarray) -> int:  # noqa: ARG002
        """Return the number of sentences."""
        return len(chosen)

    def loss(self, rows: FeatureRows, labels: Sequence[np.ndarray]) -> torch.Tensor:
        """Return the summed negative log-likelihood of the sentences."""
        states, mask_BW = self._states(rows)
        gold_BW = np.zeros(mask_BW.shape, np.int64)
        for row, own in enumerate(labels):
            gold_BW[row, : len(own)] = own
        return self.crf.losses(states, on_device(gold_BW, mask_BW.device), mask_BW).sum()

    def best(self, placed: Placed, chosen: np.ndarray) -> list[list[int]]:
        """Return the most probable labels of each sentence."""
        return self.crf.decode(*self._states(self.lay_out(placed, chosen)))


def make_tagger(settings: Any, aligned: AlignedEncoder, n_labels: int, seed: int) -> Tagger:
    """Return the tagger that the settings ask for, untrained."""
    if settings.tagger == "linear":
        return LinearTagger(
            aligned, n_labels, dropout=settings.dropout, max_length=settings.max_length, seed=seed
        )
    return BilstmCrf(aligned, n_labels, settings, seed)


_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""
Labels = Sequence[np.ndarray]


class TagHead(Head):
    """Sentences, a tagger, and its labels: a number per word, -1 where there is none. The training
    chooses the weights of each language.
    """

    rows = TaggedSentences
    point = "step"
    allowed = 0.5

    def __init__(self, task: Any, inputs: TaskInputs) -> None:
        super().__init__(task, inputs)
        self.scheme, self.options = task.scheme(), task.settings()

    def read_local(self, split: Split, lang: str, report: Report = refuse) -> TaggedSentences:
        """Read a local file."""
        return TaggedSentences.of_file(self.data.path(split, lang), report, self.scheme)

    def read_hub(self, found: HubSet, split: Split) -> TaggedSentences:
        """Read a split of a data set of the hub."""
        return TaggedSentences.of_hub(found, split, self.scheme, self.inputs.downloads)

    def read_phrasebook(self, split: Split, lang: str, source: str) -> TaggedSentences:
        """Read sentences of the phrasebook."""
        n: int = self.params.identity()["phrasebook"][split]
        made = self.task.phrasebook(n, lang, split, _PHRASEBOOK_SEED)
        return TaggedSentences.of_made(source, made)

    def new_model(self, aligned: AlignedEncoder, seed: int, *, training: bool = True) -> Tagger:  # noqa: ARG002
        """Make the tagger that the options ask for."""
        return make_tagger(self.options, aligned, len(self.labels), seed)

    def labels_of(self, rows: Sequence[TaggedSentences]) -> tuple[str, ...]:
        """Return the tags of the training sentences, `O` first."""
        found = {tag for sentences in rows for tag in sentences.tags()}
        ordered: tuple[str, ...] = self.scheme.ordered(found)
        return ordered

    def batches(self, model: Tagger, given: Mapping[str, TaggedSentences]) -> SentenceBatches:
        """Return the training sentences as the tagger reads them."""
        ((lang, rows),) = given.items()
        placed = model.placed(rows.piece_rows(model.encoder, lang))
        both = zip(rows.numbers(self.labels), placed.words, strict=True)
        labels = [numbers[words] for numbers, words in both]
        return SentenceBatches(model, placed, labels, rows.n_words())

    def notes_of_training(
        self, given: Mapping[str, TaggedSentences], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, object]:
        """Return the numbers of sentences and words, and the labels."""
        rows = given[self.pivot]
        return {"sentences": len(rows), "labels": list(self.labels), **counts[-1]}

    def inputs_of(self, model: Tagger, held: HeldOut) -> Placed:
        """Return held-out sentences as the tagger reads them."""
        return model.place(held.rows.words(), held.label)

    def predict(self, model: Tagger, inputs: Placed) -> list[np.ndarray]:
        """Return the label of every word."""
        return model.predict(inputs)

    def measure(self, held: HeldOut, predicted: Labels) -> dict[str, float]:
        """Return the accuracy, and for entities F1, precision and recall."""
        gold = [row.tags for row in held.rows.rows]
        found: dict[str, float] = self.scheme.values(gold, self._names(predicted))
        return found

    def columns(self, held: HeldOut, predicted: Labels) -> dict[str, Any]:
        """Return words, tags and predicted tags as lists, and the numbers that scores sum."""
        texts, tags = pa.list_(pa.string()), self._names(predicted)
        gold = [row.tags for row in held.rows.rows]
        counts = self.scheme.counts(gold, tags)
        numbers = dict(zip(("n_tokens_right", "n_tokens"), counts["accuracy"], strict=True))
        if "f1" in counts:
            numbers |= dict(zip(("n_right", "n_predicted"), counts["precision"], strict=True))
            numbers["n_gold"] = counts["recall"][1]
        return {
            "id": pa.array(range(len(gold)), pa.int64()),
            "seen": pa.array(held.seen.tolist(), pa.bool_()),
            "words": pa.array(held.rows.words(), texts),
            "label": pa.array(gold, texts),
            "predicted": pa.array(tags, texts),
            **{name: pa.array(column, pa.int64()) for name, column in numbers.items()},
        }

    def _names(self, predicted: Labels) -> list[list[str]]:
        names = [*self.labels, self.scheme.missing]  # of -1
        return [[names[i] for i in row.tolist()] for row in predicted]

    def notes(self, held_out: Sequence[HeldOut], chosen: Mapping[str, object]) -> dict[str, object]:
        """Return the notes of an evaluation."""
        return {
            "selection": self.options.selection,
            "steps": chosen,
            "sentences": {held.place: len(held.rows) for held in held_out},
            "seen_in_training": HeldOut.noted(held_out, lambda held: int(held.seen.sum())),
            "tags_not_in_training": HeldOut.noted(
                held_out, lambda held: sorted(held.rows.tags() - {*self.labels})
            ),
        }


class SentenceBatches(Batches):
    """Sentences that have words with a piece, as a tagger reads them."""

    def __init__(
        self, model: Tagger, placed: Placed, labels: Sequence[np.ndarray], n_words: int
    ) -> None:
        """`labels` are those of the words of `placed`, `n_words` is the number of all words."""
        lengths = [len(words) for words in placed.words]
        usable = np.flatnonzero(lengths)
        counted = {"words": n_words, "words_left_out": n_words - sum(lengths)}
        offsets = np.arange(len(usable) + 1)
        super().__init__(model, placed.rows, labels, usable, offsets, counted)
        self.placed = placed

    def units(self, rows: np.ndarray) -> int:
        """Return the number of words, or of sentences."""
        return int(self.model.units(self.placed, self.members[rows]))

    def lay_out(self, rows: np.ndarray) -> tuple[Any, list[np.ndarray]]:
        """Return sentences, and the labels of their words."""
        chosen = self.members[rows]
        return self.model.lay_out(self.placed, chosen), [self.gold[i] for i in chosen]
