"""What makes a key is what is read: a file that is not the one of the plan is refused where a stage
reads it, and what is lost of an artifact is not taken for nothing.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from raxalign.errors import DataError, TransientError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.tiny import tiny_bert

GRID = """
name: read
pivot: en
encoder: ./encoder
languages: {together: [de]}
corpus: {source: moses, path: text, pretokenized: true, split: {test: 4, dev: 4}}
pairs: {aligner: links, path: gold}
sentences: 10
seeds: [0]
methods: {rotation: {supervision: dictionary, dictionary: words}}
tasks: {translate: {kind: dictionary_retrieval, dictionary: pairs}, retrieval: {}}
"""
LINES = [("ja nein", "yes no"), ("nein danke", "no thanks"), ("danke ja", "thanks yes")] * 8


@pytest.fixture
def folder(tmp_path):
    """A grid, and all that it reads: its text, gold links, dictionaries and encoder."""
    (tmp_path / "text.de").write_text("".join(f"{de} {n}\n" for n, (de, _) in enumerate(LINES)))
    (tmp_path / "text.en").write_text("".join(f"{en} {n}\n" for n, (_, en) in enumerate(LINES)))
    (tmp_path / "gold").write_text("0-0 1-1 2-2\n" * len(LINES))
    for name in ("words", "pairs"):
        (tmp_path / name).write_text("ja yes\nnein no\ndanke thanks\n")
    tiny_bert(tmp_path / "encoder", [*"0123456789", *" ".join(map(" ".join, LINES)).split()])
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path


def opened(folder):
    """A workshop over the grid, as a worker has it some time after the plan was made."""
    storage = Storage(str(folder / "storage"))
    return Workshop(expand(load(folder / "grid.yaml")), storage, Runtime(threads=1))


def run(workshop):
    for trial in workshop.plan.trials:
        workshop.run_trial(trial.key)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


READ = {
    "text.de": ("bitext", "retrieval"),
    "gold": ("pairs", "retrieval"),
    "words": ("aligned", "translate"),
    "pairs": ("evaluation", "translate"),
    "encoder/tokenizer_config.json": ("aligned", "translate"),
}
"""Each file, with the kind of what is made of it and the task that comes of this."""


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("gone", [False, True])
def test_what_was_changed_after_the_plan_is_refused_and_nothing_is_stored(folder, name, gone):
    workshop, file = opened(folder), folder / name
    planned, content = sha256(file), file.read_bytes()
    file.write_bytes(content[:-1] + b" \n")
    found = sha256(file)
    if gone:
        file.unlink()
    with pytest.raises(DataError, match=rf"{name}: .*{planned}.* Restore it, .* or run") as refused:
        run(workshop)
    assert not isinstance(refused.value, TransientError)
    assert gone or found in str(refused.value)
    kind, task = READ[name]
    assert kind not in {made for made, _ in workshop.store.keys()}  # noqa: SIM118
    key = workshop.plan.trials[0].evaluations[task]
    assert not workshop.ledger.has(key)
    file.write_bytes(content)
    run(workshop)
    assert workshop.ledger.has(key)


@pytest.mark.parametrize("name", ["text.de", "words"])
def test_what_is_changed_while_it_is_read_leaves_nothing(folder, name, monkeypatch):
    """Also where it is the planned content again in the end."""
    workshop, kind = opened(folder), READ[name][0]
    maker, file = Workshop.MAKERS[kind], folder / name

    def meanwhile(shop, stage, place):
        content = file.read_bytes()
        file.write_bytes(content.swapcase())
        notes = maker(shop, stage, place)
        file.write_bytes(content)
        return notes

    monkeypatch.setitem(Workshop.MAKERS, kind, meanwhile)
    with pytest.raises(DataError, match=rf"{name}: was changed while it was read"):
        run(workshop)
    assert kind not in {made for made, _ in workshop.store.keys()}  # noqa: SIM118


def test_a_file_that_comes_into_an_encoder_after_the_plan_is_refused(folder):
    workshop = opened(folder)
    (folder / "encoder" / "added_tokens.json").write_text("{}")
    with pytest.raises(DataError, match=r"added_tokens\.json: was not there when this was planned"):
        run(workshop)


LOST = ("heldout/de", "dev"), ("heldout/de", "data"), ("seen/de", "dictionary.arrow")


@pytest.mark.parametrize(("name", "part"), LOST)
def test_what_is_lost_of_an_artifact_is_made_again_and_not_left_out(folder, name, part):
    """What goes between the opening of an artifact and its reading, as `rm` of old files does."""
    workshop, lost = opened(folder), list[Path]()
    run(workshop)
    key = workshop.plan.trials[0].evaluations["retrieval"]
    whole = workshop.ledger.read(key)["scores"]
    shutil.rmtree(folder / "storage" / "ledger")
    again = opened(folder)
    place = again.ensure(again.plan.stages[key].inputs[name]) / part
    read = again.task_inputs

    def lose(stage):
        inputs = read(stage)
        if stage.key == key and not lost:
            lost.append(place)
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        return inputs

    again.task_inputs = lose
    with pytest.raises(TransientError, match="It was being read; it is made again"):
        run(again)
    assert not again.ledger.has(key)
    run(again)
    assert again.ledger.read(key)["scores"] == whole


def test_code_of_an_encoders_own_is_remarked_on_once(folder):
    for name in ("config.json", "tokenizer_config.json"):
        file = folder / "encoder" / name
        file.write_text(
            json.dumps({**json.loads(file.read_text()), "auto_map": {"AutoModel": "x.X"}})
        )
    said = [line for line in opened(folder).plan.remarks() if "auto_map" in line]
    assert len(said) == 1
    assert "encoder/config.json: `auto_map` names code" in said[0]
