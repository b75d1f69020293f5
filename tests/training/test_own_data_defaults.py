"""A training on one's own data whose length is given searches nothing, but some of its options follow the data."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from reader_records import video_record, write_shard

from yt8m import train
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.records.opened_data import open_data
from yt8m.training import own_data_defaults


def shard(path: pathlib.Path, videos: int, feature: str = "clip") -> str:
    records = [video_record(id=[b"v%d" % k], labels=[k % 3], **{feature: [0.1 * (k % 7)] * 4}) for k in range(videos)]
    return str(write_shard(path, records))


def config_of(folder: pathlib.Path) -> TrainConfig:
    saved = run_dir.read(str(folder))
    assert saved is not None
    return saved.config


@pytest.mark.long
def test_the_batch_is_chosen_said_saved_and_kept(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--model=LogisticModel", "--export_model_steps=0", "--num_classes=3"]
    run = [*words, f"--train_dir={tmp_path}/run"]
    many, few = shard(tmp_path / "many.tfrecord", 2000), shard(tmp_path / "few.tfrecord", 200)
    assert train.main([*run, f"--train_data_pattern={many}", "--num_epochs=1"]) == 0
    assert "batch_size 64: 2000 videos" in capfd.readouterr().out
    config = config_of(tmp_path / "run")
    assert config.data.batch_size == 64
    assert config.search.origins == ({"option": "batch_size", "value": 64, "reason": "2000 videos"},)
    assert not config.search.trials

    assert train.main([*run, f"--train_data_pattern={few}", "--num_epochs=1"]) == 0, "a resumed run"
    assert config_of(tmp_path / "run").data.batch_size == 64
    assert config_of(tmp_path / "run").search.origins == config.search.origins
    assert train.main([*run, f"--train_data_pattern={few}", "--max_steps=1", "--start_new_model"]) == 0
    assert config_of(tmp_path / "run").data.batch_size == 32
    assert train.main([*run, f"--train_data_pattern={few}", "--max_steps=1", "--batch_size=7"]) == 0
    assert config_of(tmp_path / "run").data.batch_size == 7


@pytest.mark.long
def test_the_published_batch_stays_for_features_of_youtube_8m(tmp_path: pathlib.Path) -> None:
    pattern = shard(tmp_path / "a.tfrecord", 100, "mean_rgb")
    words = ["--feature_names=mean_rgb", "--feature_sizes=4", "--num_classes=3", "--max_steps=1"]
    words += [f"--train_data_pattern={pattern}", f"--train_dir={tmp_path}/run", "--export_model_steps=0"]
    assert train.main(words) == 0
    config = config_of(tmp_path / "run")
    assert (config.data.batch_size, config.search.origins) == (1024, ())


def few_steps(folder: pathlib.Path) -> list[str]:
    """The arguments of a training with batch norm, of which an epoch has two steps."""
    words = ["--model=ResidualMlpModel", "--export_model_steps=0", "--num_classes=3", "--mlp_hidden_size=4"]
    pattern = shard(folder / "few.tfrecord", 40)
    return [*words, f"--train_data_pattern={pattern}", f"--train_dir={folder}/run", "--batch_size=20"]


def test_moving_averages_follow_few_steps(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main([*few_steps(tmp_path), "--num_epochs=1"]) == 0
    assert "batch_norm_decay 0.9: 2 steps" in capfd.readouterr().out
    config = config_of(tmp_path / "run")
    assert config.model.hyper_parameters["batch_norm_decay"] == 0.9
    assert config.search.origins == ({"option": "batch_norm_decay", "value": 0.9, "reason": "2 steps"},)


@pytest.mark.heavy
@pytest.mark.long
def test_what_was_chosen_or_given_for_averages_is_kept(tmp_path: pathlib.Path) -> None:
    words = few_steps(tmp_path)
    assert train.main([*words, "--num_epochs=1"]) == 0
    config = config_of(tmp_path / "run")
    assert train.main([*words, "--max_steps=6000", "--num_epochs=2"]) == 0, "a resumed run"
    assert config_of(tmp_path / "run").search.origins == config.search.origins
    assert config_of(tmp_path / "run").model.hyper_parameters["batch_norm_decay"] == 0.9
    assert train.main([*words, "--max_steps=1", "--start_new_model", "--batch_norm_decay=0.99"]) == 0
    assert config_of(tmp_path / "run").model.hyper_parameters["batch_norm_decay"] == 0.99
    assert config_of(tmp_path / "run").search.origins == ()
    again = [
        f"--config={tmp_path}/run",
        f"--train_dir={tmp_path}/again",
        f"--train_data_pattern={tmp_path}/few.tfrecord",
        "--max_steps=1",
    ]
    assert train.main(again) == 0
    assert config_of(tmp_path / "again").model.hyper_parameters["batch_norm_decay"] == 0.99


@pytest.mark.parametrize(("steps", "epochs", "decay"), [(5000, 9999, 0.999), (4999, 9999, 0.9), (5000, 9, 0.9)])
def test_many_steps_keep_the_published_averages(tmp_path: pathlib.Path, steps: int, epochs: int, decay: float) -> None:
    pattern = shard(tmp_path / "few.tfrecord", 40)
    config = TrainConfig()
    config = dataclasses.replace(
        config,
        train_dir=str(tmp_path / "run"),
        max_steps=steps,
        data=dataclasses.replace(config.data, data_pattern=pattern, num_epochs=epochs, batch_size=20),
        model=dataclasses.replace(config.model, hyper_parameters={"batch_norm_decay": 0.999}),
        search=dataclasses.replace(config.search, follows=("batch_norm_decay",)),
    )
    found = own_data_defaults.with_defaults(config, open_data([pattern]))
    assert found.model.hyper_parameters["batch_norm_decay"] == decay
