"""The large grid, made small: its encoder, XNLI and Europarl come over HTTP from a hub and an OPUS
on this machine, once; then all of its methods run without a network. A grid on two machines gives
equal values where its lock is the same.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from raxalign.grid.load import open_grid
from tests.e2e.runs import Site, undisturbed
from tests.hub_material import BERT, LANGS, OLD_BERT, XNLI, bert_files, fill, xnli_files
from tests.hub_server import HubServer, serving

pytestmark = pytest.mark.slow

GRID = Path(__file__).parents[2] / "grids" / "paper.yaml"
SMALLER = {"lambda": 1, "alpha": 1.0, "queue_size": 64}
NO_NETWORK = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"')


@dataclass(frozen=True)
class OnHub(Site):
    """A grid whose clients ask a server, with a cache of the hub of their own; `prefix` is what
    commands are run by.
    """

    told: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    def command(self, command: str, *arguments: str) -> list[str]:
        return [*self.prefix, *super().command(command, *arguments)]

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        return super().environment({**self.told, **more})


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with serving() as server:
        fill(server, pairs=200, examples=12)
        yield server


def write_small(folder: Path) -> Path:
    """Write the grid with other sizes, no GPU and no treebanks, and nothing else changed."""
    yaml = YAML()
    grid = yaml.load(GRID)
    grid["corpus"]["split"] = {"test": 30, "dev": 30}
    grid["sentences"], grid["seeds"] = [60], [0]
    grid["tasks"]["retrieval"]["unseen_in"] = 60
    grid["tasks"]["xnli"]["epochs"] = 1
    del grid["tasks"]["pos"]  # the hub of this test has no treebanks
    grid["run"] = {"workers": 1, "threads": 1, "max_failures": 0}
    for options in grid["methods"].values():
        options.update({name: value for name, value in SMALLER.items() if name in options})
    path = folder / GRID.name
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(grid, file)
    return path


def without_network() -> tuple[str, ...]:
    """What runs a command where there is only loopback; nothing where that is not allowed."""
    tried = [*NO_NETWORK, "sh", "true"]
    known = socket.gethostbyname(socket.gethostname()).startswith("127.")  # where Ray listens
    able = known and shutil.which("unshare") and shutil.which("ip")
    return (*NO_NETWORK, "sh") if able and not subprocess.run(tried, check=False).returncode else ()


def test_the_paper_grid_is_fetched_once_and_runs_from_an_empty_storage_to_its_report_offline(
    hub, tmp_path
):
    told = {**hub.environment, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": ""}
    site = OnHub(write_small(tmp_path), tmp_path / "storage", told=told)
    assert f"ok       hub:{XNLI}/de@main: " in site.run("--online", command="doctor").stdout
    assert not any(path.endswith((".parquet", ".safetensors")) for _, path, _ in hub.taken())
    lines = site.run(command="fetch").stdout.splitlines()
    pairs = ["-".join(sorted((lang, "en"))) for lang in LANGS if lang != "en"]
    data = [f"hub:{XNLI}/{lang}@main" for lang in LANGS]
    fetched = {f"hub:{OLD_BERT}", *data, *(f"opus:Europarl/v8/{pair}" for pair in pairs)}
    assert {line.split()[2] for line in lines[:-1]} == fetched
    assert len([path for _, path, _ in hub.taken() if path.startswith("/opus/")]) == len(pairs)
    # online, what is there is not asked for again
    site.run("--only", "method=none")
    assert hub.taken() == []
    # nor is anything missing where there is no network
    offline = {**told, "HF_HUB_OFFLINE": "1"}
    done = OnHub(site.grid, site.storage, told=offline, prefix=without_network()).run()
    trials = site.plan.trials
    assert len({trial.kind for trial in trials}) == len(YAML().load(GRID)["methods"]) == 21
    assert f"{len(trials) - 1} done, 0 failed, 1 cached" in done.stderr
    assert {row["method"] for row in site.results()} == {trial.method for trial in trials}
    page = site.report("report.md")
    assert all(text in page for text in ("distillation", "leace", "xnli", "retrieval"))
    assert hub.taken() == []


OF_TWO_MACHINES = f"""
name: two-machines
pivot: en
encoder: {OLD_BERT}
languages: {{together: [de]}}
corpus: {{source: opus, corpus: Europarl, split: {{test: 30, dev: 30}}}}
pairs: {{aligner: fast_align}}
sentences: 60
seeds: [0]
methods: {{none: {{}}, finetune: {{lambda: 1}}}}
tasks: {{retrieval: {{}}, xnli: {{data: hub, epochs: 1}}}}
run: {{threads: 1, max_failures: 0}}
"""


def machine(hub: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch, lock: bytes) -> Site:
    """The grid on another storage, with a hub's cache of its own and some lock."""
    folder.mkdir()
    hub.ask(folder / "cache", monkeypatch)
    grid = folder / "grid.yaml"
    grid.write_text(OF_TWO_MACHINES, encoding="utf-8")
    grid.with_suffix(".lock").write_bytes(lock)
    return Site(grid, folder / "storage")


def results(site: Site) -> tuple[dict[str, object], dict[str, bytes]]:
    """All values of the grid, and the weights that its methods made."""
    open_grid(site.grid, storage=site.root).resolved(site.storage / "downloads")
    undisturbed(site)
    names = ("method", "seed", "task", "lang", "metric", "split")
    values = {" ".join(str(row[name]) for name in names): row["value"] for row in site.results()}
    made = (site.storage / "artifacts" / "aligned").glob("*/*/**/*.safetensors")
    return values, {str(path.relative_to(site.storage)): path.read_bytes() for path in made}


def test_a_second_machine_with_the_lock_gets_equal_values_after_all_branches_moved(
    hub, tmp_path, monkeypatch
):
    one = machine(hub, tmp_path / "one", monkeypatch, b"{}")
    first = results(one)
    assert first[0]
    assert first[1]
    hub.repo(XNLI, "dataset").push(xnli_files(10))
    hub.repo(BERT).push({**bert_files(2), "README.md": b"moved"})
    lock = one.grid.with_suffix(".lock")
    two = machine(hub, tmp_path / "two", monkeypatch, lock.read_bytes())
    assert results(two) == first
    assert two.grid.with_suffix(".lock").read_bytes() == lock.read_bytes()
    opened = open_grid(two.grid, storage=two.root)
    _, changes = opened.updated(two.storage / "downloads")
    names = (f"hub:{OLD_BERT}", f"hub:{XNLI}/de@main", f"hub:{XNLI}/en@main")
    assert [change.partition(": ")[0] for change in changes] == list(names)
    third = results(two)
    assert third[0].keys() == first[0].keys()
    assert third[0] != first[0]
