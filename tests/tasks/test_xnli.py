"""XNLI end to end: a task that one word of the hypothesis decides. On a tiny BERT, in the pivot and
in translate-train, with and without sentences of two languages in one example; and on static
vectors, by the classifier over frozen word vectors.
"""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raxalign.caveats import Caveats
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.static import Lookup, StaticEncoder, VectorSpace
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import Example, Examples
from raxalign.tasks.classifiers.head import SentenceClassifier, WordClassifier
from raxalign.tasks.transfer.training import Trained, Tuning
from raxalign.tasks.xnli import Xnli
from raxalign.train.objective import Step
from tests.every import in_turn
from tests.tasks.outcomes import scores, trained
from tests.tasks.word_nli import ANSWERS, WORDS, at, task, translated, write_all


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS)


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def test_blocks_below_an_inside_shift_stay_as_they_are(encoder):
    inside = Transform("de", 1, "inside", (Affine(shift=torch.ones(32)),))
    both = AlignedEncoder(encoder, (inside,)), AlignedEncoder(encoder)
    options = {"dropout": 0.0, "max_length": 16, "seed": 0}
    kept, free = (SentenceClassifier(aligned, 3, **options).trained() for aligned in both)
    assert any("layer.1." in name for name in kept)
    assert not any("layer.0." in name or "embeddings" in name for name in kept)
    assert any("layer.0." in name for name in free)
    assert any("word_embeddings" in name for name in free)
    assert not any(word in name for name in free for word in ("pooler", "predictions"))


def of(lang, *rows):
    examples = [
        Example(f"p{i}-{lang}", f"h{i}-{lang}", Xnli.labels[label], i, name)
        for i, label, name in rows
    ]
    return Examples(f"{lang}.tsv", examples)


def given(**languages):
    return {"en": of("en", (1, 0, "a"), (2, 2, "b")), **languages}


def mixed(switching="sentence", **languages):
    """(premise, hypothesis, their languages, label) by unit."""
    found = {}
    for part in Examples.parts(given(**languages), Xnli.labels, "en", switching):
        for *texts, label, unit in zip(*part.texts, part.numbers, part.units, strict=True):
            row = (*(word for text in texts for word in text), *part.langs, int(label))
            found.setdefault(unit, []).append(row)
    return found


def test_each_pair_of_another_language_is_mixed_with_the_pivot_both_ways_in_one_unit():
    own = {0: [("p1-en", "h1-en", "en", "en", 0)], 1: [("p2-en", "h2-en", "en", "en", 2)]}
    assert mixed(de=of("de", (1, 0, "a"), (2, 2, None))) == {
        **own,
        2: [("p1-de", "h1-en", "de", "en", 0), ("p1-en", "h1-de", "en", "de", 0)],
        3: [("p2-de", "h2-en", "de", "en", 2), ("p2-en", "h2-de", "en", "de", 2)],
    }
    plain = mixed("none", de=of("de", (1, 1, "x")))
    assert plain == {**own, 2: [("p1-de", "h1-de", "de", "de", 1)]}


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([(1, 0, "a")], r"de\.tsv: 1 labelled rows, but en\.tsv has 2"),
        ([(1, 0, "a"), (3, 2, "b")], r"de\.tsv:3: en\.tsv has no row in this line"),
        ([(1, 0, "a"), (2, 1, "b")], r"de\.tsv:2: the label is neutral, but contradiction in en"),
        ([(1, 0, "a"), (2, 2, "c")], r"de\.tsv:2: the id is c, but b"),
    ],
)
def test_files_that_are_not_parallel_are_not_mixed(rows, fault):
    with pytest.raises(DataError, match=fault):
        mixed(de=of("de", *rows))


def test_translate_train_learns_from_every_language(tmp_path, encoder, files):
    """The German answers, which zero-shot training never sees, are learnt; only with sentences
    mixed both trainings differ.
    """
    tables = {}
    for switching in ("none", "sentence"):
        options = {"setting": "translate-train", "code_switching": switching, "epochs": 2}
        xnli = task(translated(files), **options)
        outcome, notes = trained(xnli, AlignedEncoder(encoder), tmp_path / switching)
        assert notes["rows_by_language"] == {"en": 120, "de": 120}
        assert notes["examples"] == (240 if switching == "none" else 360)
        assert min(scores(outcome, "accuracy")[lang, "test"] for lang in ("en", "de")) > 0.9
        tables[switching] = outcome.predictions
        for row in outcome.predictions.to_pylist():
            probabilities = {label: row[label] for label in Xnli.labels}
            assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
            assert max(probabilities, key=probabilities.get) == row["predicted"]
    assert not tables["none"].equals(tables["sentence"])


@pytest.mark.parametrize("selection", in_turn(["pivot-dev", "mean-dev"], 0))
def test_one_model_per_language_is_trained_on_that_language_alone(
    tmp_path, encoder, files, selection
):
    """The pivot's model is that of a zero-shot training; the other one answers for German."""
    options = {"selection": selection, "epochs": 2}
    each = task(translated(files), setting="translate-train", models="each", **options)
    aligned = AlignedEncoder(encoder)
    outcome, notes = trained(each, aligned, tmp_path / "each")
    zero_shot, _ = trained(task(files, **options), aligned, tmp_path / "alone")
    assert notes["rows_by_language"] == {"en": 120, "de": 120}
    assert [model["lang"] for model in notes["models"]] == ["en", "de"]
    own, alone = (
        {file.name.split(".")[1]: load_file(file) for file in tmp_path.glob(f"{name}.safetensors")}
        for name in ("each/xnli-en.*", "alone/xnli.*")
    )
    assert own.keys() == alone.keys()
    for epoch, other in alone.items():
        assert all(torch.equal(own[epoch][key], other[key]) for key in other)
    found = scores(outcome, "accuracy")
    assert found["de", "test"] > 0.9
    if selection != "mean-dev":  # there the zero-shot model is chosen by German dev too
        assert found["en", "test"] == scores(zero_shot, "accuracy")["en", "test"]
    assert found["avg", "test"] == pytest.approx((found["en", "test"] + found["de", "test"]) / 2)
    assert set(outcome.notes["models"]) == {"en", "de"}


def test_training_rows_of_any_language_are_not_evaluated(tmp_path, encoder, files):
    leaking = at(translated(files)["train"], "en").read_text(encoding="utf-8").splitlines()[0]
    with at(files["test"], "de").open("a", encoding="utf-8") as file:
        file.write(f"{leaking}\n")
    with pytest.raises(DataError, match=r"test-de\.tsv:34: 1 of 34 rows"):
        trained(task(files, epochs=1), AlignedEncoder(encoder), tmp_path / "one")
    dev, both = at(files["dev"], "de").read_text(encoding="utf-8"), translated(files)
    at(both["train"], "de").write_text(dev, encoding="utf-8")
    xnli = task(both, setting="translate-train", epochs=1)
    with pytest.raises(DataError, match=r"dev-de\.tsv:1: 30 of 30 rows"):
        trained(xnli, AlignedEncoder(encoder), tmp_path / "both")


def test_micro_batches_of_mixed_units_sum_to_the_loss_of_the_batch(encoder, files):
    options = {"setting": "translate-train", "code_switching": "sentence", "dropout": 0.0}
    head = task(translated(files), **options).head(TaskInputs("en"))
    head.labels = Xnli.labels
    turned = AlignedEncoder(encoder, (Transform("de", 2, steps=(Affine(shift=torch.ones(32)),)),))
    model = head.new_model(turned, 0)
    tuning = Tuning(model, head.batches(model, given(de=of("de", (1, 0, "a"), (2, 2, "b")))))
    tuning.module.eval()
    step = Step(0, 0, np.array([3, 0, 2]))
    tuning.begin(step)
    whole = float(tuning.loss(step, np.arange(3)).detach())
    parts = sum(float(tuning.loss(step, np.array([k])).detach()) for k in range(3))
    assert whole == pytest.approx(parts, abs=1e-6)
    entries = tuning.batches.entries
    logits = model(entries, np.array([3, 5, 0, 2, 4])).detach()  # by hand: units 3, 0 and 2
    by_hand = torch.nn.functional.cross_entropy(logits, torch.tensor([2, 2, 0, 0, 0]))
    assert whole == pytest.approx(float(by_hand), abs=1e-6)
    rows = [entries[i] for i in (0, 3, 5)]
    spoken = [tuple(row.languages[row.langs[k]] for k in row.first_RK[0]) for row in rows]
    assert spoken == [("en", "en"), ("de", "en"), ("en", "de")]


def test_which_settings_read_which_training_data(files):
    zero_shot, both = task(files), task(translated(files), setting="translate-train")
    assert zero_shot.training().languages(("de",), "en") == ("en",)
    assert both.training().languages(("de", "fr"), "en") == ("en", "de", "fr")
    assert both.check(("de",), "en") == []
    assert both.sources("de", "en")["train"].path.name == "train-de.tsv"
    assert "code_switching" not in zero_shot.canonical()
    assert "models" not in both.training().options
    each = {"setting": "translate-train", "models": "each"}
    assert task(translated(files), **each).training().options["models"] == "each"
    for options, told in (
        ({"code_switching": "sentence"}, "needs `setting: translate-train`"),
        ({"setting": "translate-train"}, "reads one file per language; put {lang} in the path"),
        ({"models": "each"}, "models: each trains on the translations of each language"),
    ):
        assert told in task(files, **options).check(("de",), "en")[0]
    mixing = task(translated(files), **each, code_switching="sentence")
    assert mixing.training().options["code_switching"] == "sentence"
    told = "code_switching mixes languages in one model: leave out models: each"
    assert mixing.check(("de",), "en") == [told]


def test_the_phrasebook_is_parallel_enough_to_mix():
    sizes = {"train": 60, "dev": 12, "test": 12}
    head = task("phrasebook", phrasebook=sizes, setting="translate-train").head(TaskInputs("en"))
    rows = {lang: head.data.rows("train", lang) for lang in ("en", "de", "el")}
    parts = Examples.parts(rows, Xnli.labels, "en", "sentence", whole=False)
    others = {(lang, "en") for lang in ("de", "el")} | {("en", lang) for lang in ("de", "el")}
    assert {part.langs for part in parts} == {("en", "en"), *others}
    assert all(len(part.numbers) > 50 for part in parts)
    assert set(parts[0].numbers) == {0, 1, 2}


WIDTH = 24
FEW = {"epochs": 12}


def space(words, seed, same=None):
    """Random vectors; words of `same` have those of the words that they name."""
    rng = np.random.default_rng(seed)
    vectors = {word: rng.normal(size=WIDTH).astype(np.float32) for word in words}
    for word, other in (same or {}).items():
        vectors[word] = vectors[other]
    return VectorSpace(list(vectors), np.stack(list(vectors.values())))


JOINT = space(WORDS, 0, dict(zip(ANSWERS["de"], ANSWERS["en"], strict=True)))


def static_of(spaces, languages=None):
    return StaticEncoder(spaces, WIDTH, Lookup("keep", "none"), languages=languages)


def run_static(tmp_path, aligned, given, *, name="tuned", start=None, **params):
    xnli = task(given, **{**FEW, **params})
    outcome, _ = trained(xnli, aligned, tmp_path / name, start=start)
    return outcome, scores(outcome, "accuracy")


def test_what_is_learnt_in_the_pivot_transfers_through_a_joint_space_alone(tmp_path, files):
    joint = AlignedEncoder(static_of({"joint": JOINT}, ("de", "en")))
    separate = AlignedEncoder(static_of({"en": JOINT, "de": space(WORDS, 1)}))
    _, found = run_static(tmp_path, joint, files, name="joint")
    assert found["en", "test"] > 0.9
    assert found["de", "test"] > 0.9
    _, apart = run_static(tmp_path, separate, files, name="separate")
    assert apart["en", "test"] == found["en", "test"]
    assert apart["de", "test"] < 0.6


def test_transforms_apply_to_the_words_of_their_language(tmp_path, files):
    """German vectors are turned; the readout turns them back."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    turned = static_of({"en": JOINT, "de": VectorSpace(JOINT.words, JOINT.vectors_VH @ turn)})
    back = Transform("de", 0, steps=(Affine(weight=torch.from_numpy(turn.T.copy())),))
    plain, rotated = AlignedEncoder(turned), AlignedEncoder(turned, (back,))
    _, before = run_static(tmp_path, plain, files, name="plain")
    _, after = run_static(tmp_path, rotated, files, start=plain, name="rotated")
    assert after["en", "test"] == before["en", "test"]
    assert after["de", "test"] > 0.9 > 0.6 > before["de", "test"]


def test_the_vectors_are_not_trained_and_every_epoch_can_be_chosen(tmp_path, files):
    static = static_of({"joint": JOINT}, ("de", "en"))
    before = JOINT.vectors_VH.copy()
    options = {"selection": "mean-dev", "epochs": 3}
    outcome, _ = run_static(tmp_path, AlignedEncoder(static), files, **options)
    again, _ = run_static(tmp_path, AlignedEncoder(static), files, name="again", **options)
    assert outcome.predictions.equals(again.predictions)
    assert np.array_equal(before, JOINT.vectors_VH)
    (model,) = Trained.read(tmp_path / "tuned").models
    assert set(model.files) == {1, 2, 3}
    assert len(outcome.notes["models"]["all"]["dev_by_epoch"]["de"]) == 3


def test_texts_are_divided_as_corpora_are_and_unknown_words_are_reported():
    static = static_of({"en": VectorSpace(["dog", "."], np.eye(2, WIDTH, dtype=np.float32))})
    model = WordClassifier(AlignedEncoder(static), (2, 8, 3), dropout=0.1, seed=0).eval()
    rows = model.rows([[["a", "dog."]], [["cat"]]], ["en", "en"])
    assert rows[0] == (("en", ["a", "dog", "."]), ("en", ["cat"]))
    with Caveats.collecting() as found:
        (first, second) = model.text_vectors(rows)[0]
    assert first[:2].tolist() == pytest.approx([(WIDTH / 2) ** 0.5] * 2)
    assert not second.any()
    assert found.notes() == {"partial": {"words with a vector": "50.0% of en"}}
    assert torch.isfinite(model(rows)).all()
