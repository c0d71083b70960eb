"""Word pairs, one alignment, one evaluation and one export, one after the other, as a user
would.
"""

# ruff: noqa: F811 - a fixture is imported

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import load_from_disk
from transformers import AutoModel, AutoTokenizer

from raxalign.cli._single import _named
from raxalign.corpora.text.dataset import read_metadata
from raxalign.errors import RaxalignError
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.pairing.build import WordPairs, full_schema
from raxalign.single.aer import ErrorRateRequest
from raxalign.single.align import AlignRequest, PairsRequest
from raxalign.single.evaluate import EvaluateRequest
from raxalign.single.export import export_trial, find
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from raxalign.values.claims import JudgedClaim
from raxalign.values.results import read_records, remarks, rows
from tests.grids import write_grid
from tests.ran import ran
from tests.test_cli import run  # noqa: F401 - a fixture
from tests.tiny import tiny_bert

REQUEST = PairsRequest(
    source="phrasebook",
    options=("size=120",),
    lang="de",
    pivot="en",
    sentences=40,
    heldout=60,
    aligner="fast_align",
    aligner_options=(),
    symmetrization="intersection",
    one_to_one=True,
)
GRID: dict[str, Any] = {"languages": "{each: [de]}", "size": 120, "sentences": "40"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder, word pairs, an encoder aligned by them, and a storage."""
    folder = tmp_path_factory.mktemp("single")
    torch.set_num_threads(1)
    tiny_bert(folder / "encoder", ["the", "der", "die", "das", "a", "and", "."], hidden=8)
    made_pairs(folder, REQUEST, folder / "pairs", export_links=folder / "links.txt")
    align(folder, folder / "rotated", "rotation", "center=true")
    return folder


@pytest.fixture(scope="module")
def finished(site: Path) -> Opened:
    """A grid whose trials have run, on the same encoder, with the plan where `grid` leaves it."""
    methods = ("rotation: {center: true}", "finetune: {batch_size: 40, learning_rate: 1e-3}")
    opened = ran(write_grid(site, encoder=str(site / "encoder"), methods=methods, **GRID))
    (site / "storage" / StoredPlans.path("{}")).write_text(
        "{}", encoding="utf-8"
    )  # an older version's
    return opened


def made_pairs(folder: Path, request: PairsRequest, out: Path, **options: Any) -> dict[str, Any]:
    return request.make(out, storage=Storage(str(folder / "storage")), **options)


def align(
    site: Path, out: Path, method: str, *options: str, place: str = "storage", **changes: object
) -> None:
    request = AlignRequest(
        method, options, str(site / "encoder"), {"de": site / "pairs"}, "en", 0, "cpu"
    )
    replace(request, **changes).make(out, storage=Storage(str(site / place)))  # type: ignore[arg-type]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def card(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def by_hand(folder: Path, german: str, english: str, gold: str, *options: str) -> PairsRequest:
    """Two files of text and one of gold links, and a request for all pairs of the text."""
    for name, text in (("text.de", german), ("text.en", english), ("gold", gold)):
        (folder / name).write_text(text, encoding="utf-8")
    given = (f"path={folder / 'text'}", *options)
    return replace(REQUEST, source="moses", options=given, sentences=None, heldout=0)


def test_repeated_pairs_are_kept_beside_links_made_by_hand_where_they_are_asked_for(tmp_path):
    links = "0-0 1-1\n0-0 1-1\n0-0\n"
    request = by_hand(tmp_path, "a b\na b\nc\n", "A B\nA B\nC\n", links, "pretokenized=true")
    gold = tmp_path / "gold"
    request = replace(request, aligner="links", aligner_options=(f"path={gold}",))
    sentences = {}
    for overlap in ("drop", "keep"):
        out, told = tmp_path / overlap, list[str]()
        made_pairs(tmp_path, replace(request, overlap=overlap), out)
        found = ErrorRateRequest(out, gold).scores(tell=told.append)
        assert found["aer"] == 0
        sentences[overlap] = found["sentences"]
        left_out = [said.endswith("without `--overlap keep`) and are left out") for said in told]
        assert left_out == ([True] if overlap == "drop" else [])
    assert sentences == {"drop": 2, "keep": 3}


def test_links_made_by_hand_beside_words_of_a_tokeniser_are_warned_of(tmp_path: Path) -> None:
    made_pairs(tmp_path, by_hand(tmp_path, "a b.\n", "A B.\n", "0-0 1-1\n"), tmp_path / "pairs")
    gold, told = tmp_path / "gold", list[str]()
    ErrorRateRequest(tmp_path / "pairs", gold).scores(tell=told.append)
    assert told == [
        f"warning: the words of {tmp_path / 'pairs'} were made by a tokeniser, and {gold} counts"
        " words that spaces separate: make the word pairs with `--option pretokenized=true`"
    ]


SIMALIGN = replace(
    REQUEST, aligner="simalign", aligner_options=("layer=1",), encoder="encoder", device="cpu"
)


def test_a_word_aligner_reads_the_encoder_that_it_is_given(site, tmp_path, monkeypatch):
    monkeypatch.chdir(site)
    notes = made_pairs(tmp_path, SIMALIGN, tmp_path / "pairs")
    assert notes["sentence_pairs"] == 40
    assert notes["word_pairs"] > 40
    assert set(notes["unknown"]) == {"de", "en"}, "its notes record what the tokenizer knew"
    metadata = read_metadata(tmp_path / "pairs")
    assert metadata["aligner_encoder"]["name"] == "encoder"
    named = replace(SIMALIGN, encoder=None, aligner_options=("layer=1", "encoder=./encoder"))
    made: list[str] = []
    made_pairs(tmp_path, named, tmp_path / "again", tell=made.append)
    assert made == [], "the option and the flag name the same encoder"


LOWER_SENTENCES = r"ower --sentences \(now \d+\), or leave it out to take all$"
NO_LAYER = {"aligner": "simalign", "encoder": "encoder", "device": "cpu"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"source": "phrasebok"}, "did you mean phrasebook"),
        ({"options": ("sise=3", "seed=x", "7")}, "3 faults"),
        ({"options": ("size=[1",)}, "is not a YAML value"),
        ({"lang": "en"}, "is the pivot"),
        ({"lang": "jp"}, "unknown language"),
        ({"source": "moses", "options": ("path={lang}/x",)}, r"de/x\.de: No such file"),
        ({"heldout": 500}, "the corpus has 120 lines"),
        ({"heldout": 500}, rf"Lower --heldout \(now 500\); l{LOWER_SENTENCES}"),
        ({"heldout": 500, "sentences": None}, r"Lower --heldout \(now 500\)$"),
        ({"heldout": 0, "sentences": 300}, f"L{LOWER_SENTENCES}"),
        ({"encoder": "e"}, "--encoder e: fast_align reads no encoder; .*: awesome_align, simalign"),
        ({"device": "cpu"}, "--device cpu: fast_align reads no encoder"),
        (NO_LAYER, r"--aligner simalign: layer: .*layers 0 .* to 2"),
    ],
)
def test_requests_for_word_pairs_that_cannot_be_met_are_refused(
    site: Path, tmp_path: Path, monkeypatch, changes: dict[str, Any], told: str
) -> None:
    monkeypatch.chdir(site)
    with pytest.raises(RaxalignError, match=told):
        made_pairs(tmp_path, replace(REQUEST, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert changes is not NO_LAYER or not (tmp_path / "storage" / "bitext").exists()


NOWHERE, OF_DEV = {"pairs": {"de": Path("nowhere")}}, {"options": ("selection=dev",)}


@pytest.mark.parametrize(
    ("method", "changes", "told"),
    [
        ("rotation", {"out": "pairs"}, "is there already"),
        ("rotation", {"encoder": "rotated"}, "is aligned by transforms already"),
        ("rotation", {"pairs": {"fr": Path("pairs")}}, "holds de-en, not fr-en"),
        ("rotation", NOWHERE, r"nowhere: there is no such folder of word pairs.*pairs`"),
        ("finetune", OF_DEV, "needs the dev part of a corpus, which only a grid"),
        ("rotation", {"precision": "tf32"}, "--precision tf32: requires an NVIDIA GPU"),
        ("rotation", {"precision": "fp16"}, "--precision fp16: write fp32, tf32, bf16"),
    ],
)
def test_alignments_that_cannot_be_made_are_refused(
    site: Path, tmp_path: Path, monkeypatch, method: str, changes: dict[str, Any], told: str
) -> None:
    monkeypatch.chdir(site)
    more = dict(changes)
    with pytest.raises(RaxalignError, match=told):
        align(site, Path(more.pop("out", tmp_path / "out")), method, **more)


def test_a_kind_of_encoder_is_named_as_in_a_grid(site: Path, finished: Opened, tmp_path: Path):
    align(site, tmp_path / "out", "rotation", encoder="phrasebook")
    assert "\nbase_model:" not in card(tmp_path / "out")
    found, _ = EvaluateRequest("phrasebook", device="cpu").evaluate(finished)
    assert {row["encoder"] for row in found} == {"phrasebook"}
    with pytest.raises(RaxalignError, match="scratch: is trained from the text"):
        align(site, tmp_path / "other", "rotation", encoder="scratch")


def test_word_pairs_are_a_dataset_whose_exported_links_are_read_back(site, tmp_path):
    data, first = load_from_disk(str(site / "pairs")), WordPairs.read(site / "pairs").table
    assert (len(data), data.column_names) == (40, full_schema().names)
    assert max(data["id"]) < 120 - 60
    assert read_metadata(site / "pairs")["lang_pair"] == "de-en"
    with pytest.raises(RaxalignError, match="is there already"):
        made_pairs(site, REQUEST, site / "pairs")
    lines = {row["id"]: row for row in first.to_pylist()}  # of the corpus; the others stay blank
    german, english = (
        "".join(" ".join(lines[i][side] if i in lines else ()) + "\n" for i in range(60))
        for side in ("src", "tgt")
    )
    given = {"aligner": "links", "aligner_options": (f"path={site}/links.txt",)}
    again = replace(by_hand(tmp_path, german, english, ""), **given)
    with pytest.raises(RaxalignError, match=r"links\.txt: these links count words"):
        made_pairs(site, again, tmp_path / "refused")
    divided = replace(again, options=(*again.options, "pretokenized=true"))
    made_pairs(site, divided, tmp_path / "two")
    both = first, WordPairs.read(tmp_path / "two").table
    old, new = (sorted(table.to_pylist(), key=str) for table in both)
    assert new == old


def test_pairs_are_named_by_language() -> None:
    assert _named(["de=/a", "fr=/b=c"], "--pairs") == {"de": Path("/a"), "fr": Path("/b=c")}
    for wrong in (["de"], ["de=/a", "de=/b"], ["jp=/a"]):
        with pytest.raises(RaxalignError):
            _named(wrong, "--pairs")


def test_training_changes_weights_and_is_the_same_again_and_a_rotation_leaves_them_alone(
    site: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):  # each in a storage of its own: in one it is not made twice
        align(site, tmp_path / name, "finetune", "batch_size=40", "lambda=0.1", place=name)
    folders = (tmp_path / "one", tmp_path / "two", site / "encoder", site / "rotated")
    one, two, before, rotated = map(weights, folders)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], before[name]) for name in before)
    assert list((site / "one" / "checkpoints").glob("*")) == []
    assert all(torch.equal(before[name], rotated[name]) for name in before)
    assert '"center": true' in card(site / "rotated")
    assert "opens this encoder without its alignment" in card(site / "rotated")


def test_an_exported_encoder_scores_what_its_trial_scored_and_opens_in_transformers(
    finished: Opened, tmp_path: Path
) -> None:
    known = rows(finished.plan, finished.storage.ledger)
    for trial in finished.plan.trials:
        out = tmp_path / trial.method
        export_trial(trial.key[:12], out, storage=finished.storage)
        found, _ = EvaluateRequest(str(out), device="cpu").evaluate(finished)
        own = [row for row in known if row["trial"] == trial.key]
        names = ("metric", "split", "value")
        shown, kept = ([[row[name] for name in names] for row in part] for part in (found, own))
        assert shown == kept
        assert "| contextual accuracy |" in card(out)
        model, tokenizer = AutoModel.from_pretrained(out), AutoTokenizer.from_pretrained(out)
        assert model(**tokenizer("das a", return_tensors="pt")).last_hidden_state.shape[-1] == 8
    for key, told in (("ab", "at least 4"), ("zzzzzz", "none of the 1 plans")):
        with pytest.raises(RaxalignError, match=told):
            export_trial(key, tmp_path / "out", storage=finished.storage)


def test_the_encoder_that_dev_chose_is_exported_by_the_grid_file(finished, tmp_path, run):
    found = rows(finished.plan, finished.storage.ledger)
    own = ("dev", "de-en", "contextual_accuracy")
    dev = [row for row in found if (row["split"], row["lang"], row["metric"]) == own]
    best = max(dev, key=lambda row: row["value"])["trial"]
    place = ("--storage", finished.storage.root)
    done = run("export", finished.grid.path, tmp_path / "out", "--best", *place)
    assert (done.code, done.out.strip()) == (0, str(tmp_path / "out"))
    assert f"{best[:12]} (" in done.err
    assert best in card(tmp_path / "out")


def test_an_alignment_in_another_precision_differs_and_its_card_names_it(site, tmp_path):
    for name in ("fp32", "bf16"):
        align(site, tmp_path / name, "finetune", "epochs=1", "batch_size=40", precision=name)
    plain, rounded = (weights(tmp_path / name) for name in ("fp32", "bf16"))
    assert {tensor.dtype for tensor in rounded.values()} == {torch.float32}
    changed = [name for name in plain if not torch.equal(plain[name], rounded[name])]
    assert changed, "products were rounded"
    assert all(torch.allclose(plain[name], rounded[name], atol=1e-2) for name in changed)
    cards = [card(tmp_path / name) for name in ("fp32", "bf16")]
    assert ["* precision: `bf16`" in text for text in cards] == [False, True]


def test_an_evaluation_is_kept_and_those_in_another_precision_apart_on_the_same_word_pairs(
    finished: Opened, site: Path
) -> None:
    request = EvaluateRequest(str(site / "encoder"), ("retrieval",), ("de",), device="cpu")
    plain, plan = request.evaluate(finished)
    assert [trial.method for trial in plan.trials] == ["given"]
    rounded, other = replace(request, precision="bf16").evaluate(finished)
    ledger = finished.storage.ledger
    assert {row["metric"] for row in plain} == {row["metric"] for row in rounded}

    def keys(plan: Plan, *kinds: str) -> set[str]:
        return {key for key, stage in plan.stages.items() if stage.kind in kinds}

    for found, precision in ((plan, "fp32"), (other, "bf16")):
        assert {ledger.read(key)["precision"] for key in keys(found, "evaluation")} == {precision}
    assert keys(plan, "bitext", "pairs") == keys(other, "bitext", "pairs") != set()

    made: list[str] = []
    in_bf16 = replace(finished, run=finished.run.model_copy(update={"precision": "bf16"}))
    assert request.evaluate(in_bf16, tell=made.append)[0] == rounded
    assert made == [], "the grid's own precision holds where none is given"
    again = replace(request, precision="fp32")
    assert again.evaluate(in_bf16, tell=made.append)[0] == plain
    assert made == [], "it is kept"
    for changes, told in (
        ({"tasks": ("retrieva",)}, "did you mean retrieval"),
        ({"precision": "tf32"}, "--precision tf32: .* device cpu is not: choose fp32"),
    ):
        with pytest.raises(RaxalignError, match=told):
            replace(request, **changes).evaluate(finished)  # type: ignore[arg-type]


FEW = "data: phrasebook, phrasebook: {train: 20, dev: 6, test: 12}, epochs: 1"


def evaluated(
    finished: Opened, folder: Path, encoder: Path, task: str, *asked: str
) -> tuple[list[dict[str, Any]], Plan, Opened]:
    """The rows and the plan of an encoder's evaluation by a grid of retrieval and another task."""
    path = write_grid(folder, tasks=("retrieval: {}", task), **GRID)
    opened = open_grid(path, storage=finished.root)
    return *EvaluateRequest(str(encoder), asked, device="cpu").evaluate(opened), opened


def test_a_task_that_was_not_asked_for_stops_no_other(finished, site, tmp_path):
    """Transforms of a folder cannot be fitted again, which is reported only where a chosen task
    asks for it.
    """
    given = (finished, tmp_path, site / "rotated", "xnli: {data: phrasebook, readout: refit}")
    found, *_ = evaluated(*given, "retrieval")
    assert {row["task"] for row in found} == {"retrieval"}
    told = r"tasks\.xnli\.readout: refit: the transforms of a folder"
    with pytest.raises(RaxalignError, match=told):
        evaluated(*given)


def test_the_readouts_of_a_folder_are_kept_and_the_reason_is_told(finished, site, tmp_path):
    task = f"xnli: {{{FEW}}}"
    _, plan, opened = evaluated(finished, tmp_path, site / "rotated", task, "xnli")
    (trial,) = plan.trials
    why = "the transforms of a folder cannot be fitted again"
    assert trial.outdated == {"xnli": why}
    records = read_records(plan, opened.storage.ledger)
    assert [text for text in remarks(plan, records) if "post-hoc maps" in text] == [
        "xnli: the post-hoc maps of given (`readout`) were fitted before the task's training run,"
        f" which changes the encoder, and are kept: {why}"
    ]


def test_a_folder_with_a_shift_inside_trains_tasks_with_the_blocks_below_it_frozen(
    finished: Opened, site: Path, tmp_path: Path
) -> None:
    align(site, tmp_path / "out", "mean_shift", "layers=1")
    task = f"xnli: {{readout: refit, {FEW}}}"
    found, plan, _ = evaluated(finished, tmp_path, tmp_path / "out", task, "xnli")
    assert {row["lang"] for row in found} >= {"de", "en"}
    (trained,) = (stage for stage in plan.stages.values() if stage.kind == "tuned")
    assert (set(trained.inputs), trained.params["frozen"]) == ({"encoder"}, "1")


def test_a_card_has_the_verdicts_of_its_own_grid_alone(site: Path, tmp_path: Path) -> None:
    """Two grids of one storage whose cells have the same names, on different sentences."""
    claims = "claims: [rotation > none in retrieval]\n"
    looks = f"{claims}stop: {{at_most: 3, looks: [2, 3]}}\n"
    parts = {"methods": ("none: {}", "rotation: {}"), "encoder": str(site / "encoder")}
    looked, other = (
        ran(write_grid(tmp_path, name=name, **{**GRID, **parts, **own}))
        for name, own in (
            ("looked.yaml", {"seeds": "", "more": looks}),
            ("other.yaml", {"seeds": "[0, 1]", "size": 130}),
        )
    )
    assert JudgedClaim.next_look(looked)
    trials = [
        next(trial for trial in opened.plan.trials if trial.method == "rotation")
        for opened in (looked, other)
    ]
    assert trials[0].cell == trials[1].cell
    cards = []
    for number, trial in enumerate(trials):
        export_trial(trial.key, tmp_path / str(number), storage=looked.storage)
        cards.append(card(tmp_path / str(number)))
    (judged,) = JudgedClaim.all_in(looked)
    assert f"## Claims of the grid\n\n* {judged.line}\n" in cards[0]
    assert "look 1 of 2" in judged.line
    assert "Claims of the grid" not in cards[1]

    # plans that an earlier version stored do not name their looks
    for place in (tmp_path / "storage" / "plans").iterdir():
        place.unlink()
    StoredPlans(looked.storage).write(replace(looked.plan, looks=None))
    with pytest.warns(UserWarning, match=r"no verdicts on claims .* that is run again stores them"):
        export_trial(trials[0].key, tmp_path / "earlier", storage=looked.storage)
    assert "Claims of the grid" not in card(tmp_path / "earlier")


@pytest.mark.slow
def test_an_object_store_serves_as_well(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    storage = Storage(f"memory://{tmp_path}/root")
    REQUEST.make(tmp_path / "pairs", storage=storage)
    assert len(WordPairs.read(tmp_path / "pairs").table) == 40
    trial = finished.plan.trials[0]
    Workshop(finished.plan, storage, Runtime()).run_trial(trial.key)
    StoredPlans(storage).write(finished.plan)
    assert export_trial(trial.key, tmp_path / "out", storage=storage).trial == trial


def test_a_key_leads_to_the_plan_that_knows_most(finished: Opened, tmp_path: Path) -> None:
    storage, plan = Storage(str(tmp_path)), finished.plan
    few = replace(plan, trials=tuple(replace(trial, evaluations={}) for trial in plan.trials))
    for points in range(8):  # some of these come before the fuller plan, and some after it
        StoredPlans(storage).write(replace(few, points=points))
    StoredPlans(storage).write(plan)
    key = plan.trials[0].key
    assert find(key[:10], storage).trial == plan.trials[0]
    with pytest.raises(RaxalignError, match="run its grid"):
        export_trial(key, tmp_path / "out", storage=storage)


def test_what_pairs_and_an_alignment_lack_is_noted_and_stands_in_the_card(site, tmp_path):
    text = ["das Haus", "das Haus", "", "der Hund", *["der Baum"] * 2, "und " * 200]
    for side in ("de", "en"):
        (tmp_path / f"few.{side}").write_text("\n".join(text) + "\n", encoding="utf-8")
    few = replace(REQUEST, source="moses", options=(f"path={tmp_path}/few",), sentences=None)
    notes = made_pairs(site, replace(few, heldout=0), tmp_path / "pairs")
    lost = "4 of 7 give no word pairs (1 blank, 1 overlong, 2 repeated)"
    assert notes["partial"] == {"sentence pairs of de-en": lost}
    align(site, tmp_path / "out", "rotation", pairs={"de": tmp_path / "pairs"})
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"\n* sentence pairs of de-en: {lost}.\n" in card
    assert "\n* rotation de: 6 pairs for 8 dimensions: the map is arbitrary in " in card
