"""`raxalign search`: a grid file from a few options."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from raxalign.cli import app
from raxalign.config.grid import load
from raxalign.config.search import Pruner
from raxalign.config.spaces import Space
from raxalign.errors import RaxalignError, StorageError
from raxalign.single.start import write_search
from tests.grids import ENCODER

CORPUS = "{source: phrasebook, size: 200, split: {test: 30, dev: 30}}"


def write(path: Path, **changes: object) -> None:
    values: dict[str, object] = {
        "method": "finetune",
        "spaces": ["lambda=log_uniform:0.01:10", "layers=choice:last:1"],
        "options": ["batch_size=16"],
        "languages": ["de", "fr"],
        "pivot": "en",
        "corpus": CORPUS,
        "encoder": ENCODER,
        "sentences": 100,
        "task": "retrieval",
        "metric": None,
        "budget": "20 trials",
        "sampler": "tpe",
        "confirm": 5,
        "aligner": "fast_align",
    }
    write_search(path, **{**values, **changes})  # type: ignore[arg-type]


def test_the_options_are_a_grid_file_that_loads(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write(path)
    grid = load(path)
    assert (grid.name, grid.languages, grid.sentences) == ("mine", ("de", "fr"), (100,))
    none, method = grid.methods
    assert none.kind == "none"
    assert method.searched is not None
    assert method.searched.spaces == (
        Space("lambda", "log_uniform", 0.01, 10),
        Space("layers", "choice", choices=("last", 1)),
    )
    assert grid.search is not None
    assert grid.search.metric == ("retrieval/{lang}-{pivot}/contextual_accuracy",)
    assert (grid.search.most, grid.search.confirm) == (20, 5)


def test_a_pruner_is_written_where_one_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "none.yaml")
    assert "pruner" not in (tmp_path / "none.yaml").read_text(encoding="utf-8")
    write(tmp_path / "median.yaml", pruner="median")
    search = load(tmp_path / "median.yaml").search
    assert search is not None
    assert search.pruner == Pruner(name="median")


def test_a_task_with_a_training_is_judged_without_the_pivot(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write(path, task="xnli: {setting: zero-shot, data: phrasebook}")
    search = load(path).search
    assert search is not None
    assert search.metric == ("xnli/avg_zero_shot/accuracy",)


def test_a_prefix_is_two_parallel_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mine.yaml", corpus="data/de-en")
    assert f"{{source: moses, path: {tmp_path}/data/de-en}}" in (tmp_path / "mine.yaml").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spaces": ["lambda"]}, "--space 'lambda': write NAME=VALUE"),
        ({"spaces": ["lambda=between:1:2"]}, "write NAME=KIND:VALUE:VALUE with one of log_uniform"),
        ({"spaces": []}, "a search needs --lang, and a --space"),
        ({"languages": []}, "a search needs --lang, and a --space"),
        ({"task": "retrieva"}, "--task 'retrieva': unknown task"),
    ],
)
def test_what_cannot_be_written_is_refused(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(RaxalignError) as caught:
        write(tmp_path / "mine.yaml", **changes)
    assert said in str(caught.value)
    assert not (tmp_path / "mine.yaml").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    with pytest.raises(RaxalignError, match="is there already"):
        write(path)
    assert path.read_text() == "mine"
    with pytest.raises(StorageError, match="cannot be written"):
        write(path / "below.yaml")


def test_the_command_writes_the_file_and_shows_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    options = ["--space", "lambda=log_uniform:0.01:10", "-o", "batch_size=16", "--lang", "de"]
    options += ["--corpus", CORPUS, "--encoder", ENCODER, "--sentences", "100", "--trials", "4"]
    options += ["--aligner", "fast_align", "--storage", str(tmp_path / "st"), "--dry-run"]
    result = CliRunner().invoke(app, ["search", str(path), *options])
    assert result.exit_code == 0, result.output
    assert "search finetune de, 100 sentences: at most 4 trials" in result.output
    assert load(path).search is not None
