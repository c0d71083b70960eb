"""Token translation: counts and BLEU by hand and against sacrebleu, the shift against blocks run
one by one, what dev chooses, and what is read and kept of XNLI's sentences.
"""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import DataError
from raxalign.options.sources import looked_up
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.token_translation import (
    Shift,
    TokenTranslation,
    XnliFiles,
    XnliSentences,
    sacrebleu1,
    stream_of,
    translate,
)
from raxalign.tasks.translation.counts import TokenCounts
from raxalign.values.predictions import samples_of
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows, write_pairs
from tests.tasks.outcomes import evaluated, made, values


def ids(*sentences):
    return [np.array(sentence, dtype=np.int64) for sentence in sentences]


def test_convert_rate_and_bleu_by_hand():
    """Source has 1 2 3, target 3 4 5. Of 4 4 3 9 the 4s are converted, the 3 is everybody's, the 9
    nobody's: 2 of 3; of 1 5 one of 2.

    Matches: 4 once only (the reference has one), 3; 5. So 3 of 6 pieces, against 8 of the
    reference.
    """
    found = TokenCounts.of(
        ids([4, 4, 3, 9], [1, 5]), ids([4, 3, 5, 5, 5], [5, 4, 4]), {1, 2, 3}, {3, 4, 5}
    )
    counts = {"tokens": [4, 2], "reference": [5, 3], "matches": [2, 1]}
    rows = {name: values.tolist() for name, values in vars(found).items()}
    assert rows == {**counts, "converted": [2, 1], "shared": [1, 0]}
    assert found.convert_rate() == 3 / 5
    assert found.bleu1() == pytest.approx(math.exp(1 - 8 / 6) * 3 / 6, abs=1e-12)


def test_nothing_that_could_convert_is_no_rate():
    found = TokenCounts.of(ids([3, 3]), ids([3]), {1, 3}, {3, 4})
    assert found.convert_rate() is None
    assert found.bleu1() == 0.5
    assert TokenCounts.of(ids([]), ids([3]), {1}, {3}).bleu1() == 0
    assert isinstance(TokenCounts.of([], [], {1}, {2}), TokenCounts)


@pytest.mark.parametrize("seed", range(2))
def test_bleu_is_that_of_sacrebleu_on_pieces(seed):
    rng = np.random.default_rng(seed)
    output, references = (
        ids(*(rng.integers(10, 30, rng.integers(1, 12)).tolist() for _ in range(20)))
        for _ in range(2)
    )
    texts = [[" ".join(map(str, row.tolist())) for row in side] for side in (output, references)]
    bleu = BLEU(max_ngram_order=1, tokenize="none", smooth_method="none")
    expected = bleu.corpus_score(texts[0], [texts[1]]).score / 100
    assert TokenCounts.of(output, references, {1}, {2}).bleu1() == pytest.approx(
        expected, abs=1e-12
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tokens")
    toy_encoder(folder / "encoder", layers=3, positions=32, spread=0.05)
    toy_inputs(folder, 30, ("de", "fr"))
    for lang in ("de", "fr"):
        write_pairs(folder / lang / "data", toy_rows(9, seed=7))
        write_pairs(folder / lang / "dev", toy_rows(5, seed=8))
    return folder


@pytest.fixture(scope="module")
def encoder(root):
    return toy_encoder(root / "encoder")


task = partial(made, "token_translation")


def inputs(root, languages=("de",)):
    text = {lang: root / f"text-{lang}" for lang in (*languages, "en")}
    return TaskInputs("en", bitext={lang: root / lang for lang in languages}, text=text)


def run(root, aligned, languages=("de",), **params):
    given = inputs(root, languages)
    return evaluated(task(**params), aligned, languages, bitext=given.bitext, text=given.text)


STEP = torch.randn(32, generator=torch.Generator().manual_seed(3))


def translated(stream, rows, layer, shift_H):
    """The German rows under one shift."""
    (found,) = translate(stream, rows, "de", {Shift(layer, 1.0): shift_H}).values()
    return found


@pytest.mark.parametrize("inside", [False, True])
def test_many_shifts_give_what_each_gives_alone(encoder, inside):
    """The blocks below a shift run once, and nothing changes in any bit."""
    turned = Transform("de", 2, "inside", (Affine(shift=torch.linspace(-1, 1, 32)),))
    stream = AlignedEncoder(encoder, (turned,) if inside else ())
    rows = encoder.pieces(toy_rows(9, seed=7)["src"], "de")
    points = product((3, 1, 2), (1.0, 3.0, -2.0))
    shifts = {Shift(layer, alpha): alpha * STEP for layer, alpha in points}
    found = translate(stream, rows, "de", shifts)
    assert list(found) == list(shifts)
    for shift, outputs in found.items():
        alone = translated(stream, rows, shift.layer, shifts[shift])
        assert all(map(np.array_equal, outputs, alone))
    assert len({str([o.tolist() for o in outputs]) for outputs in found.values()}) > 3


def test_the_shift_flows_through_the_blocks_above_into_the_head(encoder):
    rows = encoder.pieces([["haus", "rot", "rothaus"], ["alt"]], "de")
    model, plain, shift = encoder.model, [], 3 * STEP
    for layer in (1, 2, 3):
        found = translated(AlignedEncoder(encoder), rows, layer, shift)
        for row, output in zip(rows, found, strict=True):
            with torch.no_grad():
                states = encoder.hidden(encoder.collate(row))
                moved = states[layer] + shift
                for block in model.bert.encoder.layer[layer:]:
                    moved = block(moved)
                    moved = moved[0] if isinstance(moved, tuple) else moved
                expected = model.cls(moved)[0, 1:-1].argmax(-1)
                plain.append(torch.equal(expected, model.cls(states[-1])[0, 1:-1].argmax(-1)))
            assert output.tolist() == expected.tolist()
    assert not all(plain)


def test_no_weight_is_no_shift_and_readouts_are_not_read(root, encoder):
    readout = Transform("de", 3, steps=(Affine(shift=torch.full((32,), 9.0)),))
    rows = encoder.pieces(toy_rows(6)["src"], "de")
    plain, read = AlignedEncoder(encoder), stream_of(AlignedEncoder(encoder, (readout,)))
    expected = translated(plain, rows, 1, torch.zeros(32))
    for layer in (1, 3):
        assert all(map(np.array_equal, translated(read, rows, layer, torch.zeros(32)), expected))
    options = {"layers": "1-3", "alpha": [0], "dev_sentences": 2, "max_sentences": 4}
    outcome = run(root, AlignedEncoder(encoder, (readout,)), **options)
    assert outcome.predictions.num_rows == 2 * 3 * (2 + 4)
    found = values(outcome)
    assert len({found[f"layer{layer}_alpha0_bleu1"] for layer in (1, 2, 3)}) == 1


def test_the_whole_task_by_hand(root, encoder):
    """Means of blocks of ten pieces, at the last layer; the best point of dev is that of
    the metrics without a point.
    """
    how = {"block_size": 10}
    outcome = run(root, AlignedEncoder(encoder), layers="2-3", alpha=[1, 2.5], **how)
    first, last = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    means = {}
    for lang, texts in (("de", toy_rows(30)["src"]), ("en", toy_rows(25, seed=1)["tgt"])):
        with torch.no_grad():
            running = [piece for row in encoder.pieces(texts, lang) for piece in row.ids[1:-1]]
            blocks = [running[at : at + 10] for at in range(0, len(running), 10)]
            ids = [torch.tensor([[first, *block, last]]) for block in blocks]
            states = [encoder.model(i, output_hidden_states=True).hidden_states[3] for i in ids]
        means[lang] = torch.stack([part[0].double().mean(0) for part in states]).mean(0)
    rows = toy_rows(9, seed=7)
    pieces = {
        lang: [row.ids[1:-1] for row in encoder.pieces(rows[side], lang)]
        for lang, side in (("de", "src"), ("en", "tgt"))
    }
    sets = {
        lang: set(np.concatenate(found).tolist()) | set(encoder.tokenizer.all_special_ids)
        for lang, found in pieces.items()
    }
    shift = 2.5 * (means["en"] - means["de"])
    german = encoder.pieces(rows["src"], "de")
    output = translated(AlignedEncoder(encoder), german, 3, shift.float())
    expected = TokenCounts.of(output, pieces["en"], sets["de"], sets["en"])
    found = values(outcome)
    assert found["layer3_alpha2.5_bleu1"] == expected.bleu1()
    assert found.get("layer3_alpha2.5_convert_rate") == expected.convert_rate()
    assert 0 < expected.tokens.sum() == sum(map(len, pieces["de"]))
    for label in ("de-en", "en-de"):
        dev, test = values(outcome, label, "dev"), values(outcome, label)
        told = outcome.notes[label]
        best = max(value for name, value in dev.items() if name.endswith("bleu1"))
        point = f"layer{told['layer']}_alpha{told['alpha']:g}"
        assert dev[f"{point}_bleu1"] == best == dev["bleu1"]
        assert test["bleu1"] == test[f"{point}_bleu1"]
        assert 0 <= test["bleu1_sacrebleu"] <= 1
        assert told["test"]["sentences"] == 9
    both = found["bleu1"], values(outcome, "en-de")["bleu1"]
    assert values(outcome, "avg")["bleu1"] == pytest.approx(sum(both) / 2)


def test_the_pieces_of_a_language_do_not_depend_on_how_many_sentences_are_translated(root, encoder):
    """Sentences have the same counts whether the others are translated or not: a language's
    vocabulary is that of its whole side. Those that are translated lie evenly in the text.
    """
    rows = toy_rows(9, seed=7)
    sizes = []
    for side in ("src", "tgt"):
        pieces = np.concatenate([row.ids[1:-1] for row in encoder.pieces(rows[side], "de")])
        sizes.append(len(set(pieces.tolist()) | set(encoder.tokenizer.all_special_ids)))
    points = {"layers": "2-3", "alpha": [1]}
    few, all_ = (
        run(root, AlignedEncoder(encoder), max_sentences=limit, dev_sentences=limit, **points)
        for limit in (3, None)
    )
    told = few.notes["de-en"]["test"]
    assert (told["sentences"], told["vocabulary"]) == (3, sizes)
    assert all_.notes["de-en"]["test"]["vocabulary"] == sizes
    every = {tuple(row.items()) for row in all_.predictions.to_pylist()}
    assert every.issuperset(tuple(row.items()) for row in few.predictions.to_pylist())
    assert few.predictions.num_rows == 2 * 2 * (3 + 3)
    translated_ids = {row["id"] for row in few.predictions.to_pylist() if row["split"] == "test"}
    ids = sorted({row["id"] for row in all_.predictions.to_pylist() if row["split"] == "test"})
    assert translated_ids == {ids[0], ids[4], ids[8]}


def test_inside_transforms_flow_into_means_and_translations(root, encoder):
    """What is added to German after block 1 is in its mean there, so that the shift of block 1
    takes it out again.
    """
    inside = Transform("de", 1, "inside", (Affine(shift=3 * STEP),))
    plain, moved = (
        run(root, AlignedEncoder(encoder, chosen), layers="1-2", alpha=[1.0]).predictions
        for chosen in ((), (inside,))
    )
    counts = ("matches", "converted", "shared")
    changed = {
        (one["layer"], one["lang"])
        for one, other in zip(plain.to_pylist(), moved.to_pylist(), strict=True)
        if [one[name] for name in counts] != [other[name] for name in counts]
    }
    assert changed
    assert (1, "de-en") not in changed
    assert any(plain["converted"].to_pylist())


def test_words_for_sacrebleu_are_put_together_from_pieces(encoder):
    rows = encoder.pieces([["haus", "rot"], ["alt", "hund"]], "de")
    pieces = [row.ids[1:-1].astype(np.int64) for row in rows]
    assert sacrebleu1(encoder, pieces, pieces, "de") == pytest.approx(1)
    assert sacrebleu1(encoder, pieces[::-1], pieces, "de") == 0


def test_without_dev_several_points_have_no_best_and_one_point_is_it(root, encoder, tmp_path):
    for name, rows in (("data", 3), ("dev", 0)):
        write_pairs(tmp_path / "de" / name, toy_rows(rows))
    given = {"bitext": {"de": tmp_path / "de"}, "text": inputs(root).text}
    for alpha, there in (((1.0, 2.0), False), ((2.0,), True)):
        outcome = evaluated(task(alpha=alpha), AlignedEncoder(encoder), **given)
        assert ("bleu1" in values(outcome)) is there
        assert outcome.notes["de-en"]["chosen_on"] is None


@pytest.mark.parametrize(
    "params", [{"alpha": [1, 1.0]}, {"alpha": []}, {"alpha": [math.inf]}, {"layers": "0-2"}]
)
def test_points_that_are_none_are_refused(params):
    with pytest.raises(ValueError, match=r"alpha|layers"):
        TokenTranslation.Params.model_validate(params)


ROWS = {
    "en": [("house red", "old", "neutral"), ("house red", "dog", "neutral"), ("dog", "red", "0")],
    "de": [("haus rot", "alt", "neutral"), ("haus rot", "hund", "1"), ("hund", "rot", "0")],
}


@pytest.fixture(scope="module")
def xnli(root):
    """The same encoder and text, with files of XNLI."""
    for lang, rows in ROWS.items():
        write(root / f"test-{lang}.tsv", rows)
        write(root / f"dev-{lang}.tsv", rows[:2])
    return root


def write(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def of_xnli(root, **params):
    data = {split: str(root / f"{split}-{{lang}}.tsv") for split in ("dev", "test")}
    return task(**{"data": data, "alpha": [1, 2], **params})


def translated_xnli(root, encoder, **params):
    aligned, text = AlignedEncoder(encoder), inputs(root).text
    return evaluated(of_xnli(root, **params), aligned, text=text)


@pytest.fixture(scope="module")
def found(xnli, encoder):
    """The outcome on the rows of XNLI."""
    return translated_xnli(xnli, encoder)


def test_a_row_is_one_sentence_and_pairs_of_one_premise_are_one_unit(found, encoder):
    chosen = {"split": "test", "alpha": 1}
    test = [row for row in found.predictions.to_pylist() if row.items() >= chosen.items()]
    forward = [row for row in test if row["lang"] == "de-en"]
    sentences = [["haus", "rot", "alt"], ["haus", "rot", "hund"], ["hund", "rot"]]
    pieces = [len(row.ids) - 2 for row in encoder.pieces(sentences, "de")]
    assert [row["tokens"] for row in forward] == pieces
    premises = [row["premise"] for row in forward]
    assert premises[0] == premises[1] != premises[2]
    assert {row["premise"] for row in test if row["lang"] == "en-de"} == {*premises}
    name = ("de-en", "layer3_alpha1_bleu1", "test")
    sample = samples_of(TokenTranslation.metrics, found.predictions, [name])[name]
    assert len(sample.units) == 2


def test_the_first_test_sentences_keep_their_texts_and_no_others(xnli, found, encoder):
    rows = translated_xnli(xnli, encoder, samples=1).predictions.to_pylist()
    kept = [row for row in rows if row["source_text"] is not None]
    assert {(row["split"], row["id"]) for row in kept} == {("test", 1)}
    assert {(row["lang"], row["source_text"], row["reference_text"]) for row in kept} == {
        ("de-en", "haus rot alt", "house red old"),
        ("en-de", "house red old", "haus rot alt"),
    }
    assert len(kept) == 2 * 2  # directions, weights
    assert all(row["output_text"] for row in kept)
    assert "source_text" not in found.predictions.column_names


def test_vocabularies_are_counted_without_special_pieces_and_shared_with_the_pivot(found, encoder):
    counts = {
        (score.lang, score.metric): score.value
        for score in found.scores
        if score.metric.endswith("_count") and score.split == "test"
    }
    own = {}
    for lang, rows in ROWS.items():
        pieces = encoder.pieces([f"{a} {b}".split() for a, b, _ in rows], lang)
        used = np.concatenate([row.ids[1:-1] for row in pieces]).tolist()
        own[lang] = {*used} - {*encoder.tokenizer.all_special_ids}
    assert counts == {
        ("de", "vocabulary_count"): len(own["de"]),
        ("en", "vocabulary_count"): len(own["en"]),
        ("de", "shared_count"): len(own["de"] & own["en"]),
        ("en", "shared_count"): len(own["en"]),
    }


def test_rows_that_are_not_parallel_are_refused_before_anything_runs(tmp_path):
    write(tmp_path / "test-en.tsv", ROWS["en"])
    write(tmp_path / "test-de.tsv", ROWS["de"][:2])
    write(tmp_path / "test-fr.tsv", [("rouge", "chien", "2"), *ROWS["de"][1:]])
    given = of_xnli(tmp_path, data={"test": str(tmp_path / "test-{lang}.tsv")})
    faults = {
        found.path.stem: [str(fault) for fault in found.faults]
        for found in given.read_files(("de", "fr"), "en")
    }
    assert faults["test-en"] == []
    assert "2 rows, but the pivot has 3" in faults["test-de"][0]
    assert "labelled contradiction, but neutral in line 1 of the pivot" in faults["test-fr"][0]
    reader = XnliSentences(XnliFiles(test=str(tmp_path / "test-{lang}.tsv")), "", "main")
    with pytest.raises(DataError, match="not parallel"):
        reader.read("test", "de", TaskInputs("en"))


def test_data_enters_the_key_by_what_is_read_and_the_default_enters_none(root):
    plain = task()
    assert plain.canonical().keys().isdisjoint({"data", "samples", "dataset", "revision"})
    assert plain.needs().bitext
    assert plain.sources("de", "en") == {}
    assert of_xnli(root).canonical()["data"] == {}
    assert not of_xnli(root).needs().bitext
    files = {"dev": "dev-de", "test": "test-de", "pivot_dev": "dev-en", "pivot_test": "test-en"}
    sources = of_xnli(root).sources("de", "en")
    found = {name: source.path for name, source in sources.items()}
    assert found == {name: root / f"{file}.tsv" for name, file in files.items()}
    hub = task(data="xnli", revision="c" * 40)
    german, english = (f"hub:facebook/xnli/{lang}@{'c' * 40}" for lang in ("de", "en"))
    found = {name: source.name for name, source in hub.sources("de", "en").items()}
    assert found == {"hub": german, "pivot_hub": english}
    assert looked_up(hub.sources("de", "en"), root)[german] == "c" * 40
