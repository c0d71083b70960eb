"""The grids that are shipped: they plan as they stand, and small copies of them run on the
phrasebook, without Ray.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from raxalign.catalog import catalog
from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.phrasebook import PhrasebookCorpus
from raxalign.extras import EXTRAS
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import Grid, load
from raxalign.grid.plan import Plan
from raxalign.grid.published import FOLDER, Publication, Rule
from raxalign.grid.trial import Trial
from raxalign.report.matching import Matcher, given
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from raxalign.values.results import rows
from tests.every import EVERY, one_of_each

GRIDS = Path(__file__).parents[1] / "grids"
# evaluations that a grid names although its method changes nothing that the task reads
READOUTS = ("rotation", "rotation_dictionary", "sentence_rotation")
SHIFTED = ("retrieval", "retrieval_sentence", "representation", "token_translation")
UNTOUCHED = {
    "report-demo": {
        *((method, "token_translation") for method in READOUTS),
        *(("mean_shift", task) for task in (*SHIFTED, "conll", "facebook")),
    }
}
# readouts that a task's training outdates and that a grid keeps, and why
OUTDATED = {
    "cao2020": {
        (method, "xnli", "`readout: keep`") for method in ("rotation", "sentence_rotation")
    },
    "paper": {
        (method, "xnli", f"{method} moves the pivot, so that the task trains through its maps")
        for method in ("centering", "znorm", "iterative_normalization", "leace", "lsar", "lir")
    },
}
COMMIT = "c" * 40
BERT = {
    "hub:bert-base-multilingual-cased": COMMIT,
    f"depth:bert-base-multilingual-cased@{COMMIT}": "12",
}
DEPTHS = {"xlm-roberta-base": 12, "distilbert-base-multilingual-cased": 6, "xlm-roberta-large": 24}
DEPTHS |= {"Qwen/Qwen2.5-7B-Instruct": 28, "google/gemma-2-9b": 42, "google/gemma-7b": 28}
LLAMAS = ("Llama-3.1-8B", "Meta-Llama-3-8B", "Meta-Llama-3-8B-Instruct", "Llama-2-7b-hf")
DEPTHS |= {"intfloat/multilingual-e5-small": 12}
DEPTHS |= {f"meta-llama/{name}": 32 for name in LLAMAS}
DEPTHS |= {"huggyllama/llama-7b": 32, "mistralai/Mistral-7B-v0.3": 32, "allenai/OLMo-7B-hf": 32}
for number, (encoder, depth) in enumerate(DEPTHS.items()):
    commit = f"{number:040x}"  # of its own: an encoder is known by its commit
    BERT |= {f"hub:{encoder}": commit, f"depth:{encoder}@{commit}": str(depth)}
# languages, sizes of the training sets, seeds: as the papers have them
PAPERS = {
    "cao2020": ("bg de el es fr", (10_000, 50_000, 250_000), 5),
    "cao2020-more-languages": ("bg de el es fr ar zh ur", (20_000,), 5),
    "kulshreshtha2020": ("de nl es hy hi tr th it", (30_000,), 5),
    "pan2021": ("fr es de bg ar zh hi", (250_000, 600_000, 2_000_000), 3),
    "liu2020": ("de es ar el fr hi ru th tr vi zh ur sw", (10_000,), 5),
    "liu2020-translation": ("de fr ur sw zh el", (10_000,), 1),
    "liu2020-static": ("de es ar bg el fr hi ru sw th tr ur vi zh", (1_000_000,), 1),
    "weam2021": ("es de zh", (250_000, 1_900_000), 5),
    "gaschi2023": ("ar es fr ru zh", (80_000,), 5),
    "alignfreeze": (
        "af ar bg ca cs da de el es fa fi fr he hi hu it ja ko lt lv no pl pt ro ru sk sl sv ta th"
        " tr uk vi zh",
        (1_000,),
        5,
    ),
    "midalign": ("cy hi sw tl tr", (5_000,), 3),
    "xtreme": ("ar de el es ru tr", (50_000,), 3),
    "awesome_align": ("de fr ja ro zh", (200_000,), 3),
    "mexa": ("fr it nl pt ru uk", (1_000,), 1),
}
# the tables that each grid measures, all their rows with a rule
TABLES = {
    ("cao2020", "cao2020"): "xnli_methods xnli_data_size retrieval retrieval_by_pos",
    ("cao2020-more-languages", "cao2020"): "xnli_more_languages",
    ("kulshreshtha2020", "kulshreshtha2020"): "transfer",
    ("liu2020-translation", "liu2020"): "token_translation token_sets",
    ("liu2020", "liu2020"): "xnli_mds",
    ("pan2021", "pan2021"): "xnli mlqa xnli_ablation",
    ("weam2021", "weam2021"): "mlqa xnli",
    ("alignfreeze", "bakos2025"): "pos_mbert pos_distilmbert pos_xlmr xnli_mbert xnli_distilmbert"
    " xnli_xlmr xquad_mbert xquad_distilmbert xquad_xlmr",
    ("xtreme", "hu2020"): "xquad",
    ("awesome_align", "dou2021"): "aer",
    ("mexa", "kargaran2024"): "bible",
}
SMALL_BERT = {"kind": "scratch", "layers": 2, "hidden_size": 16, "heads": 2, "intermediate": 32}
SMALL_BERT |= {"vocab_size": 300, "steps": 5, "batch_size": 8}
SMALL_STATIC = {"dimension": 8, "min_count": 1, "epochs": 1}
METHOD = {"batch_size": 16, "epochs": 1, "queue_size": 16, "learning_rate": 1e-3, "steps": 2}
# tasks that the phrasebook has rows for, in place of others with the same model
OF_PHRASEBOOK = {"spans": "mlqa", "massive_slots": "slots"}
TASK = {"epochs": 1, "batch_size": 16, "unseen_in": 40, "warmup": 0.1}


@cache
def grid_of(name: str) -> Grid:
    """A shipped grid, which is read once for all tests."""
    return load(GRIDS / f"{name}.yaml")


@cache
def plan_of(name: str) -> Plan:
    """The plan of a shipped grid with its first seed alone; some of its files may be missing."""
    grid = grid_of(name)
    first = replace(grid, seeds=grid.seeds[:1])
    return expand(first, Identity(locked=BERT.get), allow_missing=True)


@pytest.mark.parametrize("name", sorted(path.stem for path in GRIDS.glob("*.yaml")))
def test_a_shipped_grid_plans_and_only_what_is_named_here_is_untouched_or_outdated(name):
    plan = plan_of(name)
    methods = {trial.method for trial in plan.trials} | {study.method for study in plan.studies}
    assert methods == {spec.name for spec in grid_of(name).methods}
    assert plan.name == name
    assert all(trial.evaluations or trial.untouched for trial in plan.trials)
    outdated = {(trial.method, *kept) for trial in plan.trials for kept in trial.outdated.items()}
    assert outdated == OUTDATED.get(name, set())
    assert plan.unknown_depths == ()
    missed = [(trial, task) for trial in plan.trials for task in trial.untouched]
    assert {(trial.method, task) for trial, task in missed} == UNTOUCHED.get(name, set())
    assert {trial.params["alpha"] for trial, _ in missed if trial.method == "mean_shift"} <= {0}


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_s_grid_has_its_languages_sizes_and_seeds(name: str) -> None:
    grid = grid_of(name)
    assert (" ".join(grid.languages), grid.sentences, len(grid.seeds)) == PAPERS[name]


@pytest.mark.parametrize(
    ("name", "paper", "label"),
    [(*place, label) for place, labels in TABLES.items() for label in labels.split()],
)
def test_a_paper_s_grid_measures_every_figure_as_published_and_each_row_on_one_encoder(
    name: str, paper: str, label: str
) -> None:
    plan, table = plan_of(name), Publication.read(paper).tables[label]
    rules = {
        (row, column): rule
        for row, entry in table.rows.items()
        for column, value in zip(table.columns, entry.values, strict=True)
        if column not in table.means and value is not None and (rule := table.rule(row, column))
    }
    assert rules
    assert [place for place, rule in rules.items() if not measuring(plan, rule)] == []
    for row in table.rows:
        if (rule := table.rule(row, table.columns[0])) is not None:
            assert len({trial.encoder for trial in measuring(plan, rule)}) <= 1, row


def test_every_published_table_that_has_rules_for_scores_is_one_that_a_grid_measures() -> None:
    listed = {(paper, label) for (_, paper), text in TABLES.items() for label in text.split()}
    found = {
        (path.stem, label)
        for path in FOLDER.glob("*.yaml")
        for label, table in Publication.read(path.stem).tables.items()
        if not table.counts
        and any(table.rule(row, column) for row in table.rows for column in table.columns)
    }
    assert found == listed


@pytest.mark.parametrize("name", sorted(path.stem for path in GRIDS.glob("*.yaml")))
def test_a_shipped_grid_that_needs_an_extra_names_it_at_its_head(name):
    head = (GRIDS / f"{name}.yaml").read_text(encoding="utf-8").partition("\nname:")[0]
    makers = {stage.maker for stage in plan_of(name).stages.values()}
    assert not [maker for maker in makers & EXTRAS.keys() if maker not in head]


# what an analysis of predictions is of, beside the task of its rule: a task of the grid
READS = {"retrieval_by_pos": "pos", "training_pairs": None}


@pytest.mark.parametrize("name", sorted(path.stem for path in GRIDS.glob("*.yaml")))
def test_a_grid_that_fills_a_row_of_an_analysis_has_what_the_analysis_reads(name: str) -> None:
    grid, plan = grid_of(name), plan_of(name)
    made = {task.kind for task in grid.tasks}
    made |= {"pos"} if any(s.maker == "phrasebook" for s in plan.stages.values()) else set()
    for paper in grid.published:
        for label, table in Publication.read(paper).tables.items():
            rules = [table.rule(row, column) for row in table.rows for column in table.columns]
            filled = any(rule and measuring(plan, rule) for rule in rules)
            if table.analysis and filled and (needed := READS[table.analysis]):
                assert needed in made, f"{paper}, {label}"


def measuring(plan: Plan, rule: Rule) -> list[Trial]:
    """The trials that have a task as a rule says, in what must hold and in what should."""
    trials = [trial for trial in plan.trials if is_of(trial, rule)]
    return [t for t in trials if any(is_task(plan, t, task, rule) for task in t.evaluations)]


def is_of(trial: Trial, rule: Rule) -> bool:
    holds = [
        rule.method is None or trial.kind in rule.method,
        not any(part in trial.encoder for part in rule.not_encoder or ()),
        any(part in trial.encoder for part in rule.encoder or ("",)),
        hold(trial.params, rule.params),
        not any(hold(trial.params, {name: value}) for name, value in rule.not_params.items()),
        rule.sentences in (None, trial.sentences),
        not Matcher.differing(trial.params, rule.prefers),
    ]
    return all(holds)


def is_task(plan: Plan, trial: Trial, task: str, rule: Rule) -> bool:
    stage = plan.stages[trial.evaluations[task]]
    params, there = stage.params["task"], {*stage.params["languages"], plan.pivot}
    named = stage.maker in (rule.task or ()) and task in (rule.name or (task,))
    spoken = rule.lang == "avg" or {*(rule.lang or "").split("-")} <= there
    as_said = hold(params, rule.task_params) and not Matcher.differing(params, rule.expects)
    return named and spoken and as_said


def hold(params: Any, wanted: Any) -> bool:
    """All options as wanted, or one of those listed; one that is not there counts as false."""
    return all(
        (given(params, option) or False) in (value if isinstance(value, tuple) else (value,))
        for option, value in wanted.items()
    )


def test_the_pairs_of_pan_et_al_are_counted_for_every_size() -> None:
    plan = plan_of("pan2021")
    table = Publication.read("pan2021").tables["parallel_data"]
    assert table.analysis == "training_pairs"
    rules = [rule for row in table.rows if (rule := table.rule(row, "fr")) is not None]
    assert [rule.sentences for rule in rules] == [250_000, 600_000, 2_000_000]
    assert all(any(is_of(trial, rule) for trial in plan.trials) for rule in rules)


@pytest.mark.parametrize(("name", "layers"), [("cao2020", "last"), ("weam2021", "0")])
def test_the_words_of_a_paper_s_plane_are_placed_by_its_grid(name, layers):
    grid = grid_of(name)
    (task,) = [task for task in grid.tasks if task.kind == "representation"]
    assert (task.languages, task.params.layers, task.params.projection) == (("de",), layers, "tsne")
    if name == "cao2020":  # the vectors that they align
        assert task.params.occurrences == 100
        finetune = next(spec for spec in grid.methods if spec.kind == "finetune").points[0]
        assert (finetune.layers, finetune.pooling) == (layers, task.params.pooling)


def test_kulshreshtha_et_al_count_basic_tokens_fit_on_175_pieces_and_have_two_rates() -> None:
    grid = grid_of("kulshreshtha2020")
    assert (grid.corpus.training_from, grid.corpus.max_basic_tokens) == ("start", 99)
    points = [params for spec in grid.methods if spec.kind == "rotation" for params in spec.points]
    assert [params.max_pieces for params in points] == [175] * 4
    spoken = [(task, lang) for task in grid.tasks for lang in task.languages or ()]
    rates = {(task.name, lang): task.params.learning_rate for task, lang in spoken}
    assert {lang for (_, lang), rate in rates.items() if rate == 1e-4} == {"de", "nl", "es", "it"}
    assert {lang for (_, lang), rate in rates.items() if rate == 1e-5} == {"hy", "hi", "tr", "th"}
    assert len(rates) == 9


# schedule, weight decay, β1 and β2, ε, warm-up, learning rate, batch, epochs
CAO = ("constant", 0.0, "0.9 0.98", 1e-9, 0.1, 5e-5, 32, 3)
PAN = ("linear", 0.01, "0.9 0.999", 1e-8, 1000)
TRAINING = [
    ("cao2020", "xnli", CAO),
    ("cao2020-more-languages", "xnli", CAO),
    ("pan2021", "xnli", (*PAN, 5e-5, 32, 2)),
    ("pan2021", "mlqa", (*PAN, 3e-5, 32, 2)),
    ("weam2021", "xnli", ("linear", 0.0, "0.9 0.999", 1e-8, 0, 2e-5, 32, 5)),
    ("weam2021", "mlqa", ("linear", 1e-4, "0.9 0.999", 1e-8, 500, 3e-5, 32, 3)),
]


@pytest.mark.parametrize(("name", "kind", "wanted"), TRAINING)
def test_tasks_are_trained_as_the_paper_says(name, kind, wanted):
    tasks = [task.params for task in grid_of(name).tasks if task.kind == kind]
    names = ("schedule", "weight_decay", "betas", "eps", "warmup", "learning_rate")
    names += ("batch_size", "epochs")
    found = {
        tuple(getattr(task, name, task.optimizer.get(name)) for name in names) for task in tasks
    }
    assert len(tasks) > 1
    assert found == {wanted}


def test_pan_et_al_take_the_first_pairs_of_each_corpus_for_ten_epochs_and_on_the_most_five():
    plan = plan_of("pan2021")
    training = [
        stage.params
        for stage in plan.stages.values()
        if stage.kind == "bitext" and stage.params["part"] == "training"
    ]
    assert {params["training_from"] for params in training} == {"start"}
    assert all(params["pieces"] == {"min_pieces": 10, "max_pieces": 128} for params in training)
    ppa = [trial for trial in plan.trials if trial.kind == "ppa"]
    found = {(trial.sentences, trial.params["epochs"]) for trial in ppa}
    assert found == {(250_000, 10), (600_000, 10), (2_000_000, 5)}


def test_tlm_reads_the_pivot_first_where_it_is_compared_with_word_exchange() -> None:
    (tlm, weam) = (
        next(trial for trial in plan_of("weam2021").trials if trial.kind == kind)
        for kind in ("tlm", "weam")
    )
    assert (tlm.params["random_order"], tlm.params["pivot_first"]) == (False, True)
    assert weam.params["reduction"] == "sum"


def test_section_3_of_liu_et_al_trains_jointly_over_one_vocabulary_and_loses_no_text() -> None:
    grid = grid_of("liu2020-static")
    static = [encoder.params for encoder in grid.encoders if encoder.kind == "static"]
    scratch = [encoder.params for encoder in grid.encoders if encoder.kind == "scratch"]
    sizes = (200_000, 1_000_000)
    trained = {(params.algorithm, params.max_sentences) for params in static}
    assert trained == {*product(("glove", "word2vec"), sizes)}
    trained = {(params.window, params.max_sentences) for params in scratch}
    assert trained == {*product((20, 512), sizes)}
    assert all(params.spaces == "joint" and params.units == "pieces" for params in static)
    assert all(params.slicing for params in scratch)
    assert len({params.vocabulary for params in (*static, *scratch)}) == 1
    assert {params.window * params.batch_size for params in scratch} == {10_240}
    words = next(task.params for task in grid.tasks if task.kind == "dictionary_retrieval")
    assert words.max_contexts is None
    found = {tuple(sorted(trial.evaluations)) for trial in plan_of("liu2020-static").trials}
    assert found == {("dictionary_retrieval", "xnli")}


def test_every_method_is_in_a_shipped_grid() -> None:
    own = {"code_switching"}  # it needs a dictionary of one's own
    used = {spec.kind for path in GRIDS.glob("*.yaml") for spec in grid_of(path.stem).methods}
    assert used >= set(catalog("methods")) - own


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """One for all grids, of which several make the same."""
    return Storage(str(tmp_path_factory.mktemp("storage")))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPERS)
def test_a_small_copy_runs_every_method_and_task(
    name: str, tmp_path: Path, storage: Storage
) -> None:
    grid = load(small_copy(GRIDS / f"{name}.yaml", tmp_path))
    plan = one_of_each(expand(grid), whole=EVERY)
    workshop = Workshop(plan, storage, Runtime())
    for trial in workshop.plan.trials:
        workshop.run_trial(trial.key)
    found = rows(plan, workshop.ledger)
    assert {row["method"] for row in found} == {spec.name for spec in grid.methods}
    assert {row["task"] for row in found} == {spec.name for spec in grid.tasks}


def small_copy(path: Path, folder: Path) -> Path:
    """The grid with two languages of the phrasebook, a tiny encoder, little text and one epoch of
    everything; the rest as it is.
    """
    data = YAML(typ="safe").load(path)
    (how,) = data["languages"]
    encoders = data["encoder"] if isinstance(data["encoder"], list) else [data["encoder"]]
    data |= {
        "encoder": [_small_encoder(encoder) for encoder in encoders],
        "languages": {how: ["de", "el"]},
        "corpus": {"source": "phrasebook", "size": 120, "split": {"test": 15, "dev": 15}},
        "sentences": 40,
        "seeds": [0],
        "methods": {name: _small_method(params or {}) for name, params in data["methods"].items()},
        "tasks": {name: _small_task(name, params or {}) for name, params in data["tasks"].items()},
    }
    left_out = ("text", "exclude", "run", "published")
    kept = {key: value for key, value in data.items() if key not in left_out}
    kept["encoder"] = list({str(encoder): encoder for encoder in kept["encoder"]}.values())
    for lang in ("de", "el"):
        _write_dictionary(folder / f"{lang}-en.txt", lang)
        _write_gold(folder / f"{lang}-en", lang)
    text = io.StringIO()
    YAML().dump(kept, text)
    small = folder / path.name
    small.write_text(text.getvalue(), encoding="utf-8")
    return small


def _small_encoder(encoder: Any) -> dict[str, Any]:
    if isinstance(encoder, str) or encoder["kind"] == "scratch":
        return SMALL_BERT
    units = {"spaces": "separate", "units": "words", "algorithm": None}
    units |= {name: encoder[name] for name in units if name in encoder}
    units |= {"vocab_size": 300} if units["units"] == "pieces" else {}
    return {"kind": "static", **SMALL_STATIC, **units}


def _small_method(params: dict[str, Any]) -> dict[str, Any]:
    small = {name: METHOD.get(name, value) for name, value in params.items()}
    trains = "profile" in params or "epochs" in params
    small |= {"batch_size": 16} if trains else {}
    if "profile" in params and not params.keys() & {"direction", "lambda"}:
        small |= {"queue_size": 16, "min_pieces": 1}
    small |= {"layers": "1-2" if "-" in str(params["layers"]) else 1} if "layers" in params else {}
    small |= {"dictionary": "{lang}-{pivot}.txt"} if "dictionary" in params else {}
    small |= {"swap": False} if "swap" in params else {}
    return {name: value[:2] if isinstance(value, list) else value for name, value in small.items()}


def _small_task(name: str, params: dict[str, Any]) -> dict[str, Any]:
    kind = params.get("kind", name)
    if kind in OF_PHRASEBOOK:
        kind = OF_PHRASEBOOK[kind]
        params = {**params, "kind": kind}
    kept = params.keys() - {"languages", "max_length", "data", "preset"}
    small = {key: TASK.get(key, value) for key, value in params.items() if key in kept}
    small |= {"layers": "1-2", "alpha": [1.0]} if kind == "token_translation" else {}
    small |= {"dictionary": "{lang}-{pivot}.txt"} if "dictionary" in params else {}
    if kind == "word_alignment":
        paths = {"text": "{lang}-{pivot}.src-tgt", "links": "{lang}-{pivot}.gold"}
        small |= {"data": {"test": paths}, "layers": 1}
    elif "data" in params and kind not in ("token_translation", "sentence_retrieval"):
        sizes = {"train": 48, "dev": 16, "test": 16}
        small |= {"data": "phrasebook", "phrasebook": sizes, "epochs": 1, "batch_size": 16}
    small |= {"hidden": 8} if kind in ("ner", "slots") else {}
    small |= {"layers": "last"} if kind in ("slots", "sentence_retrieval") else {}
    return small


def _phrases(folder: Path, lang: str) -> list[SentencePair]:
    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=60))
    return list(corpus.read(lang, "en", CorpusInputs({}, folder)))


def _write_gold(path: Path, lang: str) -> None:
    """Links of the phrasebook as a gold standard has them, counted from 1."""
    rows = _phrases(path.parent, lang)[:10]
    text = (f"{' '.join(p.source_words)} ||| {' '.join(p.target_words)}\n" for p in rows)
    links = (" ".join(f"{i + 1}-{k + 1}" for i, k in p.links or ()) + "\n" for p in rows)
    path.with_suffix(".src-tgt").write_text("".join(text), encoding="utf-8")
    path.with_suffix(".gold").write_text("".join(links), encoding="utf-8")


def _write_dictionary(path: Path, lang: str) -> None:
    pairs = _phrases(path.parent, lang)
    entries = {(p.source_words[i], p.target_words[k]) for p in pairs for i, k in p.links or ()}
    lines = [f"{a} {b}\n" for a, b in sorted(entries) if " " not in a + b]
    path.write_text("".join(lines), encoding="utf-8")


SETTINGS = Path(__file__).parents[1] / "docs" / "explanation" / "settings"


@pytest.mark.parametrize("page", sorted(SETTINGS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_of_settings_says_of_each_whether_the_grid_is_as_the_paper(page: Path) -> None:
    """Every row has a setting, the paper's value, the grid's, and `yes` or the difference."""
    lines = page.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    assert len(rows) > 20
    assert [row for row in rows if len(row) != 4 or not all(cell.strip() for cell in row)] == []
    named = {word.strip("`.,") for line in lines for word in line.split() if "grids/" in word}
    assert named
    assert [name for name in named if not (GRIDS.parent / name).is_file()] == []
    index = (SETTINGS.parents[1] / "index.md").read_text(encoding="utf-8")
    assert f"explanation/settings/{page.stem}\n" in index
