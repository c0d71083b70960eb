"""Names of the hub and folders in keys: what a branch stands for is looked up, whether a name is a
folder is decided when the grid is read, and a local copy is its files.
"""

import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_from_disk

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, RaxalignError
from raxalign.grid.expansion.data import SharedStages
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.grid.lock import Lock
from raxalign.grid.specs import Spec
from raxalign.grid.stage import Stage
from raxalign.inspect.encoder import examine_encoder
from raxalign.options.sources import LocalFile, RemoteData
from raxalign.single.align import AlignRequest, _method_and_encoder
from raxalign.single.evaluate import EvaluateRequest, _plan
from raxalign.single.place import encoder_of
from raxalign.single.start import write_search
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.tasks.mteb import Mteb, loaded
from raxalign.train.runtime import Runtime
from tests.grids import of_kind, small_plan, write_grid
from tests.hub_material import BERT, bert_files
from tests.hub_server import serving
from tests.tiny import tiny_bert

COMMIT = "c" * 40
PARTS = {"languages": "{each: [de]}", "sentences": "[50]", "methods": ("none: {}",)}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on this machine, with two encoders whose branches `main` differ."""
    with serving() as server:
        server.ask(tmp_path / "cache", monkeypatch)
        server.repo(BERT).push(bert_files(layers=2))
        server.repo("some/other").push(bert_files(layers=1))
        yield server


def encoders(folder, *encoders, **parts):
    """The plan of a grid of some encoders."""
    return small_plan(folder, **{**PARTS, **parts}, encoder=f"[{', '.join(encoders)}]")


def named(name, revision=""):
    return f"{{kind: transformer, name: {name}{revision and f', revision: {revision}'}}}"


# - 1: branches and tags


def test_a_branch_is_no_pin_and_becomes_a_part_of_what_is_looked_up():
    assert RemoteData("hub:a/b", "main") == RemoteData("hub:a/b@main")
    assert RemoteData("hub:a/b", "") == RemoteData("hub:a/b")
    assert RemoteData("hub:a/b/de@main#x", "main") == RemoteData("hub:a/b/de@main#x")
    for digest in (COMMIT, "0" * 64):
        assert RemoteData("hub:a/b", digest).pin == digest
        assert RemoteData("hub:a/b", digest).name == "hub:a/b"
    for text in ("main", "c" * 39, "C" * 40, "g" * 40, "c" * 64 + "\n"):
        assert RemoteData("hub:a/b", text).pin is None


def test_two_encoders_at_branches_of_one_name_are_two_stages_that_are_looked_up(tmp_path):
    plan = encoders(tmp_path, named("a/base", "main"), named("a/large", "main"), "a/base")
    assert len({stage.key for stage in of_kind(plan, "encoder")}) == 3
    assert set(plan.unresolved) == {"hub:a/base@main", "hub:a/large@main", "hub:a/base"}


def test_a_commit_needs_no_lock_and_is_the_same_encoder_as_a_branch_that_stands_there(tmp_path):
    lock = {"hub:a/base@main": COMMIT, "hub:a/base": COMMIT}.get
    grid, identity = load(write_grid(tmp_path, **PARTS)), Identity(locked=lock)
    found = set()
    for revision in ({}, {"revision": "main"}, {"revision": COMMIT}):
        spec = Spec.encoder("transformer", {"name": "a/base", **revision})
        found.add(SharedStages(grid, identity).encoder(spec).key)
    assert len(found) == 1
    assert not identity.unresolved


def test_what_a_branch_stands_for_is_locked_read_and_seen_to_move(hub, tmp_path):
    repo, downloads = hub.repo(BERT), tmp_path / "d"
    first = repo.branches["main"]
    path = write_grid(tmp_path, **PARTS, encoder=named(BERT, "main"))
    opened = open_grid(path, storage=str(tmp_path / "s")).resolved(downloads)
    assert Lock.load(path).get(f"hub:{BERT}@main") == first
    assert Lock.load(path).get(f"depth:{BERT}@{first}") == "2"
    (stage,) = of_kind(opened.plan, "encoder")
    assert stage.digests == {"encoder": first}
    second = repo.push({**repo.commits[first], **bert_files(layers=1)})
    again = open_grid(path, storage=str(tmp_path / "s")).resolved(downloads)
    assert again.plan == opened.plan
    loaded = Workshop(again.plan, again.storage, Runtime(threads=1)).encoder(stage.key)
    assert loaded.n_layers == 2, "the worker reads the commit of the key"
    moved, changes = again.updated(downloads)
    assert changes == (f"hub:{BERT}@main: {first[:12]} -> {second[:12]}",)
    assert of_kind(moved.plan, "encoder")[0].key != stage.key


def test_an_encoder_of_two_revisions_is_fetched_at_both(hub, tmp_path):
    repo = hub.repo(BERT)
    first = repo.branches["main"]
    second = repo.push({**repo.commits[first], **bert_files(layers=1)})
    third = repo.push({**repo.commits[first], **bert_files(layers=3)})
    every = f"[{named(BERT)}, {named(BERT, first)}, {named(BERT, second)}]"
    path = write_grid(tmp_path, **PARTS, encoder=every)
    opened = open_grid(path, storage=str(tmp_path / "s")).resolved(tmp_path / "d")
    list(opened.fetched(tmp_path / "d"))
    for commit, layers in ((first, 2), (second, 1), (third, 3)):
        params = Transformer.Params(name=BERT, revision=commit)
        assert Transformer(params).depth({}.get) == layers, "the config is in the cache"


PLUGIN = '''
from pathlib import Path
import raxalign as rx
from raxalign.options.sources import DataPath, LocalFile

class Named(rx.EncoderKind):
    """An encoder whose `name` is not a place."""

    VERSION = 1
    family = "static"

    class Params(rx.EncoderKind.Params):
        """Options."""

        name: str
        """Which of the tables of the file."""
        table: DataPath
        """File."""

    def sources(self):
        return {"table": LocalFile(Path(self.params.table))}

    def depth(self, known):
        return 0

    def load(self, inputs, device):
        raise NotImplementedError
'''


def test_the_name_of_an_encoder_from_outside_is_in_its_key(tmp_path):
    (tmp_path / "named.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "table").write_text("x\n")
    given = [f"{{kind: named, name: {name}, table: table}}" for name in ("one", "two")]
    plan = encoders(tmp_path, *given, more="plugins: [named.py]\n")
    assert len({stage.key for stage in of_kind(plan, "encoder")}) == 2


def test_a_version_of_remote_data_of_an_encoder_from_outside_is_looked_up(tmp_path):
    remote = 'RemoteData("own:" + self.params.name, "v1", lambda _: "c" * 40)'
    text = PLUGIN.replace("LocalFile(Path(self.params.table))", remote)
    text = text.replace("import DataPath, LocalFile", "import DataPath, RemoteData")
    (tmp_path / "named.py").write_text(text, encoding="utf-8")
    given = "{kind: named, name: one, table: table}"
    path = write_grid(tmp_path, **PARTS, encoder=given, more="plugins: [named.py]\n")
    opened = open_grid(path, storage=str(tmp_path / "s"))
    assert opened.plan.unresolved == ("own:one@v1",)
    assert opened.resolved(tmp_path / "d").plan.unresolved == ()
    assert Lock.load(path).get("own:one@v1") == COMMIT


def test_a_revision_of_mteb_that_is_no_commit_is_looked_up_and_read(hub, tmp_path):
    data = hub.repo("own/topics", "dataset")
    table = pa.table({"text": ["a", "b"], "label": [0, 1]})
    first = data.push({"data/test-0.parquet": parquet(table)})
    own = tmp_path / "own.py"
    own.write_text(OWN_MTEB, encoding="utf-8")
    task = Mteb(Mteb.Params(tasks=("OwnTopics",), definitions=str(own)))
    (remote,) = [s for s in task.sources("de", "en").values() if isinstance(s, RemoteData)]
    assert (remote.name, remote.pin) == ("hub:own/topics@main", None)
    assert remote.look_up(tmp_path) == first
    data.push({"data/test-0.parquet": parquet(table.slice(1))})
    kind = task._known()["OwnTopics"]
    assert loaded(kind, ["de"], None, first, None).metadata.dataset["revision"] == first


OWN_MTEB = """
from mteb.abstasks import AbsTaskClassification
from mteb.abstasks.task_metadata import TaskMetadata

class OwnTopics(AbsTaskClassification):
    metadata = TaskMetadata(
        name="OwnTopics", description="Topics.", type="Classification", reference=None,
        dataset={"path": "own/topics", "revision": "main"}, category="t2c", modalities=["text"],
        eval_splits=["test"], eval_langs={"de": ["deu-Latn"]}, main_score="accuracy", date=None,
        domains=None, task_subtypes=None, license=None, annotations_creators=None, dialect=None,
        sample_creation=None, bibtex_citation=None,
    )

    def load_data(self, **_):
        self.data_loaded = True
"""


def parquet(table):
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return out.getvalue().to_pybytes()


# - 2: folders


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with grids/ and an encoder in the folder `own/bert`, which is where one works."""
    (tmp_path / "grids").mkdir()
    tiny_bert(tmp_path / "own" / "bert", ["ja", "nein"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_of_the_working_directory_is_not_read_in_place_of_the_hub(project):
    path = write_grid(project / "grids", **PARTS, encoder="own/bert")
    plan = open_grid(path, storage=str(project / "s")).plan
    assert plan.unresolved == ("hub:own/bert",)
    (stage,) = of_kind(plan, "encoder")
    assert stage.locations == {"encoder": "hub:own/bert"}
    (remark,) = [text for text in plan.remarks() if "own/bert" in text and "folder" in text]
    assert remark == (
        f"encoder: own/bert is read from the hub, and not from the folder {project / 'own/bert'}:"
        " paths are relative to the grid file, where that is ../own/bert"
    )


def test_a_name_that_the_hub_lacks_and_that_is_a_folder_here_says_where_paths_begin(hub, project):
    path = write_grid(project / "grids", **PARTS, encoder="own/bert")
    opened = open_grid(path, storage=str(project / "s"))
    told = f"The folder {re.escape(str(project / 'own/bert'))} is not read: paths are relative to"
    with pytest.raises(DataError, match=rf"the hub has no such encoder.*\. {told} the grid file$"):
        opened.resolved(project / "d")


def test_a_folder_beside_the_grid_is_the_same_from_every_working_directory(project, monkeypatch):
    shutil.move(project / "own", project / "grids" / "own")
    found = set()
    for encoder in ("own/bert", "./own/bert", "{kind: transformer, name: own/bert}"):
        for here in (project, project / "grids", Path("/")):
            monkeypatch.chdir(here)
            plan = expand(load(write_grid(project / "grids", **PARTS, encoder=encoder)))
            (stage,) = of_kind(plan, "encoder")
            assert all(Path(place).is_absolute() for place in stage.locations.values())
            found.add(stage.key)
    assert len(found) == 1
    monkeypatch.chdir(project)
    loaded = stage.plugin().load(EncoderInputs(), "cpu")
    assert loaded.hidden_size


def test_a_relative_name_is_one_of_the_hub_wherever_it_is_asked(project):
    """As a worker asks, in whose working directory there may be anything."""
    encoder = Transformer(Transformer.Params(name="own/bert"))
    assert encoder.sources() == {"encoder": RemoteData("hub:own/bert")}
    assert [remote.name for remote in encoder.remotes()] == ["hub:own/bert"]
    here = Transformer(Transformer.Params(name=str(project / "own/bert")))
    assert {type(source) for source in here.sources().values()} == {LocalFile}


def test_a_command_reads_the_folder_that_is_named_from_where_it_runs(project):
    for name in ("own/bert", "./own/bert"):
        assert encoder_of(name).params.name == str(project / "own/bert")
        lines, _ = examine_encoder(name)
        assert "broken" not in lines[0], lines[0]


def test_a_search_that_is_written_elsewhere_names_the_folder_by_its_place(project):
    path = project / "grids" / "search.yaml"
    asked = {"pivot": "en", "corpus": "phrasebook", "sentences": 50, "metric": None, "confirm": 0}
    asked |= {"budget": "2 trials", "sampler": "random", "aligner": "thot", "method": "finetune"}
    lists = {"spaces": ["lambda=choice:1:2"], "options": [], "languages": ["de"]}
    write_search(path, **lists, task="retrieval", **asked, encoder="own/bert")
    (spec,) = load(path).encoders
    assert spec.params.name == str(project / "own/bert")


def test_transforms_of_a_folder_named_as_the_hub_or_a_kind_are_not_those_of_the_encoder(project):
    """`raxalign evaluate --encoder phrasebook` beside a folder of that name."""
    (project / "phrasebook").mkdir()
    (project / "phrasebook" / "transforms.json").write_text("{}", encoding="utf-8")
    opened = open_grid(write_grid(project / "grids", **PARTS), storage=str(project / "s"))
    plan, aligned = _plan(opened, EvaluateRequest("phrasebook"), ("retrieval",), ("de",))
    assert plan.trials
    assert aligned.locations == {}


def test_a_relative_file_is_refused_when_it_is_planned_and_when_it_is_read(project):
    file = project / "words"
    file.write_text("x\n")
    with pytest.raises(DataError, match=r"^words: is relative to no grid file.*DataPath"):
        Identity().of({"dictionary": LocalFile(Path("words"))})
    digest = Identity().of({"dictionary": LocalFile(file)})[0]["dictionary"]
    stage = Stage("seen", "types", 1, {}, {}, {"dictionary": digest}, {"dictionary": "words"})
    plan = small_plan(project, **PARTS)
    workshop = Workshop(plan, Storage(str(project / "s")), Runtime(threads=1))
    with (
        pytest.raises(DataError, match=r"^words: was planned at a relative place"),
        workshop.reading(stage),
    ):
        raise AssertionError
    remote = Stage("bitext", "opus", 1, {}, {}, {"x": "0" * 64}, {"x": "opus:x/v1/de-en"})
    with workshop.reading(remote):
        pass


# - 3: local copies of data sets

XNLI = "xnli: {data: hub, dataset: %s, revision: %s, epochs: 1}"
CORPUS = "source: hub\n  dataset: %s\n  revision: %s\n  split: {test: 8, dev: 8}"


def copy_of(folder, text="a"):
    """A local copy of a data set of translations and of XNLI's columns."""
    for lang in ("de", "en"):
        for split in ("train", "validation", "test"):
            rows = {"premise": [text] * 40, "hypothesis": ["b"] * 40, "label": [0, 1] * 20}
            rows |= {"translation": [{"de": f"{text} {n}", "en": f"x {n}"} for n in range(40)]}
            place = folder / lang / f"{split}-00000-of-00001.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(rows), place)
    configs = [f"- {{config_name: {n}, data_files: [{parts(n)}]}}\n" for n in ("de", "en")]
    configs.append(f"- {{config_name: default, default: true, data_files: [{parts('de')}]}}\n")
    (folder / "README.md").write_text(f"---\nconfigs:\n{''.join(configs)}---\n", encoding="utf-8")
    return folder


def parts(lang):
    splits = ("train", "validation", "test")
    return ", ".join(f"{{split: {split}, path: {lang}/{split}-*}}" for split in splits)


def of_copy(folder, dataset="./copy", revision="main"):
    """What a grid makes of a copy, by kind: held-out text, a training and its evaluation."""
    given = {**PARTS, "encoder": "phrasebook", "sentences": "[10]"}
    tasks, text = (XNLI % (dataset, revision), "retrieval: {}"), CORPUS % (dataset, revision)
    plan = small_plan(folder, **given, tasks=tasks, corpus=text)
    assert plan.unresolved == ()
    heldout = [stage for stage in of_kind(plan, "bitext") if stage.params["part"] == "heldout"]
    read = [*heldout, *of_kind(plan, "tuned"), plan.evaluated["xnli"]]
    assert [stage.kind for stage in read] == ["bitext", "tuned", "evaluation"]
    return {stage.kind: stage for stage in read}, plan


def keys(stages):
    return {kind: stage.key for kind, stage in stages.items()}


def test_a_local_copy_is_its_files_wherever_it_lies(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    here, moved = (tmp_path / "one", tmp_path / "two")
    copy_of(here / "copy")
    (here / "copy" / ".git").mkdir()
    (here / "copy" / ".git" / "HEAD").write_text("x")
    first, _ = of_copy(here)
    for stage in first.values():
        assert set(map(Path, stage.locations.values())) == {
            path for path in (here / "copy").rglob("*") if path.is_file() and path.name != "HEAD"
        }
        assert str(tmp_path) not in str(stage.params)
    shutil.copytree(here / "copy", moved / "copy")
    for folder, name in ((moved, "./copy"), (here, str(moved / "copy")), (here, "copy")):
        assert keys(of_copy(folder, name)[0]) == keys(first)
    assert keys(of_copy(here, "copy", "v2")[0]) == keys(first)


def test_which_configuration_of_a_local_copy_is_read_is_in_its_keys(tmp_path):
    copy_of(tmp_path / "copy")
    given = {**PARTS, "encoder": "phrasebook", "sentences": "[10]"}
    task = "{kind: classification, %sdataset: copy, columns: {first: premise}, labels: [n, y]}"
    own, known = (
        small_plan(tmp_path, **given, tasks=(f"one: {task % preset}",)).evaluated["one"]
        for preset in ("", "preset: sib200, ")
    )
    assert own.params["task"] == known.params["task"]
    assert {*own.digests.values()} == {*known.digests.values()}
    assert {name.split("/")[1] for name in own.digests} == {"de", "en"}
    assert {name.split("/")[1] for name in known.digests} == {"deu_Latn", "eng_Latn"}


def test_what_is_edited_in_a_local_copy_changes_the_keys_of_all_that_reads_it(tmp_path):
    copy_of(tmp_path / "copy")
    first = keys(of_copy(tmp_path)[0])
    copy_of(tmp_path / "copy", "edited")
    assert not set(first.values()) & set(keys(of_copy(tmp_path)[0]).values())


def test_an_edited_local_copy_is_read_anew_though_its_files_have_the_same_time(tmp_path):
    """The datasets library takes rows of the same path and time for the same."""
    copy, seen = tmp_path / "copy", []
    for text in ("a", "edited"):
        copy_of(copy, text)
        for path in copy.rglob("*"):
            os.utime(path, (1e9, 1e9))
        stages, plan = of_copy(tmp_path)
        workshop = Workshop(plan, Storage(str(tmp_path / "s")), Runtime(threads=1))
        head = stages["evaluation"].plugin().head(workshop.task_inputs(stages["evaluation"]))
        made = load_from_disk(str(workshop.ensure(stages["bitext"].key) / "data"))
        seen.append((made[0]["src"][0], head.data.rows("test", "de").rows[0].first))
    assert seen == [("a", "a"), ("edited", "edited")]


def test_a_local_copy_that_is_not_there_is_missing_before_anything_runs(tmp_path):
    with pytest.raises(RaxalignError, match=rf"{tmp_path}/copy"):
        of_copy(tmp_path)


def test_files_that_a_copy_links_to_are_part_of_it(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rows").write_text("x")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "linked").symlink_to(tmp_path / "elsewhere")
    (copy / "linked" / "back").symlink_to(copy)
    (copy / ".hidden").write_text("y")
    assert set(LocalFile.within(copy, "hub")) == {"hub/linked/rows", "hub/.hidden"}


def test_an_alignment_of_a_folder_named_from_here_says_so_in_its_card(project):
    request = AlignRequest("rotation", (), "own/bert", {}, "en", 0)
    _, spec = _method_and_encoder(request)
    assert spec.params.name == str(project / "own/bert")
