"""A local S3 server in a process of its own, which outlives every blow."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.test_tracking import free_port

BUCKET = "soak"
START_SECONDS = 60.0


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Start moto's server with one bucket; yields its URL."""
    import boto3
    from botocore.exceptions import EndpointConnectionError

    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with (folder / "s3.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=log,
            stderr=log,
        )
        try:
            client = boto3.client(
                "s3",
                endpoint_url=endpoint,
                region_name="us-east-1",
                aws_access_key_id="soak",
                aws_secret_access_key="soak",
            )
            end = time.monotonic() + START_SECONDS
            while True:
                try:
                    client.create_bucket(Bucket=BUCKET)
                    break
                except EndpointConnectionError:
                    if time.monotonic() > end or process.poll() is not None:
                        raise
                    time.sleep(0.2)
            yield endpoint
        finally:
            process.kill()
            process.wait()
