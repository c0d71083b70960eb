"""The benchmark of much text: parts that were measured are shown again, and not run."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import pieces

PARTS = ("data", "plan", "bitext", "pairs", "text", "pieces", "rows", "finetune", "ppa", "xnli")


@pytest.fixture
def asked(monkeypatch):
    """The parts that the benchmark runs, which here take no time."""
    found = []

    def run(command, *, check):
        assert check
        part, folder = command[-1], Path(command[-3])
        found.append(part)
        first = 0.5 if part in ("finetune", "ppa", "xnli") else None
        measured = pieces.Measured(2.0, 100.0, 150.0, 50.0, f", {part}", first)
        (folder / f"measured-{part}.json").write_text(json.dumps(asdict(measured)))

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_a_kept_run_goes_on_where_it_ended(tmp_path, asked, monkeypatch, capsys):
    given = ["pieces", "--pairs", "2000", "--rows", "6000", "--keep", str(tmp_path)]
    monkeypatch.setattr("sys.argv", given)
    pieces.main()
    assert tuple(asked) == PARTS
    first = capsys.readouterr().out
    (tmp_path / "measured-pairs.json").unlink()
    asked.clear()
    pieces.main()
    assert asked == ["pairs"]
    assert capsys.readouterr().out == first
    assert "xnli of 6,000 rows: time to the first step: 0.5 s (budget at most 5: met" in first
    assert "pairs of 2,000 pairs: memory: 100 MiB (budget at most 4,096: met" in first
    assert first.splitlines()[-1].split() == ["all", "20.0", "s"]


def test_a_folder_of_other_options_is_not_gone_on_with(tmp_path, asked, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pieces", "--rows", "0", "--keep", str(tmp_path)])
    pieces.main()
    assert tuple(asked) == tuple(part for part in PARTS if part not in ("rows", "xnli"))
    monkeypatch.setattr("sys.argv", ["pieces", "--rows", "10", "--keep", str(tmp_path)])
    with pytest.raises(SystemExit, match="was made with other options"):
        pieces.main()
