"""Plug-ins from outside the package: files that a grid names, and entry points."""

import json
import os
import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from raxalign import catalog as catalog_module
from raxalign.catalog import PluginFault, PluginFile, UnknownKind, catalog
from raxalign.errors import DataError, GridError, RaxalignError
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.pairing.aligners.base import WordAligner
from raxalign.promises import broken_promise
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job
from raxalign.sweep.order import Holds
from raxalign.sweep.work import attempt, run_job
from raxalign.values.results import rows
from tests.grids import TINY, write_grid
from tests.ran import ran
from tests.test_cli import Done, run  # noqa: F401 - a fixture
from tests.toys.pages import blocks


def my_method(folder, name="my_method.py", more=""):
    """The method of docs/how-to/plugins.md in a file."""
    path = folder / name
    path.write_text(blocks()["my_method.py"] + more, encoding="utf-8")
    return path


def grid_with(folder, plugins="plugins: [my_method.py]\n"):
    methods = ("none: {}", "mine: {kind: my_method, strength: [0.5, 1.0]}")
    parts = {"languages": "{each: [de]}", "sentences": "100", "methods": methods}
    return write_grid(folder, encoder=TINY, more=plugins, **parts)


@pytest.mark.slow
def test_a_method_in_a_file_outside_the_package_goes_from_plan_to_results(tmp_path):
    file = my_method(tmp_path)
    opened = ran(grid_with(tmp_path))
    found = rows(opened.plan, opened.storage.ledger)
    methods = {(row["method"], row["params"].get("strength")) for row in found}
    assert methods == {("none", None), ("mine", 0.5), ("mine", 1.0)}
    kinds = {trial.kind for trial in opened.plan.trials}
    assert kinds == {"none", opened.plan.plugins[0].kind}
    assert opened.plan.plugins[0].path == str(file)


def test_the_digest_of_the_file_enters_the_keys_of_what_it_makes_and_no_others(tmp_path):
    my_method(tmp_path)
    before = open_grid(grid_with(tmp_path)).plan
    my_method(tmp_path, more="\n# edited\n")
    after = open_grid(tmp_path / "grid.yaml").plan
    old, new = (
        {(t.method, t.params.get("strength")): t.aligned for t in plan.trials}
        for plan in (before, after)
    )
    assert {name for name in old if old[name] == new[name]} == {("none", None)}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    my_method(elsewhere, more="\n# edited\n")
    same = open_grid(grid_with(elsewhere)).plan
    assert {t.key for t in same.trials} == {t.key for t in after.trials}


def test_a_worker_loads_the_file_of_the_plan_and_refuses_one_that_has_changed(
    tmp_path, monkeypatch
):
    file = my_method(tmp_path)
    plan = open_grid(grid_with(tmp_path)).plan
    assert Plan.from_json(plan.to_json()) == plan
    place = StoredPlans(Storage(str(tmp_path / "storage"))).write(plan)
    monkeypatch.setattr(catalog_module, "_loaded", {})  # as in another process
    assert Job(Storage(""), place).read_plan() == plan
    assert catalog("methods")[plan.plugins[0].kind].__name__ == "ShiftToPivot"
    my_method(tmp_path, more="\n# edited\n")
    refused = rf"{re.escape(str(file))}: has changed since the grid was planned\. Plan it again"
    with pytest.raises(PluginFault, match=refused):
        plan.plugins[0].refuse_changed()
    monkeypatch.setattr(catalog_module, "_loaded", {})
    with pytest.raises(PluginFault, match=refused):
        plan.plugins[0].load()
    with pytest.raises(PluginFault, match=r"No such file.*same path on every machine"):
        replace(plan.plugins[0], path=str(tmp_path / "gone.py")).refuse_changed()


def test_a_file_of_one_grid_is_unknown_to_another(tmp_path):
    my_method(tmp_path)
    opened = open_grid(grid_with(tmp_path))
    with pytest.raises(GridError, match="unknown method 'my_method'"):
        load(grid_with(tmp_path, plugins=""))
    assert "my_method" not in catalog("methods")
    with pytest.raises(UnknownKind):
        catalog("methods")["my_method"]
    with PluginFile.visible(opened.plan.plugins):
        assert "my_method" in list(catalog("methods"))


CLASS = (
    "import raxalign as rx\n\n\nclass {name}(rx.Method):\n    '''x'''\n    VERSION = 1\n    def"
    " needs(self): return rx.Needs()\n"
)
ALIGN = "    def align(self, encoder, inputs, runtime): return encoder\n"
REFERENCE = "    reference = 'x'\n"
TASK = (
    "import raxalign as rx\nfrom raxalign.measured import Measured\n\n\nclass Gap(rx.Task):\n"
    "    VERSION = 1\n    main_metric = 'gap'\n    metrics = ({declared})\n"
    "    def evaluate(self, *given): return None\n"
)
A = CLASS.format(name="A")
WHOLE = A + ALIGN + REFERENCE
PARAMS = "    from pathlib import Path\n    class Params(rx.Params):\n"
KINDS = "Method, Task, Corpus, EncoderKind, WordAligner, Metric or Section"
FAULTS = {
    "syntax": ("x = 1\ndef broken(:\n", r":2: SyntaxError: invalid syntax"),
    "import": (
        "x = 1\n\nimport no_such_module_at_all\n",
        r":3: ModuleNotFoundError: No module named 'no_such_module_at_all'",
    ),
    "inside": ("def f():\n    return 1 / 0\n\nf()\n", r":2: ZeroDivisionError: division by zero"),
    "none": (
        "x = 1\n",
        r":1: has no class that is a plug-in\. A plug-in file has one public class with a VERSION",
    ),
    "two": (
        A + ALIGN + CLASS.format(name="B") + ALIGN,
        r":12: has A and B\. A plug-in file has one public class",
    ),
    "other": ("class A:\n    VERSION = 1\n", rf":1: A is not a subclass of {KINDS}"),
    "incomplete": (A, r":4: A does not define align"),
    "undeclared": (A + ALIGN, r":4: A does not define reference\. Its base class documents them"),
    "version": (
        WHOLE.replace("N = 1", "N = '1.0'"),
        r":4: VERSION is '1\.0'\. It is a whole number",
    ),
    "options": (
        WHOLE + "    class Params:\n        x: int = 1\n",
        r":4: A\.Params is not a class of options\. Write class Params\(rx\.Params\)",
    ),
    "attribute": (WHOLE + "    accepts = 'static'\n", r":4: A\.accepts is 'static', not a froz"),
    "no function": (WHOLE + "    has_chance = True\n", r":4: has_chance is True, not a function"),
    "arguments": (
        WHOLE.replace("self, encoder, inputs", "self, encoder"),
        r":8: align takes \(self, encoder, runtime\), not \(self, encoder, inputs, runtime\)",
    ),
    "path": (WHOLE + PARAMS + "        x: Path\n", r":4: the option x is a Path\. Declare it as D"),
    "default": (
        WHOLE + PARAMS + "        x: float = 'much'\n",
        r":4: the default of the option x is 'much', not a float\. Give it a default of its type",
    ),
    "exit": ("x = 1\nraise SystemExit(0)\n", r":2: SystemExit: 0"),
    "no main metric": (
        TASK.format(declared="").replace("    main_metric = 'gap'\n", ""),
        r":5: Gap does not define main_metric",
    ),
    "main metric": (
        TASK.format(declared="Measured('other', 'Another one.'),"),
        r":5: Gap\.metrics does not declare the main metric 'gap'\. Add a Measured of that name",
    ),
    "direction": (
        TASK.format(declared="Measured('gap', 'A gap.', better='smaller'),"),
        r":8: ValueError: gap: better is 'smaller'; write higher, lower or neither",
    ),
    "gone": (
        TASK.format(declared="Measured('gap', 'A gap.'),") + "    def sample(cls, *given): ...\n",
        r":5: TypeError: Gap\.sample is not called any more; write `Measured\(\.\.\., sample=",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_file_is_told_with_file_and_line_and_the_line_of_the_grid(fault, tmp_path):
    text, message = FAULTS[fault]
    (tmp_path / "my_method.py").write_text(text, encoding="utf-8")
    before = set(sys.modules)
    with pytest.raises(GridError) as caught:
        load(grid_with(tmp_path))
    told = str(caught.value)
    assert re.search(re.escape(str(tmp_path / "my_method.py")) + message, told), told
    assert "1 fault\n  line 18: plugins" in told
    if fault in {"syntax", "import", "inside"}:
        assert not [name for name in set(sys.modules) - before if "raxalign_outside" in name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rotation.py", "the name 'rotation' of this method is taken"),
        ("a-b.py", "cannot be a plug-in's name"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(name, message, tmp_path):
    my_method(tmp_path, name)
    with pytest.raises(GridError, match=message):
        load(grid_with(tmp_path, plugins=f"plugins: {name}\n"))


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    other = my_method(tmp_path / "other", more="\n# another\n")
    files = [PluginFile.open(file) for file in (my_method(tmp_path), other)]
    told = r"other/my_method\.py:1: the name 'my_method' is taken by .*/my_method\.py\. Rename one"
    with pytest.raises(PluginFault, match=told), PluginFile.visible(files):
        pass


def test_list_prints_a_file_s_plug_in_and_goes_on_after_a_faulty_one(tmp_path, run):  # noqa: F811
    (tmp_path / "bad.py").write_text("import no_such_module_at_all\n")
    bad, good = tmp_path / "bad.py", my_method(tmp_path)
    done = run("list", "methods", "--plugins", bad, "--plugins", good)
    assert done.code == 0
    assert "warning: " in done.err and "bad.py:1: ModuleNotFoundError" in done.err  # noqa: PT018
    assert "my_method: Move the words of each language" in done.out
    assert "rotation: " in done.out


def test_entry_points_are_plug_ins_and_a_broken_one_is_left_out_of_the_list(tmp_path, monkeypatch):
    my_method(tmp_path, "a_package_of_mine.py")
    (tmp_path / "a_broken_package.py").write_text("x = 1\nimport no_such_module_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    values = dict.fromkeys(("from_package", "none"), "a_package_of_mine:ShiftToPivot")
    values["broken"] = "a_broken_package:A"
    found = {name: EntryPoint(name, value, "raxalign.methods") for name, value in values.items()}
    of_folder = {"methods": found}
    monkeypatch.setattr(catalog_module, "_entry_points", lambda folder: of_folder.get(folder, {}))
    assert catalog("methods")["from_package"].__name__ == "ShiftToPivot"
    assert catalog("methods").kind("from_package") == "from_package"
    assert catalog("methods")["none"].__name__ == "NoAlignment"
    told = r"a_broken_package\.py:2: ModuleNotFoundError.*entry point broken = a_broken_package:A"
    with pytest.raises(PluginFault, match=told):
        catalog("methods")["broken"]
    with pytest.warns(UserWarning, match=r"a_broken_package\.py:2"):
        listed = dict(catalog("methods").items())
    assert "from_package" in listed
    assert "broken" not in listed


def test_an_error_while_a_plug_in_works_names_its_file_its_line_and_what_it_is(run, tmp_path):  # noqa: F811
    (tmp_path / "my_method.py").write_text(WHOLE.replace("rx.Needs()", "rx.Nothing()"))
    grid = grid_with(tmp_path)
    grid.write_text(grid.read_text().replace(", strength: [0.5, 1.0]", ""))
    done = run("plan", grid)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: {tmp_path}/my_method.py:7: AttributeError: module 'raxalign' has no attribute"
        " 'Nothing', in needs of the method my_method; --debug shows the traceback\n"
    )


def test_what_a_plug_in_prints_is_not_among_the_results_of_a_command(run, tmp_path):  # noqa: F811
    (tmp_path / "my_method.py").write_text("print('loaded')\n" + WHOLE)
    grid = grid_with(tmp_path)
    grid.write_text(grid.read_text().replace(", strength: [0.5, 1.0]", ""))
    done = run("plan --format json", grid)
    assert json.loads(done.out)["points"] == 2
    assert "loaded\n" in done.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rx.Needs()", "None", ":7: needs returned None, not a Needs. Its base class"),
        ("rx.Needs()", "[]", ":7: needs returned a list, not a Needs. Its base class"),
        ("rx.Needs()", "rx.Needs(links='no')", ":7: needs returned a Needs, whose .links is 'no'"),
        ("return encoder", "raise SystemExit(0)", ":8: align raised SystemExit: 0"),
        ("return encoder", "return encoder", ":8: align returned a "),
        ("return encoder", "return 1 / 0", ":8: ZeroDivisionError: division by zero, in align of"),
    ],
)
def test_what_a_plug_in_must_not_return_or_raise_is_a_fault_of_its_file(
    old, new, message, tmp_path
):
    (tmp_path / "my_method.py").write_text(WHOLE.replace(old, new))
    path = grid_with(tmp_path)
    path.write_text(path.read_text().replace(", strength: [0.5, 1.0]", ""))

    def told():
        try:
            opened = open_grid(path, storage=str(tmp_path / "storage"))
        except RaxalignError as fault:
            return str(fault)
        trial = next(trial for trial in opened.plan.trials if trial.method == "mine")
        return attempt(
            Job(opened.storage, StoredPlans(opened.storage).write(opened.plan)), trial.key
        )

    assert f"{tmp_path}/my_method.py{message}" in str(told())


def test_a_promised_type_that_type_checkers_alone_import_is_looked_at_too():
    class Outside(WordAligner):
        VERSION = 1

        def align(self, src, tgt, inputs):
            return [], []

    assert broken_promise(Outside) is None
    with pytest.raises(DataError, match=r"align returned a tuple, whose \[0\] is a list, not"):
        Outside(Outside.Params()).align([], [], None)


def test_an_error_of_the_package_itself_is_not_blamed_on_a_plug_in():
    with pytest.raises(ZeroDivisionError) as raised:
        catalog("methods").kind(1 // 0)
    assert PluginFault.blamed(raised.value) is None
    said = "ZeroDivisionError: integer division or modulo by zero"
    assert PluginFault.message_of(raised.value) == said


MOVER = """\
import os

import raxalign as rx

os.environ["AT_IMPORT"] = "stays, since the file is loaded once"


class Mover(rx.Method):
    VERSION = 1
    reference = "of my own"

    class Params(rx.Params):
        fails: bool = False

    def needs(self):
        return rx.Needs()

    def align(self, encoder, inputs, runtime):
        os.chdir("/")
        os.environ["LEFT"] = "here"
        del os.environ["KEPT"]
        assert not self.params.fails
        return rx.AlignedEncoder(encoder)
"""


def test_what_a_plug_in_changes_of_its_process_ends_with_its_job(tmp_path, monkeypatch):
    """A worker does one job after the other: shared stages and trials, also those that fail."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEPT", "as it was")
    monkeypatch.setenv("AT_IMPORT", "")
    (tmp_path / "mover.py").write_text(MOVER, encoding="utf-8")
    parts = {"languages": "{each: [de]}", "sentences": "30", "size": 100}
    methods = ("mover: {fails: [false, true]}",)
    path = write_grid(
        tmp_path, encoder=TINY, more="plugins: [mover.py]\n", methods=methods, **parts
    )
    opened = open_grid(path, storage=str(tmp_path / "storage"))
    job = Job(opened.storage, StoredPlans(opened.storage).write(opened.plan))
    works, fails = (trial.key for trial in opened.plan.trials)
    stage = opened.plan.by_key[works].aligned
    jobs = [{"stage": stage, "trains": True}, {"trial": fails, "needs": Holds.WORKER.name}]
    for config in jobs:
        done = run_job({"plan": job.plan, **config}, job, lambda holder: 0.0)
        assert ("AssertionError" in done["error"]) == ("trial" in config)
        assert Path.cwd() == tmp_path
        assert os.environ["KEPT"] == "as it was"
        assert "LEFT" not in os.environ
        assert os.environ["AT_IMPORT"].startswith("stays")
