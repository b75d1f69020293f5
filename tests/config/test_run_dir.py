"""What a run's folder says, what a resumed run may change, and how a folder is cleared."""

from __future__ import annotations

import datetime
import os
import shutil

import pytest
from golden_data import golden

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import RunError, UsageError

NOW = datetime.datetime(2026, 3, 4, 5, 6, 7)
MOE = TrainConfig(model=ModelConfig("MoeModel", {"moe_num_mixtures": 4, "l2_penalty": 1e-8}))


@pytest.fixture
def train_dir(tmp_path):
    return str(tmp_path / "runs" / "first")


def saved(config, published=False):
    return run_dir.SavedRun(config, published)


def test_what_is_written_is_read(train_dir):
    assert run_dir.read(train_dir) is None
    run_dir.write(train_dir, MOE)
    assert sorted(os.listdir(train_dir)) == ["config.json", "model_flags.json"]
    assert run_dir.read(train_dir) == saved(MOE)


def test_without_config_json_the_published_file_is_read(train_dir):
    run_dir.write(train_dir, MOE)
    os.unlink(os.path.join(train_dir, "config.json"))
    found = run_dir.read(train_dir)
    assert found.published
    assert found.config.model == ModelConfig("MoeModel", {}, "CrossEntropyLoss")


def test_the_folder_of_a_published_run_is_read():
    found = run_dir.read(str(golden("checkpoint_logistic/train_dir")))
    assert found.published
    assert found.config.model.model == "LogisticModel"
    assert found.config.data.feature_names == ("mean_rgb", "mean_audio")
    assert found.config.data.feature_sizes == (16, 8)
    assert not found.config.data.frame_features


@pytest.mark.promise("F2")
@pytest.mark.parametrize("damage", [b"", b'{"config": {', b"\xff\xfe\x00"])
def test_a_damaged_config_is_named_and_not_passed_over(train_dir, damage):
    run_dir.write(train_dir, MOE)
    path = os.path.join(train_dir, "config.json")
    with open(path, "wb") as file:
        file.write(damage)
    with pytest.raises(RunError, match=r"first/config\.json .*damaged"):
        run_dir.read(train_dir)


def fill(train_dir, *names):
    for name in names:
        path = os.path.join(train_dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(name)


RUN = [
    "config.json", "model_flags.json", "checkpoint", "model.ckpt-10.index", "model.ckpt-10.meta",
    "model.ckpt-10.data-00000-of-00001", "input-10.index", "events.out.tfevents.1.host", "graph.pbtxt",
    "metrics.jsonl", "export/10/saved_model.pb", "eval/report.json", "inference_model/inference_model.meta",
]  # fmt: skip


def test_a_new_model_moves_what_the_run_wrote_and_nothing_else(train_dir):
    fill(train_dir, *RUN, "notes.txt", "data/train0000.tfrecord")
    backup = run_dir.start_new_model(train_dir + "/", NOW)
    assert backup == f"{train_dir}.old-20260304-050607"
    assert sorted(os.listdir(train_dir)) == ["data", "notes.txt"]
    for name in RUN:
        with open(os.path.join(backup, name)) as file:
            assert file.read() == name


def test_two_backups_of_one_second_are_kept_apart(train_dir):
    fill(train_dir, "config.json")
    first = run_dir.start_new_model(train_dir, NOW)
    fill(train_dir, "config.json")
    assert run_dir.start_new_model(train_dir, NOW) == f"{first}-2"


def test_a_folder_that_is_no_runs_is_left_alone(train_dir):
    fill(train_dir, "thesis.tex", "export/figure.pdf")
    with pytest.raises(UsageError, match="is no folder of a run"):
        run_dir.start_new_model(train_dir, NOW)
    assert sorted(os.listdir(train_dir)) == ["export", "thesis.tex"]
    assert os.listdir(os.path.dirname(train_dir)) == ["first"]


def test_there_is_nothing_to_move_in_a_new_folder(train_dir):
    assert run_dir.start_new_model(train_dir, NOW) is None
    with run_dir.lock(train_dir):
        assert run_dir.start_new_model(train_dir, NOW) is None
    shutil.rmtree(train_dir)


def test_one_trainer_holds_the_folder(train_dir):
    with (
        run_dir.lock(train_dir),
        pytest.raises(storage.Locked, match=f"process {os.getpid()}"),
        run_dir.lock(train_dir),
    ):
        raise AssertionError("held twice")
    with run_dir.lock(train_dir):
        pass
