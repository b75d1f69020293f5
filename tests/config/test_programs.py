"""Configs of the programs that use a trained run: defaults, and what cannot be is refused by the name of the flag."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from yt8m.config.data_config import DataConfig
from yt8m.config.export_config import ExportConfig
from yt8m.config.of_run import same_as
from yt8m.config.programs import AverageConfig, EvalConfig, ImportConfig, InferenceConfig, PassConfig
from yt8m.config.train_config import DeviceConfig, TrainConfig
from yt8m.errors import UsageError

SEGMENTS = {"segment_context": 3, "candidates_from": "a.csv", "segment_label_ids_file": "ids.csv"}


def test_an_option_of_training_keeps_its_help_bounds_and_default() -> None:
    for cls, name, origin in ((PassConfig, "callbacks", TrainConfig), (EvalConfig, "num_gpu", DeviceConfig)):
        mine, declared = (kind.__dataclass_fields__[name] for kind in (cls, origin))
        assert (mine.default, mine.metadata) == (declared.default, declared.metadata)
    assert InferenceConfig.__dataclass_fields__["num_readers"].metadata["help"]
    assert InferenceConfig().num_readers == 1
    with pytest.raises(UsageError, match=r"batch_size\b.*at least 1\b"):
        EvalConfig(batch_size=0)


@pytest.mark.promise("I7")
def test_the_default_batch_counts_bytes_up_to_a_number_of_examples() -> None:
    assert (PassConfig().batch_size, ExportConfig.most_in_batch) == (None, 1024)
    frames = DataConfig(frame_features=True, feature_names=("rgb", "audio"))
    sizes = {
        "videos": DataConfig(),
        "frames": frames,
        "many frames": dataclasses.replace(frames, max_frames=1000),
        "few values": dataclasses.replace(frames, feature_names=("rgb",), feature_sizes=(16,)),
        "segments": dataclasses.replace(frames, segment_labels=True),
    }
    found = {name: data.examples_in_batch(EvalConfig.most_in_batch) for name, data in sizes.items()}
    assert found == {"videos": 1024, "frames": 256, "many frames": 64, "few values": 1024, "segments": 1024}
    assert sizes["videos"].examples_in_batch(InferenceConfig.most_in_batch) == 512
    assert sizes["segments"].examples_in_batch(512, context=300) == 128


def test_a_model_is_named_once() -> None:
    assert InferenceConfig(train_dir="a").train_dir == "a"
    assert InferenceConfig(input_model_tgz="b").input_model_tgz == "b"
    with pytest.raises(UsageError, match=r"--train_dir and --input_model_tgz\b.*both"):
        dataclasses.replace(InferenceConfig(train_dir="a"), input_model_tgz="b")


@pytest.mark.parametrize("name", SEGMENTS)
def test_what_is_for_segments_needs_them(name: str) -> None:
    given: dict[str, Any] = {name: SEGMENTS[name]}
    assert getattr(InferenceConfig(segment_labels=True, **given), name) == SEGMENTS[name]
    with pytest.raises(UsageError, match=f"^--{name} needs --segment_labels: add it"):
        InferenceConfig(**given)


@pytest.mark.parametrize("checkpoint", ["last", "best", "1000"])
def test_an_export_takes_a_checkpoint(checkpoint: str) -> None:
    assert ExportConfig(out="b", checkpoint=checkpoint).checkpoint == checkpoint


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, r"^--out is missing"), ({"out": "b", "weights": "int4"}, r"weights .*float32, float16, int8")],
)
def test_an_export_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExportConfig(**given)


def test_an_average_is_of_the_newest_checkpoints_or_of_named_ones() -> None:
    assert AverageConfig(out="b").last is None
    assert AverageConfig(out="b", last=2).last == 2
    assert AverageConfig(out="b", checkpoints=("1", "20")).checkpoints == ("1", "20")
    assert AverageConfig(out="b", checkpoints=("1", "2", "3")).checkpoints == ("1", "2", "3")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"^--out is missing"),
        ({"out": "b", "last": 1}, r"last .*at least 2\b"),
        ({"out": "b", "last": 2, "checkpoints": ("1", "2")}, "--last and --checkpoints both choose checkpoints"),
        ({"out": "b", "checkpoints": ("1",)}, r"^--checkpoints=1: .*two different"),
        ({"out": "b", "checkpoints": ("1", "2", "1")}, r"^--checkpoints=1,2,1: .*two different"),
        ({"out": "b", "checkpoints": ("1", "last")}, "^--checkpoints: 'last' is not a step"),
    ],
)
def test_an_average_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AverageConfig(**given)


def test_an_option_of_another_config_keeps_what_is_not_changed() -> None:
    declared = InferenceConfig.__dataclass_fields__["top_k"]
    same, other = same_as(InferenceConfig, "top_k"), same_as(InferenceConfig, "top_k", aliases=("best",), default=5)
    assert (same.default, other.default) == (declared.default, 5)
    assert dict(same.metadata) == declared.metadata
    assert dict(other.metadata) == {**declared.metadata, "aliases": ("best",)}


def test_an_import_names_whose_code_wrote_the_checkpoint() -> None:
    with pytest.raises(UsageError, match=r"^--from is missing: .*\(google or willow"):
        ImportConfig(checkpoint="a", out="b")
    assert ImportConfig(source="starter", checkpoint="a", out="b").source == "starter"
