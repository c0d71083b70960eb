"""The grid of docs/how-to/plugins.md, with an addition of every kind, under Ray and MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.runs import Site, tracked
from tests.toys.pages import write_page

pytestmark = pytest.mark.slow


def test_additions_of_every_kind_run_under_ray_and_are_tracked(tmp_path: Path) -> None:
    site = Site(write_page(tmp_path), tmp_path / "storage")
    done = site.run()
    assert done.returncode == 0, done.stderr
    for strength in (0.5, 1.0):
        label = f"my_method strength={strength} de sentences 20"
        assert f"{label} | 20 sentence pairs of de" in done.stderr
    found = {
        (row["params"].get("strength"), row["metric"]): row["value"]  # type: ignore[attr-defined]
        for row in site.results()
    }
    assert found == pytest.approx(
        {
            (None, "distance"): 1.0,
            (0.5, "distance"): 0.5,
            (1.0, "distance"): 0.0,
            (None, "close"): 0.0,
            (0.5, "close"): 1.0,
            (1.0, "close"): 1.0,
        }
    )
    runs = tracked(f"sqlite:///{site.storage}/mlflow.db", "additions")
    shown = [
        run["metrics"]
        for run in runs
        if run["tags"]["raxalign.kind"] == "cell" and run["params"].get("strength") == "0.5"
    ]
    assert [metrics["gap/de-en/close"] for metrics in shown] == [1.0]
    assert shown[0]["gap/de-en/close_difference"] == 1.0
    written = site.run(command="report")
    assert written.returncode == 0, written.stderr
    page = (tmp_path / "additions-report" / "report.html").read_text(encoding="utf-8")
    assert "gap: close" in page
    assert "Closest words" in page
    assert "Distances of linked words" in page
