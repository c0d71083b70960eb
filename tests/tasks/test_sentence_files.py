"""Sentence pairs of a task's own: what is read, in languages that the grid has or has not."""

import pytest

from raxalign.errors import DataError, GridError
from raxalign.plan.load import open_grid
from raxalign.plan.values.results import rows
from raxalign.stages import Workshop, run_trial
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.tasks.vectors.sentence_files import SentenceFiles
from raxalign.train.runtime import Runtime
from tests.grids import TINY, write_grid
from tests.tasks.outcomes import evaluated, static, values

SPACES = {"de": {"a": [1.0, 0.0], "b": [0.0, 1.0]}, "en": {"A": [1.0, 0.1], "B": [0.2, 1.0]}}


def write(folder, **texts):
    for code, text in texts.items():
        (folder / f"test.{code}").write_text(text, encoding="utf-8")


def found(folder, lang="de"):
    """What the plan hands to the task: name -> language -> path."""
    sources = SentenceFiles(test=f"{folder}/test").sources(lang, "en")
    return {name: {lang: source.path} for name, source in sources.items()}


def test_pairs_are_those_of_both_files_without_blank_ones(tmp_path):
    write(tmp_path, de="a\n\nb\n", en="A\nB\nB\n")
    files = SentenceFiles(test=f"{tmp_path}/test")
    ((split, pairs),) = files.read("de", "en", found(tmp_path))
    assert (split, pairs.ids.tolist()) == ("test", [0, 2])
    task = SentenceRetrieval(SentenceRetrieval.Params(data=files))
    assert not task.needs().bitext
    outcome = evaluated(task, static(SPACES), files=found(tmp_path))
    assert values(outcome)["accuracy"] == 1.0
    assert outcome.predictions["id"].to_pylist() == [0, 2, 0, 2]


def test_files_that_do_not_go_together_are_told_before_anything_runs(tmp_path):
    write(tmp_path, de="a\nb\n", en="A\n")
    task = SentenceRetrieval(SentenceRetrieval.Params(data=SentenceFiles(test=f"{tmp_path}/test")))
    (read,) = task.read_files(("de",), "en")
    assert "lines" in str(read.faults[0])
    write(tmp_path, de="\n", en="A\n")
    with pytest.raises(DataError, match="has no sentence with a translation in en"):
        list(SentenceFiles(test=f"{tmp_path}/test").read("de", "en", found(tmp_path)))
    assert SentenceRetrieval(SentenceRetrieval.Params(data=SentenceFiles())).check(("de",), "en")


def test_a_language_that_is_not_aligned_is_in_the_pool_and_has_a_mean_of_its_own(tmp_path):
    write(tmp_path, de="eins\nzwei\ndrei\n", fr="un\ndeux\ntrois\n", en="one\ntwo\nthree\n")
    task = (
        "sr: {kind: sentence_retrieval, languages: [de, fr], pool: mixed,"
        " data: {test: ./test}, layers: '1'}"
    )
    path = write_grid(
        tmp_path,
        encoder=TINY,
        languages="{together: [de]}",
        size=200,
        sentences="[60]",
        methods=("none: {}", "centering: {}"),
        tasks=(task,),
    )
    opened = open_grid(path, storage=str(tmp_path / "storage"))
    for trial in opened.plan.trials:
        run_trial(Workshop(opened.plan, opened.storage, Runtime()), trial.key)
    records = [
        row for row in rows(opened.plan, opened.storage.ledger) if row["metric"] == "accuracy"
    ]
    assert {row["lang"]: row.get("unseen", False) for row in records} == {
        "de-en": False,
        "fr-en": True,
        "avg": False,
        "avg_unseen": False,
    }
    (record,) = {
        key: opened.storage.ledger.read(key) for key in opened.plan.trials[1].evaluations.values()
    }.values()
    assert record["unseen"] == ["fr-en"]
    assert record["notes"]["fr-en"]["test"]["pool"] == {"de": 3, "fr": 3, "en": 3}


def test_a_missing_file_is_named_with_what_the_path_stands_for(tmp_path):
    task = "sentence_retrieval: {data: {tst: ./test}}"
    path = write_grid(tmp_path, languages="{together: [de]}", tasks=(task,))
    with pytest.raises(GridError, match=r"data\.tst: unknown key"):
        open_grid(path)
    path = write_grid(tmp_path, languages="{together: [de]}", tasks=(task.replace("tst", "test"),))
    assert f"{tmp_path}/test.de" in open_grid(path, allow_missing=True).plan.missing
