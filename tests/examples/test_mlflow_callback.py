"""The callback tracks a training with MLflow itself, in a SQLite file: config, curves, best checkpoint, end."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from golden_data import golden
from small_run import run


@pytest.fixture
def tracked(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """MLflow's client of a new file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow  # only now, because it reads the environment

    for name in filter(lambda name: "MLFLOW" in name, list(os.environ)):
        monkeypatch.setenv(name, os.environ[name])  # what it changes is put back
    return mlflow.MlflowClient()


@pytest.mark.long
@pytest.mark.heavy
def test_a_run_and_its_continuation_are_one(tmp_path: pathlib.Path, tracked: Any) -> None:
    validated = [f"--eval_data_pattern={golden('checkpoint_logistic/test.tfrecord')}", "--eval_every_n_steps=4"]
    for steps in (8, 12):
        more = ["--callbacks=examples.mlflow_callback:Tracker", f"--max_steps={steps}"]
        assert run(tmp_path / "run", *validated, *more) == 0
    (found,) = tracked.search_runs(["0"])
    assert found.info.status == "FINISHED"
    assert found.data.params["optimizer.base_learning_rate"] == "0.01"
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    for part, mode in (("train", None), ("validate", "validate")):
        expected = {row["step"]: row["Hit@1"] for row in rows if row.get("mode") == mode}
        points = tracked.get_metric_history(found.info.run_id, f"{part}/Hit_at_1")
        assert {point.step: point.value for point in points} == expected
    best = {path.path for path in tracked.list_artifacts(found.info.run_id, "best")}
    assert "best/best.json" in best
    assert any(path.endswith(".index") for path in best)
