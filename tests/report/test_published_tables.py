"""Published rows find the trials that measure them, and every way in which the two are not alike
is noted; and a param that is chosen for each language."""

from dataclasses import replace

import pytest

from raxalign.analysis.cells import Value
from raxalign.analysis.significance import Interval
from raxalign.grid.plan import Plan
from raxalign.grid.published import Publication
from raxalign.grid.trial import Trial
from raxalign.report.matching import Matcher
from raxalign.report.sections.base import Fill
from raxalign.report.sections.published import RECORD
from raxalign.values.comparisons import Compared
from raxalign.values.scoreboard import Scoreboard
from tests.report.material import published, share

BASE = {"trial": "t", "method": "finetune", "params": {"lambda": 1.0}, "languages": ["de"]}
BASE |= {"encoder": "bert-base-multilingual-cased", "sentences": 250_000, "seed": 0}
BASE |= {"task": "xnli", "task_params": {"setting": "zero-shot", "data": "hub"}, "lang": "de"}
BASE |= {"metric": "accuracy", "split": "test", "evaluation": "e"}
BARE = {"method": "none", "params": {}, "sentences": None}


def row(value, **changes):
    return {**BASE, "value": value, **changes}


def results(rows, kinds=None):
    facts = ({}, "e", ("de",), None, None, "a", {})
    trials = tuple(Trial(name, kind, *facts) for name, kind in (kinds or {}).items())
    return Scoreboard.of(rows, Plan("p", "en", 1, trials, {}, {"finetune": ("lambda",)}))


def table_of(found, label="xnli_methods", name="cao2020"):
    made = found if isinstance(found, Scoreboard) else results(found)
    sections, _ = published(made, [name])
    return next(table for table in sections[0].tables if table.anchor == f"{name}-{label}")


def line_of(table, label, group=""):
    return next(line for line in table.lines if (line.label, line.group) == (label, group))


def entry_of(table, label, column, group=""):
    return line_of(table, label, group).entries[table.columns.index(column)]


def finetuned(table, column="de"):
    """The cell of zero-shot fine-tuning in Cao et al.'s table of methods."""
    return entry_of(table, "finetune", column, "zero-shot")


def told(table):
    """All that a table says in words."""
    return " ".join([table.caption, *table.notes])


def records_of(records):
    """The records of measured figures."""
    every = [dict(zip(RECORD, record, strict=True)) for record in records]
    return [record for record in every if record["measured"] is not None]


def test_a_cell_has_mean_interval_mark_published_figure_and_difference():
    values = (0.70, 0.72, 0.74)
    found = results([row(v, seed=i, evaluation=f"{i}") for i, v in enumerate(values)])
    assert finetuned(table_of(found)).spread == "", "nothing is known of it without predictions"
    (cell,) = found.cells
    name = ("xnli", "de", "accuracy", "test")
    around = Interval(0.695, 0.7449, 3, 5010)
    found = found.tested([Compared(cell, name, cell.values[name], around, verdict="better")])
    entry = finetuned(table_of(found))
    assert (entry.text, entry.below, entry.delta, entry.state) == ("72.0", "73.1", "−1.1", "value")
    assert (entry.spread, entry.mark) == ("[69.5, 74.5]", "better")
    _, records = published(found, ["cao2020"])
    record = records_of(records)[0]
    assert record["seeds"] == 3
    assert (record["low"], record["high"]) == pytest.approx((69.5, 74.49))


def test_another_encoder_stands_in_where_the_grid_has_none_of_the_paper_s_and_is_named():
    found = [row(0.7, **ALIGN | {"method": "none", "params": {}, "encoder": "small"})]
    place = ("fine-tuning", "de", "not-realigned")
    for label, paper in (("mbert", "bert"), ("distilmbert", "distilbert")):
        table = table_of(found, f"pos_{label}", "bakos2025")
        assert entry_of(table, *place).text == "70.0"
        assert f"Measured on small (published: {paper}-base-multilingual-cased)." in told(table)
        assert "tables.ipynb (https://github.com/posos-tech/" in table.caption
    other = found[0] | {"encoder": "distilbert-base-multilingual-cased", "trial": "u"}
    shown = (table_of([*found, other], f"pos_{label}", "bakos2025") for label in ENCODERS)
    assert [entry_of(table, *place).text for table in shown] == ["not run", "70.0", "not run"]


def test_a_mean_over_the_columns_has_the_interval_and_mark_of_the_grid_s_own_mean():
    found = results([row(0.7, lang="de"), row(0.8, lang="fr"), row(0.9, lang="en")])
    (cell,) = found.cells
    compared = []
    for lang, low in (("avg", 0.71), ("avg_zero_shot", 0.65)):
        name = ("xnli", lang, "accuracy", "test")
        around = Interval(low, 0.9, 1, 50)
        compared.append(Compared(cell, name, cell.values[name], around, verdict="worse"))
    entry = finetuned(table_of(found.tested(compared)), "average")
    assert (entry.spread, entry.mark) == ("[71.0, 90.0]", "worse")


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [  # the same size, and none in its place where the grid has published sizes
        ((10_000, 50_000), ("60.0", "65.0", "not run")),
        # sizes that no paper has stand for the papers' by rank
        ((100, 200, 400), ("60.0", "65.0", "70.0")),
        ((8_000,), ("60.0", "not run", "not run")),  # one size alone, for the nearest
    ],
)
def test_a_size_of_the_grid_stands_for_one_of_the_paper(sizes, shown):
    rows = [row(0.6 + 0.05 * place, sentences=size) for place, size in enumerate(sizes)]
    table, de = table_of(rows, "xnli_data_size"), "de"
    found = {line.label: line.entries[table.columns.index(de)].text for line in table.lines}
    asked = ("0", "10000", "50000", "250000")
    assert found == dict(zip(asked, ("not run", *shown), strict=True))
    scale = "Scale reduced: 400 sentence pairs per language (published: 250,000)."
    assert (scale in told(table)) == (400 in sizes)


EN = [row(0.7, lang="de"), row(0.8, lang="fr"), row(0.9, lang="en")]
TRANSLATED = {"setting": "translate-train", "data": "hub"}
SHIFTS = [
    row(value, method="mean_shift", params={"alpha": alpha}, split=split)
    for alpha, value in ((0.0, 0.7), (0.5, 0.6))
    for split in ("dev", "test")
]
BOTH_WAYS = [
    row(value, params={"lambda": 1.0, "direction": way}, split=split)
    for way, value in (("to-pivot", 0.6), ("to-other", 0.7))
    for split in ("dev", "test")
]
PPA = {"method": "ppa", "params": {"moco": True, "tlm": True, "mlm_for_tlm": False}}
PLAIN, MIXED = (
    {"task": name, "task_params": {"setting": "translate-train", "code_switching": kind}}
    for name, kind in (("xnli", "none"), ("xnli_switched", "sentence"))
)
SWITCHED = [row(0.6, **PPA | PLAIN), row(0.7, **PPA | MIXED), row(0.5, **PLAIN, method="none")]
MLQA = [
    row(0.5, lang=lang, metric=metric, task="mlqa", **{**BARE, "method": "weam"})
    for lang in ("es", "de", "zh")
    for metric in ("exact_match", "f1")
]
WORDS = {"lang": "de-en", "metric": "contextual_accuracy"}
FASTTEXT = {"method": "rotation", "params": {"supervision": "parallel"}, "encoder": "fasttext"}
NARROW, WIDE = (
    {"task": task, "task_params": {"augmentation": kind}}
    for task, kind in (("retrieval", "none"), ("retrieval_wide", "sentence"))
)
TWO_TASKS = [row(0.1, **BARE | WORDS | WIDE), row(0.2, **BARE | WORDS | NARROW)]
TWO_TASKS += [row(0.3, **WORDS | FASTTEXT | NARROW), row(0.4, **WORDS | FASTTEXT | WIDE)]
SELECTED = {"setting": "zero-shot", "data": "hub", "selection": "pivot-dev"}
PHRASES = {"encoder": "scratch", "task_params": {"setting": "zero-shot", "data": "phrasebook"}}
SIZES = [row(0.5 + size / 1e6, sentences=size) for size in (10_000, 50_000, 250_000)]
FINETUNE, LAYERS = ("finetune", "zero-shot"), "finetune-last-6-layers"
CAO, MORE, MDS = "cao2020/xnli_methods", "cao2020/xnli_more_languages", "liu2020/xnli_mds"
ABLATION, UNSWITCHED = "pan2021/xnli_ablation", "ppa-without-code-switching/250k"
TRAINED, CONTEXTUAL = "translate-train", "contextual"
FREE = {"freeze": "none"}
ALIGN = {"method": "strong_contrastive", "task": "pos", "task_params": {}}
DURING = {"freeze": "none", "with_task": {"task": "pos", "schedule": "joint"}}
LOWER = {"freeze": {"blocks": "lower", "embeddings": False}}
FROZEN = [
    row(value, **ALIGN | {"params": params})
    for value, params in ((0.4, DURING), (0.1, FREE), (0.2, LOWER), (0.3, {"freeze": "upper"}))
]
MEXA = BARE | {"task": "representation", "task_params": {}, "lang": "fr-en"}
BY_LAYER = [row(0.9, **MEXA | {"metric": "layer2_cka"})]
MEXAS = enumerate((0.2, 0.6, 0.4))
BY_LAYER += [row(value, **MEXA | {"metric": f"layer{layer}_mexa"}) for layer, value in MEXAS]
POS, ENCODERS = "bakos2025/pos_mbert", ("mbert", "distilmbert", "xlmr")
WEAM, EXACT = ("weam", "zero-shot"), "average-zero-shot EM"
ON_DEV = [row(0.7, split="dev", task_params=SELECTED)]


@pytest.mark.parametrize(
    ("rows", "table", "place", "column", "shown"),
    [  # (text, published, difference)
        ([row(0.7)], CAO, FINETUNE, "fr", ("not run", "74.5", "")),
        ([row(0.7)], CAO, ("xlm-mlm-tlm", "zero-shot"), "de", ("77.8", "", "")),
        # 80.0 - (73.1 + 74.5 + 80.1) / 3
        (EN, CAO, FINETUNE, "average", ("80.0", "74.7", "+4.1")),
        # printed is 48.2, and the mean of es, de and zh is 47.0
        (MLQA, "weam2021/mlqa", WEAM, EXACT, ("50.0", "48.2", "+3.0")),
        ([row(0.7, task_params=TRANSLATED)], CAO, FINETUNE, "de", ("not run", "73.1", "")),
        (BOTH_WAYS, CAO, FINETUNE, "de", ("60.0", "73.1", "−13.1")),
        (SHIFTS, MDS, (LAYERS, ""), "de", ("70.00",)),
        (SHIFTS, MDS, (f"{LAYERS}/mds", ""), "de", ("60.00",)),
        (SWITCHED, ABLATION, ("ppa/250k", TRAINED), "de", ("70.0",)),
        (SWITCHED, ABLATION, (UNSWITCHED, TRAINED), "de", ("60.0",)),
        (SWITCHED, "pan2021/xnli", ("base", TRAINED), "de", ("50.0",)),
        (TWO_TASKS, "cao2020/retrieval", ("base", CONTEXTUAL), "de-en", ("20.0",)),
        (FROZEN, POS, ("fast-align", "realigned"), "de", ("10.0", "89.7")),
        (FROZEN, POS, ("fast-align", "front-frozen"), "de", ("20.0", "89.2")),
        (FROZEN, POS, ("fast-align", "back-frozen"), "de", ("30.0", "89.5")),
        (FROZEN, POS, ("dictionary", "back-frozen"), "de", ("89.8", "")),
        (BY_LAYER, "kargaran2024/bible", ("gemma-7b", ""), "fr-en", ("60.0", "91.3")),
        (TWO_TASKS, "cao2020/retrieval", ("fasttext-sentence", CONTEXTUAL), "de-en", ("40.0",)),
    ],
)
def test_a_cell_shows_the_trial_that_its_row_means(rows, table, place, column, shown):
    kinds = {"xnli_switched": "xnli", "retrieval_wide": "retrieval"}
    tasks = {row["task"]: kinds.get(row["task"], row["task"]) for row in rows}
    name, label = table.split("/")
    found = table_of(replace(results(rows), tasks=tasks), label, name)
    entry = entry_of(found, place[0], column, place[1])
    assert (entry.text, entry.below, entry.delta)[: len(shown)] == shown


@pytest.mark.parametrize(
    ("rows", "table", "notes"),
    [
        (SIZES, MORE, "Scale reduced: 10,000 sentence pairs per language (published: 20,000)."),
        (EN, CAO, "Mean over 3 of 6 columns"),
        (MLQA, "weam2021/mlqa", "Printed as the mean"),
        (TWO_TASKS[2:3], "cao2020/retrieval", "augmentation: none (published: sentence)"),
        (ON_DEV, CAO, "Measured on the dev set (published: test)."),
        (ON_DEV, CAO, "also chose the checkpoint (selection: pivot-dev)"),
    ],
)
def test_what_is_not_as_published_is_noted(rows, table, notes):
    name, label = table.split("/")
    assert notes in told(table_of(rows, label, name))


def test_other_encoders_and_data_are_noted_once_for_the_whole_table():
    table = table_of([row(0.7, method=method, **PHRASES) for method in ("none", "finetune")])
    assert "Measured on scratch (published: bert-base-multilingual-cased)." in table.caption
    assert "data: phrasebook (published: hub)" in table.caption
    assert not any("scratch" in note for note in table.notes)
    states = {entry.state for line in table_of([]).lines for entry in line.entries}
    assert states == {"absent", "published"}


def test_of_several_points_the_paper_s_own_is_taken_else_the_best_on_dev():
    paper = Publication.read("cao2020")
    table = paper.tables["xnli_methods"]

    def matched(rows, kinds=None):
        return Matcher(results(rows, kinds), paper).match(table, "zero-shot/finetune")

    assert matched([row(0.7, method="mine")], {"mine": "rotation"}) is None
    assert matched([row(0.7, method="mine")], {"mine": "finetune"}) is not None
    values = ((0.1, 0.9), (1.0, 0.5), (10.0, 0.8))
    points = [row(value, params={"lambda": x}) for x, value in values]
    own = matched(points)
    assert (own.cell.params["lambda"], own.differs, own.chosen) == (1.0, (), "")
    dev = [row(value, params={"lambda": x}, split="dev") for x, value in ((0.1, 0.2), (10.0, 0.3))]
    best = matched([points[0], points[2], *dev])
    differs = ("lambda: 10 (published: 1)",)
    assert (best.differs, best.chosen) == (differs, "the best on dev of 2 configurations")


def test_a_dataset_is_matched_by_the_task_s_name():
    base = {**BARE, "metric": "f1", "split": "dev", "task_params": {"tagger": "bilstm_crf"}}
    found = replace(results([row(0.5, task="atis", lang="tr", **base)]), tasks={"atis": "slots"})
    _, records = published(found, ["kulshreshtha2020"])
    (record,) = records_of(records)
    assert (record["row"], record["column"], record["measured"]) == ("base", "atis/tr", 50.0)
    assert record["difference"] == pytest.approx(50.0 - 21.15)


def test_scores_over_layers_and_weights_fill_their_rows_and_the_best_point():
    names = {"layer10_alpha1_bleu1": 0.05, "layer11_alpha3.0_bleu1": 0.08}
    names |= {"layer10_alpha2_convert_rate": 0.7}
    base = {**BARE, "task": "token_translation", "task_params": {}, "lang": "en-de"}
    rows = [row(value, metric=metric, **base) for metric, value in names.items()]
    table = table_of(rows, "token_translation", "liu2020")
    entries = {line.label or line.group: line.entries[0] for line in table.lines}
    shown = {label: entry.text for label, entry in entries.items()}
    assert shown == shown | {
        "bleu1/layer=11,alpha=3": "8.00",
        "bleu1/best": "8.00",
        "best-layer": "11",
        "best-alpha": "3.0",
        "convert-rate/layer=10,alpha=2": "0.700",
        "convert-rate/layer=10,alpha=1": "not run",
    }
    assert entries["bleu1/layer=11,alpha=3"].worse  # 8.00 for 8.01
    assert entries["best-layer"].worse is None  # a layer is neither better nor worse


def test_an_analysis_fills_the_rows_of_its_table_by_the_cells_that_match_them():
    asked = []

    def measure(cell):
        asked.append((cell.method, cell.params.get("lambda"), cell.sentences))
        return Fill({"NOUN": Value(0.655, 0.01, 3), "PUNCT": "too few queries"}, "Of one seed.")

    retrieval = {"task": "retrieval", "lang": "avg", "metric": "noncontextual_accuracy_all"}
    rows = [row(0.5, **BARE, **retrieval)]
    rows += [row(0.5, params={"lambda": x}, **retrieval) for x in (0.1, 1.0)]
    measures = {"retrieval_by_pos": measure}
    sections, records = published(results(rows), ["cao2020"], measures)
    table = next(t for t in sections[0].tables if t.anchor == "cao2020-retrieval_by_pos")
    noun = entry_of(table, "base", "NOUN")
    assert (noun.text, noun.spread, noun.below, noun.delta) == ("0.66", "", "0.61", "+0.05")
    assert entry_of(table, "base", "VERB").text == "not run"
    assert entry_of(table, "base", "PUNCT").text == "too few queries"
    tuned = [call for call in asked if call[0] == "finetune"]
    assert tuned == [("finetune", 1.0, 250_000)], "the paper's λ, not the other"
    assert "Of one seed." in table.caption
    own = {one[2:4]: one for one in records if one[1] == "retrieval_by_pos"}
    record = dict(zip(RECORD, own["finetune", "NOUN"], strict=True))
    assert (record["method"], record["sentences"]) == ("finetune", 250_000)
    assert record["params"] == '{"lambda": 1.0}'
    assert "Of one seed." in record["notes"]
    assert own["base", "PUNCT"][-1] == "too few queries"
    assert own["base", "VERB"][-1] == "not run"


def shifted(values):
    """Rows of mean difference shift: language -> α -> (dev, test)."""
    return [
        row(value, method="mean_shift", params={"alpha": alpha}, lang=lang, split=split)
        for lang, by_alpha in values.items()
        for alpha, both in by_alpha.items()
        for split, value in zip(("dev", "test"), both, strict=True)
    ]


CHOICES = {
    "de": {0.0: (0.50, 0.90), 0.1: (0.60, 0.40), 1.5: (0.70, 0.55)},
    "fr": {0.0: (0.50, 0.70), 0.1: (0.80, 0.65), 1.5: (0.80, 0.99)},
    "zh": {0.0: (0.90, 0.30), 0.1: (0.20, 0.60), 1.5: (0.10, 0.80)},
}
SHIFT, WEIGHT = "finetune-last-6-layers/mds", "shifting-weight"


def test_a_weight_is_chosen_for_each_language_on_its_dev_set_and_never_on_test():
    """German takes 1.5; French the first of two equals; Chinese the better shift, although none at
    all is better. Every choice would be another on test.
    """
    table = table_of(shifted(CHOICES), "xnli_mds", "liu2020")
    assert [entry_of(table, SHIFT, lang).text for lang in CHOICES] == ["55.00", "65.00", "60.00"]
    assert [entry_of(table, WEIGHT, lang).text for lang in CHOICES] == ["1.5", "0.1", "0.1"]
    assert entry_of(table, SHIFT, "average-without-en").text == "60.00"
    assert entry_of(table, SHIFT, "tr").text == "not run"
    assert entry_of(table, "finetune-last-6-layers", "zh").text == "30.00"
    line = line_of(table, SHIFT)
    assert line.sub == "mean_shift, α per language, 250,000 pairs"
    assert "alpha chosen for each language on its own dev set among 2 values" in told(table)
    assert "not a purely zero-shot result" in told(table)


def test_no_weight_is_chosen_for_the_pivot_and_weights_have_no_mean():
    choices = {"en": {0.0: (0.5, 0.5), 0.1: (0.6, 0.6)}, "de": CHOICES["de"]}
    table = table_of(shifted(choices), "xnli_mds", "liu2020")
    assert entry_of(table, "finetune-last-6-layers", "en").text == "50.00"
    assert entry_of(table, SHIFT, "en").text == entry_of(table, WEIGHT, "en").text == "–"
    assert entry_of(table, WEIGHT, "average-without-en").text == "–"
    assert entry_of(table, SHIFT, "average-without-en").text == "55.00"


def test_without_dev_values_no_weight_is_chosen():
    only_test = [entry for entry in shifted(CHOICES) if entry["split"] == "test"]
    table = table_of(only_test, "xnli_mds", "liu2020")
    assert entry_of(table, SHIFT, "de").text == "not run"
    one = [entry for entry in only_test if entry["params"]["alpha"] == 1.5]
    table = table_of(one, "xnli_mds", "liu2020")
    assert entry_of(table, SHIFT, "de").text == "55.00"
    assert entry_of(table, WEIGHT, "de").text == "1.5"


def tables(method="mean_shift"):
    rows = [{**row, "method": method} for row in shifted(CHOICES)]
    trial = Trial(method, method, {}, "e", ("de",), None, None, "a", {})
    found = Scoreboard.of(rows, Plan("p", "en", 1, (trial,), {}, {method: ("alpha",)}))
    shown = [table for part in share("chosen_on_dev", found).parts for table in part.tables]
    return {table.title: table for table in shown}


def test_each_language_has_its_weight_with_its_dev_and_test_values():
    table = tables()["xnli: mean_shift, α per language"]
    shown = {line.label: [entry.text for entry in line.entries] for line in table.lines}
    assert table.columns == ("de", "fr", "zh")
    assert shown == {
        "α": ["1.5", "0.1", "0"],
        "dev": ["70.0", "80.0", "90.0"],
        "test": ["55.0", "65.0", "30.0"],
    }
    assert {line.group for line in table.lines} == {"mean_shift, α per language, 250,000 pairs"}
    assert "not a purely zero-shot result" in table.caption


def test_a_method_that_declares_no_such_param_has_no_such_table():
    assert list(tables("centering")) == ["xnli"]
