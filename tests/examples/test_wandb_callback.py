"""The callback tracks a training with wandb itself, whose offline files are read back: config, curves, end."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from golden_data import golden
from small_run import ROOT, train_words

# wandb, without a network and an account. It leaves processes behind, so the trainings are programs of their own.
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off"}


# Prints each record that wandb wrote as a line of JSON, in the order of the starts.
READ = """
import pathlib, sys
from google.protobuf.json_format import MessageToJson
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore
for path in sorted(pathlib.Path().glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns):
    store = DataStore()
    store.open_for_scan(str(path))
    while (content := store.scan_data()) is not None:
        print(MessageToJson(Record.FromString(content), indent=None, preserving_proto_field_name=True))
"""


@pytest.mark.long
@pytest.mark.heavy
def test_a_run_and_its_continuation_have_one_id(tmp_path: pathlib.Path) -> None:
    validated = [f"--eval_data_pattern={golden('checkpoint_logistic/test.tfrecord')}", "--eval_every_n_steps=4"]
    environment = {**os.environ, **OFFLINE, "WANDB_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    for steps in (8, 12):
        more = ["--callbacks=examples.wandb_callback:Tracker", f"--max_steps={steps}"]
        words = [sys.executable, "train.py", *train_words(tmp_path / "run", *validated, *more)]
        subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True)
    printed = subprocess.run(
        [sys.executable, "-c", READ], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    found = [json.loads(line) for line in printed.stdout.splitlines()]
    starts = [record["run"] for record in found if "run" in record]
    assert {start["run_id"] for start in starts} == {(tmp_path / "run/wandb.run").read_text()}
    config = {item["key"]: json.loads(item["value_json"]) for item in starts[0]["config"]["update"]}
    assert config["optimizer.base_learning_rate"] == 0.01
    assert [record["exit"].get("exit_code", 0) for record in found if "exit" in record] == [0, 0]
    points = [
        {item["nested_key"][0]: json.loads(item["value_json"]) for item in record["history"]["item"]}
        for record in found
        if "history" in record
    ]
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    for part, mode in (("train", None), ("validate", "validate")):
        expected = {row["step"]: row["Hit@1"] for row in rows if row.get("mode") == mode}
        assert {point["step"]: point[f"{part}/Hit@1"] for point in points if f"{part}/Hit@1" in point} == expected
