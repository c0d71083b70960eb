"""The cluster: starting or joining it."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

import ray
from ray._raylet import Config  # type: ignore[attr-defined]

from raxalign.errors import ResourceError
from raxalign.sweep.job import Job, thread_limits
from raxalign.sweep.room import DRIVER

_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # with verbose=0 the older output prints nothing
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": (
        "1800"
    ),  # groups fit, so that one which waits only waits for a node to boot
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "600",  # a slow end of a trial must not lose its actor
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # what it would restore is in the ledger
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # it gets only what there is room for
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a loss is one line of the display, not a traceback
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def connect(address: str | None, job: Job) -> None:
    """Join the cluster at an address, or start one on this machine (with room for trial drivers).
    Workers begin with their share of threads.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    if ray.is_initialized():
        return
    if address:
        environment = {
            **thread_limits(job.threads),
            **{name: os.environ[name] for name in _ENVIRONMENT},
        }
        try:
            ray.init(
                address=address,
                runtime_env={"env_vars": environment},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError) as error:
            raise ResourceError(
                f"no Ray cluster answers at {address}: {error}. Start one (ray up, ray start"
                " --head), or leave out --address"
            ) from error
        return
    os.environ.update(thread_limits(job.threads))  # workers inherit it
    require_token()
    ray.init(
        address="local",
        resources={DRIVER: 1000},
        # it needs more libraries (ray[default]), and a second one on a machine confuses both
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def require_token() -> None:
    """Have a cluster that is started here answer only to who knows its token, in a file that only
    the user can read: Ray listens on all addresses of a machine. `RAY_AUTH_MODE` overrides it.
    """
    if "RAY_AUTH_MODE" in os.environ:
        return
    os.environ["RAY_AUTH_MODE"] = "token"
    Config.initialize("")  # Ray read its settings when it was imported
    if "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    file = Path("~/.ray/auth_token").expanduser()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(secrets.token_hex(32))
    except FileExistsError:
        file.chmod(0o600)
