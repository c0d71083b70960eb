"""The report as files: one page that needs nothing else, tables that survive their languages'
special characters, marks that tests bear out.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raxalign.grid.load import Opened
from raxalign.grid.trial import Trial
from raxalign.report.answer import stored_answer
from raxalign.report.compose import ReportOptions, compose, write_report
from raxalign.report.document import (
    Document,
    Entry,
    Headline,
    Line,
    Part,
    Table,
    breakable,
    markdown,
    tex,
)
from raxalign.store.ledger import Ledger
from raxalign.tasks.translation.counts import shift_point
from raxalign.values.claims import JudgedClaim
from raxalign.values.numbers import NumberFormat
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard
from tests.ledgers import fill, made_up
from tests.report.compiled import ENGINES, faults
from tests.report.material import part, results_of, section, write

NASTY = "a_b & 5% <script>|*x*| $y$ #1 ^~\\ {z}"
FORMS = ("html", "md", "tex")
EMPTY = ("meta", "br", "hr", "img", "input", "link", "wbr")


@pytest.fixture(scope="module")
def drawn(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with its figures, which take seconds."""
    folder = tmp_path_factory.mktemp("drawn")
    write(made, folder)
    return folder


@pytest.mark.slow
def test_the_page_stands_alone(drawn: Path) -> None:
    text = (drawn / "report.html").read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert not re.search(r"fetch|XMLHttpRequest|import|https?:", script)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    body = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"<(link|img|iframe|object)\b", body)
    assert not re.search(r'\b(src|href|action)="(?!#)', body)
    ids = re.findall(r'\sid="([^"]+)"', body)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', body)) <= set(ids)
    begun: list[str] = []
    for end, tag, alone in re.findall(r"<(/?)([A-Za-z][\w:]*)[^>]*?(/?)>", body):
        if end:
            assert begun.pop() == tag
        elif not alone and tag not in EMPTY:
            begun.append(tag)
    assert begun == []


def test_the_page_begins_with_the_answer_and_hides_nothing_without_a_script(written: Path) -> None:
    text = (written / "report.html").read_text(encoding="utf-8").split("<script>")[0]
    order = (
        'class="sentence"',
        'class="matrix"',
        "<nav",
        *(f'<section id="{name}"' for name in ("grid", "figures", "cao2020", "chosen", "how")),
    )
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert not re.search(r"<\w[^>]* hidden", text)
    assert "▲ better" in text
    assert "○ cannot tell" in text
    assert re.search(r"<details class=\"idle\"><summary>\d+ rows? without a measured value", text)


def test_every_form_of_the_report_has_the_answer_and_what_its_intervals_do_not_hold_for(written):
    texts = {kind: (written / f"report.{kind}").read_text("utf-8") for kind in FORMS}
    (sentence,) = re.findall(r'<p class="sentence">(.*?)</p>', texts["html"])
    assert " the unaligned encoder at word retrieval " in sentence
    assert markdown(sentence) in texts["md"]
    assert tex(sentence) in texts["tex"]
    for text in texts.values():
        said = "among all comparisons of the table the difference may be random variation"
        assert said in " ".join(text.split())


@pytest.mark.usefixtures("undrawn")
def test_every_table_and_figure_of_an_unfinished_grid_says_so(tmp_path: Path) -> None:
    def some(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
        if trial.method != "none":
            fill(ledger, opened, trial, key)

    write(made_up(tmp_path, some), tmp_path / "report")
    told = "Unfinished: results of 2 of 18 trials are missing"
    texts = {kind: (tmp_path / "report" / f"report.{kind}").read_text("utf-8") for kind in FORMS}
    for text in texts.values():
        assert f"{told} (none): " in text
        assert "grid has no baseline" not in text
    page = texts["html"]
    captions = re.findall(r"<figcaption.*?</figcaption>|<p class=\"caption\">.*?</p>", page)
    captions += re.findall(r"<summary><b>[^<]*</b> .*?</summary>", page)
    assert len(captions) > 8
    assert [caption for caption in captions if f"{told}." not in caption] == []
    for kind in ("tables", "figures"):
        for file in (tmp_path / "report" / kind).iterdir():
            assert f"{told}." in file.read_text("utf-8"), file


@pytest.mark.usefixtures("undrawn")
def test_a_trial_that_failed_is_not_called_missing(tmp_path: Path) -> None:
    def some(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
        if trial.method == "rotation" and trial.sentences == 100:
            ledger.fail(trial.run, {"message": "out of memory"})
        elif trial.method != "none":
            fill(ledger, opened, trial, key)

    write(made := made_up(tmp_path, some), tmp_path / "report")
    short, more = "Unfinished: 2 of 18 trials failed", "2 more are missing"
    told = f"{short}: rotation with 100 pairs; see `raxalign status FILE`. {more} (none): "
    assert stored_answer(made[0].plan, made[1]).startswith(told)
    shown = told.replace("`raxalign status FILE`", "<code>raxalign status FILE</code>")
    assert shown in (tmp_path / "report" / "report.html").read_text("utf-8")
    for kind in ("tables", "figures"):
        for file in (tmp_path / "report" / kind).iterdir():
            assert f"{short}. {more}." in file.read_text("utf-8"), file


def test_what_failed_is_named_by_its_languages_where_others_have_results(tmp_path: Path) -> None:
    def some(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
        if trial.method == "rotation" and "es" not in trial.languages:
            ledger.fail(trial.run, {"message": "out of memory"})
        else:
            fill(ledger, opened, trial, key)

    parts = {"languages": "{each: [de, fr, es]}", "sentences": "100", "tasks": ("retrieval: {}",)}
    opened, ledger = made_up(tmp_path, some, **parts, methods=("none: {}", "rotation: {}"))
    told = "2 of 6 trials failed: rotation with 100 pairs (de, fr); see `raxalign status FILE`. "
    assert told in stored_answer(opened.plan, ledger)
    (table, *_) = part("own_tables", results_of((opened, ledger))).tables
    assert [entry.text for entry in table.lines[1].entries[:2]] == ["failed", "failed"]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_same_results_give_the_same_report(made: Any, written: Path, tmp_path: Path) -> None:
    """That the same panels give the same figure is a test of figures."""
    write(made, tmp_path)
    for name in (*(f"report.{kind}" for kind in FORMS), "published.csv"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_markdown_tables_are_tables(written: Path) -> None:
    lines = (written / "report.md").read_text(encoding="utf-8").splitlines()
    heads = [number for number, line in enumerate(lines) if re.fullmatch(r"\|---\|(---:\|)+", line)]
    assert len(heads) > 5
    for head in heads:
        width, end = lines[head].count("|"), head
        while end < len(lines) and lines[end].startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", lines[end])) == width
            end += 1
        assert end > head + 1
        assert lines[head - 1].startswith("|")


def test_latex_rows_have_the_columns_of_their_table(written: Path) -> None:
    text = (written / "report.tex").read_text(encoding="utf-8")
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    tables = re.findall(r"\\begin\{tabular\}\{l(r*)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tables) > 5
    for columns, body in tables:
        for line in body.splitlines():
            if line.endswith("\\\\") and "multicolumn" not in line:
                assert len(re.findall(r"(?<!\\)&", line)) == len(columns)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_report_and_a_paper_that_reads_its_tables_compile(drawn, tmp_path, engine):
    tables = "".join(f"\\input{{tables/{path.name}}}\n" for path in drawn.glob("tables/*.tex"))
    (drawn / "paper.tex").write_text(
        f"\\documentclass{{article}}\n\\usepackage{{booktabs,graphicx}}\n\\begin{{document}}\n{tables}"
        "\\ref{tab:small-xnli-accuracy}\\end{document}\n"
    )
    for name in ("report.tex", "paper.tex"):
        assert faults(engine, drawn / name, tmp_path) == []


def test_published_figures_and_measured_ones_are_a_table_for_programs(written: Path) -> None:
    found = read_csv(written / "published.csv")
    measured = [entry for entry in found if entry["measured"]]
    assert measured
    for entry in measured:
        if not entry["column"].startswith("average"):
            apart = float(entry["measured"]) - float(entry["published"])
            assert float(entry["difference"]) == pytest.approx(apart)
    told = {entry["notes"] for entry in found if not entry["measured"]}
    assert told == {"not run", "published alone"}
    assert json.loads((written / "results.json").read_text(encoding="utf-8"))


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_names_with_special_characters_break_no_language() -> None:
    entry = Entry(NASTY, NASTY, NASTY, "−1", "better", notes=(1,))
    line = Line(NASTY, (entry,), NASTY, (1,), NASTY)
    table = Table("t", NASTY, (NASTY,), (line,), NASTY, (NASTY,))
    part = Part("s", NASTY, NASTY, (table,), remarks=(NASTY,))
    document = Document(NASTY, NASTY, ((NASTY, NASTY),), (part,), (NASTY,))
    page = document.html()
    assert page.count("<script>") == 1
    assert "&lt;script&gt;" in page
    row = next(line for line in document.markdown().splitlines() if line.startswith("| a"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    text = document.latex()
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert not re.search(r"(?<!\\)[%#](?![\n ])", text.split(r"\maketitle")[1].replace("!}{%", ""))


def test_escapes_and_breaks_by_hand() -> None:
    assert tex("a_b & 5 % ±1 − λ") == r"a\_b \& 5 \% $\pm$1 $-$ $\lambda$"
    assert tex("\\{") == r"\textbackslash{}\{"
    assert markdown("a|b *c* <d>") == r"a\|b \*c\* \<d\>"
    assert markdown("$x$ R&D &lt;") == r"\$x\$ R&D \&lt;"
    assert str(breakable("bleu1/layer=11,alpha=3")) == "bleu1/<wbr>layer=11,<wbr>alpha=3"
    assert str(breakable("mean_shift, 8,000 pairs")) == "mean_<wbr>shift, 8,000 pairs"


def test_a_cell_in_one_line_by_hand() -> None:
    own = Entry("72.0", "[70.1, 73.9]", delta="+2.1 [0.3, 3.9]", mark="better", notes=(1,))
    paper = Entry("72.0", "[70.1, 73.9]", "73.1", "−1.1", "worse")
    table = Table("t", "T", ("own", "paper"), (Line("l", (own, paper)),))
    line = r"| l | **72.0** ▲<sup>a</sup> \[70.1, 73.9\] (+2.1 \[0.3, 3.9\])"
    assert rf"{line} | 72.0 ▼ \[70.1, 73.9\] (73.1; −1.1) |" in table.markdown()
    text = Document("d", "", (), (Part("p", "P", tables=(table,)),)).latex()
    upper = r"\textbf{72.0}$\uparrow$\textsuperscript{a} {\scriptsize [70.1, 73.9]}"
    assert rf" & {upper} & 72.0$\downarrow$ {{\scriptsize [70.1, 73.9]}} \\" in text
    assert r" & {\scriptsize +2.1 [0.3, 3.9]} & {\scriptsize 73.1 ($-$1.1)} \\" in text


def test_numbers_are_shown_by_their_unit() -> None:
    assert NumberFormat.signed(-0.04, 1) == "±0.0"
    assert NumberFormat.published("f1_percent", [66.15]).show(0.6615) == "66.15"
    assert NumberFormat.published("accuracy_percent", [80.4]).show(0.72345) == "72.3"
    assert NumberFormat.published("sentences", [14987]).show(14987) == "14,987"
    assert shift_point("layer10_alpha2.5_convert_rate") == (10, 2.5, "convert_rate")
    assert shift_point("layer1_alpha-1e-05_bleu1") == (1, -1e-05, "bleu1")
    assert shift_point("accuracy") is None


def test_every_comparison_is_in_a_file_for_programs(tested, written):
    found = json.loads((written / "comparisons.json").read_text(encoding="utf-8"))
    shown = [line for table in part("own_tables", tested).tables for line in table.lines]
    assert len(found) == sum(bool(entry.delta) for line in shown for entry in line.entries)
    read = read_csv(written / "comparisons.csv")
    assert [float(row["p_adjusted"]) for row in read] == [row["p_adjusted"] for row in found]
    of = ("task", "lang", "cell", "sentences")
    wanted = ("xnli", "avg_zero_shot", "finetune lambda=1", 200)
    mean = next(row for row in found if tuple(row[name] for name in of) == wanted)
    assert mean["baseline"] == "none"
    assert mean["difference_low"] < mean["difference"] < mean["difference_high"]
    counts = ("runs", "baseline_runs", "examples", "paired")
    assert [mean[name] for name in counts] == [2, 2, 60, False]


def test_dev_chooses_and_its_test_value_is_shown(tested: Scoreboard) -> None:
    section = part("chosen_on_dev", tested)
    table = next(table for table in section.tables if table.anchor == "chosen-xnli")
    assert "also chose the checkpoints (selection: pivot-dev)" in table.caption
    largest = [line for line in table.lines if line.label == "finetune"][-1]
    point, _, test, top, points = (entry.text for entry in largest.entries)
    assert points == "3"
    assert float(test) <= float(top)
    name = ("xnli", "avg_zero_shot", "accuracy")
    cells = [cell for cell in tested.cells if cell.method == "finetune" and cell.sentences == 200]
    best = max(cells, key=lambda cell: cell.values[*name, "dev"].mean)
    assert point == f"λ={best.params['lambda']:g}"
    assert float(test) == pytest.approx(100 * best.values[*name, "test"].mean, abs=0.051)


def test_retrieval_against_transfer_says_its_n(results: Scoreboard) -> None:
    transfer = section("curves", results)
    (panel,) = transfer.transfer_panels()
    assert [cloud.label for cloud in panel.series] == ["none", "rotation", "finetune"]
    assert all(len(cloud.x) == 3 for cloud in panel.series)
    (table,) = transfer.transfer_tables()
    assert table.columns == ("xnli",)
    for line, cloud in zip(table.lines, panel.series, strict=True):
        assert line.label.startswith(cloud.label)
        shown = float(line.entries[0].text.replace("−", "-"))
        assert shown == pytest.approx(np.corrcoef(cloud.x, cloud.y)[0, 1], abs=0.0051)
        assert line.entries[0].below.endswith("n = 3")


def test_the_metric_that_the_first_task_is_compared_by_stands_open_and_others_are_folded(results):
    folded = {table.anchor: table.folded for table in part("own_tables", results).tables}
    assert not folded["grid-retrieval-contextual_accuracy-test"]
    assert folded["grid-retrieval-noncontextual_accuracy-test"]
    assert folded["grid-xnli-accuracy-test"]
    assert sum(folded.values()) == len(folded) - 1


def test_figures_of_a_task_without_test_say_dev(made: Any) -> None:
    opened, ledger = made
    dev = [row for row in rows(opened.plan, ledger) if row["split"] == "dev"]
    results = Scoreboard.of(dev, opened.plan)
    (gain,) = section("curves", results).gain_panels()
    assert gain.title == "xnli, phrasebook dev set, 2 training runs"
    langs = {row["lang"] for row in dev if (row["method"], row["task"]) == ("none", "xnli")}
    assert set(gain.series[0].names) == langs - {"en"}
    titles = [panel.title for panel in section("curves", results).size_panels()]
    assert titles == [
        f"{task} dev set, 2 training runs" for task in ("retrieval,", "xnli, phrasebook")
    ]


def test_a_report_of_nothing_says_so(made: Any, tmp_path: Path) -> None:
    opened, _ = made
    write_report([], opened.plan, tmp_path, asked=ReportOptions(published=["cao2020"]))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "0 of" in text
    assert "not run" in text


@pytest.mark.parametrize("number", [3, 4])
def test_claims_are_counted_by_verdict_and_many_are_folded(number: int) -> None:
    lines = tuple(f"held: claim {k}" for k in range(number))
    headline = Headline("It helps.", claims=lines, verdicts=f"{number} claims: {number} held")
    document = Document("t", "s", (), (), (), headline)
    page = document.html()
    folded = "<details" + ' class="remarks"' + ("" if number > 3 else " open")
    assert f"{folded}><summary><b>{number} claims: {number} held</b></summary>" in page
    for text in (page, document.markdown(), document.latex()):
        assert all(line in text for line in lines), "each stands in every form"


def test_a_report_s_claims_are_counted_as_they_were_judged(tmp_path: Path) -> None:
    texts = ("finetune > none in retrieval", "none > finetune in retrieval")
    more = f"claims: {[*texts]}\n"
    methods = ("none: {}", "finetune: {batch_size: 16}")
    given = {"languages": "{together: [de]}", "sentences": "100", "more": more}
    opened, ledger = made_up(tmp_path, methods=methods, **given)
    claims = JudgedClaim.all_in(opened)
    asked = ReportOptions(claims=claims)
    made = compose(rows(opened.plan, ledger), opened.plan, tmp_path, ledger=ledger, asked=asked)
    found = made.document.headline
    assert found is not None
    first, second = (claim.verdict for claim in claims)
    counts = f"2 {first}" if first == second else f"1 {first}, 1 {second}"
    assert found.verdicts == f"2 claims: {counts}"
