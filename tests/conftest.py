"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.aws import SETTINGS, Proxy, fake_aws

# A test says what is right, never how fast: on a busy machine a deadline fails by chance.
settings.register_profile("raxalign", deadline=None)
settings.load_profile("raxalign")


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """The endpoint of a fake AWS with one bucket."""
    with fake_aws() as endpoint:
        yield endpoint


@pytest.fixture
def proxy(aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before it that this process uses, without the libraries' own repetitions."""
    import s3fs

    from raxalign.store import _connection

    found = Proxy(aws)
    for name, value in {**SETTINGS, "AWS_ENDPOINT_URL": found.endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_connection, "REQUESTS", 1)
    monkeypatch.setattr(_connection, "WAITS", (0.001,) * 4)
    s3fs.S3FileSystem.clear_instance_cache()
    yield found
    found.close()
