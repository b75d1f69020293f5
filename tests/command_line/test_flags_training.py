"""The flags of schedules, clipping, accumulation, teachers and augmentation."""

from __future__ import annotations

import json

import pytest

from yt8m import storage
from yt8m.command_line import flags
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.datasets.verification import VerifyConfig
from yt8m.errors import UsageError
from yt8m.export.ensemble_config import EnsembleConfig
from yt8m.records import vocabulary
from yt8m.runner import RunnerConfig


def test_the_home_folder_is_found_in_every_path(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.tfrecord").touch()
    shards = f"--train_data_pattern={tmp_path}/a.tfrecord,~/*.tfrecord"
    config = flags.train_config([shards, "--train_dir=~/runs/t", "--init_from=~", "--cache_dir=~/c"])
    assert config.data.data_pattern == f"{tmp_path}/a.tfrecord,{tmp_path}/*.tfrecord"
    assert (config.train_dir, config.init_from, config.storage.cache_dir) == (
        f"{tmp_path}/runs/t",
        str(tmp_path),
        f"{tmp_path}/c",
    )
    operands: list[str] = []
    flags.read(VerifyConfig, "verify", "Verifies.", ["~/*.tfrecord", "x~y"], operands)
    assert operands == [f"{tmp_path}/*.tfrecord", "x~y"]

    assert RunnerConfig(model_dir="~/m", checkpoint="~/m/model.ckpt-1").checkpoint == f"{tmp_path}/m/model.ckpt-1"
    assert DataConfig(data_pattern="~/*").data_pattern == f"{tmp_path}/*"
    assert storage.glob("~/*.tfrecord") == [f"{tmp_path}/a.tfrecord"]
    assert EnsembleConfig(predictions=("~/a", "~/b"), out="~/c").predictions == (f"{tmp_path}/a", f"{tmp_path}/b")


def test_a_list_of_paths_keeps_the_commas_of_their_names(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b.csv").touch()
    words = ["--predictions=a,b.csv,c.csv", "--weights=1,2", "--out=joined.csv"]
    config = flags.read(EnsembleConfig, "ensemble", "Joins.", words)
    assert (config.predictions, config.weights) == (("a,b.csv", "c.csv"), ("1", "2"))
    operands: list[str] = []
    flags.read(VerifyConfig, "verify", "Verifies.", ["--data=a,b.csv,d*", "e"], operands)
    assert operands == ["e", "a,b.csv", "d*"]


def test_each_flag_reaches_its_field_and_is_saved_with_the_run():
    config = flags.train_config(
        [
            "--learning_rate_schedule=cosine",
            "--learning_rate_warmup_examples=1e4",
            "--optimizer=AdamWOptimizer",
            "--weight_decay=0.05",
            "--clip_by=global",
            "--accumulate_steps=8",
            "--distill_from=p.csv",
            "--distill_weight=0.2",
            "--augment_noise=0.1",
            "--augment_crop=0.5",
            "--augment_frame_dropout=0.3",
            "--mixup=0.5",
            "--frame_features",
            "--model=FrameLevelLogisticModel",
        ]
    )
    optimizer, augmentation = config.optimizer, config.augmentation
    assert (optimizer.learning_rate_schedule, optimizer.learning_rate_warmup_examples) == ("cosine", 10_000)
    assert (optimizer.optimizer, optimizer.weight_decay) == ("AdamWOptimizer", 0.05)
    assert (optimizer.clip_by, optimizer.accumulate_steps) == ("global", 8)
    assert (config.distillation.distill_from, config.distillation.distill_weight) == ("p.csv", 0.2)
    assert augmentation.augment_noise == 0.1
    assert augmentation.needs_frames == ("augment_crop", "augment_frame_dropout")
    text = run_dir.to_json(config)
    assert json.loads(text)["config"]["distillation"]["distill_from"] == "p.csv"
    assert run_dir.from_json(text, "config.json") == config


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--learning_rate_schedule=step", "--learning_rate_schedule must be one of exponential, cosine, constant"),
        ("--learning_rate_warmup_examples=-1", "--learning_rate_warmup_examples must be at least 0"),
        (
            "--learning_rate_schedule=cosine --learning_rate_warmup_examples=4000000",
            "must be below --learning_rate_decay_examples",
        ),
        ("--clip_by=all", "--clip_by must be one of variable, global"),
        ("--accumulate_steps=0", "--accumulate_steps must be at least 1"),
        (
            "--shuffle_buffer=1000000000000000000",
            "--shuffle_buffer must be at most 10000000; it is 1000000000000000000",
        ),
        ("--num_readers=1000000000000000000", "--num_readers must be at most 10000; it is 1000000000000000000"),
        ("--num_gpu=1000000000000000000", "--num_gpu must be at most 1024; it is 1000000000000000000"),
        ("--parse_threads=1000000000000000000", "--parse_threads must be at most 10000; it is 1000000000000000000"),
        ("--weight_decay=0.1", "--weight_decay=0.1 has no effect with --optimizer=AdamOptimizer"),
        ("--optimizer=AdamW", "did you mean AdamWOptimizer?"),
        ("--teacher=a --distill_from=b", "--distill_from and --teacher both name a teacher"),
        ("--teacher=a --distill_weight=1.5", "--distill_weight must be at most 1"),
        ("--distill_weight=0.9", "--distill_weight=0.9 needs a teacher"),
        ("--balance=1.5", "--balance must be at most 1"),
        (
            "--balance=1 --segment_labels --frame_features --model=FrameLevelLogisticModel",
            "--balance=1 weighs videos by their labels",
        ),
        (
            "--augment_crop=0.5 --segment_labels --frame_features --segment_context=3 --model=LstmModel",
            "--augment_crop=0.5 takes frames away",
        ),
        (
            "--augment_frame_dropout=0.5 --segment_labels --frame_features --segment_context=3 --model=LstmModel",
            "--augment_frame_dropout=0.5 takes frames away",
        ),
        ("--augment_crop=0", "--augment_crop must be at least 0.01"),
        ("--augment_frame_dropout=1", "--augment_frame_dropout must be at most 0.99"),
        ("--augment_frame_dropout=0.5", "--augment_frame_dropout=0.5 needs frames: add --frame_features"),
        (
            "--distill_from=p.csv --segment_labels --frame_features --model=FrameLevelLogisticModel",
            "--distill_from looks predictions up by video",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_the_flag(words, part):
    with pytest.raises(UsageError) as refusal:
        flags.train_config(words.split())
    assert part in str(refusal.value)


def test_the_number_of_classes_comes_from_the_flag_the_data_or_the_run(tmp_path):
    """In this order: the file of --vocabulary, the file beside the shards, the one of the run that is resumed."""
    for folder, names in (("data", "abc"), ("run", "abcde"), ("named", "abcd")):
        (tmp_path / folder).mkdir()
        vocabulary.write(str(tmp_path / folder / "vocabulary.csv"), vocabulary.of_names(names))
    (tmp_path / "data" / "x.tfrecord").touch()
    words = [f"--train_data_pattern={tmp_path}/data/*.tfrecord", f"--train_dir={tmp_path}/run"]
    assert flags.train_config(words).data.num_classes == 3
    assert flags.train_config([*words, f"--vocabulary={tmp_path}/named/vocabulary.csv"]).data.num_classes == 4
    (tmp_path / "data" / "vocabulary.csv").unlink()
    assert flags.train_config(words).data.num_classes == 5
    with pytest.raises(UsageError, match=r"--num_classes=4, but .*run/vocabulary\.csv names 5 classes"):
        flags.train_config([*words, "--num_classes=4"])
    assert flags.train_config([*words, "--start_new_model"]).data.num_classes == 3862


def test_the_model_of_init_from_is_known(tmp_path):
    words = ["--model=MoeModel", "--moe_num_mixtures=3", "--num_classes=4"]
    for name in ("source", "own"):
        config = flags.train_config([*words[: 2 if name == "source" else 1], f"--train_dir={tmp_path}/{name}"])
        run_dir.write(f"{tmp_path}/{name}", config, is_own=True)
    start = [f"--init_from={tmp_path}/source", "--num_classes=4"]
    new = flags.train_config([*start, f"--train_dir={tmp_path}/new"]).model
    assert (new.model, new.hyper_parameters["moe_num_mixtures"]) == ("MoeModel", 3)
    assert flags.train_config([*start, "--moe_num_mixtures=5"]).model.hyper_parameters["moe_num_mixtures"] == 5
    assert flags.train_config([*start, "--model=LogisticModel"]).model.model == "LogisticModel"
    # The next start of a run keeps the run's own model, whatever has become of the other.
    own = [*start, f"--train_dir={tmp_path}/own"]
    assert flags.train_config(own).model.hyper_parameters.get("moe_num_mixtures") != 3
    assert flags.train_config([*own, "--start_new_model"]).model.hyper_parameters["moe_num_mixtures"] == 3
    # A config names its model, even if that is the default one.
    run_dir.write(f"{tmp_path}/plain", flags.train_config([f"--train_dir={tmp_path}/plain"]), is_own=True)
    of_config = flags.train_config([*start, f"--config={tmp_path}/plain", f"--train_dir={tmp_path}/new"]).model
    assert (of_config.model, "moe_num_mixtures" in of_config.hyper_parameters) == ("LogisticModel", False)
