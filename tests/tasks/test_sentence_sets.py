"""Sets of translated sentences on the hub, read from local copies in their published layouts."""

import datasets
import numpy as np
import pytest

from raxalign.errors import DataError, GridError
from raxalign.plan.load import open_grid
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from tests.grids import write_grid
from tests.tasks.outcomes import evaluated, static, values

SPACES = {"de": {"a": [1.0, 0.0], "b": [0.0, 1.0]}, "en": {"A": [1.0, 0.1], "B": [0.2, 1.0]}}


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict(columns).to_parquet(path)


def flores(folder, en=("A", "B"), ids=(1, 2), text="text"):
    """FLORES+ as it is on the hub: a folder per split, and a README that names configurations."""
    configs = []
    for code, sentences in (("deu_Latn", ("a", "b")), ("eng_Latn", en)):
        configs.append(f"- config_name: {code}\n  data_files:")
        for split in ("dev", "devtest"):
            columns = {"id": ids if code == "eng_Latn" else (1, 2), text: sentences}
            write(folder / split / f"{code}.parquet", **columns)
            configs.append(f"  - {{split: {split}, path: {split}/{code}.parquet}}")
    joined = "\n".join(configs)
    (folder / "README.md").write_text(f"---\nconfigs:\n{joined}\n---\n", encoding="utf-8")
    return folder


def task(**params):
    return SentenceRetrieval(SentenceRetrieval.Params.model_validate(params))


def test_tatoeba_is_read_as_xtreme_publishes_it(tmp_path):
    write(
        tmp_path / "tatoeba.deu" / "validation-00000-of-00001.parquet",
        source_sentence=["a", " ", "b"],
        target_sentence=["A", "A", "B"],
        source_lang=["deu"] * 3,
        target_lang=["eng"] * 3,
    )
    made = task(data="tatoeba", dataset=str(tmp_path), profile="xtreme", layers="last")
    assert not made.needs().bitext
    assert [source.name for source in made.sources("de", "en").values()] == [
        f"hub:{tmp_path}/tatoeba.deu@main"
    ]
    outcome = evaluated(made, static(SPACES))
    assert outcome.predictions["id"].to_pylist() == [0, 2]
    assert values(outcome)["accuracy"] == 1.0


def test_flores_joins_two_languages_and_has_both_splits(tmp_path):
    made = task(data="flores", dataset=str(flores(tmp_path)))
    outcome = evaluated(made, static(SPACES))
    assert {score.split for score in outcome.scores} == {"dev", "test"}
    assert values(outcome)["accuracy"] == 1.0


def test_ntrex_is_one_text_per_language_in_one_order(tmp_path):
    for code, sentences in (("deu_Latn", "a\nb\n"), ("eng_Latn", "A\nB\n")):
        (tmp_path / code).mkdir()
        (tmp_path / code / "test.txt").write_text(sentences, encoding="utf-8")
    outcome = evaluated(task(data="ntrex", dataset=str(tmp_path)), static(SPACES))
    assert np.isclose(values(outcome)["accuracy"], 1.0)


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
    made = task(data="flores", dataset=str(flores(tmp_path, **copy)))
    with pytest.raises(DataError, match=says):
        evaluated(made, static(SPACES))


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
