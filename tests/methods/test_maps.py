"""Maps of one language's vectors onto another's, by hand, on planted vectors and on a toy."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.token_means import word_means
from raxalign.errors import DataError, RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import word_vectors
from raxalign.methods.families.word_vectors import (
    Moments,
    WordReading,
    effective_rank,
    nearest_rotation,
    numerical_rank,
)
from raxalign.methods.linear import least_squares
from raxalign.pairing.build import WordPairs
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, fitted, method, normal, planted_inputs
from tests.methods.planted import rotation as random_rotation
from tests.methods.toy import (
    columns_of,
    toy_encoder,
    toy_inputs,
    toy_places,
    toy_rows,
    turned,
    write_bitext,
    write_pairs,
)

DIRECTIONS = pytest.mark.parametrize("direction", ["to-pivot", "to-other"])


def close(one, other, by=1e-9):
    return bool((one - other).abs().max() < by)


def centred(x):
    return x - x.mean(0)


def unit(x):
    return x / x.norm(dim=1, keepdim=True)


def two(n=30):
    return {"de": normal(n, 5).float() + 1, "en": normal(n, 5, seed=1).float()}


def mapped(source, target, *, center, linear=False):
    """The source as a map of one layer that is fitted on sums of parts maps it."""
    inner, pairs = Moments.empty(1, source.shape[1]), Moments.empty(1, source.shape[1])
    for part in (slice(start, start + 7) for start in range(0, len(source), 7)):
        inner.add(source[part, None], source[part, None])
        pairs.add(source[part, None], target[part, None])
    square, cross = inner.crosses(center=center)[0], pairs.crosses(center=center)[0]
    weight = least_squares(square, cross) if linear else nearest_rotation(cross)
    (from_mean,), (to_mean,) = pairs.means()
    return (source - from_mean) @ weight + to_mean if center else source @ weight


def procrustes(source, target):
    """The rotation of whole matrices."""
    return nearest_rotation(source.T @ target)


def test_procrustes_recovers_a_planted_rotation_and_is_orthogonal_on_noise():
    source, turned = normal(60, 8) + 2, random_rotation(8)
    assert close(procrustes(source, source @ turned), turned)
    found = procrustes(normal(4, 6), normal(4, 6, seed=1))
    assert close(found.T @ found, torch.eye(6))


@pytest.mark.parametrize("linear", [False, True])
def test_centring_recovers_a_map_with_a_translation_and_the_map_alone_does_not(linear):
    source, matrix, shift = normal(60, 5) + 2, random_rotation(5), normal(5, seed=2) * 5
    matrix = normal(5, 5, seed=1) if linear else matrix
    straight, shifted = source @ matrix, source @ matrix + shift
    assert close(mapped(source, straight, center=False, linear=linear), straight)
    assert close(mapped(source, shifted, center=True, linear=linear), shifted)
    assert not close(mapped(source, shifted, center=False, linear=linear), shifted, 0.1)


def test_the_accumulated_form_equals_the_whole_matrices():
    source, target = normal(60, 8) + 2, normal(60, 8, seed=4) + 2
    assert close(mapped(source, target, center=False), source @ procrustes(source, target))
    expected = centred(source) @ procrustes(centred(source), centred(target)) + target.mean(0)
    assert close(mapped(source, target, center=True), expected)
    a, b, moments = normal(8, seed=2), normal(8, seed=3), Moments.empty(1, 8)
    moments.add(source[:, None], target[:, None])
    assert close(moments.cross_about(0, a, b), (source - a).T @ (target - b))


@given(st.integers(1, 12), st.integers(0, 9))
def test_no_other_matrix_is_better(n, seed):
    """The gradient X^T (X W - Y) vanishes, with fewer pairs than dimensions too; then W
    is the shortest solution.
    """
    source, target = normal(n, 6, seed=seed), normal(n, 6, seed=seed + 50)
    weight = least_squares(source.T @ source, source.T @ target)
    assert (source.T @ (source @ weight - target)).abs().max() < 1e-7
    if n < 6:
        assert close(weight, torch.linalg.pinv(source) @ target, 1e-6)


def test_linked_vectors_are_those_of_the_linked_words(tmp_path):
    encoder, columns = toy_encoder(tmp_path / "encoder"), toy_rows(3)
    columns["src_links"][1], columns["tgt_links"][1] = [], []
    table = WordPairs.read(write_pairs(tmp_path / "pairs", columns)).table
    ((src, tgt),) = WordReading(encoder, (2,), "mean").linked(table, "de", "en")
    for side, found in (("src", src), ("tgt", tgt)):
        expected = []
        for row in (0, 2):
            words = encoder.words([columns[side][row]], side, layers=(2,), pooling="mean")
            expected.append(words.vectors_NLH[columns[f"{side}_links"][row]])
        assert torch.allclose(found, torch.cat(expected), atol=1e-5)


def test_many_pairs_are_handed_over_in_blocks(tmp_path, monkeypatch):
    pairs = WordPairs.read(planted_inputs(tmp_path, 10).pairs["de"]).table
    monkeypatch.setattr(word_vectors, "BLOCK", 4)
    blocks = list(WordReading(TableEncoder(two(10)), (0,), "last").linked(pairs, "de", "en"))
    assert [len(src) for src, _ in blocks] == [4, 4, 2]
    for k, lang in enumerate(("de", "en")):
        assert torch.equal(torch.cat([block[k] for block in blocks])[:, 0], two(10)[lang])


def test_anchors_are_means_over_all_occurrences_in_any_case(tmp_path):
    encoder, how = toy_encoder(tmp_path), {"layers": (1, 2), "pooling": "mean"}
    sentences = [["haus", "rot"], ["alt"], ["rot", "Rot", "hund"]]
    chunks = [sentences[:2], sentences[2:]]
    read, shape = partial(encoder.words, lang="de", **how), (2, encoder.hidden_size)
    means, counts = word_means(read, chunks, ("de", ["rot", "fehlt"]), shape, encoder.device)
    vectors = encoder.words(sentences, "de", **how).vectors_NLH
    assert torch.allclose(means[0], vectors[[1, 3, 4]].double().mean(0), atol=1e-6)
    assert counts.tolist() == [3, 0]


@pytest.mark.parametrize("supervision", ["parallel", "dictionary"])
def test_pairs_of_sentences_with_too_many_pieces_on_a_side_are_not_read(tmp_path, supervision):
    """All words have one piece, but for `rothaus` and `redhouse`."""
    src = [["haus", "rot"], ["rothaus", "alt"], ["hund", "alt", "malt", "haus"]]
    tgt = [["red", "house"], ["old", "redhouse"], ["house", "paints", "old", "dog"]]
    links = [[(i, len(row) - 1 - i) for i in range(len(row))] for row in src]
    columns = columns_of(src, tgt, links)
    toy_inputs(tmp_path, 5)
    write_pairs(tmp_path / "pairs-de", columns)
    write_bitext(tmp_path / "bitext-de", columns)
    encoder = toy_encoder(tmp_path / "encoder")
    options = {"supervision": supervision, "layers": "2", "dictionary": "d"}
    made = [method("rotation", **options, max_pieces=n) for n in (0, 12, 4, 2)]
    notes = [m.align(encoder, toy_places(tmp_path), Runtime()).notes["de"]["pairs"] for m in made]
    # the dictionary's entries that are left: all six, without rothaus, and haus and rot
    assert notes == ([8, 8, 6, 2] if supervision == "parallel" else [6, 6, 5, 2])
    assert made[1].canonical()["max_pieces"] == 12
    assert "max_pieces" not in made[0].canonical()


def test_static_encoders_have_no_pieces_to_limit(tmp_path):
    with pytest.raises(RaxalignError, match="`max_pieces` requires a transformer encoder"):
        fitted("rotation", tmp_path, two(10), max_pieces=175)


@DIRECTIONS
def test_the_language_that_a_linear_map_moves_arrives_where_the_other_one_is(tmp_path, direction):
    other = normal(30, 4)
    tables = {"de": other.float(), "en": (other @ normal(4, 4, seed=1) + 2).float()}
    aligned = fitted("linear", tmp_path, tables, center=True, direction=direction)
    moving, held = ("de", "en") if direction == "to-pivot" else ("en", "de")
    found = [(t.lang, t.toward) for t in aligned.transforms]
    assert found == [(moving, None if moving == "de" else "de")]
    assert close(applied(aligned.transforms, moving, tables[moving]), tables[held], 1e-4)
    assert aligned.notes == {"de": {"pairs": 30, "dimensions": 4, "rank": [4]}}


@DIRECTIONS
@pytest.mark.parametrize("center", [False, True])
def test_a_rotation_of_words_is_found_from_sentences_in_any_order_of_words(
    tmp_path, direction, center
):
    other = normal(12, 4)
    tables = {"de": other.float(), "en": (other @ random_rotation(4) + 3 * center).float()}
    sentences = [[f"w{(i * k) % 12}" for k in range(1, 2 + i % 4)] for i in range(1, 30)]
    inputs = bitext(tmp_path, [*sentences, ["?"]], [*(part[::-1] for part in sentences), ["w1"]])
    options = {"center": center, "direction": direction}
    aligned = fitted("sentence_rotation", tmp_path, tables, inputs, **options)
    moving, held = ("de", "en") if direction == "to-pivot" else ("en", "de")
    assert close(applied(aligned.transforms, moving, tables[moving]), tables[held], 1e-5)
    assert 1 < aligned.notes["de"].pop("effective_rank")[0] < 4
    assert aligned.notes == {"de": {"sentences": 29, "dimensions": 4, "rank": [4]}}


@DIRECTIONS
def test_a_sentence_shift_is_the_mean_difference_of_sentences_that_is_computed_by_hand(
    tmp_path, direction
):
    """Sentence means of de: (1, 0), (3, 2); of en: (5, 5), (7, 9). A pair with a side that is not
    read counts for nothing.
    """
    tables = {
        "de": torch.tensor([[0.0, 0], [2, 0], [3, 2]]),
        "en": torch.tensor([[5.0, 5], [6, 8], [8, 10]]),
    }
    inputs = bitext(tmp_path, [["w0", "w1"], ["w2"], ["w2"]], [["w0"], ["w1", "w2"], ["?"]])
    aligned = fitted("sentence_shift", tmp_path, tables, inputs, direction=direction)
    moving, shift = ("de", [4.0, 6.0]) if direction == "to-pivot" else ("en", [-4.0, -6.0])
    assert [(t.lang, t.steps[0].shift.tolist()) for t in aligned.transforms] == [(moving, shift)]
    assert aligned.notes == {"de": {"sentences": 2}}


def bitext(root, src, tgt):
    """Sentence pairs without a single link."""
    folder = write_pairs(root / "bitext", columns_of(src, tgt, [[] for _ in src]))
    return MethodInputs(("de",), "en", bitext={"de": folder})


def test_the_vector_of_a_sentence_is_the_mean_of_its_words_that_were_read():
    encoder = TableEncoder({"de": torch.tensor([[1.0, 2], [3, 6], [8, 0]])})
    sentences = [["w0", "?", "w1"], [], ["?"], ["w2"]]
    means, present = WordReading(encoder, (0,), "last").sentence_means(sentences, "de")
    assert means[:, 0].tolist() == [[2.0, 4.0], [0.0, 0.0], [0.0, 0.0], [8.0, 0.0]]
    assert present.tolist() == [True, False, False, True]


@pytest.mark.parametrize(("kind", "does"), [("rotation", "arbitrary"), ("linear", "zero")])
def test_dictionary_supervision_reads_the_bitext_and_tells_its_coverage(kind, does, tmp_path):
    encoder, inputs = toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path)
    made = method(kind, supervision="dictionary", dictionary="{lang}-{pivot}.txt")
    assert (made.needs().bitext, made.needs().links) == (True, False)
    assert made.sources("de", "en")["dictionary"].path == Path("de-en.txt")
    assert method(kind, dictionary="d.txt").sources("de", "en") == {}
    notes = made.align(encoder, replace(inputs, pairs={}, text={}), Runtime()).notes["de"]
    counted = {name: notes[name] for name in ("pairs", "entries", "entries_in_text")}
    assert counted == {"pairs": 9, "entries": 10, "entries_in_text": 9}
    assert notes["warning"] == f"9 pairs for 32 dimensions: the map is {does} in 23 of them"
    assert notes["running_words"] == {"de": 1.0, "en": 1.0}
    with pytest.raises(ValueError, match="requires `dictionary`"):
        method(kind, supervision="dictionary")


@pytest.mark.parametrize(
    ("kind", "options"),
    [("rotation", {}), ("linear", {}), ("iterative_normalization", {"rotate": True})],
)
def test_no_pairs_at_all_is_an_error_that_names_the_languages(kind, options, tmp_path):
    columns, inputs = toy_rows(2), toy_inputs(tmp_path)
    columns["src_links"] = columns["tgt_links"] = [[], []]
    inputs = replace(inputs, pairs={"de": write_pairs(tmp_path / "none", columns)})
    with pytest.raises(RaxalignError, match="no word pairs for de-en"):
        method(kind, **options).align(toy_encoder(tmp_path / "encoder"), inputs, Runtime())


@pytest.mark.parametrize("kind", ["sentence_rotation", "sentence_shift"])
def test_no_sentence_pairs_at_all_is_an_error_that_names_the_languages(kind, tmp_path):
    with pytest.raises(RaxalignError, match="no sentence pairs for de-en"):
        fitted(kind, tmp_path, two(1), bitext(tmp_path, [], []))


def test_the_effective_rank_counts_strong_directions():
    left, right = random_rotation(4, seed=1), random_rotation(4, seed=2)
    equal = ((1, 1, 0, 0), 2), ((1, 1, 1, 1), 4), ((7, 0, 0, 0), 1), ((0, 0, 0, 0), 0)
    for strengths, expected in (*equal, ((3, 1, 0, 0), 4 / 3**0.75)):
        found = effective_rank(left @ torch.tensor(strengths).double().diag() @ right)
        assert found == pytest.approx(expected, abs=1e-9)


def diagonal(*values):
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def test_the_rank_counts_singular_values_that_are_not_rounding():
    assert numerical_rank(diagonal(2.0, 1e-9, 1e-11, 0.0)) == 2
    assert numerical_rank(diagonal(2.0, 1e-9, 1e-11, 0.0), tolerance=1e-12) == 3
    assert numerical_rank(diagonal(0.0, 0.0)) == 0


def supported(pairs, matrices, **options):
    """What a map of so many pairs rests on."""
    moments = Moments.empty(1, len(matrices[0]))
    moments.count = pairs
    return moments.support(matrices, **options)


HALF = diagonal(1, 1, 0, 0)
FEW = diagonal(1.0, 1.0, *[1e-6] * 94)
ENOUGH = diagonal(1.0, 1.0, 1.0, *[1e-6] * 93)
ONE = diagonal(1.0, *[0.0] * 95)
ALONE = (1, [ONE]), {"centred": [ONE]}
ZERO = {"otherwise": "is zero", "unit": "sentence pairs"}
VARY = "5,000 pairs vary together in 2.0 of 96 directions: in the others the map is arbitrary"


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ((1200, [HALF]), {}, "1,200 pairs for 4 dimensions: the map is arbitrary in 2 of them"),
        ((9, [diagonal(1, 1, 0)]), {}, None),  # that of a centred layer normalisation
        ((2, [HALF]), ZERO, "2 sentence pairs for 4 dimensions: the map is zero in 2 of them"),
        ((5000, [FEW]), {"centred": [FEW]}, f"{VARY}, or nearly so"),
        ((5000, [ENOUGH]), {"centred": [ENOUGH]}, None),
        (*ALONE, "1 pairs for 96 dimensions: the map is arbitrary in 95 of them"),
    ],
)
def test_pairs_that_leave_dimensions_open_are_warned_of_once(given, options, says):
    facts = supported(*given, **options)
    assert facts.get("warning") == says
    assert facts["dimensions"] == len(given[1][0])
    assert facts["rank"] == [numerical_rank(matrix) for matrix in given[1]]
    assert supported(9, [diagonal(1, 1, 1, 0), HALF])["rank"] == [3, 2]


def test_a_dictionary_with_the_pivot_first_is_refused_and_read_with_swap(tmp_path):
    encoder, inputs = toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path)
    options = {"supervision": "dictionary", "dictionary": "d.txt"}
    plain, swapped = (method("rotation", **options, swap=swap) for swap in (False, True))
    straight = plain.align(encoder, inputs, Runtime())
    message = r"0 of 10 entries.* the other way round 9 have.*leave out `swap`"
    with pytest.raises(DataError, match=message):
        swapped.align(encoder, inputs, Runtime())
    turned(*[inputs.files["dictionary"]["de"]] * 2)
    message = r"dictionary\.txt: 0 of 10 .*word of de and one of en; .* 9 have.*set `swap: true`"
    with pytest.raises(DataError, match=message):
        plain.align(encoder, inputs, Runtime())
    again = swapped.align(encoder, inputs, Runtime())
    assert again.notes == straight.notes
    first, second = (aligned.transforms[0].steps[0].weight for aligned in (straight, again))
    assert torch.equal(first, second)
