"""The layers, confined libraries and sizes that docs/explanation/architecture.md promises, read
from the syntax trees.
"""

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import raxalign
from raxalign.catalog import FOLDERS, catalog

PACKAGE = Path(raxalign.__file__).parent
# Lowest first; modules of one row may import rows below and themselves, never each other.
LAYERS = [
    ("lazy",),
    ("arrays", "children", "errors", "languages", "printing", "version"),
    ("promises",),
    ("catalog", "caveats", "extras", "losses", "measured", "sample", "trust", "waits"),
    ("options",),
    ("store", "provenance"),
    ("corpora", "train"),
    ("encoders",),
    ("pairing", "similarity"),
    ("methods", "tasks", "metrics", "analysis"),
    ("grid",),
    ("values",),
    ("search",),
    ("tracking", "stages"),
    ("sweep", "report", "single"),
    ("inspect",),
    ("api",),
    ("cli",),
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
# an unknown language is an error, and what errors say is shown and kept without secrets
ALLOWED_SIBLINGS = {("languages", "errors"), ("errors", "printing")}
CONFINED = {
    "ray": ("sweep/",),
    "mlflow": ("tracking/",),
    "fsspec": ("store/",),
    "ruamel": ("grid/",),
    "optuna": ("search/",),
    "transformers": ("encoders/", "methods/", "tasks/"),
}
HEAVY = {"torch._C", "transformers.utils", "datasets.features", "ray._raylet", "mlflow.tracking"}
HEAVY |= {"sklearn.base", "scipy._lib", "mteb.abstasks"}
# a lazily loaded module is there by its name: its compiled part shows whether it was loaded
ARRAYS = {"numpy._core._multiarray_umath", "pyarrow.lib", "langcodes.data_dicts"}
# what computes, of which a plan needs nothing: it reads what kinds declare
COMPUTES = {"stages", "losses", "train.loop", "train.checkpoint", "similarity.neighbors"}
COMPUTES |= {f"encoders.models.{name}" for name in ("masking", "pieces", "rows", "static")}
COMPUTES |= {"methods.families.rows", "methods.families.word_vectors", "pairing.build"}
COMPUTES |= {"pairing.links", "pairing.words", "tasks.transfer.rows", "tasks.vectors.pairs"}
COMPUTES = {f"raxalign.{name}" for name in COMPUTES}
FILES = sorted(PACKAGE.rglob("*.py"))
PAGE = PACKAGE.parent / "docs" / "explanation" / "architecture.md"
PLUGINS = ("corpora", "pairing/aligners", "encoders", "methods", "tasks", "metrics")
PLUGINS += ("report/sections",)

MOST_LINES, MOST_FUNCTION_LINES, MOST_ARGUMENTS = 600, 40, 6
LONG_FUNCTIONS = {  # each with its reason
    "api.py": ("run", "word_pairs", "align", "evaluate"),  # keyword arguments are the interface
    "cli/_grids.py": ("grid", "search"),  # a command's arguments are its options
    "cli/_results.py": ("results",),  # likewise
    "cli/_single.py": ("pairs", "power", "align", "evaluate", "export"),  # likewise
    "methods/finetune.py": ("alignment_loss",),  # a formula over tensors
    "methods/families/contrast.py": ("word_contrastive_loss",),  # likewise
}


@cache
def nodes(path):
    """All nodes of a file's syntax tree, which is read once for all tests."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.fixture(autouse=True, scope="module")
def _trees_are_left_when_the_last_test_ends():
    yield
    nodes.cache_clear()


@cache
def imports(path):
    """The dotted names of every import that runs: those for type checking alone are left out."""
    unused, found = set(), []
    for node in nodes(path):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            unused |= {id(inner) for part in node.body for inner in ast.walk(part)}
        elif isinstance(node, ast.Import) and id(node) not in unused:
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in unused:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def module_of(path):
    """The dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def references(path):
    """(module of the package, name in it or None) of every import of a file, those for type
    checking and inside functions included.
    """
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.append((inner, None) if inner in MODULES else (node.module, alias.name))
    return found


def room(path):
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


def test_imports_go_down_only():
    up = {
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in FILES
        for module in imports(path)
        if not goes_down(room(path), module.split("."))
    }
    assert up == set()


def goes_down(here, parts):
    if here in {"__init__", "__main__"} or parts[0] != "raxalign" or len(parts) < 2:
        return True
    other = parts[1]
    return (
        other == here
        or other not in RANK
        or RANK[other] < RANK[here]
        or (here, other) in ALLOWED_SIBLINGS
    )


def test_the_page_shows_the_layers():
    _, block, *_ = PAGE.read_text(encoding="utf-8").split("## Layers")[1].split("```")
    shown = [set(line.split(" | ")) for line in block.strip().splitlines()]
    assert shown == [set(row) for row in reversed(LAYERS)]


def private(name):
    return name.startswith("_") and not name.startswith("__")


def test_an_underscore_is_private_to_its_folder():
    for path in FILES:
        here = ".".join(path.relative_to(PACKAGE.parent).parts[:-1])
        for module, name in references(path):
            parts = module.split(".")
            folders = [".".join(parts[:depth]) for depth, part in enumerate(parts) if private(part)]
            if name is not None and private(name):
                folders.append(".".join(MODULES[module].relative_to(PACKAGE.parent).parts[:-1]))
            assert all(folder == here for folder in folders), (
                f"{path.relative_to(PACKAGE)} imports {module}{f'.{name}' if name else ''}"
            )


def test_no_modules_import_each_other_in_a_circle():
    """Imports for type checking alone and imports inside functions count."""
    graph = {module: {other for other, _ in references(path)} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("library", CONFINED)
def test_libraries_stay_where_they_belong(library):
    for path in FILES:
        place = str(path.relative_to(PACKAGE))
        if any(module.split(".")[0] == library for module in imports(path)):
            assert place.startswith(CONFINED[library]), f"{place} imports {library}"


@pytest.mark.parametrize("folder", PLUGINS)
def test_no_plugin_imports_a_plugin_of_its_own_folder(folder):
    paths = [path for path in (PACKAGE / folder).glob("*.py") if path.stem != "base"]
    others = {module_of(path): path for path in paths if not path.stem.startswith("_")}
    for path in paths:
        for module in imports(path):
            assert others.get(module, path) == path, f"{path.name} imports {module}"


@pytest.mark.parametrize("folder", ["stages", "tracking", "sweep"])
def test_mechanism_names_no_method_and_no_task(folder):
    names = set(catalog("methods")) | set(catalog("tasks"))
    for path in (PACKAGE / folder).glob("*.py"):
        assert names.isdisjoint(texts_of(path)), path.name


def texts_of(path):
    """The texts of a file, one entry per place."""
    constants = (node.value for node in nodes(path) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def test_the_report_names_one_task_in_the_section_about_it_and_no_method():
    """The extra `pos` and what YAML and matplotlib call "none" are not names of plug-ins."""
    methods, tasks = set(catalog("methods")) - {"none"}, set(catalog("tasks"))
    shown = [path for room in ("report", "inspect") for path in (PACKAGE / room).rglob("*.py")]
    for path in sorted(shown):
        texts = texts_of(path)
        assert methods.isdisjoint(texts), path.name
        named = [text for text in texts if text in tasks]
        if path.name == "doctor.py":
            named = [text for text in named if text != "pos"]
        assert len(named) <= (path.parent.name == "sections"), f"{path.name} names {named}"
        for node in nodes(path):
            if isinstance(node, ast.Compare):
                compared = [part.value for part in node.comparators if hasattr(part, "value")]
                assert "none" not in compared, f"{path.name} asks for the method none"


def test_files_stay_small_enough_to_know():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert [path for path, lines in lengths.items() if lines > MOST_LINES] == []


def test_a_public_class_name_means_one_thing():
    found = Counter(
        node.name
        for path in FILES
        for node in nodes(path)[0].body
        if isinstance(node, ast.ClassDef) and not private(node.name)
    )
    assert [name for name, count in found.items() if count > 1] == []


def root_of(node):
    """The name that a chain of attributes begins with; None where it begins otherwise."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def private_of_others(path):
    """Yield the private modules of any library that a file imports, and the attributes of Ray and
    MLflow that it names or patches. Their objects are met in the rooms that may import them alone.
    """
    theirs = set()
    place = path.relative_to(PACKAGE).as_posix()
    meets = place.startswith(("sweep/", "tracking/"))
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                parts = f"{of}{alias.name}".split(".")
                if parts[0] in {"ray", "mlflow"}:
                    theirs.add((alias.asname or alias.name).split(".")[0])
                hidden = parts[0] != "raxalign" and any(private(part) for part in parts)
                if hidden or parts[:2] == ["ray", "core"]:
                    yield ".".join(parts)
    for node in nodes(path) if meets else ():
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", "os"}
            if private(node.attr) and not own:
                yield node.attr
            if not isinstance(node.ctx, ast.Load) and root_of(node) in theirs:
                yield f"patch of {node.attr}"
        called = node.func.id if isinstance(node, ast.Call) and hasattr(node.func, "id") else ""
        if called in {"getattr", "setattr", "delattr", "hasattr"}:
            names = [a.value for a in node.args if isinstance(a, ast.Constant)]
            yield from (name for name in names if isinstance(name, str) and private(name))
            if called != "getattr" and called != "hasattr" and root_of(node.args[0]) in theirs:
                yield f"patch by {called}"


def test_no_private_module_is_imported_and_nothing_private_of_ray_or_mlflow_used_or_patched():
    found = {
        (path.relative_to(PACKAGE).as_posix(), what)
        for path in FILES
        for what in private_of_others(path)
    }
    assert found == set()


@pytest.mark.parametrize(
    "code",
    [
        "from ray._private.state import jobs",
        "import ray.train.v2._internal",
        "from ray.core.generated import x",
        "def f(client):\n    return client._tracking_client",
        "def f(client):\n    return getattr(client, '_tracking_client', None)",
        "from ray.tune import x\nx.cache = None",
        "import mlflow\nsetattr(mlflow, 'start_run', None)",
    ],
)
def test_what_is_private_of_others_is_found(code, monkeypatch):
    monkeypatch.setitem(globals(), "nodes", lambda path: list(ast.walk(ast.parse(code))))
    assert len(list(private_of_others(PACKAGE / "sweep" / "x.py"))) == 1


def shortened(path):
    """Yield the lines of a file of the report where something is shortened to a constant, or to
    `most` of it: slices, and what takes the first ones of something.
    """
    takes = {"slice", "islice", "head", "nlargest", "nsmallest", "most_common", "takewhile"}
    for node in nodes(path):
        bounds = [node.slice] if isinstance(node, ast.Subscript) else []
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            bounds = [*node.args, *node.keywords] if called in takes else []
        elif not any(isinstance(bound, ast.Slice) for bound in bounds):
            continue
        names = (inner for bound in bounds for inner in ast.walk(bound))
        for name in (getattr(inner, "attr", getattr(inner, "id", "")) for inner in names):
            if name.strip("_").isupper() or name == "most":
                yield node.lineno


def test_one_function_alone_shortens_what_the_report_shows():
    """It returns what captions say of the rest (`Section.fitting`)."""
    found = {
        path.relative_to(PACKAGE).as_posix(): len(list(shortened(path)))
        for path in FILES
        if path.is_relative_to(PACKAGE / "report")
    }
    assert {name: count for name, count in found.items() if count} == {"report/sections/base.py": 1}


@pytest.mark.parametrize(
    "code",
    [
        "x[:MOST]",
        "x[: self.MOST_CURVES]",
        "list(x)[:most]",
        "islice(x, _FIRST)",
        "table.slice(0, MOST)",
        "x[: MOST - 1]",
        "Counter(x).most_common(MOST)",
    ],
)
def test_what_is_shortened_elsewhere_is_found(code, monkeypatch):
    monkeypatch.setitem(globals(), "nodes", lambda path: list(ast.walk(ast.parse(code))))
    assert list(shortened(PACKAGE / "report" / "x.py"))


def long_functions(path):
    """Yield the names of a file's functions that have too many lines or arguments."""
    for node in nodes(path):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments = [entry for entry in taken if entry.arg not in {"self", "cls"}]
        lines = node.end_lineno - node.lineno + 1
        if lines > MOST_FUNCTION_LINES or len(arguments) > MOST_ARGUMENTS:
            yield node.name


def test_functions_stay_small_enough_to_read():
    found = {str(path.relative_to(PACKAGE)): tuple(long_functions(path)) for path in FILES}
    assert {name: names for name, names in found.items() if names} == LONG_FUNCTIONS


def test_every_module_imports():
    for module in pkgutil.walk_packages([str(PACKAGE)], "raxalign."):
        if module.name != "raxalign.__main__":
            importlib.import_module(module.name)


@pytest.mark.parametrize("folder", FOLDERS)
def test_plugins_load_and_say_what_they_are(folder):
    for kind, plugin in catalog(folder).items():
        assert plugin.VERSION >= 1, kind
        assert plugin.__doc__, kind
        assert plugin.Params.model_config["extra"] == "forbid", kind
        assert plugin.Params.model_config["frozen"], kind
        assert folder != "methods" or plugin.reference, kind


LOOKS = """
import contextlib, io, sys
from raxalign.cli import main

def looked(what, heavy):
    loaded = sorted(heavy & set(sys.modules))
    assert not loaded, f"{what} loads {loaded}"

def command(*arguments):
    sys.argv = ["raxalign", *arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            assert not end.code, arguments

looked("raxalign.cli", HEAVY)
at = "grids/quickstart.yaml", "--storage", STORAGE
for name in ("plan", "status", "results"):
    command(name, *at)
    looked(name, HEAVY | ARRAYS | COMPUTES)
command("plan", "grids/curve.yaml", "--storage", STORAGE)  # as it has no results yet
looked("plan of several sizes", HEAVY | ARRAYS)
from raxalign.inspect.doctor import _has_driver
if not _has_driver():
    command("doctor", "--storage", STORAGE)
    looked("doctor", HEAVY | ARRAYS)
from raxalign import lazy
pa = lazy.load("pyarrow")
looked("a module that is to be imported when it is first used", ARRAYS)
number = pa.int8()
import pyarrow
assert number == pyarrow.int8() and type(pyarrow) is type(sys) and pa.types is pyarrow.types
command("report", *at, "--out", STORAGE + "/out")
command("list", "methods")
looked("report and list", HEAVY)
import raxalign as rx
for name in PUBLIC.split():
    getattr(rx, name)
    looked(name, HEAVY)
import raxalign.stages, raxalign.tracking.ui, raxalign.tracking.recorder, raxalign.sweep.grid
import raxalign.similarity
looked("what runs a grid", HEAVY)
from raxalign.catalog import FOLDERS, catalog
for folder in FOLDERS:
    dict(catalog(folder))
    looked(folder, HEAVY)
"""


def test_looking_starts_nothing_heavy(tmp_path):
    """`plan`, `status` and `results` of a small grid load no arrays, tables or list of all
    languages either, and no code of the package that computes.
    """
    assert set(MODULES) >= COMPUTES
    public = "plan run results compare word_pairs align evaluate Opened Method Task Corpus Encoder"
    public += " WordAligner Section Params nearest_neighbors"
    given = f"HEAVY, ARRAYS, COMPUTES = {HEAVY!r}, {ARRAYS!r}, {COMPUTES!r}\n"
    given += f"PUBLIC = {public!r}\n"
    given += f"STORAGE = {str(tmp_path)!r}\n"
    run = [sys.executable, "-c", given + LOOKS]
    done = subprocess.run(run, capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr


def test_importing_raxalign_imports_nothing_but_itself_and_its_version():
    code = "import sys; old = set(sys.modules); import raxalign; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {name for name in done.stdout.split() if name.startswith("raxalign")}
    assert own == {"raxalign", "raxalign.version"}
