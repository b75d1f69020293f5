"""The callback tracks a training with wandb itself, whose offline files are read back: config, curves, end."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from golden_data import golden
from small_run import ROOT, train_words

# wandb, without a network and an account. It leaves processes behind, so the trainings are programs of their own.
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off"}


def records(folder: pathlib.Path) -> Iterator[Any]:
    """The records that wandb wrote, in the order of the starts."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        store = DataStore()
        store.open_for_scan(str(path))
        while (content := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(content)
            yield record
        store.close()


@pytest.mark.long
@pytest.mark.heavy
def test_a_run_and_its_continuation_have_one_id(tmp_path: pathlib.Path) -> None:
    validated = [f"--eval_data_pattern={golden('checkpoint_logistic/test.tfrecord')}", "--eval_every_n_steps=4"]
    for steps in (8, 12):
        more = ["--callbacks=examples.wandb_callback:Tracker", f"--max_steps={steps}"]
        words = [sys.executable, "train.py", *train_words(tmp_path / "run", *validated, *more)]
        environment = {**os.environ, **OFFLINE, "WANDB_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
        subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True)
    found = list(records(tmp_path))
    starts = [record.run for record in found if record.WhichOneof("record_type") == "run"]
    assert {start.run_id for start in starts} == {(tmp_path / "run/wandb.run").read_text()}
    config = {item.key: json.loads(item.value_json) for item in starts[0].config.update}
    assert config["optimizer.base_learning_rate"] == 0.01
    assert [record.exit.exit_code for record in found if record.WhichOneof("record_type") == "exit"] == [0, 0]
    points = [
        {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in found
        if record.WhichOneof("record_type") == "history"
    ]
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    for part, mode in (("train", None), ("validate", "validate")):
        expected = {row["step"]: row["Hit@1"] for row in rows if row.get("mode") == mode}
        assert {point["step"]: point[f"{part}/Hit@1"] for point in points if f"{part}/Hit@1" in point} == expected
