"""A job's own start: the module that Vertex AI runs, in a process of its own, with the variables it gets."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
import small_exports
from golden_data import golden

from yt8m.records import shards


@pytest.mark.heavy
@pytest.mark.long
def test_a_job_finds_its_folders_and_its_data(tmp_path: pathlib.Path) -> None:
    folders = {"AIP_CHECKPOINT_DIR": "checkpoints", "AIP_MODEL_DIR": "model", "AIP_TENSORBOARD_LOG_DIR": "logs"}
    address = ["cmle-training-workerpool0-0:2222"]
    task = {"type": "chief", "index": 0}
    environment = {
        **os.environ,
        **{name: f"{tmp_path}/{folder}/" for name, folder in folders.items()},
        "AIP_TRAINING_DATA_URI": str(golden("checkpoint_logistic/train.tfrecord")),
        "TF_CONFIG": json.dumps({"cluster": {"chief": address}, "task": task}),
        "CLUSTER_SPEC": json.dumps({"cluster": {"workerpool0": address}, "task": {"type": "workerpool0", "index": 0}}),
    }
    flags = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    done = subprocess.run(
        [sys.executable, "-m", "yt8m.train", *flags, "--batch_size=16", "--max_steps=5", "--num_epochs=100"],
        env=environment,
        cwd=pathlib.Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "checkpoints/model.ckpt-5.index").exists()
    assert not list((tmp_path / "checkpoints").glob("events*"))
    assert list((tmp_path / "logs").glob("events.out.tfevents.*"))
    records = list(shards.read_shard(str(golden("checkpoint_logistic/test.tfrecord"))))
    assert small_exports.predictions(f"{tmp_path}/model", records).scores.shape == (21, 10)
