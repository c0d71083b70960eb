"""Encoders with an adapter per language are trained with those of the languages that they read."""

import pytest
import torch

from raxalign.train.runtime import Runtime
from tests.every import in_turn
from tests.families.subject import Subject
from tests.methods.contract import asked_for, make
from tests.methods.toy import toy_inputs

LANGUAGES = ("de", "fr")  # of the data of `asked_for`, with English
ADAPTERS_READ = {
    "finetune": {"de", "fr", "en"},
    "tlm": {"de", "fr", "en"},  # a row has the adapter of its first sentence, which either may be
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("adapters")
    toy_inputs(root / "inputs", 16, LANGUAGES)
    return root


def _adapters(model):
    """The weights of all adapters by language, copied."""
    found = {}
    for name, weight in model.named_parameters():
        if ".adapter_modules." in name:
            lang = name.split(".adapter_modules.")[1].split("_")[0]
            found.setdefault(lang, []).append(weight.detach().clone().flatten())
    return {lang: torch.cat(weights) for lang, weights in found.items()}


@pytest.mark.parametrize("kind", in_turn(["finetune", "tlm"], 1))
def test_a_training_changes_the_adapters_of_the_languages_that_it_reads_and_no_other(
    kind, root, monkeypatch
):
    encoder = Subject.of("X-MOD", root).load()
    before = _adapters(encoder.model)
    method = make(kind, root / "inputs")
    # Weight decay, where there is some, shrinks the others too.
    monkeypatch.setattr(type(method.params), "optimizer", {})
    method.align(encoder, asked_for(method, root / "inputs"), Runtime(seed=1))
    after = _adapters(encoder.model)
    changed = {lang for lang in before if not torch.equal(before[lang], after[lang])}
    assert changed == ADAPTERS_READ[kind]


@pytest.mark.parametrize("kind", in_turn(["ppa", "distillation", "strong_contrastive"], 2))
def test_trainings_with_copies_teachers_and_two_passes_have_adapters_too(kind, root):
    """Others meet this family in `test_methods_and_tasks`, where all tests are asked for."""
    encoder = Subject.of("X-MOD", root).load()
    method = make(kind, root / "inputs")
    method.align(encoder, asked_for(method, root / "inputs"), Runtime(seed=1))
