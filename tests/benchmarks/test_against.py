"""The comparison with other programs: what it says of a log, and what the programs are."""

import json
import re
import sys
import tomllib
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.against import work
from benchmarks.against.__main__ import Size, kept, main, table
from benchmarks.against.log import Span, Times, gaps, measure, read, repeats
from benchmarks.against.peers import PEERS, code_lines

ROOT = Path(__file__).resolve().parents[2]

LOG = """\
begin corpus-de 1.0 7
end corpus-de 3.0 7
begin trial-de-0 3.5 7
begin trial-de-1 3.6 8
end trial-de-0 4.5 7
end trial-de-1 4.6 8
begin trial-de-2 4.7 7
begin trial-de-1 12.0 9
end trial-de-1 13.0 9
begin trial-de-2 13.25 9
end trial-de-2 14.25 9
"""
TIMES = Times(start=0.0, killed=5.0, restart=11.0, end=15.0, cores=2.0)
TRIALS = [f"trial-de-{number}" for number in range(4)]


@pytest.fixture(scope="module")
def found():
    return measure(read(LOG.splitlines()), TIMES, trials=TRIALS, seconds=1.0, workers=2)


def test_time_is_over_all_work_by_the_workers_without_the_pause_after_the_kill(found):
    assert found.wall == 5.0 + 4.0
    assert found.ratio == pytest.approx(9.0 / ((4 * 1.0 + 2.0) / 2))


def test_a_place_is_empty_from_an_end_to_the_next_begin(found):
    # in the first run 0.5 after the corpus, then 0.2 after trial 0; in the second 0.25
    first = [span for span in read(LOG.splitlines()) if span.begin < 11]
    assert gaps(first) == pytest.approx([0.5, 0.2])
    assert found.gap == pytest.approx(0.25)


def test_resuming_lasts_until_the_first_trial_that_had_not_ended(found):
    assert found.begun == 1.0
    assert found.resumed == pytest.approx(2.25)


def test_work_that_had_ended_counts_as_repeated_and_work_that_was_cut_off_does_not(found):
    assert (found.repeated, found.again) == (pytest.approx(1.0), 1)


def test_trials_that_never_end_are_lost(found):
    assert found.lost == 1


def test_work_counts_once_for_each_time_that_it_was_done_again():
    spans = [Span("corpus-de", begin, begin + 2.0) for begin in (0.0, 4.0, 8.0)]
    assert repeats([*spans, Span("corpus-de", 9.0, None)]) == spans[1:]


def test_only_lines_with_code_count():
    text = '"""Two\n\nlines."""\n\n# comment\nx = """a\nb"""  # code\n\n'
    text += 'def f():\n    "d"\n    return x\n'
    assert code_lines(text, "a.py") == 4
    assert code_lines("# a\nrule b:\n\n    c\n", "Snakefile") == 2


def test_the_table_has_a_line_per_program_in_columns_of_one_width(found):
    lines = table({"raxalign": found, "hydra": found}).splitlines()
    assert [len(line) for line in lines] == [len(lines[0])] * 4
    cells = [cell.strip() for cell in lines[3].split("|")[1:-1]]
    times = ["3.00", "0.250 s", "0.50", "1.0 s", "2.2 s"]
    assert cells[:-1] == ["Hydra", *times, "1 s (1 trials)", "1"]
    assert int(cells[-1]) == PEERS["hydra"].lines()


def test_a_program_is_placed_with_its_trials_plugins_and_languages_of_the_experiment(tmp_path):
    PEERS["raxalign"].place(tmp_path, range(3))
    grid = (tmp_path / "grid.yaml").read_text("utf-8")
    assert "number: [0, 1, 2]" in grid
    named = re.search(r"plugins: \[(.*)\]", grid)
    assert {*named[1].split(", "), "grid.yaml"} == {path.name for path in tmp_path.iterdir()}
    assert f"each: [{', '.join(work.LANGUAGES)}]" in grid


def test_work_notes_its_begin_and_its_end_and_refuses_another_corpus(tmp_path, monkeypatch):
    for name, value in ((work.LOG, f"{tmp_path}/log"), (work.SECONDS, "0"), (work.TRIALS, "20")):
        monkeypatch.setenv(name, str(value))
    assert work.points()[:3] == [("bg", 0), ("bg", 1), ("de", 0)]
    assert work.trial("de", 1, ["de0", "de1"]) == 2.001
    with pytest.raises(ValueError, match="the corpus of de is needed"):
        work.trial("de", 1, ["fr0"])
    (span,) = read((tmp_path / "log").read_text("ascii").splitlines())
    assert (span.name, span.is_trial, span.end is not None) == ("trial-de-1", True, True)


def test_each_program_has_one_version_and_none_is_required_by_the_package():
    pinned = (ROOT / "benchmarks/against/requirements.txt").read_text("utf-8").splitlines()
    names = [line.partition("==")[0] for line in pinned if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w\[\]-]+==[\d.]+", line) for line in pinned[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = chain(project["dependencies"], *project["optional-dependencies"].values())
    own = {re.match(r"[\w-]+", line)[0] for line in required}
    assert {name for name in names if name.partition("[")[0] in own} == {"ray[tune]"}


def test_what_a_file_keeps_is_read_back_and_is_of_one_size(tmp_path, found):
    size, file = Size(20, 1.0, 8), tmp_path / "kept.json"
    assert kept(file, size) == {}
    file.write_text(json.dumps({"size": asdict(size), "found": {"hydra": asdict(found)}}), "utf-8")
    assert kept(file, size) == {"hydra": found}
    with pytest.raises(SystemExit, match="name another file for"):
        kept(file, Size(20, 2.0, 8))


@pytest.mark.parametrize("trials", ["10", "25"])
def test_other_numbers_of_trials_are_refused(trials, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["against", "--trials", trials])
    with pytest.raises(SystemExit):
        main()
    assert "--trials is a multiple of 10" in capsys.readouterr().err
