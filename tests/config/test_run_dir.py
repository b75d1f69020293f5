"""What a run's folder says, what a resumed run may change, and how a folder is cleared."""

from __future__ import annotations

import datetime
import os
import shutil

import pytest
from golden_data import golden

from yt8m import registry, storage
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
    "ended.json", "search.json", "search_thresholds.csv", "test.json",
]  # fmt: skip


def test_a_new_model_moves_what_the_run_wrote_and_nothing_else(train_dir):
    fill(train_dir, *RUN, "notes.txt", "data/train0000.tfrecord")
    backup = run_dir.start_new_model(train_dir + "/", NOW)
    assert backup == f"{train_dir}.old-20260304-050607"
    assert sorted(os.listdir(train_dir)) == ["data", "notes.txt"]
    for name in RUN:
        with open(os.path.join(backup, name)) as file:
            assert file.read() == name


def test_a_new_model_moves_what_a_killed_choice_left(train_dir):
    fill(train_dir, "search.json", "notes.txt")
    assert os.listdir(run_dir.start_new_model(train_dir, NOW)) == ["search.json"]
    assert os.listdir(train_dir) == ["notes.txt"]


def test_three_backups_of_one_second_are_kept_apart(train_dir):
    found = []
    for _ in range(3):
        fill(train_dir, "checkpoint")
        found.append(run_dir.start_new_model(train_dir, NOW))
    assert found == [found[0], f"{found[0]}-2", f"{found[0]}-3"]


def test_a_folder_that_is_no_runs_is_left_alone(train_dir):
    fill(train_dir, "thesis.tex", "export/figure.pdf")
    with pytest.raises(UsageError, match=r"not the folder.*thesis\.tex"):
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


@pytest.fixture
def afresh():
    yield
    registry.trust(["os:sep", "os:curdir", "os:pardir"])


OWN = TrainConfig(model=ModelConfig("os:sep", {"part": "os:curdir"}), callbacks=("os:pardir", "train_loss"))


def is_imported(name):
    try:
        return registry.Registry("tool").get(name) is not None
    except UsageError:
        return False


def test_code_of_a_run_is_trusted_if_the_run_is_ones_own_or_trusted_by_word(train_dir, afresh):
    run_dir.write(train_dir, OWN)
    assert not run_dir.is_own(train_dir)
    assert run_dir.read(train_dir).config == OWN
    assert [is_imported(name) for name in ("os:sep", "os:curdir", "os:pardir")] == [False] * 3
    assert run_dir.read(train_dir, trust_code=True).config == OWN
    assert is_imported("os:sep")
    run_dir.read(train_dir)
    assert not is_imported("os:sep")
    run_dir.write(train_dir, OWN, is_own=True)
    assert is_imported("os:sep")
    assert run_dir.is_own(train_dir)


def test_a_run_is_ones_own_until_a_byte_of_its_config_changes(train_dir, afresh):
    run_dir.write(train_dir, OWN, is_own=True)
    run_dir.read(train_dir)
    assert is_imported("os:pardir")
    path = os.path.join(train_dir, "config.json")
    with open(path, "a") as file:
        file.write(" ")
    assert not run_dir.is_own(train_dir)
    run_dir.read(train_dir)
    with pytest.raises(UsageError, match=f"^{path} names code"):
        registry.Registry("tool").get("os:pardir")


def test_a_folder_without_a_config_or_with_no_text_is_nobodys_own(train_dir):
    assert not run_dir.is_own(train_dir)
    os.makedirs(train_dir)
    with open(os.path.join(train_dir, "config.json"), "wb") as file:
        file.write(b"\xff\xfe")
    assert not run_dir.is_own(train_dir)
    with pytest.raises(RunError, match=r"config\.json is damaged: .*not text"):
        run_dir.read(train_dir)


def test_only_the_lock_is_left_of_a_run_that_holds_nothing_else(train_dir):
    fill(train_dir, "train.lock")
    assert run_dir.start_new_model(train_dir, NOW) is None
    fill(train_dir, "cluster.json", "input_checkpoint", "best/best.json", "best.1", "predictions.csv", "checkpoint")
    fill(train_dir, "inference_model.tgz", "my.events.out.tfevents.1", "a", "b", "c")
    backup = run_dir.start_new_model(train_dir, NOW)
    assert sorted(os.listdir(train_dir)) == ["a", "b", "c", "my.events.out.tfevents.1", "train.lock"]
    assert len(os.listdir(backup)) == 7
    with pytest.raises(UsageError, match=r"first\b.*\ba, b, c\b.* no config\.json"):
        run_dir.start_new_model(train_dir, NOW)


def test_a_backup_is_named_by_the_present_time(train_dir):
    fill(train_dir, "model.ckpt-1.index")
    before = datetime.datetime.now()
    end = run_dir.start_new_model(train_dir).removeprefix(f"{train_dir}.old-")
    assert f"{before:%Y%m%d-%H%M%S}" <= end <= f"{datetime.datetime.now():%Y%m%d-%H%M%S}"


def test_folders_of_curves_are_moved_but_not_data_of_the_same_name(train_dir):
    fill(train_dir, "config.json", "validation.json", "train/events.out.tfevents.1.host.1", "validate/a.tfrecord")
    backup = run_dir.start_new_model(train_dir, NOW)
    assert sorted(os.listdir(backup)) == ["config.json", "train", "validation.json"]
    assert os.listdir(train_dir) == ["validate"]
