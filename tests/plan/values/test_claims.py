"""Claims: judged on results, corrected together, and marked where they came after the results."""

from dataclasses import replace

import pytest

from raxalign.analysis.significance import holm
from raxalign.errors import RaxalignError
from raxalign.grid.claims import Claim
from raxalign.grid.lock import Lock
from raxalign.values.claims import JudgedClaim
from tests.ledgers import fill, made_up

WORDS = "contextual_accuracy"
GRID = {"languages": "{together: [de, fr]}", "sentences": "100", "seeds": "[0, 1, 2]"}
GRID |= {"tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")}
GRID["methods"] = ("none: {}", "rotation: {center: [false, true]}", "finetune: {batch_size: 16}")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return made_up(tmp_path_factory.mktemp("grid"), **GRID)[0]


def with_claims(opened, *texts):
    claims = [Claim.of(text) for text in texts]
    assert None not in claims
    return replace(opened, grid=replace(opened.grid, claims=tuple(filter(None, claims))))


def elsewhere(opened, folder):
    """The same grid on an empty storage."""
    return replace(opened, run=opened.run.model_copy(update={"storage": str(folder)}))


def judged(opened, *texts):
    return JudgedClaim.all_in(with_claims(opened, *texts))


def test_a_claim_and_its_opposite_are_never_both_held(opened):
    one, other = judged(opened, "finetune > none in retrieval", "none > finetune in retrieval")
    assert {one.verdict, other.verdict} in ({"held", "refuted"}, {"cannot tell"})
    (mine,), (theirs,) = one.tests, other.tests
    assert mine.entry.difference == pytest.approx(-(theirs.entry.difference or 0.0))
    below, above = sorted((one, other), key=lambda found: found.tests[0].entry.difference or 0.0)
    assert below.verdict != "held"
    assert above.verdict != "refuted"


def test_the_correction_is_over_the_tests_of_all_claims(opened):
    texts = ("finetune > none in xnli", "finetune > none in retrieval for de")
    together = judged(opened, *texts)
    alone = [judged(opened, text)[0].tests[0].p for text in texts]
    assert [one.tests[0].p for one in together] == pytest.approx(holm([p or 0.0 for p in alone]))
    assert together[1].tests[0].entry.name[1] == "de-en"


def test_a_margin_holds_where_the_interval_lies_within_it(opened):
    texts = (f"abs(finetune - none) < {margin} in retrieval" for margin in ("500", "0.0001"))
    wide, narrow = judged(opened, *texts)
    assert wide.verdict == "held"
    assert narrow.verdict in ("refuted", "cannot tell")


def test_where_no_difference_is_told_it_lies_within_the_one_that_matters(opened):
    texts = [
        f"{one} > none in {task}"
        for one in ("rotation center=true", "finetune")
        for task in ("retrieval", "xnli")
    ]
    claims = with_claims(opened, *texts)
    plain, small, large = (JudgedClaim.all_in(claims, given) for given in (None, 1e-6, 500.0))
    assert "cannot tell" in {found.verdict for found in plain}
    assert [found.says for found in small] == [found.verdict for found in plain]
    for before, after in zip(plain, large, strict=True):
        open_ = before.verdict == "cannot tell"
        assert after.says == ("no difference above 500" if open_ else before.verdict)


def test_a_relative_margin_is_a_share_of_the_distance_from_chance(opened):
    (test,) = judged(opened, "finetune > none in xnli")[0].tests
    base = test.entry.baseline_value
    assert base is not None
    assert test.chance == 1 / 3
    assert test.reach == pytest.approx(abs(base.mean - 1 / 3))
    assert test.low is not None
    assert test.high is not None
    wide = 100 * max(abs(test.low), abs(test.high)) / test.reach
    texts = (f"abs(finetune - none) < {share * wide}% in xnli" for share in (1.01, 0.99))
    inside, beyond = judged(opened, *texts)
    assert inside.verdict == "held"
    assert beyond.verdict in ("refuted", "cannot tell")
    (open_,) = JudgedClaim.all_in(
        with_claims(opened, "rotation center=true > none in xnli"), 1e5, relative=True
    )
    assert open_.says in (
        "held",
        "refuted",
        "no difference above 100000 % of the distance from chance",
    )
    assert open_.tests[0].margin == pytest.approx(1e3 * open_.tests[0].reach)


def test_both_values_and_chance_stand_next_to_the_difference(opened):
    claims = judged(opened, "finetune > none in xnli", "finetune > none in retrieval")
    for found in claims:
        (test,) = found.tests
        entry, base = test.entry, test.entry.baseline_value
        assert base is not None
        levels = f"{100 * entry.value.mean:.1f} against {100 * base.mean:.1f} (chance "
        assert f"({levels}{100 * test.chance:.1f}): " in found.line
    counts = [
        claims[1].tests[0].entry.cell.values["retrieval", lang, f"{WORDS}_pairs", "test"].mean
        for lang in ("de-en", "fr-en")
    ]
    assert claims[1].tests[0].chance == pytest.approx(sum(1 / n for n in counts) / 2)


def test_a_claim_over_few_languages_cannot_be_told_and_says_why(opened):
    (found,) = judged(opened, "finetune > none in xnli over languages")
    assert found.verdict == "cannot tell"
    assert "not tested: fewer than 4 languages" in found.line


def test_a_verdict_on_a_part_of_the_trials_says_so_with_the_size_that_it_is_about(tmp_path):
    """Of finetune the trials with 100 pairs alone are done."""

    def write(ledger, opened, trial, key):
        if (trial.method, trial.sentences) != ("finetune", 400):
            fill(ledger, opened, trial, key)

    given = {**GRID, "sentences": "[100, 400]", "methods": ("none: {}", "finetune: {}")}
    opened, _ = made_up(tmp_path, write, **given)
    (found,) = judged(opened, "finetune > none in retrieval")
    assert len(found.tests) == 1
    assert found.says == f"{found.verdict} so far (6 of 9 trials)"
    assert f"{found.says}: finetune > none in retrieval (100 pairs: " in found.line
    for trial in opened.plan.trials:
        fill(opened.storage.ledger, opened, trial, trial.evaluations["retrieval"])
    (found,) = judged(opened, "finetune > none in retrieval")
    assert len(found.tests) == 2
    assert found.says == found.verdict, "what the other tasks lack is not its matter"


def test_without_results_nothing_is_judged(opened, tmp_path):
    (found,) = judged(elsewhere(opened, tmp_path), "finetune > none in xnli")
    assert (found.verdict, found.tests) == ("not run", ())


def test_a_name_that_means_several_methods_is_refused_by_the_claim(opened):
    with pytest.raises(RaxalignError, match="claim 'rotation > none in retrieval': 'rotation' may"):
        judged(opened, "rotation > none in retrieval")
    (found,) = judged(opened, "rotation center=true > none in retrieval")
    assert found.tests


def test_claims_are_locked_once_and_marked_where_there_were_results(opened, tmp_path):
    moved = replace(opened, grid=replace(opened.grid, path=tmp_path / "grid.yaml"))
    before = elsewhere(moved, tmp_path / "empty")
    JudgedClaim.lock(with_claims(before, "finetune > none in xnli"))
    first = Lock.load(moved.grid.path).entries
    both = with_claims(moved, "finetune > none in xnli", "finetune > none in retrieval")
    JudgedClaim.lock(both)
    later = Lock.load(moved.grid.path).entries
    assert first.items() <= later.items(), "what was locked stays as it was"
    assert [found.written for found in JudgedClaim.all_in(both)] == [
        JudgedClaim.BEFORE,
        JudgedClaim.AFTER,
    ]
    told = [found.line for found in JudgedClaim.all_in(both)]
    assert JudgedClaim.BEFORE not in told[0]
    assert told[1].endswith(f"[{JudgedClaim.AFTER}]")


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("a > b in t", ("a", "b", "t", None, None, None, False)),
        ("a x=1 > b in t m over languages", ("a x=1", "b", "t", "m", None, None, True)),
        ("abs(a - b y=2) < 1.5 in t m for de", ("a", "b y=2", "t", "m", "de", 1.5, False)),
    ],
)
def test_both_forms_of_a_claim_are_read(text, claim):
    first, second, task, metric, lang, margin, over = claim
    made = Claim(text, first, second, task, metric, lang, margin, over_languages=over)
    assert Claim.of(text) == made


def test_a_margin_with_a_percent_sign_is_relative():
    for text in ("abs(a - b) < 5% in t", "abs(a - b) < 5 % in t"):
        found = Claim.of(text)
        assert found is not None
        assert (found.margin, found.relative) == (5.0, True)


@pytest.mark.parametrize("text", ["a is better", "a > b", "abs(a - b) in t", "a > b in t m n"])
def test_what_has_neither_form_is_not_a_claim(text):
    assert Claim.of(text) is None


@pytest.mark.parametrize("encoders", [1, 2])
def test_a_line_names_what_its_tests_differ_in_and_nothing_else(tmp_path, encoders):
    scratch = [
        f"{{kind: scratch, layers: 2, hidden_size: 32, vocab_size: 400, steps: {steps}}}"
        for steps in (2, 3)[:encoders]
    ]
    given = {**GRID, "sentences": "[100, 200]", "encoder": f"[{', '.join(scratch)}]"}
    (found,) = judged(made_up(tmp_path, **given)[0], "finetune > none in retrieval")
    assert len(found.tests) == 2 * encoders
    assert found.line.count("100 pairs: ") == found.line.count("200 pairs: ") == encoders
    named = {test.entry.cell.encoder for test in found.tests}
    assert all(name in found.line for name in named) is (encoders == 2)
