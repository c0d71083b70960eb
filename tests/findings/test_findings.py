"""The program of the findings: what a sentence's verdict is, and what is kept of results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from findings.__main__ import PAGE, RECORD, _keep_lock, _workplace
from findings.page import NOT_YET, OUTSIDE, SAYS, SIDES, SIDES_SIZE, render
from findings.papers import GRIDS, PaperClaim, Papers, Range, grid_file
from findings.record import MARGIN, Answer, Difference, Ran, Record
from raxalign.grid.claims import Claim
from raxalign.grid.file import load
from raxalign.grid.lock import Lock
from raxalign.report.answer import stored_answer
from raxalign.values.claims import JudgedClaim
from tests.ledgers import fill, made_up

TEXT = "finetune > none in xnli"
MBERT = "bert-base-multilingual-cased"
OF = Range((MBERT,), ("bg", "de", "es", "fr"), (10_000, 250_000))
SAID = PaperClaim(
    "A (2020)", "Table 1", "It helps.", "it helps", "XNLI", "cao", (TEXT,), OF, "Nothing."
)


def difference(verdict: str = "refuted", encoder: str = MBERT, sentences: int = 10_000):
    return Difference(
        *("finetune", "none", "xnli", "accuracy", "avg", encoder, sentences, 45.0, 48.0, verdict),
        chance=33.33,
        difference=-3.0,
        low=-4.0,
        high=-2.0,
        p=0.002,
        margin=0.73,
        runs=(5,),
        epochs=1.0,
    )


def page(*several: Difference, claim: PaperClaim = SAID) -> str:
    answers = {TEXT: Answer(JudgedClaim.BEFORE, several)} if several else {}
    ran = Ran("2026-01-01", "0", "fp32", 5, 5, 60.0, answers)
    return render(Record({"cao": ran}), Papers((claim,), ()))


def test_within_its_range_a_sentence_is_held_or_refuted():
    for verdict in ("held", "refuted"):
        assert f"### 1: {verdict}" in page(difference(verdict))
    for verdict in ("no difference", "cannot tell"):
        assert f"### 1: {SAYS[verdict]}" in page(difference(verdict))


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (replace(OF, encoder=("another",)), "encoder"),
        (replace(OF, sentences=(50_000, 250_000)), "sizes"),
        (replace(OF, languages=("de",)), "languages"),
        (replace(OF, options={"rotation": {"layers": "9-12"}}), "`layers` of `rotation`"),
        (replace(OF, options={"rotation": {"center": False}}), "`center` of `rotation`"),
    ],
)
def test_outside_its_range_a_sentence_is_never_refuted(of, why):
    shown = page(difference("refuted"), claim=replace(SAID, range=of))
    assert f"### 1: {OUTSIDE}" in shown
    assert f"| {OUTSIDE} | the opposite | {why} |" in shown


def test_what_has_not_run_is_not_measured_yet():
    assert f"### 1: {NOT_YET}" in page()
    two = replace(SAID, claims=(TEXT, "finetune > rotation in xnli"))
    assert f"### 1: {NOT_YET}" in page(difference("refuted"), claim=two), "one of two has run"
    assert "45.00" not in page(difference("refuted"), claim=two)


def test_both_levels_and_chance_stand_next_to_each_difference():
    assert "| 10,000 | 45.00 | 48.00 | 33.33 | -3.00 | -4.00 to -2.00 | .002 | ± 0.73 |" in page(
        difference("refuted")
    )


def test_each_claim_of_a_paper_stands_in_its_grid():
    papers = Papers.read()
    for entry in papers.claims:
        grid = grid_file(entry.grid)
        assert entry.grid in GRIDS
        assert set(entry.claims) <= set(grid["claims"]), entry.says
        assert all(map(Claim.of, entry.claims))
        assert 0 < len(entry.quote.split()) < 15
        assert entry.place
        (languages,) = grid["languages"].values()
        assert set(languages) <= set(entry.range.languages), entry.says
        left = entry.range.left_by(grid, "multilingual-e5-small", grid["sentences"])
        assert not [one for one in left if one.startswith("`")], entry.says


def test_the_grids_are_without_fault_and_their_claims_are_locked():
    for path in GRIDS.values():
        claims = load(path).claims
        assert {f"claim: {claim.text}" for claim in claims} <= Lock.load(path).entries.keys()


def test_the_grids_that_check_the_cited_one_have_its_text_and_claims_and_one_size():
    cited = load(GRIDS["published-encoder"])
    claims = {claim.text for claim in cited.claims}
    for name in SIDES:
        grid = load(GRIDS[name])
        assert {claim.text for claim in grid.claims} <= claims
        assert (grid.corpus, grid.languages) == (cited.corpus, cited.languages)
        assert {*grid.seeds} <= {*cited.seeds}
        (left,) = grid_file(name)["exclude"]
        assert {*grid.sentences} - {*left["sentences"]} == {SIDES_SIZE}


def test_a_claim_stands_next_to_what_other_grids_say_of_it():
    text = "finetune > none in retrieval"

    def ran(verdict: str, sentences: int = SIDES_SIZE) -> Ran:
        found = replace(difference(verdict), sentences=sentences)
        return Ran(
            "2026-01-01", "0", "fp32", 5, 5, 60.0, {text: Answer(JudgedClaim.BEFORE, (found,))}
        )

    def row(**several: Ran) -> str:
        grids = {name.replace("_", "-"): one for name, one in several.items()}
        shown = render(Record(grids), Papers((), ()))
        return next(line for line in shown.splitlines() if line.startswith(f"| `{text}` |"))

    held = "-3.00 (-4.00 to -2.00): as expected"
    assert row(published_encoder=ran("held"), other_layer=ran("held", 100)).split(" | ")[1:] == [
        *(held, NOT_YET, "–", NOT_YET, f"{NOT_YET} |")
    ]
    both = {"published_encoder": ran("held"), "other_layer": ran("held")}
    checks = "(asked by 2 of 3) |"
    assert row(**both, other_aligner=ran("held")).endswith(f"expected | yes {checks}")
    open_ = row(**both, other_aligner=ran("cannot tell"))
    assert open_.endswith(f"cannot tell | not decided {checks}")
    assert row(**both, other_aligner=ran("refuted")).endswith(f"the opposite | no {checks}")


def test_a_significant_difference_within_the_margin_says_so():
    small = replace(difference("held"), difference=0.3, low=0.1, high=0.5)
    assert f"| {SAYS['held']} (within the margin) |" in page(small)
    assert f"| {SAYS['held']} |" in page(replace(small, high=0.8))
    assert f"| {SAYS['no difference']} |" in page(replace(small, verdict="no difference"))


def test_what_a_lock_has_is_never_written_anew(tmp_path):
    grid, ran = tmp_path / "grid.yaml", tmp_path / "work" / "grid.yaml"
    ran.parent.mkdir()
    Lock.load(grid).with_("claim: a", "first").save()
    Lock.load(ran).with_("claim: a", "later").with_("claim: b", "new").save()
    _keep_lock(ran, grid)
    assert Lock.load(grid).entries == {"claim: a": "first", "claim: b": "new"}


def test_a_grid_is_described_by_the_sizes_and_tasks_that_it_has():
    ran = Ran("2026-01-01", "0", "fp32", 5, 5, 60.0)
    shown = render(Record({"transfer": ran, "published-encoder": ran}), Papers((), ()))
    cited, transfer = (
        next(line for line in shown.splitlines() if line.startswith(f"`{file}`: "))
        for file in ("grids/published-encoder.yaml", "findings/transfer.yaml")
    )
    assert "on 100 or 400 or 1,600 sentence pairs" in cited
    assert "on 1,600 sentence pairs" in transfer, "the others are left out of all its methods"
    assert ("Sentences are looked for" in cited, "Sentences are" in transfer) == (True, False)


def test_other_data_is_refused_where_results_are_of_some(tmp_path):
    for name in ("data", "others", "encoder"):
        (tmp_path / name).mkdir()
    storage, data, encoder = (tmp_path / name for name in ("storage", "data", "encoder"))
    work = _workplace(storage, data, encoder)
    assert Lock.load(work / "liu.yaml").entries == Lock.load(GRIDS["liu"]).entries
    before = {path: path.stat().st_mtime_ns for path in work.glob("*.yaml")}
    assert len(before) == len(GRIDS)
    assert all("intfloat" not in path.read_text() for path in before)
    assert _workplace(storage, data, encoder) == work
    assert {path: path.stat().st_mtime_ns for path in work.glob("*.yaml")} == before
    with pytest.raises(SystemExit, match="name another --storage"):
        _workplace(storage, tmp_path / "others", encoder)


GRID = {"sentences": "100", "more": f"claims: ['{TEXT}', 'finetune > none in retrieval']\n"}


def partly(left: str):
    """Fill in all results but those of the last seed of a method."""

    def write(ledger, opened, trial, key):
        if trial.method != left or trial.seed == 0:
            fill(ledger, opened, trial, key)

    return write


def test_a_record_is_read_as_it_was_written(tmp_path):
    opened, _ = made_up(tmp_path, **GRID, methods=("none: {}", "finetune: {batch_size: 16}"))
    found = Ran.of(opened, "a digest", [(TEXT,), (TEXT, "finetune > none in retrieval")])
    assert found is not None
    record = Record({"cao": found})
    record.write(tmp_path / "record.json")
    assert Record.read(tmp_path / "record.json") == record
    (one,) = found.answers[TEXT].differences
    assert one.chance == pytest.approx(100 / 3, abs=1e-4)
    assert one.margin == pytest.approx(MARGIN / 100 * abs(one.against - one.chance), abs=1e-3)
    assert one.difference == pytest.approx(one.value - one.against, abs=1e-3)
    assert one.runs == (2,)
    assert one.epochs == 1
    assert (found.trials, found.done) == (len(opened.plan.trials),) * 2
    assert found.answer == stored_answer(opened.plan, opened.storage.ledger)
    shown = render(Record({"published-encoder": found}), Papers((), ()))
    assert f"What the report says: “{found.answer}”" in shown
    part = Record({"published-encoder": replace(found, left=("linear",))})
    told = f"What the methods show that have finished all runs: “{found.answer}”"
    assert told in render(part, Papers((), ()))
    assert "Not measured yet" not in shown
    assert f"| {found.done} of {found.trials}, of an earlier version of the file |" in shown
    one_task, both = found.times.values()
    assert 0 < one_task < both, "what both claims read is counted once, and nothing is left out"
    assert both == found.seconds
    assert {(each.task, each.first) for each in found.means} == {
        ("retrieval", "finetune"),
        ("xnli", "finetune"),
    }


def test_a_method_with_runs_that_are_left_is_not_looked_at(tmp_path):
    methods = ("none: {}", "rotation: {}", "finetune: {batch_size: 16}")
    claims = f"claims: ['{TEXT}', 'rotation > none in retrieval']\n"
    given = {**GRID, "more": claims, "methods": methods}
    opened, ledger = made_up(tmp_path, partly("finetune"), **given)
    found = Ran.of(opened)
    assert found is not None
    assert found.done == found.trials - 1
    assert list(found.answers) == ["rotation > none in retrieval"]
    assert {each.first for each in found.means} == {"rotation"}
    assert found.left == ("finetune with 100 pairs",)
    shown = render(Record({"published-encoder": found}), Papers((), ()))
    assert "Not measured yet: finetune with 100 pairs." in shown
    for trial in opened.plan.trials:
        for key in trial.evaluations.values():
            if not ledger.has(key):
                fill(ledger, opened, trial, key)
    later = Ran.of(opened)
    assert later is not None
    ((_, answer),) = [each for each in later.answers.items() if each[0] == TEXT]
    assert answer.differences[0].look == 1


def test_the_page_is_made_from_the_record_alone():
    assert Path(PAGE).read_text(encoding="utf-8") == render(Record.read(RECORD), Papers.read())
