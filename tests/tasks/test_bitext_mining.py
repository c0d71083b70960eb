"""Mining of translations: margins as the paper's formula has them, candidates and thresholds by
hand, and files that do not go together.
"""

import numpy as np
import pytest
import torch

from raxalign.errors import DataError
from raxalign.tasks.bitext_mining import BitextMining, ComparableText, Mined
from raxalign.values.predictions import samples_of
from tests.tasks.outcomes import evaluated, made, static, values


def margin(x, y, i, j, k):
    """LASER's score of one pair, of unit vectors in float64."""
    ahead = np.sort(y @ x[i])[-k:].mean()
    back = np.sort(x @ y[j])[-k:].mean()
    return (x[i] @ y[j]) / ((ahead + back) / 2)


def clouds(n, m, seed):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(8)
    sides = [common + rng.standard_normal((size, 8)) for size in (n, m)]
    sides[1][: n // 2] = sides[0][: n // 2] + 0.3 * rng.standard_normal((n // 2, 8))
    return [side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides]


def test_margins_are_those_of_the_formula_and_each_sentence_is_in_one_pair():
    x, y = clouds(40, 30, 5)
    mined = Mined.of(torch.from_numpy(x), torch.from_numpy(y), 4)
    expected = [margin(x, y, i, j, 4) for i, j in mined.pairs]
    assert np.abs(mined.margins - expected).max() < 1e-6
    assert (np.diff(mined.margins) <= 0).all()
    assert all(len({*side}) == len(side) for side in mined.pairs.T.tolist())
    scores = np.array([[margin(x, y, i, j, 4) for j in range(30)] for i in range(40)])
    best = np.unravel_index(scores.argmax(), scores.shape)
    assert mined.pairs[0].tolist() == list(best)


def test_of_two_candidates_with_a_sentence_in_common_the_better_one_stays():
    """y0 is the best partner of x0 and of x1, which is nearer to it."""
    x = torch.tensor([[1.0, 0.2], [1.0, 0.0]])
    mined = Mined.of(x, torch.tensor([[1.0, -0.01], [-1.0, 1.0]]), 1)
    assert mined.pairs.tolist()[0] == [1, 0]
    assert len({i for i, _ in mined.pairs.tolist()}) == len(mined.pairs)


@pytest.mark.parametrize(
    ("gold", "threshold"),
    [
        ([[0, 0], [1, 1]], 1.1),  # the first two: F1 is 1
        ([[0, 0], [2, 2]], 0.9),  # the first: 2/3; the first three: 4/5
        ([[3, 3]], 0.8),  # all four: the last one has no next
    ],
)
def test_the_threshold_with_the_best_f1_lies_between_two_margins(gold, threshold):
    pairs = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    mined = Mined(pairs, np.array([1.5, 1.2, 1.0, 0.8]))
    assert mined.best_threshold(np.array(gold)) == pytest.approx(threshold)


def write(folder, split, count, seed):
    """Sentences of one word, whose vectors are returned; the first ones of both sides are
    translations of each other.
    """
    rng = np.random.default_rng(seed)
    spaces = {lang: rng.standard_normal((count, 6)) for lang in ("de", "en")}
    right = count // 3
    spaces["en"][:right] = spaces["de"][:right] + 0.1 * rng.standard_normal((right, 6))
    tables = {}
    for lang, table in spaces.items():
        words = [f"{split}{lang}{i}" for i in range(count)]
        lines = [f"{lang}-{i}\t{word}" for i, word in enumerate(words)]
        (folder / f"{split}.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        tables[lang] = dict(zip(words, table, strict=True))
    gold = "".join(f"de-{i}\ten-{i}\n" for i in range(right))
    (folder / f"{split}.gold").write_text(gold, encoding="utf-8")
    return tables


def mining(folder):
    data = {
        split: {"text": f"{folder}/{split}.{{side}}", "gold": f"{folder}/{split}.gold"}
        for split in ("dev", "test")
    }
    return made("bitext_mining", data=data)


def test_the_threshold_of_dev_finds_the_pairs_of_test(tmp_path):
    dev, test = write(tmp_path, "dev", 30, 1), write(tmp_path, "test", 36, 2)
    spaces, task = {lang: dev[lang] | test[lang] for lang in dev}, mining(tmp_path)
    files = {name: {"de": entry.path} for name, entry in task.sources("de", "en").items()}
    outcome = evaluated(task, static(spaces), files=files)
    found, dev = values(outcome), values(outcome, split="dev")
    assert found["threshold"] == dev["threshold"]
    assert found["f1"] > 0.7
    table = [row for row in outcome.predictions.to_pylist() if row["split"] == "test"]
    right = sum(row["n_right"] for row in table)
    assert found["recall"] == pytest.approx(right / 12)
    assert sum(row["n_gold"] for row in table) == 12
    assert all(row["margin"] > dev["threshold"] for row in table if row["n_found"])
    for metric in ("f1", "precision", "recall"):
        name = ("de-en", metric, "test")
        sample = samples_of(BitextMining.metrics, outcome.predictions, [name])[name]
        assert sample.value == pytest.approx(found[metric])


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("test.de", "a\tb\nc", r"test\.de:2: is not a number and a sentence"),
        ("test.de", "a\tb\na\tc\n", r"test\.de:2: the number 'a' is there twice"),
        ("test.gold", "de-0\ten-99\n", r"test\.gold:1: 'en-99' is not the number of a sentence"),
        ("test.gold", "\n", r"test\.gold: has no pairs"),
    ],
)
def test_files_that_do_not_go_together_are_told_with_their_line(tmp_path, file, text, says):
    write(tmp_path, "dev", 6, 1)
    write(tmp_path, "test", 6, 2)
    (tmp_path / file).write_text(text, encoding="utf-8")
    task = mining(tmp_path)
    ends = {"gold": "gold", "source": "de", "target": "en"}
    paths = {name: tmp_path / f"test.{end}" for name, end in ends.items()}
    with pytest.raises(DataError, match=says):
        ComparableText.read(paths, "de", "en")
    assert [len(read.faults) for read in task.read_files(("de",), "en")] == [0, 1]


def test_equal_sentences_of_a_side_are_one(tmp_path):
    """Whichever of them gold names, once or twice."""
    tables = [write(tmp_path, split, 30, seed) for seed, split in ((1, "dev"), (2, "test"))]
    spaces, task = {lang: tables[0][lang] | tables[1][lang] for lang in tables[0]}, mining(tmp_path)
    files = {name: {"de": entry.path} for name, entry in task.sources("de", "en").items()}
    plain = values(evaluated(task, static(spaces), files=files))
    for split in ("dev", "test"):
        text, gold = tmp_path / f"{split}.en", tmp_path / f"{split}.gold"
        lines = text.read_text("utf-8")
        text.write_text(lines + lines.replace("en-", "en-again"), encoding="utf-8")
        named = gold.read_text("utf-8").splitlines(keepends=True)
        again = [line.replace("en-", "en-again") for line in named]
        gold.write_text("".join(again + named[:3]), encoding="utf-8")
    assert values(evaluated(task, static(spaces), files=files)) == plain
