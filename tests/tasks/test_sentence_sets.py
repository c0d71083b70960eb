"""Sets of translated sentences on the hub, read from local copies in their published layouts, and
sentence pairs in files of one's own, in languages that the grid has or has not.
"""

from functools import partial

import pytest

from raxalign.errors import DataError, GridError
from raxalign.grid.load import open_grid
from raxalign.options.sources import LocalFile
from raxalign.tasks.vectors.pairs import SentenceFiles
from raxalign.values.results import rows
from tests.grids import TINY, write_grid
from tests.ran import ran
from tests.tasks.outcomes import evaluated, made, static, values, write_parquet

SPACES = {"de": {"a": [1.0, 0.0], "b": [0.0, 1.0]}, "en": {"A": [1.0, 0.1], "B": [0.2, 1.0]}}
task = partial(made, "sentence_retrieval")


def flores(folder, en=("A", "B"), ids=(1, 2), text="text"):
    """FLORES+ as it is on the hub: a folder per split, and a README that names configurations."""
    configs = []
    for code, sentences in (("deu_Latn", ("a", "b")), ("eng_Latn", en)):
        configs.append(f"- config_name: {code}\n  data_files:")
        for split in ("dev", "devtest"):
            columns = {"id": ids if code == "eng_Latn" else (1, 2), text: sentences}
            write_parquet(folder / split / f"{code}.parquet", **columns)
            configs.append(f"  - {{split: {split}, path: {split}/{code}.parquet}}")
    joined = "\n".join(configs)
    (folder / "README.md").write_text(f"---\nconfigs:\n{joined}\n---\n", encoding="utf-8")
    return folder


def test_tatoeba_is_read_as_xtreme_publishes_it(tmp_path):
    texts = {"source_sentence": ["a", " ", "b"], "target_sentence": ["A", "A", "B"]}
    codes = {"source_lang": ["deu"] * 3, "target_lang": ["eng"] * 3}
    file = tmp_path / "tatoeba.deu" / "validation-00000-of-00001.parquet"
    write_parquet(file, **texts, **codes)
    read = task(data="tatoeba", dataset=str(tmp_path), profile="xtreme", layers="last")
    assert not read.needs().bitext
    assert read.sources("de", "en") == {
        f"pairs/tatoeba.deu/{file.relative_to(tmp_path)}": LocalFile(file)
    }
    ((side, source),) = task(data="tatoeba").sources("de", "en").items()
    assert (side, source.name) == ("pairs", "hub:google/xtreme/tatoeba.deu@main")
    outcome = evaluated(read, static(SPACES))
    assert outcome.predictions["id"].to_pylist() == [0, 2]
    assert values(outcome)["accuracy"] == 1.0


def test_flores_joins_two_languages_and_has_both_splits(tmp_path):
    outcome = evaluated(task(data="flores", dataset=str(flores(tmp_path))), static(SPACES))
    assert {score.split for score in outcome.scores} == {"dev", "test"}
    assert values(outcome)["accuracy"] == 1.0


def test_ntrex_is_one_text_per_language_in_one_order(tmp_path):
    for code, sentences in (("deu_Latn", "a\nb\n"), ("eng_Latn", "A\nB\n")):
        (tmp_path / code).mkdir()
        (tmp_path / code / "test.txt").write_text(sentences, encoding="utf-8")
    outcome = evaluated(task(data="ntrex", dataset=str(tmp_path)), static(SPACES))
    assert values(outcome)["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("copy", "says"),
    [
        ({"en": ("A", "B", "C"), "ids": (1, 2, 3)}, "has other rows than"),
        ({"ids": (2, 1)}, "has other rows than"),
        ({"en": (" ", "")}, "has no sentence with a translation in en"),
        ({"text": "sentence"}, "has no column text; its columns are id, sentence"),
    ],
)
def test_a_copy_that_does_not_go_together_is_refused(tmp_path, copy, says):
    read = task(data="flores", dataset=str(flores(tmp_path, **copy)))
    with pytest.raises(DataError, match=says):
        evaluated(read, static(SPACES))


def test_languages_that_a_set_lacks_and_names_of_no_set_are_refused_with_their_line(tmp_path):
    def refused(options):
        path = write_grid(tmp_path, tasks=(f"sr: {{kind: sentence_retrieval, {options}}}",))
        with pytest.raises(GridError) as caught:
            open_grid(path, storage=str(tmp_path / "storage"))
        return str(caught.value)

    lacking = refused("data: tatoeba, languages: [de, sw, yo, xh]")
    assert "data: tatoeba has no yo, xh; its languages are af, ar, bg" in lacking
    assert "grid.yaml:" in lacking
    assert "tatoeba" in refused("data: tatoba")
    assert "data: flores has both" in refused("data: ntrex, measure: qb_norm")
    assert "name more of them `together`" in refused("languages: [de], pool: mixed")


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
    (source,) = files.rows("de", "en", found(tmp_path))
    pairs = source.read()
    assert (source.split, pairs.ids.tolist()) == ("test", [0, 2])
    own = task(data=files)
    assert not own.needs().bitext
    outcome = evaluated(own, static(SPACES), files=found(tmp_path))
    assert values(outcome)["accuracy"] == 1.0
    assert outcome.predictions["id"].to_pylist() == [0, 2, 0, 2]


def test_files_that_do_not_go_together_are_told_before_anything_runs(tmp_path):
    write(tmp_path, de="a\nb\n", en="A\n")
    files = SentenceFiles(test=f"{tmp_path}/test")
    (read,) = task(data=files).read_files(("de",), "en")
    assert "lines" in str(read.faults[0])
    write(tmp_path, de="\n", en="A\n")
    with pytest.raises(DataError, match="has no sentence with a translation in en"):
        next(files.rows("de", "en", found(tmp_path))).read()
    assert task(data=SentenceFiles()).check(("de",), "en")


def test_a_language_that_is_not_aligned_is_in_the_pool_and_has_a_mean_of_its_own(tmp_path):
    write(tmp_path, de="eins\nzwei\ndrei\n", fr="un\ndeux\ntrois\n", en="one\ntwo\nthree\n")
    mixed = "languages: [de, fr], pool: mixed, data: {test: ./test}, layers: '1'"
    parts = {"encoder": TINY, "languages": "{together: [de]}", "size": 200, "sentences": "[60]"}
    parts |= {"methods": ("none: {}", "centering: {}")}
    tasks = (f"sr: {{kind: sentence_retrieval, {mixed}}}",)
    opened = ran(write_grid(tmp_path, **parts, tasks=tasks))
    records = [
        row for row in rows(opened.plan, opened.storage.ledger) if row["metric"] == "accuracy"
    ]
    unseen = {"de-en": False, "fr-en": True, "avg": False, "avg_unseen": False}
    assert {row["lang"]: row.get("unseen", False) for row in records} == unseen
    (key,) = opened.plan.trials[1].evaluations.values()
    record = opened.storage.ledger.read(key)
    assert record["unseen"] == ["fr-en"]
    assert record["notes"]["fr-en"]["test"]["pool"] == {"de": 3, "fr": 3, "en": 3}


def test_a_missing_file_is_named_with_what_the_path_stands_for(tmp_path):
    def grid_with(name):
        tasks = (f"sentence_retrieval: {{data: {{{name}: ./test}}}}",)
        return write_grid(tmp_path, languages="{together: [de]}", tasks=tasks)

    with pytest.raises(GridError, match=r"data\.tst: unknown key"):
        open_grid(grid_with("tst"))
    opened = open_grid(grid_with("test"), allow_missing=True)
    assert f"{tmp_path}/test.de" in opened.plan.missing
