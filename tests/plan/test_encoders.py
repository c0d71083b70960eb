"""The encoders of a grid: what one without a masked-LM head drops, what is wrong with one before
anything runs, and what a word aligner that reads one depends on.
"""

import json
import struct

import pytest

from raxalign.encoders.models.folder import folder_has_head, has_head, weight_headers
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.errors import DataError, GridError, RaxalignError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.inspect.doctor import examine
from raxalign.single.evaluate import EvaluateRequest
from tests.grids import of_kind, write_grid
from tests.tiny import tiny_bert

METHODS = ("none: {}", "rotation: {}", "tlm: {}", "mlm: {}", "ppa: {}", "weam: {}", "finetune: {}")
METHODS += ("moco: {kind: ppa, tlm: false}", "awesome_align: {}")
METHODS += ("links: {kind: awesome_align, mlm: 0, tlm: 0}", "code_switching: {dictionary: d.txt}")
TASKS = ("retrieval: {}", "token_translation: {}")
HELD_METHODS = ("none: {}", "rotation: {}", "finetune: {lora: {rank: 4}}")
TAGGER = "pos: {data: phrasebook, tagger: bilstm_crf}"


def encoder(folder, *weights):
    """A folder with the file names of an encoder, and weights that have a header alone."""
    folder.mkdir()
    names = {"__metadata__": {"format": "pt"}, **{name: {} for name in weights}}
    header = json.dumps(names).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    config = {"model_type": "bert", "num_hidden_layers": 2, "architectures": ["BertForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


def plan_of(folder, *weights):
    (folder / "d.txt").write_text("Hund dog\n", encoding="utf-8")
    name = encoder(folder / "tiny", *weights)
    path = write_grid(folder, encoder=str(name), methods=METHODS, tasks=TASKS, sentences="100")
    return open_grid(path, storage=str(folder / "storage")).plan


def test_what_predicts_words_is_dropped_and_counted(tmp_path):
    plan = plan_of(tmp_path, "embeddings.word_embeddings.weight")
    methods = {trial.method for trial in plan.trials}
    assert methods == {"none", "rotation", "moco", "links", "finetune"}
    assert {task for trial in plan.trials for task in trial.evaluations} == {"retrieval"}
    dropped = [line for line in plan.merged if "masked-LM head" in line]
    assert dropped == [
        *(
            f"{name} requires a masked-LM head, which tiny does not have: 2 configurations dropped"
            for name in ("tlm", "mlm", "ppa", "weam", "awesome_align", "code_switching")
        ),
        "token_translation requires a masked-LM head, which tiny does not have: 10 evaluations"
        " dropped",
    ]


def test_an_encoder_with_its_head_is_aligned_by_every_method(tmp_path):
    plan = plan_of(tmp_path, "bert.x", "cls.predictions.transform.dense.weight")
    assert len({trial.method for trial in plan.trials}) == len(METHODS)
    assert not [line for line in plan.merged if "masked-LM head" in line]


@pytest.mark.parametrize(
    ("architecture", "weights", "found"),
    [
        ("BertForMaskedLM", None, True),
        ("BertForPreTraining", None, True),
        ("ElectraForPreTraining", None, False),
        ("XLMWithLMHeadModel", None, True),
        ("XLMRobertaModel", None, False),
        ("MT5ForConditionalGeneration", None, False),
        (None, None, None),
        ("XLMRobertaForMaskedLM", {"roberta.x"}, False),
        ("XLMRobertaModel", {"lm_head.dense.weight"}, True),
        (None, {"lm_predictions.lm_head.dense.weight"}, True),
        ("ModernBertForSequenceClassification", {"head.dense.weight", "classifier.bias"}, False),
        ("ModernBertForMaskedLM", {"head.dense.weight", "decoder.bias"}, True),
        ("DistilBertForMaskedLM", {"vocab_transform.weight"}, True),
        ("ElectraForPreTraining", {"discriminator_predictions.dense.weight"}, False),
    ],
)
def test_weights_decide_before_architectures(architecture, weights, found):
    config = {} if architecture is None else {"architectures": [architecture]}
    assert has_head(config, weights) is found


def test_names_of_weights_are_those_of_safetensors_and_a_damaged_file_is_named(tmp_path):
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file({"a.b": torch.zeros(2), "c": torch.ones(1)}, path, {"format": "pt"})
    assert set(weight_headers(path)) == {"a.b", "c"}
    path.write_bytes(path.read_bytes()[:20])
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"model\.safetensors: its weights are damaged"):
        folder_has_head(tmp_path)


def test_doctor_names_what_this_machine_lacks_for_an_encoder(tmp_path, monkeypatch):
    static = "{kind: static, algorithm: word2vec, dimension: 16}"
    path = write_grid(tmp_path, languages="{each: [de]}", encoder=static, methods=("none: {}",))
    monkeypatch.setattr("raxalign.extras.find_spec", lambda library: None)
    lines, _ = examine(path, str(tmp_path / "storage"))
    (line,) = [line for line in lines if line.startswith("note") and "gensim" in line]
    assert "word2vec: the library gensim is not installed" in line


def held_grid(tmp_path, run="base_precision: bf16", **parts):
    given = {"methods": HELD_METHODS, "tasks": ("retrieval: {}", TAGGER), **parts}
    return write_grid(tmp_path, languages="{each: [de]}", sentences="[100]", run=run, **given)


def test_an_encoder_held_in_bfloat16_has_results_of_its_own_on_the_same_data(tmp_path):
    plain, other = (
        open_grid(held_grid(tmp_path, run)).plan.stages
        for run in ("base_precision: fp32", "base_precision: bf16")
    )
    assert open_grid(held_grid(tmp_path, "threads: 1")).plan.stages == plain
    own = {key: stage for key, stage in other.items() if key not in plain}
    assert {stage.kind for stage in own.values()} == {"aligned", "tuned", "evaluation"}
    assert {stage.base_precision for stage in own.values()} == {"bf16"}
    assert {stage.base_precision for key, stage in other.items() if key in plain} == {"fp32"}


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        ({"methods": ("none: {}", "finetune: {lora: [none, {rank: 4}]}")}, "methods.finetune"),
        ({"tasks": ("xnli: {data: phrasebook}",)}, "tasks.xnli"),
    ],
)
def test_what_trains_all_weights_is_refused_where_they_would_be_held(parts, key, tmp_path):
    with pytest.raises(GridError) as error:
        open_grid(held_grid(tmp_path, **parts))
    (fault,) = error.value.faults
    assert (fault.key, fault.line is not None) == (key, True)
    assert f"and {key.partition('.')[2]} trains all weights of the encoder" in fault.problem
    open_grid(held_grid(tmp_path, "base_precision: fp32", **parts))
    static = "{kind: static, algorithm: word2vec, dimension: 16, epochs: 1}"
    assert open_grid(held_grid(tmp_path, encoder=static, methods=("none: {}",))).plan.trials


STATIC = "{kind: static, algorithm: word2vec, dimension: 16, epochs: 1}"
WHOLE = "representation: {unit: sentences, projection: none, sentence_pooling: weighted}"
FILES = "data: {dev: {text: d, gold: d}, test: {text: d, gold: d}}"
TRAINED = "sentence_margin: {steps: 1}"


def sentences_grid(place, of, task, *methods, architecture="BertModel", prefix=""):
    """A grid with one task that reads vectors of sentences; `of` may be a kind of encoder."""
    if of in ("plain", "with modules"):
        config = {"architectures": [architecture], "num_hidden_layers": 2}
        name = encoder(place / "tiny", "embeddings.word_embeddings.weight")
        (name / "config.json").write_text(json.dumps(config), encoding="utf-8")
        if of == "with modules":
            SentenceConfig().write(name, 32, 24)
        of = f"{{kind: transformer, name: {name}, prefix: '{prefix}'}}"
    parts = {"methods": methods or ("none: {}",), "tasks": (task,), "sentences": "[100]"}
    return write_grid(place, languages="{each: [de]}", encoder=of, **parts)


@pytest.mark.parametrize(
    ("of", "architecture", "task", "told"),
    [
        ("plain", "BertModel", "sentence_retrieval: {pooling: own}", "tiny has no modules.json"),
        ("plain", "BertModel", f"bitext_mining: {{{FILES}, pooling: own}}", "has no modules.json"),
        ("plain", "BertModel", "mteb: {tasks: [Tatoeba], pooling: own}", "has no modules.json"),
        ("plain", "Qwen2ForCausalLM", "sentence_retrieval: {pooling: cls}", "tiny, a decoder, has"),
        ("phrasebook", "", "sentence_retrieval: {pooling: own}", "phrasebook has no modules.json"),
        (STATIC, "", "sentence_retrieval: {pooling: cls}", "word2vec, of static vectors, has none"),
        (STATIC, "", WHOLE, "word2vec, of static vectors, has none"),
    ],
)
def test_vectors_of_sentences_that_an_encoder_does_not_have_are_refused_before_anything_runs(
    of, architecture, task, told, tmp_path
):
    path = sentences_grid(tmp_path, of, task, architecture=architecture)
    with pytest.raises(GridError) as error:
        expand(load(path), allow_missing=True)
    (fault,) = error.value.faults
    assert fault.line == 1 + path.read_text(encoding="utf-8").splitlines().index(f"  {task}")
    assert fault.key.startswith(f"tasks.{task.partition(':')[0]}.")
    assert fault.key.endswith("pooling")
    assert told in fault.problem
    assert fault.remedy.startswith("choose ")


def test_own_vectors_are_those_of_the_folder_of_a_prefix_or_of_what_trains_them(tmp_path):
    task = "sentence_retrieval: {pooling: own}"
    for n, (of, prefix, method) in enumerate(
        [("with modules", "", "none: {}"), ("plain", "query:", "none: {}"), ("plain", "", TRAINED)]
    ):
        (tmp_path / str(n)).mkdir()
        path = sentences_grid(tmp_path / str(n), of, task, method, prefix=prefix)
        assert expand(load(path)).trials


def test_a_folder_is_refused_for_own_by_raxalign_evaluate_too(tmp_path):
    path = sentences_grid(tmp_path, "with modules", "sentence_retrieval: {pooling: own}")
    opened = open_grid(path, storage=str(tmp_path / "storage"))
    with pytest.raises(
        GridError, match=r"line \d+: tasks.sentence_retrieval.pooling: .*phrasebook"
    ):
        EvaluateRequest("phrasebook", device="cpu").evaluate(opened)


def test_a_hub_name_without_own_vectors_is_refused_once_the_lock_has_it(tmp_path):
    path = sentences_grid(tmp_path, "some/bert", "sentence_retrieval: {pooling: own}")
    lock = {"hub:some/bert": "c" * 40}
    assert expand(load(path), Identity(locked=lock.get)).trials
    lock[f"sentences:some/bert@{'c' * 40}"] = "none"
    with pytest.raises(GridError, match="bert has no modules"):
        expand(load(path), Identity(locked=lock.get))


@pytest.mark.parametrize(
    ("pooling", "prefix", "methods", "told"),
    [
        ("mean", "query:", ("none: {}",), "no task has `pooling: own`; set `pooling: own` at sen"),
        ("own", "query:", ("none: {}", TRAINED), "after sentence_margin: `pooling: own` then"),
        ("own", "query:", ("none: {}",), ""),
        ("mean", "", ("none: {}",), ""),
    ],
)
def test_a_prefix_that_is_put_before_no_sentence_is_noted(pooling, prefix, methods, told, tmp_path):
    task = f"sentence_retrieval: {{pooling: {pooling}}}"
    path = sentences_grid(tmp_path, "with modules", task, *methods, prefix=prefix)
    noted = [remark for remark in expand(load(path)).remarks() if "the prefix" in remark]
    assert len(noted) == bool(told)
    assert all(told in remark for remark in noted)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with encoders, of which two are the same."""
    place = tmp_path_factory.mktemp("encoders")
    for name, seed in (("small", 0), ("copy", 0), ("other", 1)):
        tiny_bert(place / name, ["the", "der"], layers=2, seed=seed)
    return place


def grid_of(folder, options, **parts):
    parts |= {"languages": "{each: [de]}", "sentences": "[100]"}
    return load(write_grid(folder, aligner=f"simalign, {options}", **parts))


def pairs_of(plan):
    return {stage.params["part"]: stage for stage in of_kind(plan, "pairs")}


def test_its_encoder_is_an_input_of_the_word_pairs(folder):
    plan = expand(grid_of(folder, "encoder: small, layer: 1"))
    found = pairs_of(plan)
    assert found.keys() == {"heldout", "training"}
    (key,) = {stage.inputs["encoder"] for stage in found.values()}
    assert plan.stages[key].kind == "encoder"
    assert plan.stages[key].maker == "transformer"
    assert plan.stages[key].inline
    assert "encoder" not in found["heldout"].params["aligner"], "its key stands for its name"


def test_its_word_pairs_are_the_same_for_every_encoder_of_the_grid(folder):
    plan = expand(grid_of(folder, "encoder: small, layer: 1", encoder="[small, other]"))
    assert len({trial.encoder for trial in plan.trials}) == 2
    assert len(of_kind(plan, "pairs")) == 2


def test_the_content_of_its_encoder_counts_and_not_its_path(folder):
    small, copy, other = (
        pairs_of(expand(grid_of(folder, f"encoder: {name}, layer: 1")))["training"].key
        for name in ("small", "copy", "other")
    )
    assert small == copy != other


def test_a_kind_of_encoder_is_made_from_the_grids_text(folder):
    plan = expand(grid_of(folder, "encoder: scratch, layer: 1"))
    encoder = plan.stages[pairs_of(plan)["heldout"].inputs["encoder"]]
    assert (encoder.maker, encoder.inline) == ("scratch", False)
    assert {name.split("/")[0] for name in encoder.inputs} == {"text"}


def test_other_word_aligners_read_no_encoder(tmp_path):
    grid = load(write_grid(tmp_path))
    assert len(grid.every_encoder()) == len(grid.encoders) == 1
    plan = expand(grid)
    assert all("encoder" not in stage.inputs for stage in of_kind(plan, "pairs"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            "encoder: small",
            r"pairs: layer: .*small: layers '8': this encoder has the layers 0 \(embeddings\) to 2;"
            " choose one of them",
        ),
        ("encoder: ./missing, layer: 1", r"pairs: .*missing: no such encoder folder"),
        ("encoder: a b c, layer: 1", "pairs: a b c is neither a folder nor"),
    ],
)
def test_what_is_wrong_with_it_is_a_fault_of_the_grid(folder, options, told):
    with pytest.raises(RaxalignError, match=rf"grid\.yaml: 1 fault\n  line 10: {told}"):
        expand(grid_of(folder, options))
