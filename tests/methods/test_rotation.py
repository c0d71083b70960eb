from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError, RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.word_map import collect_anchors
from raxalign.methods.iterative_normalization import IterativeNormalization
from raxalign.methods.linear import Linear
from raxalign.methods.rotation import Rotation, procrustes
from raxalign.methods.statistics import moments as _pairs
from raxalign.methods.statistics.moments import Moments, linked_vectors
from raxalign.methods.statistics.procrustes import effective_rank, nearest_rotation
from raxalign.pairing.schema import pairs_schema, read_pairs
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, planted_inputs
from tests.methods.planted import rotation as random_rotation
from tests.methods.toy import toy_encoder, toy_inputs, toy_places, toy_rows, write_pairs


def planted(n: int = 60, d: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    source = torch.randn(n, d, generator=generator, dtype=torch.float64) + 2
    rotation = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
    return source, rotation, torch.randn(d, generator=generator, dtype=torch.float64) * 5


def fitted(source: torch.Tensor, target: torch.Tensor, *, center: bool) -> torch.Tensor:
    """The source as a rotation of one layer maps it."""
    moments = Moments.empty(1, source.shape[1])
    for part in range(0, len(source), 7):
        moments.add(source[part : part + 7, None], target[part : part + 7, None])
    weight = nearest_rotation(moments.cross(0, center=center))
    (from_mean,), (to_mean,) = moments.means()
    return (source - from_mean) @ weight + to_mean if center else source @ weight


def test_procrustes_recovers_a_planted_rotation():
    source, rotation, _ = planted()
    W = procrustes(source, source @ rotation)
    assert (W - rotation).abs().max() < 1e-9
    assert (W.T @ W - torch.eye(8)).abs().max() < 1e-12


def test_procrustes_keeps_float32_and_is_orthogonal_on_noise():
    generator = torch.Generator().manual_seed(0)
    W = procrustes(torch.randn(4, 6, generator=generator), torch.randn(4, 6, generator=generator))
    assert W.dtype == torch.float32
    assert torch.allclose(W.T @ W, torch.eye(6), atol=1e-6)


@given(st.integers(1, 20), st.integers(0, 9))
def test_turning_either_side_turns_the_solution_with_it(extra, seed):
    """procrustes(X A, Y B) = A^T procrustes(X, Y) B, where the solution is unique."""
    source, target = normal(4 + extra, 4, seed=seed), normal(4 + extra, 4, seed=seed + 50)
    left, right = random_rotation(4, seed=seed + 100), random_rotation(4, seed=seed + 150)
    strength = torch.linalg.svdvals(source.T @ target)
    assume(float(strength[-1]) > 1e-3)
    assert (
        procrustes(source @ left, target @ right) - left.T @ procrustes(source, target) @ right
    ).abs().max() < 1e-9


def test_procrustes_refuses_matrices_of_different_shapes():
    with pytest.raises(ValueError, match="one shape"):
        procrustes(torch.zeros(3, 2), torch.zeros(4, 2))


def test_centring_recovers_a_rotation_with_a_translation_and_rotating_alone_does_not():
    source, rotation, shift = planted()
    target = source @ rotation + shift
    assert (fitted(source, target, center=True) - target).abs().max() < 1e-9
    assert (fitted(source, target, center=False) - target).abs().max() > 1


def test_the_accumulated_form_equals_the_whole_matrices():
    source, _, _ = planted()
    target = planted(d=8)[0].flip(0)
    assert torch.allclose(
        fitted(source, target, center=False), source @ procrustes(source, target), atol=1e-10
    )
    centered = (source - source.mean(0)) @ procrustes(
        source - source.mean(0), target - target.mean(0)
    ) + target.mean(0)
    assert torch.allclose(fitted(source, target, center=True), centered, atol=1e-10)


def test_linked_vectors_are_those_of_the_linked_words(tmp_path):
    encoder = toy_encoder(tmp_path / "encoder")
    columns = toy_rows(3)
    columns["src_links"][1], columns["tgt_links"][1] = [], []
    ((src, tgt),) = linked_vectors(
        encoder, read_pairs(write_pairs(tmp_path / "pairs", columns)), "de", "en", (2,), "mean"
    )
    for side, found in (("src", src), ("tgt", tgt)):
        vectors = [
            encoder.words([columns[side][row]], side, layers=(2,), pooling="mean").vectors_NLH
            for row in (0, 2)
        ]
        links = [columns[f"{side}_links"][row] for row in (0, 2)]
        assert torch.allclose(
            found, torch.cat([v[k] for v, k in zip(vectors, links, strict=True)]), atol=1e-5
        )


def test_many_pairs_are_handed_over_in_blocks(tmp_path, monkeypatch):
    tables = {
        "de": normal(10, 3, dtype=torch.float32),
        "en": normal(10, 3, seed=1, dtype=torch.float32),
    }
    inputs = planted_inputs(tmp_path, 10)
    monkeypatch.setattr(_pairs, "BLOCK", 4)
    blocks = list(
        linked_vectors(
            TableEncoder(tables), read_pairs(inputs.pairs["de"]), "de", "en", (0,), "last"
        )
    )
    assert [len(src) for src, _ in blocks] == [4, 4, 2]
    for k, lang in enumerate(("de", "en")):
        assert torch.equal(torch.cat([block[k] for block in blocks])[:, 0], tables[lang])


def test_anchors_are_means_over_all_occurrences_in_any_case(tmp_path):
    encoder = toy_encoder(tmp_path)
    sentences = [["haus", "rot"], ["alt"], ["rot", "Rot", "hund"]]
    anchors = collect_anchors(
        encoder, [sentences[:2], sentences[2:]], ["Rot", "fehlt"], "de", (1, 2), "mean"
    )
    vectors = encoder.words(sentences, "de", layers=(1, 2), pooling="mean").vectors_NLH
    assert torch.allclose(anchors.means_VLH[0], vectors[[1, 3, 4]].double().mean(0), atol=1e-6)
    assert (anchors.words, anchors.counts_V.tolist()) == ({"rot": 0, "fehlt": 1}, [3, 0])


@pytest.mark.parametrize("supervision", ["parallel", "dictionary"])
def test_pairs_of_sentences_with_too_many_pieces_on_a_side_are_not_read(tmp_path, supervision):
    """All words have one piece, but for `rothaus` and `redhouse`."""
    encoder = toy_encoder(tmp_path / "encoder")
    columns = {
        "id": [0, 1, 2],
        "src": [["haus", "rot"], ["rothaus", "alt"], ["hund", "alt", "malt", "haus"]],
        "tgt": [["red", "house"], ["old", "redhouse"], ["house", "paints", "old", "dog"]],
        "src_links": [[0, 1], [0, 1], [0, 1, 2, 3]],
        "tgt_links": [[1, 0], [1, 0], [3, 2, 1, 0]],
    }
    toy_inputs(tmp_path, 5)
    write_pairs(tmp_path / "pairs-de", columns)
    bitext = {name: columns[name] for name in ("id", "src", "tgt")}
    schema = pa.schema([pairs_schema().field(name) for name in bitext])
    with DatasetWriter(tmp_path / "bitext-de", schema, {}) as writer:
        writer.write(bitext)
    options = {"supervision": supervision, "layers": "2", "pooling": "mean"}
    pairs = [
        Rotation(Rotation.Params(**options, dictionary="d.txt", max_pieces=limit))
        .align(encoder, toy_places(tmp_path), Runtime())
        .notes["de"]["pairs"]
        for limit in (0, 12, 4, 2)
    ]
    # the dictionary's entries that are left: all six, without rothaus, and haus and rot
    assert pairs == ([8, 8, 6, 2] if supervision == "parallel" else [6, 6, 5, 2])


def test_static_encoders_have_no_pieces_to_limit(tmp_path):
    encoder = TableEncoder({lang: normal(10, 3, dtype=torch.float32) for lang in ("de", "en")})
    method = Rotation(Rotation.Params(max_pieces=175))
    with pytest.raises(RaxalignError, match="`max_pieces` requires a transformer encoder"):
        method.align(encoder, planted_inputs(tmp_path, 10), Runtime())


def test_a_limit_on_pieces_is_in_the_key_where_there_is_one():
    assert "max_pieces" not in Rotation(Rotation.Params()).canonical()
    assert Rotation(Rotation.Params(max_pieces=175)).canonical()["max_pieces"] == 175


def distance(aligned):
    """The squared distance of linked words, over layers 1 and 2."""
    columns = toy_rows(24)
    vectors = []
    for side, lang in (("src", "de"), ("tgt", "en")):
        words = aligned.words(columns[side], lang, layers="1-2", pooling="mean")
        places = [
            words.offsets[row] + i
            for row, part in enumerate(columns[f"{side}_links"])
            for i in part
        ]
        vectors.append(words.vectors_NLH[places])
    return float((vectors[0] - vectors[1]).pow(2).sum())


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
def test_rotation_brings_pairs_nearer_and_centring_nearer_still(tmp_path, direction):
    encoder, inputs = toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path)
    distances = [distance(AlignedEncoder(encoder))]
    for center in (False, True):
        params = Rotation.Params(center=center, layers="1-2", direction=direction)
        aligned = Rotation(params).align(encoder, inputs, Runtime())
        assert {t.lang for t in aligned.transforms} == {"de" if direction == "to-pivot" else "en"}
        assert {t.toward for t in aligned.transforms} == {None if direction == "to-pivot" else "de"}
        distances.append(distance(aligned.toward("de")))
    assert distances[0] > distances[1] > distances[2]


@pytest.mark.parametrize(("kind", "does"), [(Rotation, "arbitrary"), (Linear, "zero")])
def test_dictionary_supervision_reads_the_bitext_and_tells_its_coverage(kind, does, tmp_path):
    encoder, inputs = toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path)
    method = kind(kind.Params(supervision="dictionary", dictionary="{lang}-{pivot}.txt"))
    assert (method.needs().bitext, method.needs().links) == (True, False)
    assert method.sources("de", "en")["dictionary"].path == Path("de-en.txt")
    notes = method.align(encoder, replace(inputs, pairs={}, text={}), Runtime()).notes["de"]
    counted = {name: notes[name] for name in ("pairs", "entries", "entries_in_text")}
    assert counted == {"pairs": 9, "entries": 10, "entries_in_text": 9}
    assert notes["warning"] == f"9 pairs for 32 dimensions: the map is {does} in 23 of them"
    assert notes["running_words"] == {"de": 1.0, "en": 1.0}


@pytest.mark.parametrize(
    ("kind", "options"), [(Rotation, {}), (Linear, {}), (IterativeNormalization, {"rotate": True})]
)
def test_no_pairs_at_all_is_an_error_that_names_the_languages(kind, options, tmp_path):
    columns, inputs = toy_rows(2), toy_inputs(tmp_path)
    columns["src_links"] = columns["tgt_links"] = [[], []]
    inputs = replace(inputs, pairs={"de": write_pairs(tmp_path / "none", columns)})
    with pytest.raises(RaxalignError, match="no word pairs for de-en"):
        kind(kind.Params(**options)).align(toy_encoder(tmp_path / "encoder"), inputs, Runtime())


def turn(degrees: float) -> torch.Tensor:
    angle = math.radians(degrees)
    return torch.tensor(
        [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )


@pytest.mark.parametrize(
    ("degrees", "toward", "expected"),
    [(90, 1, 45), (60, 1, 30), (90, math.sqrt(3), 30), (60, 0, 60), (120, 1e9, 0)],
)
def test_a_rotation_held_near_the_identity_turns_by_the_angle_of_the_sum(degrees, toward, expected):
    """In the plane: pairs that say a turn by a, all singular values being s, and λ = t s make the
    angle of (cos a + t, sin a).
    """
    found = nearest_rotation(5 * turn(degrees), toward)
    assert torch.allclose(found, turn(expected), atol=1e-8)


def test_what_the_pairs_do_not_determine_stays_as_it_is_and_the_rest_is_turned():
    n, known = 400, 3
    clean = torch.cat([normal(n, known, seed=1), torch.zeros(n, 5, dtype=torch.float64)], dim=1)
    turned = torch.eye(8, dtype=torch.float64)
    turned[:known, :known] = random_rotation(known, seed=2)
    source, target = (
        clean + 1e-3 * normal(n, 8, seed=3),
        clean @ turned + 1e-3 * normal(n, 8, seed=4),
    )
    cross = source.T @ target
    plain, held = nearest_rotation(cross), nearest_rotation(cross, 0.01)
    assert (plain[:known, :known] - turned[:known, :known]).abs().max() < 0.01
    assert (plain[known:, known:] - torch.eye(5)).abs().max() > 0.5, (
        "chance turns what only noise is in"
    )
    assert (held - turned).abs().max() < 0.03


def test_the_effective_rank_counts_strong_directions():
    for strengths, expected in (
        ([1, 1, 0, 0], 2),
        ([1, 1, 1, 1], 4),
        ([7, 0, 0, 0], 1),
        ([0, 0, 0, 0], 0),
        ([3, 1, 0, 0], 4 / 3**0.75),
    ):
        left, right = random_rotation(4, seed=1), random_rotation(4, seed=2)
        assert effective_rank(
            left @ torch.tensor(strengths).double().diag() @ right
        ) == pytest.approx(expected, abs=1e-9)


def test_notes_say_what_a_rotation_rests_on(tmp_path):
    source, rotation = (
        torch.cat([normal(40, 2, seed=1), torch.zeros(40, 4)], dim=1).float(),
        random_rotation(6, seed=3).float(),
    )
    encoder = TableEncoder({"de": source, "en": source @ rotation})
    notes = (
        Rotation(Rotation.Params())
        .align(encoder, planted_inputs(tmp_path, 40), Runtime())
        .notes["de"]
    )
    assert (notes["pairs"], notes["dimensions"], notes["rank"]) == (40, 6, [2])
    assert notes["warning"] == "40 pairs for 6 dimensions: the map is arbitrary in 4 of them"
    assert notes["effective_rank"] == [pytest.approx(2, abs=0.1)]


def test_a_rotation_held_at_the_identity_changes_nothing(tmp_path):
    encoder, inputs = toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path)
    for direction in ("to-pivot", "to-other"):
        params = Rotation.Params(toward_identity=1e9, direction=direction)
        (transform,) = Rotation(params).align(encoder, inputs, Runtime()).transforms
        (step,) = transform.steps
        assert torch.allclose(step.weight, torch.eye(encoder.hidden_size), atol=1e-6)


def test_what_only_a_dictionary_uses_is_idle_without_one():
    parallel = [Rotation(Rotation.Params(min_count=n, swap=n > 1)) for n in (1, 5)]
    assert parallel[0].canonical() == parallel[1].canonical()
    assert parallel[0].sources("de", "en") == {}
    counts = [
        Rotation(Rotation.Params(supervision="dictionary", dictionary="d.txt", min_count=n))
        for n in (1, 5)
    ]
    assert counts[0].canonical() != counts[1].canonical()


def test_a_dictionary_with_the_pivot_first_is_refused_and_read_with_swap(tmp_path):
    encoder, inputs = toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path)
    plain, turned = (
        Rotation(Rotation.Params(supervision="dictionary", dictionary="d.txt", swap=swap))
        for swap in (False, True)
    )
    straight = plain.align(encoder, inputs, Runtime())
    with pytest.raises(
        DataError, match=r"0 of 10 entries.* the other way round 9 have.*leave out `swap`"
    ):
        turned.align(encoder, inputs, Runtime())
    path = inputs.files["dictionary"]["de"]
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(f"{tgt} {src}\n" for src, tgt in lines), encoding="utf-8")
    message = (
        r"dictionary\.txt: 0 of 10 entries have both words .*word of de and one of en; .* 9 have"
        r".*set `swap: true`"
    )
    with pytest.raises(DataError, match=message):
        plain.align(encoder, inputs, Runtime())
    again = turned.align(encoder, inputs, Runtime())
    assert again.notes == straight.notes
    first, second = (aligned.transforms[0].steps[0].weight for aligned in (straight, again))
    assert torch.equal(first, second)


def test_dictionary_supervision_without_a_dictionary_is_refused():
    with pytest.raises(ValueError, match="requires `dictionary`"):
        Rotation.Params(supervision="dictionary")


def test_the_cross_product_about_any_two_points_is_that_of_the_shifted_vectors():
    source, target, a, b = normal(9, 3), normal(9, 3, seed=1), normal(3, seed=2), normal(3, seed=3)
    moments = Moments.empty(1, 3)
    moments.add(source[:, None], target[:, None])
    assert (moments.cross_about(0, a, b) - (source - a).T @ (target - b)).abs().max() < 1e-9


def unit(x: torch.Tensor) -> torch.Tensor:
    return x / x.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
@pytest.mark.parametrize("centroids", ["pairs", "corpus"])
def test_normalised_vectors_have_length_one_and_a_planted_rotation_is_found_whatever_their_lengths(
    tmp_path, direction, centroids
):
    other = normal(30, 5) + 1
    tables = {
        "de": other.float(),
        "en": (other @ random_rotation(5) * (1 + normal(30, 1, seed=3).abs())).float(),
    }
    params = Rotation.Params(normalize="unit-center-unit", centroids=centroids, direction=direction)
    method = Rotation(params)
    aligned = method.align(TableEncoder(tables), planted_inputs(tmp_path, 30), Runtime())
    assert method.effect().pivot
    assert method.needs().text is (centroids == "corpus")
    found = {lang: applied(aligned.transforms, lang, table) for lang, table in tables.items()}
    assert torch.allclose(found["de"], found["en"], atol=1e-5)
    held = "en" if direction == "to-pivot" else "de"
    centred = unit(tables[held]) - unit(tables[held]).mean(0)
    assert torch.allclose(found[held], unit(centred), atol=1e-5)
    towards = {(t.lang, t.toward) for t in aligned.transforms}
    pairs = {
        ("de", None),
        ("en", "de" if centroids == "pairs" or direction == "to-other" else None),
    }
    assert towards == pairs


def test_corpus_centres_of_the_pivot_are_applied_once_for_all_languages(tmp_path):
    tables = {
        lang: normal(30, 5, seed=k, dtype=torch.float32)
        for k, lang in enumerate(("de", "fr", "en"))
    }
    params = Rotation.Params(normalize="unit-center-unit", centroids="corpus")
    aligned = Rotation(params).align(
        TableEncoder(tables), planted_inputs(tmp_path, 30, ("de", "fr")), Runtime()
    )
    assert [t.lang for t in aligned.transforms] == ["de", "en", "fr"]


def test_corpus_centroids_map_the_mean_of_the_text_onto_that_of_the_pivot(tmp_path):
    """The pairs are those of some words, the text has others, too."""
    tables = {
        "de": normal(30, 5, dtype=torch.float32) + 1,
        "en": normal(30, 5, seed=1, dtype=torch.float32),
    }
    inputs, some = planted_inputs(tmp_path, 30), planted_inputs(tmp_path / "some", 8)
    inputs = MethodInputs(("de",), "en", some.pairs, some.bitext, inputs.text)
    for direction, moving, held in (("to-pivot", "de", "en"), ("to-other", "en", "de")):
        for centroids, n in (("corpus", 30), ("pairs", 8)):
            params = Rotation.Params(center=True, centroids=centroids, direction=direction)
            aligned = Rotation(params).align(TableEncoder(tables), inputs, Runtime())
            moved = applied(aligned.transforms, moving, tables[moving])
            assert torch.allclose(moved[:n].mean(0), tables[held][:n].mean(0), atol=1e-5)


def test_centring_after_normalising_maps_the_normalised_centroids(tmp_path):
    tables = {
        "de": normal(30, 5, dtype=torch.float32) + 1,
        "en": normal(30, 5, seed=1, dtype=torch.float32),
    }
    for centroids in ("pairs", "corpus"):
        params = Rotation.Params(center=True, normalize="unit-center-unit", centroids=centroids)
        aligned = Rotation(params).align(
            TableEncoder(tables), planted_inputs(tmp_path, 30), Runtime()
        )
        means = [applied(aligned.transforms, lang, table).mean(0) for lang, table in tables.items()]
        assert torch.allclose(*means, atol=1e-6)


def test_where_centroids_come_from_is_idle_without_any():
    plain = [Rotation(Rotation.Params(centroids=kind)) for kind in ("pairs", "corpus")]
    assert plain[0].canonical() == plain[1].canonical()
    assert plain[0].needs() == plain[1].needs()
    centred = [
        Rotation(Rotation.Params(centroids=kind, center=True)) for kind in ("pairs", "corpus")
    ]
    assert centred[0].canonical() != centred[1].canonical()
