"""How many sentence pairs a plan says its text has."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import raxalign as rx
from raxalign.plan.estimates.disk import estimate_disk
from raxalign.plan.estimates.speed import Speed
from raxalign.plan.estimates.work import Work, sentences_of

ALL = 1_000_000_000


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"sentences": 300, "corpus": {"size": 600}}, 300, id="some of a corpus"),
        pytest.param({"sentences": ALL, "corpus": {"size": 600}}, 600, id="all of it"),
        pytest.param({"sentences": ALL, "corpus": {"path": "x"}}, math.inf, id="all of a file"),
        pytest.param({"sentences": 300, "corpus": {"path": "x"}}, 300, id="some of a file"),
        pytest.param({"part": "heldout", "split": {"test": 150, "dev": 60}}, 210, id="held out"),
    ],
)
def test_a_bitext_has_what_is_asked_for_and_no_more_than_its_corpus(params, expected) -> None:
    assert sentences_of(SimpleNamespace(params=params)) == expected


def test_all_text_of_a_file_has_no_estimate_and_all_of_a_sized_corpus_its_own(
    tmp_path: Path,
) -> None:
    for lang in ("de", "en"):
        (tmp_path / f"plain.{lang}").write_text("Hallo .\n")
    sized = "{source: phrasebook, size: 40, seed: 1}"
    file = f"{{source: moses, path: {tmp_path}/plain}}"
    found = {}
    for name, text in (("sized", sized), ("file", file)):
        grid = tmp_path / f"{name}.yaml"
        grid.write_text(
            f"name: {name}\nencoder: phrasebook\nlanguages: {{together: [de]}}\n"
            "corpus: {source: phrasebook, size: 60, split: {test: 10, dev: 10}}\nsentences: [20]\n"
            f"text: {text}\nmethods: {{mlm: {{epochs: 1}}}}\ntasks: {{retrieval: {{}}}}\n"
        )
        plan = rx.plan(grid, storage=str(tmp_path / "storage")).plan
        work, disk = Work(plan, Speed(1e11, 1e11)), estimate_disk(plan, {})
        texts = {key for key, stage in plan.stages.items() if stage.kind == "text"}
        aligned = {key for key, stage in plan.stages.items() if stage.kind == "aligned"}
        assert texts
        assert aligned
        found[name] = [work.seconds(key) for key in texts | aligned], disk.unknown.get("text")
    assert all(seconds is not None and seconds < 60 for seconds in found["sized"][0])
    assert found["sized"][1] is None
    assert set(found["file"][0]) == {None}
    assert found["file"][1] == 2
