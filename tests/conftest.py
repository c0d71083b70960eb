"""What holds for all tests."""

import gc
import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from sqlite3 import dbapi2
from typing import Any

import pytest
from hypothesis import settings

from raxalign.tracking.client import Client
from raxalign.trust import TRUST
from tests.aws import SETTINGS, Proxy, fake_aws
from tests.every import EVERY
from tests.once import once

# A test says what is right, never how fast: on a busy machine a deadline fails by chance.
settings.register_profile("raxalign", deadline=None, max_examples=100 if EVERY else 40)
settings.load_profile("raxalign")

# Ray looks once per process whether clusters demand a token. All of these do, so that a process
# can join one after another. It starts no worker per core ahead, which drivers with an environment
# of their own cannot use.
os.environ.update(RAY_AUTH_MODE="token", RAY_prestart_worker_first_driver="0")

LONG = (
    "hosts/test_search.py",
    "e2e/test_s3.py",
    "e2e/test_ray_up.py",
    "e2e/test_groups.py",
    "e2e/test_hub.py",
    "e2e/test_faults.py",
    "sweep/test_on_ray.py",
    "families/test_methods_and_tasks.py",
    "encoders/test_packing.py",
    "test_paper_grids.py",
    "test_stages.py",
    "test_api.py",
    "e2e/test_grids.py",
    "test_report_demo.py",
    "analysis/test_significance.py",
    "single/test_exported_sentences.py",
    "e2e/test_grid.py",
    "test_tracking.py",
)


ALL_SLOW = re.compile(rb"^pytestmark = \[?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules all of whose tests are slow unread where these are left out: what they import
    takes seconds in each process.
    """
    asked = config.option.markexpr == "not slow" and collection_path.match("test_*.py")
    return True if asked and ALL_SLOW.search(collection_path.read_bytes()) else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the modules that take longest first: one that began last would run alone at the end. A
    process runs whole modules, whose tests share what takes long; end-to-end tests, which often
    wait, are dealt out one by one.
    """
    tests = Path(__file__).parent
    places = {tests / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if item.path.parent != tests / "e2e":
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is there before the first test from the garbage collector: it is millions of
    objects, and looking through them takes most of a second each time. What tests make is
    looked through less often than usual.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 50)
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _files_need_not_outlive_the_machine() -> Iterator[None]:
    """No test cuts the power, so that none waits for the disk, nor do databases of MLflow."""
    connect = dbapi2.connect

    def unsynced(*args: Any, **kwargs: Any) -> dbapi2.Connection:
        made = connect(*args, **kwargs)
        made.execute("PRAGMA synchronous = OFF")
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        patch.setattr(dbapi2, "connect", unsynced)
        yield


@pytest.fixture(autouse=True, scope="session")
def _plug_ins_are_trusted() -> Iterator[None]:
    """No test but those of `trust` asks whether the plug-ins of a grid may run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, "1")
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real data, where there is one."""
    folder = os.environ.get("RAXALIGN_TEST_DATA")
    if not folder:
        pytest.skip("RAXALIGN_TEST_DATA is not set: it names the folder with real data")
    return Path(folder)


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """The endpoint of a fake AWS with one bucket. Each of its clients describes the services by the
    same files, which are read once.
    """
    from botocore.loaders import JSONFileLoader

    with pytest.MonkeyPatch.context() as patch, fake_aws() as endpoint:
        patch.setattr(JSONFileLoader, "load_file", staticmethod(cache(JSONFileLoader().load_file)))
        yield endpoint


@pytest.fixture(scope="session")
def no_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tracking database without a run; tests copy it, since MLflow takes seconds to make one."""
    folder = once(tmp_path_factory, "no-runs", lambda to: Client(f"sqlite:///{to}/mlflow.db"))
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def ray_head(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a Ray that all tests share which neither end it nor lose what it runs."""
    from tests.ray_head import head_address

    return head_address(tmp_path_factory)


@pytest.fixture
def proxy(aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before it that this process uses, without the libraries' own repetitions."""
    import s3fs

    from raxalign.store import files

    found = Proxy(aws)
    for name, value in {**SETTINGS, "AWS_ENDPOINT_URL": found.endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(files, "REQUESTS", 1)
    monkeypatch.setattr(files, "WAITS", (0.001,) * 4)
    s3fs.S3FileSystem.clear_instance_cache()
    yield found
    found.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A grid and its ledger with made-up results, which tests read and leave as they are."""
    from tests.ledgers import made_up

    return made_up(tmp_path_factory.mktemp("made"))
