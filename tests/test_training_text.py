"""Bitext through the plan's own stages: what is held out for one language is not trained on in
another, and published splits stay as they are.
"""

import pytest

from raxalign.corpora.text.dataset import read_table
from raxalign.errors import DataError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime

GRID = """
name: overlap
encoder: {kind: scratch}
languages: {together: [de, fr]}
corpus: {source: moses, path: "{lang}-{pivot}", split: {test: 1, dev: 1}, shortage: use-all}
sentences: 10
methods: {mlm: {}}
tasks: {sentence_retrieval: {}}
"""
OWN_SPLIT = 'path: "{lang}-{pivot}", split: {test: 1, dev: 1}, shortage: use-all'
TEXT = {
    "de": "Ja. Yes. Hallo! Hello! Nein. No. Danke. Thanks. Bitte. Please.",
    "fr": "Bien. Good. Merci! Thanks! Oui. Yes. Salut. Hi. Non. no",
}
PAIRS = {lang: list(zip(*[iter(text.split())] * 2, strict=True)) for lang, text in TEXT.items()}


def sentences(folder, column):
    return [" ".join(words) for words in read_table(folder / "data").column(column).to_pylist()]


def write(folder, prefix, lang, pairs):
    for side, code in enumerate((lang, "en")):
        (folder / f"{prefix}.{code}").write_text(
            "".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8"
        )


def workshop_of(folder, grid):
    (folder / "grid.yaml").write_text(grid, encoding="utf-8")
    root = str(folder / "storage")
    return Workshop(expand(load(folder / "grid.yaml")), Storage(root), Runtime())


def test_what_is_tested_in_one_language_is_not_trained_on_in_another(tmp_path):
    for lang, pairs in PAIRS.items():
        write(tmp_path, f"{lang}-en", lang, pairs)
    workshop = workshop_of(tmp_path, GRID)
    plan = workshop.plan
    training = {
        stage.params["lang"]: key
        for key, stage in plan.stages.items()
        if stage.params.get("part") == "training"
    }
    text = {stage.params["lang"]: key for key, stage in plan.stages.items() if stage.kind == "text"}
    # "No." is French test text, and "Thanks!" German dev text
    assert sentences(workshop.ensure(training["de"]), "tgt") == ["Hello !", "Yes ."]
    assert sentences(workshop.ensure(training["fr"]), "tgt") == ["Yes .", "Good ."]
    assert sentences(workshop.ensure(text["en"]), "words") == ["Hello !", "Yes .", "Good ."]
    counts = workshop.store.manifest("bitext", training["de"]).notes["counts"]["training"]
    assert (counts["overlapping"], counts["overlapping_elsewhere"]) == (0, 1)


def test_published_splits_are_taken_whole_and_training_is_the_end_of_its_file(tmp_path):
    corpus = 'path: {train: "train.{lang}", dev: "dev.{lang}", test: "test.{lang}"}, split: files'
    grid = GRID.replace(OWN_SPLIT, corpus)
    for lang, pairs in PAIRS.items():
        for part, chosen in (("train", pairs[:3]), ("dev", pairs[3:4]), ("test", pairs[4:])):
            write(tmp_path, f"{part}.{lang}", lang, chosen)
    grid = grid.replace("together", "each").replace("sentences: 10", "sentences: 2")
    workshop = workshop_of(tmp_path, grid)
    found = {
        (stage.params["lang"], stage.params["part"]): key
        for key, stage in workshop.plan.stages.items()
        if stage.kind == "bitext"
    }
    heldout = workshop.ensure(found["de", "heldout"])
    assert sentences(heldout, "src") == ["Bitte ."]
    assert read_table(heldout / "dev").column("src").to_pylist() == [["Danke", "."]]
    training = workshop.ensure(found["de", "training"])
    assert read_table(training / "data").column("id").to_pylist() == [2, 1]
    assert sentences(training, "src") == ["Nein .", "Hallo !"]
    write(tmp_path, "dev.de", "de", PAIRS["de"][3:5])
    changed = expand(load(tmp_path / "grid.yaml"))
    german = {key for (lang, _), key in found.items() if lang == "de"}
    assert not german & set(changed.stages), "files are known by their bytes"


def test_a_dev_file_that_is_not_there_is_named_by_its_path(tmp_path):
    corpus = 'path: {train: "train.{lang}", dev: "dev.{lang}", test: "train.{lang}"}, split: files'
    grid = GRID.replace(OWN_SPLIT, corpus)
    for lang, pairs in PAIRS.items():
        write(tmp_path, f"train.{lang}", lang, pairs)
    with pytest.raises(DataError, match=rf"{tmp_path}/dev\.de\.de: No such file"):
        workshop_of(tmp_path, grid)
