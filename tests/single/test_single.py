"""Word pairs, one alignment, one evaluation and one export, one after the other, as a user
would.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from raxalign.corpora.text.dataset import read_metadata
from raxalign.errors import DataError, RaxalignError
from raxalign.pairing.pharaoh import read_links
from raxalign.pairing.schema import full_schema, links_of, read_pairs
from raxalign.plan.load import Opened, open_grid
from raxalign.plan.stored import plan_path
from raxalign.plan.values.remarks import remarks
from raxalign.plan.values.results import read_records, rows
from raxalign.single.aer import ErrorRateRequest, error_rate
from raxalign.single.align import AlignRequest, make_aligned
from raxalign.single.evaluate import EvaluateRequest, evaluate_encoder
from raxalign.single.export import export_trial, find
from raxalign.single.pairs import PairsRequest, make_pairs, parse_named
from raxalign.stages import Workshop, run_trial
from raxalign.store.storage import Storage
from raxalign.sweep.job import write_plan
from raxalign.train.runtime import Runtime
from tests.grids import write_grid
from tests.tiny import tiny_bert

REQUEST = PairsRequest(
    source="phrasebook",
    options=("size=200",),
    lang="de",
    pivot="en",
    sentences=80,
    heldout=60,
    aligner="fast_align",
    aligner_options=(),
    symmetrization="intersection",
    one_to_one=True,
)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder, word pairs, and a storage."""
    folder = tmp_path_factory.mktemp("single")
    tiny_bert(folder / "encoder", ["the", "der", "die", "das", "a", "and", "."], layers=2)
    make_pairs(
        REQUEST,
        folder / "pairs",
        storage=Storage(str(folder / "storage")),
        export_links=folder / "links.txt",
    )
    return folder


@pytest.fixture(scope="module")
def finished(site: Path) -> Opened:
    """A grid whose trials have run, on the same encoder, with the plan where `grid` leaves it."""
    path = write_grid(
        site,
        languages="{each: [de]}",
        size=200,
        sentences="80",
        methods=("rotation: {center: true}", "finetune: {batch_size: 40, learning_rate: 1e-3}"),
    )
    lines = [
        f"encoder: {site / 'encoder'}" if line.startswith("encoder:") else line
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    opened = open_grid(path, storage=str(site / "storage"))
    write_plan(opened.plan, opened.storage)
    (site / "storage" / plan_path("{}")).write_text("{}", encoding="utf-8")  # an older version's
    workshop = Workshop(opened.plan, opened.storage, Runtime())
    for trial in opened.plan.trials:
        run_trial(workshop, trial.key)
    return opened


def made_pairs(folder: Path, request: PairsRequest, out: Path, **options: Any) -> dict[str, Any]:
    return make_pairs(request, out, storage=Storage(str(folder / "storage")), **options)


def align(site: Path, out: Path, method: str, *options: str, **changes: object) -> None:
    request = AlignRequest(
        method, options, str(site / "encoder"), {"de": site / "pairs"}, "en", 0, "cpu"
    )
    make_aligned(replace(request, **changes), out, storage=Storage(str(site / "storage")))  # type: ignore[arg-type]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_repeated_pairs_are_kept_beside_links_made_by_hand_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    for name, text in (("text.de", "a b\na b\nc\n"), ("text.en", "A B\nA B\nC\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    gold = tmp_path / "gold"
    gold.write_text("0-0 1-1\n0-0 1-1\n0-0\n", encoding="utf-8")
    request = replace(
        REQUEST,
        source="moses",
        options=(f"path={tmp_path / 'text'}", "pretokenized=true"),
        sentences=None,
        heldout=0,
        aligner="links",
        aligner_options=(f"path={gold}",),
    )
    root, sentences = str(tmp_path / "storage"), {}
    for overlap in ("drop", "keep"):
        out, told = tmp_path / overlap, list[str]()
        make_pairs(replace(request, overlap=overlap), out, storage=Storage(root))  # type: ignore[arg-type]
        found = error_rate(ErrorRateRequest(out, gold), tell=told.append)
        assert found["aer"] == 0
        sentences[overlap] = found["sentences"]
        assert [said.endswith("without `--overlap keep`) and are left out") for said in told] == (
            [True] if overlap == "drop" else []
        )
    assert sentences == {"drop": 2, "keep": 3}


def test_links_made_by_hand_beside_words_of_a_tokeniser_are_warned_of(tmp_path: Path) -> None:
    for name, text in (("text.de", "a b.\n"), ("text.en", "A B.\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    gold, told = tmp_path / "gold", list[str]()
    gold.write_text("0-0 1-1\n", encoding="utf-8")
    request = replace(
        REQUEST, source="moses", options=(f"path={tmp_path / 'text'}",), sentences=None, heldout=0
    )
    made_pairs(tmp_path, request, tmp_path / "pairs")
    error_rate(ErrorRateRequest(tmp_path / "pairs", gold), tell=told.append)
    assert told == [
        f"warning: the words of {tmp_path / 'pairs'} were made by a tokeniser, and {gold} counts"
        " words that blanks divide: make the word pairs with `--option pretokenized=true`"
    ]


SIMALIGN = replace(
    REQUEST, aligner="simalign", aligner_options=("layer=1",), encoder="encoder", device="cpu"
)


def test_a_word_aligner_reads_the_encoder_that_it_is_given(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site)
    notes = made_pairs(tmp_path, SIMALIGN, tmp_path / "pairs")
    assert notes["sentence_pairs"] == 80
    assert notes["word_pairs"] > 80
    assert set(notes["unknown"]) == {"de", "en"}, "its notes record what the tokenizer knew"
    metadata = read_metadata(tmp_path / "pairs")
    assert metadata["aligner_encoder"]["name"] == "encoder"
    named = replace(SIMALIGN, encoder=None, aligner_options=("layer=1", "encoder=./encoder"))
    made: list[str] = []
    made_pairs(tmp_path, named, tmp_path / "again", tell=made.append)
    assert made == [], "the option and the flag name the same encoder"


def test_an_encoder_or_a_device_that_a_word_aligner_does_not_use_is_refused(tmp_path: Path) -> None:
    for request, message in (
        (replace(REQUEST, encoder="e"), "--encoder e: fast_align reads no encoder; .*: simalign"),
        (replace(REQUEST, device="cpu"), "--device cpu: fast_align reads no encoder"),
    ):
        with pytest.raises(RaxalignError, match=message):
            made_pairs(tmp_path, request, tmp_path / "pairs")


def test_a_layer_that_the_encoder_lacks_is_refused_before_anything_is_made(
    site: Path, tmp_path: Path
) -> None:
    request = replace(SIMALIGN, aligner_options=(), encoder=str(site / "encoder"))
    with pytest.raises(RaxalignError, match=r"--aligner simalign: layer: .*layers 0 .* to 2"):
        made_pairs(tmp_path, request, tmp_path / "pairs")
    assert not (tmp_path / "storage" / "bitext").exists()


def test_word_pairs_are_a_dataset_that_others_open(site: Path) -> None:
    from datasets import load_from_disk

    data = load_from_disk(str(site / "pairs"))
    assert (len(data), data.column_names) == (80, full_schema().names)
    assert max(data["id"]) < 200 - 60
    assert read_metadata(site / "pairs")["lang_pair"] == "de-en"


def test_exported_links_are_those_of_the_dataset(site: Path) -> None:
    assert read_links(site / "links.txt").digest() == links_of(read_pairs(site / "pairs")).digest()


def test_without_a_number_all_sentences_are_taken(site: Path, tmp_path: Path) -> None:
    notes = made_pairs(site, replace(REQUEST, sentences=None, heldout=0), tmp_path / "all")
    assert 150 < notes["sentence_pairs"] <= 200  # repeated sentences are dropped


def test_nothing_is_overwritten(site: Path) -> None:
    with pytest.raises(RaxalignError, match="is there already"):
        made_pairs(site, REQUEST, site / "pairs")
    with pytest.raises(RaxalignError, match="is there already"):
        align(site, site / "encoder", "rotation")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"source": "phrasebok"}, "did you mean phrasebook"),
        ({"options": ("sise=3", "seed=x", "7")}, "3 faults"),
        ({"options": ("size=[1",)}, "is not a YAML value"),
        ({"lang": "en"}, "is the pivot"),
        ({"lang": "jp"}, "unknown language"),
        ({"source": "moses", "options": ("path={lang}/x",)}, r"de/x\.de: No such file"),
        ({"heldout": 500}, "the corpus has 200 lines"),
    ],
)
def test_wrong_requests_are_told(
    site: Path, tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    with pytest.raises(RaxalignError, match=told):
        made_pairs(site, replace(REQUEST, **changes), tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        (
            {"heldout": 500},
            (
                r"Lower --heldout \(now 500\); lower --sentences \(now 80\), or leave it out to"
                r" take all$"
            ),
        ),
        ({"heldout": 500, "sentences": None}, r"Lower --heldout \(now 500\)$"),
        (
            {"heldout": 0, "sentences": 300},
            r"Lower --sentences \(now 300\), or leave it out to take all$",
        ),
    ],
)
def test_too_little_text_is_met_by_options_of_the_command(
    site: Path, tmp_path: Path, changes: dict[str, object], remedy: str
) -> None:
    with pytest.raises(DataError, match=remedy):
        made_pairs(site, replace(REQUEST, **changes), tmp_path / "out")  # type: ignore[arg-type]


def test_exported_links_are_read_back_with_the_words_of_the_dataset(
    site: Path, tmp_path: Path
) -> None:
    first = read_pairs(site / "pairs")
    for code, side in (("de", "src"), ("en", "tgt")):
        lines = "".join(" ".join(words) + "\n" for words in first.column(side).to_pylist())
        (tmp_path / f"words.{code}").write_text(lines, encoding="utf-8")
    again = replace(
        REQUEST,
        source="moses",
        options=(f"path={tmp_path}/words",),
        sentences=None,
        heldout=0,
        aligner="links",
        aligner_options=(f"path={site}/links.txt",),
    )
    with pytest.raises(RaxalignError, match=r"links\.txt: these links count words"):
        made_pairs(site, again, tmp_path / "refused")
    given = replace(again, options=(*again.options, "pretokenized=true"))
    made_pairs(site, given, tmp_path / "again")

    def linked(table: pa.Table) -> list[dict[str, object]]:
        return sorted(
            ({name: row[name] for name in row if name != "id"} for row in table.to_pylist()),
            key=str,
        )

    assert linked(read_pairs(tmp_path / "again")) == linked(first)


def test_pairs_are_named_by_language() -> None:
    assert parse_named(["de=/a", "fr=/b=c"], "--pairs") == {"de": Path("/a"), "fr": Path("/b=c")}
    for wrong in (["de"], ["de=/a", "de=/b"], ["jp=/a"]):
        with pytest.raises(RaxalignError):
            parse_named(wrong, "--pairs")


def test_a_rotation_leaves_weights_alone_and_a_card_beside_them(site: Path, tmp_path: Path) -> None:
    align(site, tmp_path / "out", "rotation", "center=true")
    before, after = weights(site / "encoder"), weights(tmp_path / "out")
    assert all(torch.equal(before[name], after[name]) for name in before)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert '"center": true' in card
    assert "opens this encoder without its alignment" in card


def test_training_changes_weights_and_is_the_same_again(site: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        align(site, tmp_path / name, "finetune", "batch_size=40", "lambda=0.1")
    one, two, before = (
        weights(tmp_path / "one"),
        weights(tmp_path / "two"),
        weights(site / "encoder"),
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], before[name]) for name in before)
    assert list((site / "storage" / "checkpoints").glob("*")) == []


def test_an_alignment_is_not_lost_under_another(site: Path, tmp_path: Path) -> None:
    align(site, tmp_path / "once", "rotation")
    with pytest.raises(DataError, match="is aligned by transforms already"):
        align(site, tmp_path / "twice", "rotation", encoder=str(tmp_path / "once"))


def test_selection_by_a_dev_part_that_one_alignment_does_not_have_is_refused(
    site: Path, tmp_path: Path
) -> None:
    with pytest.raises(RaxalignError, match="needs the dev part of a corpus, which only a grid"):
        align(site, tmp_path / "out", "finetune", options=("selection=dev",))


def test_pairs_of_another_language_are_refused(site: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds de-en, not fr-en"):
        align(site, tmp_path / "out", "rotation", pairs={"fr": site / "pairs"})


def test_an_exported_encoder_scores_what_its_trial_scored(finished: Opened, tmp_path: Path) -> None:
    for number, trial in enumerate(finished.plan.trials):
        export_trial(trial.key[:12], tmp_path / str(number), storage=finished.storage)
        found, _ = evaluate_encoder(
            finished, EvaluateRequest(str(tmp_path / str(number)), device="cpu")
        )
        own = [
            row
            for row in rows(
                finished.plan, Workshop(finished.plan, finished.storage, Runtime()).ledger
            )
            if row["trial"] == trial.key
        ]
        assert [(row["metric"], row["split"], row["value"]) for row in found] == [
            (row["metric"], row["split"], row["value"]) for row in own
        ]
        assert "| contextual accuracy |" in (tmp_path / str(number) / "README.md").read_text(
            encoding="utf-8"
        )


def test_an_export_opens_in_transformers(finished: Opened, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    key = next(trial.aligned for trial in finished.plan.trials if trial.method == "finetune")
    export_trial(key, tmp_path / "out", storage=finished.storage)
    model, tokenizer = (
        AutoModel.from_pretrained(tmp_path / "out"),
        AutoTokenizer.from_pretrained(tmp_path / "out"),
    )
    assert model(**tokenizer("das a", return_tensors="pt")).last_hidden_state.shape[-1] == 32


def test_keys_that_no_plan_has_are_told(finished: Opened, tmp_path: Path) -> None:
    for key, told in (("ab", "at least 4"), ("zzzzzz", "none of the 1 plans")):
        with pytest.raises(RaxalignError, match=told):
            export_trial(key, tmp_path / "out", storage=finished.storage)


def test_an_evaluation_is_kept(finished: Opened, site: Path) -> None:
    made: list[str] = []
    request = EvaluateRequest(str(site / "encoder"), ("retrieval",), ("de",), device="cpu")
    first, plan = evaluate_encoder(finished, request)
    again, _ = evaluate_encoder(finished, request, tell=made.append)
    assert first == again
    assert made == []
    assert [trial.method for trial in plan.trials] == ["given"]
    with pytest.raises(RaxalignError, match="did you mean retrieval"):
        evaluate_encoder(finished, replace(request, tasks=("retrieva",)))


def test_an_alignment_in_another_precision_differs_and_its_card_names_it(
    site: Path, tmp_path: Path
) -> None:
    for name in ("fp32", "bf16"):
        align(site, tmp_path / name, "finetune", "epochs=1", "batch_size=40", precision=name)
    plain, rounded = (weights(tmp_path / name) for name in ("fp32", "bf16"))
    assert {tensor.dtype for tensor in rounded.values()} == {torch.float32}
    changed = [name for name in plain if not torch.equal(plain[name], rounded[name])]
    assert changed, "products were rounded"
    for name in changed:
        assert torch.allclose(plain[name], rounded[name], atol=1e-2)
    cards = [(tmp_path / name / "README.md").read_text("utf-8") for name in ("fp32", "bf16")]
    assert ["* precision: `bf16`" in card for card in cards] == [False, True]


def test_evaluations_in_another_precision_are_kept_apart_on_the_same_word_pairs(
    finished: Opened, site: Path
) -> None:
    request = EvaluateRequest(str(site / "encoder"), ("retrieval",), ("de",), device="cpu")
    plain, plan = evaluate_encoder(finished, request)
    rounded, other = evaluate_encoder(finished, replace(request, precision="bf16"))
    ledger = Workshop(other, finished.storage, Runtime()).ledger
    assert {row["metric"] for row in plain} == {row["metric"] for row in rounded}
    keys = [
        {key for key, stage in found.stages.items() if stage.kind == "evaluation"}
        for found in (plan, other)
    ]
    assert keys[0].isdisjoint(keys[1])
    assert {ledger.read(key)["precision"] for key in keys[1]} == {"bf16"}
    assert {ledger.read(key)["precision"] for key in keys[0]} == {"fp32"}
    pairs = [
        {k for k, s in p.stages.items() if s.kind in ("bitext", "pairs")} for p in (plan, other)
    ]
    assert pairs[0] == pairs[1] != set()

    made: list[str] = []
    in_bf16 = replace(finished, run=finished.run.model_copy(update={"precision": "bf16"}))
    assert evaluate_encoder(in_bf16, request, tell=made.append)[0] == rounded
    assert made == [], "the grid's own precision holds where none is given"
    assert evaluate_encoder(in_bf16, replace(request, precision="fp32"))[0] == plain


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ("tf32", r"--precision tf32: requires an NVIDIA card .* device cpu is not: choose fp32"),
        ("fp16", r"--precision fp16: write fp32, tf32, bf16"),
    ],
)
def test_a_precision_that_nothing_computes_in_is_refused(
    finished: Opened, site: Path, tmp_path: Path, precision: Any, message: str
) -> None:
    with pytest.raises(RaxalignError, match=message):
        align(site, tmp_path / "out", "rotation", precision=precision)
    request = EvaluateRequest(str(site / "encoder"), device="cpu", precision=precision)
    with pytest.raises(RaxalignError, match=message):
        evaluate_encoder(finished, request)


def test_a_task_that_was_not_asked_for_stops_no_other(
    finished: Opened, site: Path, tmp_path: Path
) -> None:
    """Transforms of a folder cannot be fitted again, which is reported only where a chosen task
    asks for it.
    """
    align(site, tmp_path / "out", "rotation")
    tasks = ("retrieval: {}", "xnli: {data: phrasebook, readout: refit}")
    path = write_grid(
        tmp_path,
        languages="{each: [de]}",
        size=200,
        sentences="80",
        methods=("rotation: {}",),
        tasks=tasks,
    )
    opened = open_grid(path, storage=finished.root)
    found, _ = evaluate_encoder(
        opened, EvaluateRequest(str(tmp_path / "out"), ("retrieval",), device="cpu")
    )
    assert {row["task"] for row in found} == {"retrieval"}
    with pytest.raises(
        RaxalignError, match=r"tasks\.xnli\.readout: refit: the transforms of a folder"
    ):
        evaluate_encoder(opened, EvaluateRequest(str(tmp_path / "out"), device="cpu"))


def test_the_readouts_of_a_folder_are_kept_and_the_reason_is_told(
    finished: Opened, site: Path, tmp_path: Path
) -> None:
    align(site, tmp_path / "out", "rotation")
    task = "xnli: {data: phrasebook, phrasebook: {train: 20, dev: 6, test: 12}, epochs: 1}"
    opened = open_grid(
        write_grid(tmp_path, languages="{each: [de]}", size=200, sentences="80", tasks=(task,)),
        storage=finished.root,
    )
    _, plan = evaluate_encoder(opened, EvaluateRequest(str(tmp_path / "out"), device="cpu"))
    (trial,) = plan.trials
    why = "the transforms of a folder cannot be fitted again"
    assert trial.outdated == {"xnli": why}
    records = read_records(plan, opened.storage.ledger)
    assert [text for text in remarks(plan, records) if "readouts" in text] == [
        "xnli: the readouts of given were fitted before the task's training, which changes the"
        f" encoder, and are kept: {why}"
    ]


def test_a_folder_with_a_shift_inside_trains_tasks_with_the_blocks_below_it_frozen(
    finished: Opened, site: Path, tmp_path: Path
) -> None:
    align(site, tmp_path / "out", "mean_shift", "layers=1")
    task = (
        "xnli: {data: phrasebook, readout: refit, phrasebook: {train: 20, dev: 6, test: 12},"
        " epochs: 1}"
    )
    opened = open_grid(
        write_grid(tmp_path, languages="{each: [de]}", size=200, sentences="80", tasks=(task,)),
        storage=finished.root,
    )
    found, plan = evaluate_encoder(opened, EvaluateRequest(str(tmp_path / "out"), device="cpu"))
    assert {row["lang"] for row in found} >= {"de", "en"}
    (trained,) = (stage for stage in plan.stages.values() if stage.kind == "tuned")
    assert (set(trained.inputs), trained.params["frozen"]) == ({"encoder"}, "1")


def test_an_object_store_serves_as_well(
    finished: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    root = f"memory://{tmp_path}/root"
    make_pairs(REQUEST, tmp_path / "pairs", storage=Storage(root))
    assert len(read_pairs(tmp_path / "pairs")) == 80
    trial = finished.plan.trials[0]
    workshop = Workshop(finished.plan, Storage(root), Runtime())
    run_trial(workshop, trial.key)
    write_plan(finished.plan, Storage(root))
    assert export_trial(trial.key, tmp_path / "out", storage=Storage(root)).trial == trial


def test_a_key_leads_to_the_plan_that_knows_most(finished: Opened, tmp_path: Path) -> None:
    few = replace(
        finished.plan,
        trials=tuple(replace(trial, evaluations={}) for trial in finished.plan.trials),
    )
    for points in range(8):  # some of these come before the fuller plan, and some after it
        write_plan(replace(few, points=points), Storage(str(tmp_path)))
    write_plan(finished.plan, Storage(str(tmp_path)))
    key = finished.plan.trials[0].key
    assert find(key[:10], Storage(str(tmp_path))).trial == finished.plan.trials[0]
    with pytest.raises(RaxalignError, match="run its grid"):
        export_trial(key, tmp_path / "out", storage=Storage(str(tmp_path)))


def test_pairs_that_are_not_there_are_refused_with_what_makes_them(site, tmp_path):
    request = AlignRequest(
        "rotation", (), str(site / "encoder"), {"de": tmp_path / "nowhere"}, "en", 0
    )
    with pytest.raises(DataError, match=r"nowhere: there is no such folder of word pairs.*pairs`"):
        make_aligned(request, tmp_path / "out", storage=Storage(str(tmp_path / "storage")))
