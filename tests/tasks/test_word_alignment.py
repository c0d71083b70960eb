"""Word alignment from planted vectors, all values worked by hand."""

import math

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import DataError
from raxalign.tasks.word_alignment import GoldPairs, probable_links
from tests.tasks.outcomes import evaluated, made, static, values
from tests.tiny import tiny_bert

SPACES = {
    "de": {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 0.2]},
    "en": {"A": [1.0, 0.1], "B": [0.1, 1.0], "C": [-1.0, 0.0]},
}
TEXT = "a b c ||| B A C\na ? ||| A\n"
GOLD = "0-1 1p0 2-2\n0-0 1-0\n"


def run(tmp_path, *, text=TEXT, gold=GOLD, transforms=(), **options):
    for name, content in (("text", text), ("links", gold)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    return evaluate(static(SPACES, transforms), tmp_path, **options)


def task_of(**params):
    data = {"test": {"text": "text", "links": "links"}}
    return made("word_alignment", **{"data": data, **params})


def evaluate(aligned, folder, languages=("de",), **params):
    files = {f"test_{kind}": dict.fromkeys(languages, folder / kind) for kind in ("text", "links")}
    return evaluated(task_of(**params), aligned, languages, files=files)


def test_all_values_by_hand(tmp_path):
    """a (0 degrees) and c (11) find A (6), b finds B. Nearest to A is c, at 5.6 to a's 5.7; to C
    (180) is b. So c-A (2-1) and b-B (1-0) are mutual, and in the second sentence a-A (0-0). Of
    these 1-0 (possible) and 0-0 (sure) are right; 3 found, 4 sure.
    """
    outcome = run(tmp_path)
    found = values(outcome)
    assert found["precision"] == pytest.approx(2 / 3)
    assert found["recall"] == pytest.approx(1 / 4)
    assert found["f1"] == pytest.approx(2 * (2 / 3) * (1 / 4) / (2 / 3 + 1 / 4))
    assert found["alignment_error_rate"] == pytest.approx(1 - (1 + 2) / (3 + 4))
    counts = {"sentences": 2, "links": 3, "sure": 4, "possible": 5, "words_unread": 1}
    assert outcome.notes["de-en"]["test"] == counts
    rows = outcome.predictions.to_pylist()
    assert [row["links"] for row in rows] == ["1-0 2-1", "0-0"]
    counts = {"n_right": 1, "n_right_sure": 0, "n_gold": 2, "n_predicted": 2, "n_wrong": 3}
    assert rows[0] == {"lang": "de-en", "split": "test", "id": 0, **counts, "links": "1-0 2-1"}


def test_words_are_linked_by_the_angle_and_not_the_distance(tmp_path):
    """Moved by (5, 0), a is (6, 0), b (5, 1) and c (6, .2): all are nearest to A (1, .1), whose
    nearest one is c by the angle (3.8 degrees) and b by the distance (4.1).
    """
    away = Transform("de", 0, steps=(Affine(shift=torch.tensor([5.0, 0.0])),))
    assert run(tmp_path, transforms=(away,)).predictions["links"].to_pylist() == ["2-1", "0-0"]


def test_softmax_links_words_with_a_share_above_the_threshold_in_both_directions():
    # Dot products ln 9 and 0: shares .9 and .1 in the rows. In the columns: (ln 9, 0) again and (0,
    # 0), which is .5 and .5.
    src, tgt = torch.tensor([[math.log(9), 0.0], [0.0, 0.0]]), torch.eye(2)
    found = {limit: probable_links(src, tgt, "softmax", limit) for limit in (0.05, 0.4, 0.6)}
    assert found[0.4] == [(0, 0), (1, 1)]
    assert found[0.6] == [(0, 0)]
    assert found[0.05] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert probable_links(src, tgt[:0], "softmax", 0.0) == []


def entmax_by_bisection(scores):
    """Peters et al. (2019), eq. 11 with α = 1.5: max(0, z / 2 - τ)² of a row, whose sum is 1."""
    low, high = scores.max() / 2 - 1, scores.max() / 2
    for _ in range(60):
        middle = (low + high) / 2
        total = (np.maximum(scores / 2 - middle, 0) ** 2).sum()
        low, high = (middle, high) if total > 1 else (low, middle)
    return np.maximum(scores / 2 - low, 0) ** 2


def test_entmax_links_words_with_a_share_by_the_printed_formula_and_leaves_most_without_any():
    chance = np.random.default_rng(5)
    src, tgt = chance.normal(size=(7, 4)) * 2, chance.normal(size=(9, 4)) * 2
    product = src @ tgt.T
    of_tgt = np.array([entmax_by_bisection(row) for row in product])
    of_src = np.array([entmax_by_bisection(column) for column in product.T]).T
    both = [torch.from_numpy(side) for side in (src, tgt)]
    for threshold in (0.0, 0.001, 0.3):
        there = np.argwhere((of_tgt > threshold) & (of_src > threshold)).tolist()
        assert probable_links(*both, "entmax", threshold) == [tuple(pair) for pair in there]
        assert there
    assert len(probable_links(*both, "softmax", 0.0)) == product.size
    assert len(probable_links(*both, "entmax", 0.0)) < product.size / 4


def test_without_a_threshold_softmax_links_all_words_and_entmax_those_with_a_share(tmp_path):
    """The products of a with B, A and C are .1, 1 and -1: halved and without the τ of the first
    two, -.395, the last one is negative. So it is for c, whose τ is -.354, and not for b, whose
    products are 1, .1 and 0.
    """
    found = {
        extraction: run(tmp_path, extraction=extraction, threshold=0).predictions["links"]
        for extraction in ("softmax", "entmax")
    }
    assert found["softmax"].to_pylist() == ["0-0 0-1 0-2 1-0 1-1 1-2 2-0 2-1 2-2", "0-0"]
    assert found["entmax"].to_pylist() == ["0-0 0-1 1-0 1-1 1-2 2-0 2-1", "0-0"]


def test_the_sides_may_be_swapped_and_counted_from_one(tmp_path):
    straight = values(run(tmp_path))
    files = {"text": "B A C ||| a b c\nA ||| a ?\n", "gold": "2-1 1p2 3-3\n1-1 1-2\n"}
    assert values(run(tmp_path, **files, first=1, swap=True)) == straight


def test_naacl_annotates_some_lines_of_the_text(tmp_path):
    gold = "2 1 2 S\n2 2 1 P\n2 3 3\n3 1 1\n3 2 1\n"
    outcome = run(tmp_path, text="c ||| C\n" + TEXT, gold=gold, format="naacl")
    assert outcome.predictions["id"].to_pylist() == [1, 2]
    assert values(outcome) == values(run(tmp_path))


BEYOND = "sentence pair 1 has a link of word 1 with word 2, and the text has 1 and 1 words"


@pytest.mark.parametrize(
    ("text", "gold", "message"),
    [
        ("a b\n", "0-0\n", r"text:1: a line must be words, \|\|\| and words"),
        ("a ||| \n", "0-0\n", "text:1: a line must be words"),
        ("a ||| A\n", "0-0\n0-0\n", "text: has 1 lines, but .*links is about 2 sentence pairs"),
        ("a ||| A\nb ||| B\n", "0-0\n", "text: has 2 lines, but .*links is about 1 sentence pairs"),
        ("a ||| A\n", "0-1\n", BEYOND),
    ],
)
def test_text_and_links_that_do_not_fit_are_refused(tmp_path, text, gold, message):
    with pytest.raises(DataError, match=message):
        run(tmp_path, text=text, gold=gold)


def test_text_and_links_are_read_before_anything_starts(tmp_path):
    (tmp_path / "text").write_text("a b c ||| B A C\na ||| A\n", encoding="utf-8")
    (tmp_path / "links.de").write_text("0-1 2-2\n0-0\n", encoding="utf-8")
    (tmp_path / "links.fr").write_text("0-1 2-3\n0-0\n", encoding="utf-8")
    data = {"test": {"text": str(tmp_path / "text"), "links": str(tmp_path / "links.{lang}")}}
    task = task_of(data=data, layers="1-2")
    good, bad = task.read_files(("de", "fr"), "en")
    assert (good.path.name, good.rows, good.faults) == ("links.de", 2, ())
    assert "word 3 with word 4" in str(bad.faults[0])
    assert task.reads(4).layers == {1, 2}


def test_an_encoder_reads_the_words_of_the_gold_text_as_they_stand(tmp_path):
    words = ["x.y", "don't", "z"]  # any tokenizer would split these
    (tmp_path / "text").write_text("x.y don't z ||| x.y don't z\n", encoding="utf-8")
    (tmp_path / "links").write_text("0-0 1-1 2-2\n", encoding="utf-8")
    encoder = TransformerEncoder.from_folder(
        tiny_bert(tmp_path / "bert", [*words, "don", "x", "y", "t", ".", "'"])
    )
    outcome = evaluate(AlignedEncoder(encoder), tmp_path, layers="0-2")
    right = dict.fromkeys(("f1", "precision", "recall"), 1.0)
    assert values(outcome) == {**right, "alignment_error_rate": 0.0}
    long = "z " * 70  # the encoder has 64 positions
    (tmp_path / "text").write_text(f"{long}||| {long}\n", encoding="utf-8")
    outcome = evaluate(AlignedEncoder(encoder), tmp_path)
    assert outcome.notes["de-en"]["test"]["words_unread"] == 2 * 8


def test_only_blanks_and_tabs_divide_the_words_of_the_gold_text_as_links_count_them(tmp_path):
    """Neither a no-break space, which is inside of a word, nor an ideographic one, which is a word
    of its own between blanks.
    """
    (tmp_path / "text").write_text("il a 10\u00a0000 amis ||| \u3000 A\tB\n", encoding="utf-8")
    (tmp_path / "links").write_text("0-1 1-0 2-2 3-2\n", encoding="utf-8")
    gold = GoldPairs.read(tmp_path / "text", tmp_path / "links", "pharaoh", swap=False)
    assert gold.src == [("il", "a", "10\u00a0000", "amis")]
    assert gold.tgt == [("\u3000", "A", "B")]
    linked = {(gold.src[0][i], gold.tgt[0][j]) for i, j in gold.links.sure.pair(0)}
    assert linked == {("il", "A"), ("a", "\u3000"), ("10\u00a0000", "B"), ("amis", "B")}


def test_one_file_per_language_is_read():
    task = task_of(data={"test": {"text": "gold", "links": "gold.{lang}"}})
    assert task.check(("de",), "en") == []
    assert task.check(("de", "fr"), "en") == [
        "data.test.text is one file for several languages: write {lang} in its path"
    ]
    assert task_of(data={}).check(("de",), "en") == [
        "data has neither dev nor test: there is nothing to evaluate"
    ]
    found = {name: str(source.path) for name, source in task.sources("de", "en").items()}
    assert found == {"test_text": "gold", "test_links": "gold.de"}


def test_gold_words_are_read_joined_as_their_language_writes_them_or_one_by_one(tmp_path):
    """Joined, the two words are one run of characters, of which there is a piece."""
    (tmp_path / "text").write_text("とう きょう ||| a b\n", encoding="utf-8")
    (tmp_path / "links").write_text("0-0 1-1\n", encoding="utf-8")
    vocabulary = ["とうきょう", "とう", "きょう", "##きょう", "a", "b"]
    encoder = TransformerEncoder.from_folder(tiny_bert(tmp_path / "bert", vocabulary))
    read = []

    class Heard(AlignedEncoder):
        def words(self, sentences, lang, **options):
            rows = self.encoder.pieces(sentences, lang)
            read.extend(self.encoder.tokenizer.convert_ids_to_tokens(rows[0].ids[1:-1].tolist()))
            return super().words(sentences, lang, **options)

    evaluate(Heard(encoder), tmp_path, languages=("ja",))
    assert read == ["とうきょう", "a", "b"]
    read.clear()
    evaluate(Heard(encoder), tmp_path, languages=("ja",), spacing="blanks")
    assert read == ["とう", "きょう", "a", "b"]
