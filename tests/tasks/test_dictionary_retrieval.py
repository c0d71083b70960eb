"""Dictionary retrieval on planted vectors, and ranks with ties, all values worked by hand."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import WordVectors
from raxalign.errors import DataError
from raxalign.options.sources import LocalFile
from raxalign.tasks import dictionary_retrieval
from raxalign.tasks.base import TaskNeeds
from raxalign.tasks.dictionary_retrieval import best_gold_ranks, mean_vectors
from tests.tasks.outcomes import evaluated, made, static, values, write_dataset

GERMAN = {"hund": [1.0, 0.0], "köter": [1.0, 0.2], "katze": [0.0, 1.0], "haus": [-1.0, 0.1]}
ENGLISH = {"dog": [1.0, 0.1], "hound": [0.9, 0.6], "cat": [0.2, 1.0], "house": [1.0, 0.3]}
SPACES = {"de": GERMAN, "en": {**ENGLISH, "home": [-1.0, 0.0]}}
ENTRIES = ["hund dog", "Hund hound", "köter dog", "katze cat", "haus house", "haus home"]
ENTRIES += ["baum tree", "katze cat"]
TEXT = {lang: [list(words)] for lang, words in SPACES.items()}
task_of = partial(made, "dictionary_retrieval")


def run(tmp_path, *, entries=ENTRIES, text=TEXT, transforms=(), languages=("de",), **params):
    file = tmp_path / "dictionary.txt"
    file.write_text("\n".join(entries), encoding="utf-8")
    folders = {
        lang: write_dataset(tmp_path / f"text-{lang}", words=text["de" if lang == "fr" else lang])
        for lang in (*languages, "en")
    }
    files = {"dictionary": dict.fromkeys(languages, file)}
    task, aligned = task_of(dictionary="d.txt", **params), static(SPACES, transforms)
    outcome = evaluated(task, aligned, languages, files=files, text=folders)
    assert {score.split for score in outcome.scores} <= {"test"}
    return outcome


def test_all_values_by_hand(tmp_path):
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
    words = {"words_src": "4 of 5", "words_tgt": "5 of 6", "running_words": {"de": 1.0, "en": 1.0}}
    entries = {"entries": 7, "entries_covered": 6, "entries_in_text": 6}
    assert outcome.notes["de-en"] == {**entries, **words}


def test_a_dictionary_with_the_pivot_first_is_refused_and_read_with_swap(tmp_path):
    turned = [" ".join(reversed(entry.split())) for entry in ENTRIES]
    told = r"dictionary\.txt: 0 of 7 entries .* the other way round 6 have. .*set `swap: true`"
    with pytest.raises(DataError, match=told):
        run(tmp_path, entries=turned)
    swapped = values(run(tmp_path, entries=turned, swap=True))
    assert swapped == values(run(tmp_path))


def test_predictions_name_the_query_its_translation_and_what_was_found(tmp_path):
    named = {"lang": "de-en", "split": "test", "direction": "to_pivot"}
    answer = {"query": "köter", "gold": "dog", "found": "house", "rank": 2.0, "correct": False}
    assert {**named, **answer} in run(tmp_path).predictions.to_pylist()


def test_words_that_do_not_occur_are_left_out(tmp_path):
    text = {"de": [["hund", "katze"]], "en": TEXT["en"]}
    few = run(tmp_path, text=text)
    assert few.notes["de-en"]["words_src"] == "2 of 5"
    assert values(few)["mrr_pairs"] == 2 + 3  # hund, katze; dog, hound, cat


def test_nothing_covered_is_no_metric_and_a_note(tmp_path):
    outcome = run(tmp_path, entries=["baum tree"])
    assert not outcome.scores
    assert outcome.predictions.num_rows == 0
    assert "no entry" in str(outcome.notes["de-en"]["absent"])


class Contextual(Encoder):
    """The vector of a word is (its place in its sentence, the sentence's length); capitals count
    double.
    """

    family = "transformer"
    hidden_size, n_layers, device = 2, 0, "cpu"

    def __init__(self):
        self.read: list[list[str]] = []

    def save(self, folder):
        raise NotImplementedError

    def iter_words(self, sentences, lang, *, layers, pooling):
        self.read += [list(sentence) for sentence in sentences]
        for i, sentence in enumerate(sentences):
            size = float(len(sentence))
            vectors = torch.tensor([[[j, size]] * len(layers) for j in range(len(sentence))])
            scale = torch.tensor([2.0 if word[0].isupper() else 1.0 for word in sentence])
            present = torch.tensor([word != "?" for word in sentence])
            scaled = vectors * scale[:, None, None]
            yield [i], WordVectors(scaled, [0, len(sentence)], present)


def means(folder, sentences, words, most):
    """Means and counts of words in a text, and the sentences that were read."""
    aligned = AlignedEncoder(Contextual())
    read = partial(aligned.words, lang="de", layers="last", pooling="mean")
    found = mean_vectors(aligned, write_dataset(folder, words=sentences), ("de", words), read, most)
    return *(part.tolist() for part in found), aligned.encoder.read


def test_vectors_are_means_over_occurrences_in_any_casing(tmp_path):
    """`a` stands at 1 of 2, at 0 of 1 as a capital, and at 2 and 3 of 4: (1 + 0 + 2 + 3)/4, (2 + 2
    + 4 + 4)/4.
    """
    text = [["x", "a"], ["y"], ["A"], ["y", "?", "a", "a"]]
    vectors, counts, read = means(tmp_path, text, ["a", "?", "nowhere"], 9)
    assert counts == [4, 0, 0]
    assert vectors == [[1.5, 3.0], [0, 0], [0, 0]]
    assert ["y"] not in read


def test_no_more_sentences_are_read_than_words_need(tmp_path):
    text = [["a"], ["a", "x"], ["a", "b"], ["a"], ["b", "b"], ["b"]]
    _, counts, read = means(tmp_path, text, ["a", "b"], 2)
    assert read == [["a"], ["a", "x"], ["a", "b"], ["b", "b"]]
    assert counts == [3, 3]


def test_without_a_limit_every_occurrence_counts(tmp_path):
    vectors, counts, _ = means(tmp_path, [["a"], ["x"], *[["x", "a"]] * 30], ["a"], None)
    assert counts == [31]
    assert vectors == [[pytest.approx(30 / 31), pytest.approx(61 / 31)]]


def test_what_is_read():
    task = task_of(dictionary="{lang}-{pivot}.txt")
    assert task.needs() == TaskNeeds(text=True)
    assert task.sources("de", "en") == {"dictionary": LocalFile(Path("de-en.txt"))}


def angle(*degrees):
    """Unit vectors in the plane."""
    radians = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], dim=1).float()


def ranks(queries, candidates, gold, measure="cosine", k=10):
    pairs = np.array(gold, dtype=np.int64).reshape(-1, 2)
    return best_gold_ranks(queries, candidates, pairs, measure=measure, k=k)


def test_ties_take_their_average_rank():
    """One nearer candidate; three of one vector share the ranks 2, 3 and 4: 3. Two of these right:
    the better of two out of three places is 1 + 4/3 on average. All three right: rank 2 whatever
    the order.
    """
    candidates = angle(40, 10, 40, 80, 40)
    assert ranks(angle(0), candidates, [(0, 2)]).rank.tolist() == [3]
    assert ranks(angle(0), candidates, [(0, 2), (0, 0)]).rank.tolist() == pytest.approx([1 + 4 / 3])
    assert ranks(angle(0), candidates, [(0, 4), (0, 2), (0, 0)]).rank.tolist() == [2]


def test_candidates_of_one_vector_tie_whatever_a_product_rounds():
    generator = torch.Generator().manual_seed(0)
    word, queries = (torch.randn(n, 300, generator=generator) for n in (1, 40))
    found = ranks(queries, word.repeat(37, 1), [(q, q % 37) for q in range(40)])
    assert found.rank.tolist() == [19] * 40  # the mean of 1 to 37
    assert set(found.found.tolist()) == {0}


def test_queries_without_a_right_answer_have_no_rank_and_lengths_do_not_matter():
    found = ranks(angle(0, 90) * 5, angle(80, 20) * 0.1, [(1, 0)])
    assert math.isnan(found.rank[0])
    assert found.rank[1] == 1
    assert found.gold.tolist() == [-1, 0]
    assert found.found.tolist() == [1, 0]


@pytest.mark.parametrize("measure", ["cosine", "csls", "dot", "euclidean"])
def test_blocks_change_nothing_and_ranks_are_those_of_sorting(measure, monkeypatch):
    generator = torch.Generator().manual_seed(1)
    queries, candidates = (torch.randn(n, 5, generator=generator).double() for n in (23, 31))
    gold = [
        (q, c) for q in range(23) for c in torch.randperm(31, generator=generator)[: q % 3].tolist()
    ]
    whole = ranks(queries, candidates, gold, measure, k=3)
    monkeypatch.setattr(dictionary_retrieval, "ROWS", 4)
    blocks = ranks(queries, candidates, gold, measure, k=3)
    assert np.array_equal(whole.rank, blocks.rank, equal_nan=True)
    assert np.array_equal(whole.found, blocks.found)
    scores = torch.nn.functional.cosine_similarity(queries[:, None], candidates[None], dim=-1)
    if measure == "dot":
        scores = queries @ candidates.T
    if measure == "euclidean":
        scores = -torch.cdist(queries, candidates)
    if measure == "csls":
        scores = 2 * scores - scores.topk(3, dim=0).values.mean(0)
    for q in range(23):
        right = [c for query, c in gold if query == q]
        order = scores[q].argsort(descending=True).tolist()
        if right:
            assert whole.rank[q] == 1 + min(order.index(c) for c in right)
        assert whole.found[q] == order[0]


def test_a_dictionary_in_decomposed_letters_finds_what_a_composed_one_finds(tmp_path):
    entries = [entry.replace("ö", "o\u0308").replace("hund", "hu\u00adnd") for entry in ENTRIES]
    plain, decomposed = (run(tmp_path, entries=given) for given in (ENTRIES, entries))
    assert values(decomposed) == values(plain)
    assert decomposed.notes["de-en"] == plain.notes["de-en"]
