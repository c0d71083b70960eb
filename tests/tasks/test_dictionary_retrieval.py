"""Dictionary retrieval on planted vectors, all values worked by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from raxalign.config.sources import LocalFile
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.static import Lookup, Space, StaticEncoder
from raxalign.encoders.models.vectors import WordVectors
from raxalign.errors import DataError
from raxalign.tasks.base import Outcome, TaskInputs, TaskNeeds
from raxalign.tasks.dictionary_retrieval import DictionaryRetrieval
from raxalign.tasks.vectors.dictionary_words import mean_vectors
from raxalign.train.runtime import Runtime

SPACES = {
    "de": {"hund": [1.0, 0.0], "köter": [1.0, 0.2], "katze": [0.0, 1.0], "haus": [-1.0, 0.1]},
    "en": {
        "dog": [1.0, 0.1],
        "hound": [0.9, 0.6],
        "cat": [0.2, 1.0],
        "house": [1.0, 0.3],
        "home": [-1.0, 0.0],
    },
}
ENTRIES = [
    "hund dog",
    "Hund hound",
    "köter dog",
    "katze cat",
    "haus house",
    "haus home",
    "baum tree",
    "katze cat",
]
TEXT = {lang: [list(words)] for lang, words in SPACES.items()}


def text_of(folder: Path, sentences: list[list[str]]) -> Path:
    with DatasetWriter(folder, pa.schema([("words", pa.list_(pa.string()))]), {}) as writer:
        writer.write({"words": sentences})
    return folder


def run(
    tmp_path: Path,
    *,
    entries: list[str] = ENTRIES,
    text: dict[str, list[list[str]]] = TEXT,
    transforms=(),
    languages=("de",),
    **params,
) -> Outcome:
    tables = {
        lang: Space(list(words), np.array(list(words.values()), np.float32))
        for lang, words in SPACES.items()
    }
    tables["fr"] = tables["de"]
    aligned = AlignedEncoder(StaticEncoder(tables, 2, Lookup("keep", "none")), transforms)
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "dictionary.txt").write_text("\n".join(entries), encoding="utf-8")
    inputs = TaskInputs(
        pivot="en",
        files={"dictionary": dict.fromkeys(languages, tmp_path / "dictionary.txt")},
        text={
            lang: text_of(tmp_path / f"text-{lang}", text["de" if lang == "fr" else lang])
            for lang in (*languages, "en")
        },
    )
    task = DictionaryRetrieval(DictionaryRetrieval.Params(dictionary="d.txt", **params))
    return task.evaluate(aligned, tuple(languages), inputs, Runtime(), None)


def values(outcome: Outcome, lang: str = "de-en") -> dict[str, float]:
    assert {score.split for score in outcome.scores} <= {"test"}
    return {score.metric: score.value for score in outcome.scores if score.lang == lang}


def test_all_values_by_hand(tmp_path: Path) -> None:
    """To the pivot: hund (0 degrees) finds dog (6) first; köter (11) too, at 6 house at 5.4 is
    nearer: dog is second; katze finds cat; haus (174) finds home. From it: dog (6) is nearest to
    köter (5.6) and hund (5.7), both right: 1; hound (34) is nearest to köter (22), then hund: 2;
    cat: 1; house (17) is nearest to köter, hund, katze, haus: 4; home: 1.
    """
    outcome = run(tmp_path)
    found = values(outcome)
    assert found["mrr_to_pivot"] == pytest.approx((1 + 1 / 2 + 1 + 1) / 4)
    assert found["mrr_from_pivot"] == pytest.approx((1 + 1 / 2 + 1 + 1 / 4 + 1) / 5)
    assert found["mrr"] == pytest.approx((0.875 + 0.75) / 2)
    assert found["precision_at_1_to_pivot"] == 3 / 4
    assert found["precision_at_1_from_pivot"] == 3 / 5
    assert found["precision_at_1"] == pytest.approx(0.675)
    assert found["precision_at_5"] == found["precision_at_10"] == 1
    assert found["mrr_pairs"] == 9
    assert outcome.notes["de-en"] == {
        "entries": 7,
        "entries_covered": 6,
        "words_src": "4 of 5",
        "words_tgt": "5 of 6",
        "entries_in_text": 6,
        "running_words": {"de": 1.0, "en": 1.0},
    }


def test_a_dictionary_with_the_pivot_first_is_refused_and_read_with_swap(tmp_path: Path) -> None:
    turned = [" ".join(reversed(entry.split())) for entry in ENTRIES]
    with pytest.raises(
        DataError,
        match=(
            r"dictionary\.txt: 0 of 7 entries .* the other way round 6 have. The pivot's word comes"
            r" first: set `swap: true`"
        ),
    ):
        run(tmp_path / "as-given", entries=turned)
    assert values(run(tmp_path / "swapped", entries=turned, swap=True)) == values(
        run(tmp_path / "straight")
    )


def test_predictions_recompute_to_the_scores(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    rows = outcome.predictions.to_pylist()
    for direction in ("to_pivot", "from_pivot"):
        part = [row for row in rows if row["direction"] == direction]
        assert values(outcome)[f"mrr_{direction}"] == pytest.approx(
            sum(1 / row["rank"] for row in part) / len(part)
        )
        assert values(outcome)[f"precision_at_1_{direction}"] == pytest.approx(
            sum(row["correct"] for row in part) / len(part)
        )
    assert {
        "lang": "de-en",
        "split": "test",
        "direction": "to_pivot",
        "query": "köter",
        "gold": "dog",
        "found": "house",
        "rank": 2.0,
        "correct": False,
    } in rows


def test_words_that_do_not_occur_are_left_out_or_encoded_alone(tmp_path: Path) -> None:
    text = {"de": [["hund", "katze"]], "en": TEXT["en"]}
    few = run(tmp_path / "a", text=text) if (tmp_path / "a").mkdir() is None else None
    assert few is not None
    assert few.notes["de-en"]["words_src"] == "2 of 5"
    assert values(few)["mrr_pairs"] == 2 + 3  # hund, katze; dog, hound, cat
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    assert values(run(tmp_path / "b", text=text, contexts="corpus-or-isolated")) == values(
        run(tmp_path / "c", contexts="isolated")
    )
    assert values(run(tmp_path / "c", contexts="isolated"))["mrr_pairs"] == 9


def test_nothing_covered_is_no_metric_and_a_note(tmp_path: Path) -> None:
    outcome = run(tmp_path, entries=["baum tree"])
    assert not outcome.scores
    assert outcome.predictions.num_rows == 0
    assert "no entry" in str(outcome.notes["de-en"]["absent"])


def test_transforms_of_the_pivot_follow_the_language_and_averages_are_over_languages(
    tmp_path: Path,
) -> None:
    half_turn = Affine(weight=-torch.eye(2))
    outcome = run(
        tmp_path,
        languages=("de", "fr"),
        transforms=(Transform("en", 0, steps=(half_turn,), toward="fr"),),
    )
    both = values(outcome)["mrr"], values(outcome, "fr-en")["mrr"]
    assert both[0] == pytest.approx(0.8125)
    assert both[1] < both[0]
    assert values(outcome, "avg")["mrr"] == pytest.approx(sum(both) / 2)
    assert "mrr_pairs" not in values(outcome, "avg")


class Contextual(Encoder):
    """The vector of a word is (its place in its sentence, the sentence's length); capitals count
    double.
    """

    family = "transformer"
    hidden_size, n_layers, device = 2, 0, "cpu"

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def save(self, folder):
        raise NotImplementedError

    def iter_words(self, sentences, lang, *, layers, pooling):
        self.read += [list(sentence) for sentence in sentences]
        for i, sentence in enumerate(sentences):
            vectors = (
                torch.tensor(
                    [[[float(j), float(len(sentence))]] * len(layers) for j in range(len(sentence))]
                )
                * 1.0
            )
            scale = torch.tensor([2.0 if word[0].isupper() else 1.0 for word in sentence])
            yield (
                [i],
                WordVectors(
                    vectors * scale[:, None, None],
                    [0, len(sentence)],
                    torch.tensor([word != "?" for word in sentence]),
                ),
            )


def test_vectors_are_means_over_occurrences_in_any_casing(tmp_path: Path) -> None:
    """`a` stands at 1 of 2, at 0 of 1 as a capital, and at 2 and 3 of 4: (1 + 0 + 2 + 3)/4, (2 + 2
    + 4 + 4)/4.
    """
    folder = text_of(tmp_path / "t", [["x", "a"], ["y"], ["A"], ["y", "?", "a", "a"]])
    encoder = Contextual()
    vectors, counts = mean_vectors(
        AlignedEncoder(encoder),
        folder,
        ["a", "?", "nowhere"],
        partial(AlignedEncoder(encoder).words, lang="de", layers="last", pooling="mean"),
        max_contexts=9,
    )
    assert counts.tolist() == [4, 0, 0]
    assert vectors.tolist() == [[1.5, 3.0], [0, 0], [0, 0]]
    assert ["y"] not in encoder.read


def test_no_more_sentences_are_read_than_words_need(tmp_path: Path) -> None:
    folder = text_of(tmp_path / "t", [["a"], ["a", "x"], ["a", "b"], ["a"], ["b", "b"], ["b"]])
    encoder = Contextual()
    _, counts = mean_vectors(
        AlignedEncoder(encoder),
        folder,
        ["a", "b"],
        partial(AlignedEncoder(encoder).words, lang="de", layers="last", pooling="mean"),
        max_contexts=2,
    )
    assert encoder.read == [["a"], ["a", "x"], ["a", "b"], ["b", "b"]]
    assert counts.tolist() == [3, 3]


def test_without_a_limit_every_occurrence_counts(tmp_path: Path) -> None:
    folder = text_of(tmp_path / "t", [["a"], ["x"], *[["x", "a"]] * 30])
    encoder = Contextual()
    vectors, counts = mean_vectors(
        AlignedEncoder(encoder),
        folder,
        ["a"],
        partial(AlignedEncoder(encoder).words, lang="de", layers="last", pooling="mean"),
        max_contexts=None,
    )
    assert counts.tolist() == [31]
    assert vectors.tolist() == [[pytest.approx(30 / 31), pytest.approx(61 / 31)]]


def test_what_is_read_and_what_cannot_change_the_result() -> None:
    def task(**params: object) -> DictionaryRetrieval:
        return DictionaryRetrieval(
            DictionaryRetrieval.Params.model_validate(
                {"dictionary": "{lang}-{pivot}.txt", **params}
            )
        )

    assert task().needs() == TaskNeeds(text=True)
    assert task(contexts="isolated").needs() == TaskNeeds()
    assert task().sources("de", "en") == {"dictionary": LocalFile(Path("de-en.txt"))}
    assert task(k=3).canonical() == task().canonical()
    assert task(measure="csls", k=3).canonical() != task(measure="csls").canonical()
    assert (
        task(contexts="isolated", max_contexts=3).canonical()
        == task(contexts="isolated").canonical()
    )
    assert task(max_contexts=3).canonical() != task().canonical()
    assert not task().has_chance()
