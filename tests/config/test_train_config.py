"""Configs of a training refuse what cannot be, in words that name the flag."""

from __future__ import annotations

from typing import Any

import pytest

from yt8m.config.data_config import DataConfig, known_sizes
from yt8m.config.train_config import DeviceConfig, TrainConfig
from yt8m.errors import UsageError


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"cache": "gs://bucket/cache"}, ["a folder of this machine", "gs://bucket/cache"]),
        ({"data_pattern": "a*, gs://bucket/b*"}, ["local shards", "gs://bucket/b*"]),
        ({"nan_policy": "zero"}, ["--nan_policy=zero"]),
        ({"nan_policy": "zero", "frame_features": True, "feature_names": ("rgb", "a/floats")}, ["--nan_policy=zero"]),
    ],
)
def test_what_does_not_go_with_a_cache_is_refused(data: dict[str, Any], parts: list[str]) -> None:
    given = {"cache": "kept", **data}
    with pytest.raises(UsageError) as refused:
        TrainConfig(data=DataConfig(**given))
    assert all(part in str(refused.value) for part in [f"--cache={given['cache']}", *parts])
    TrainConfig(data=DataConfig(**given | {"cache": ""}))


def test_other_programs_may_read_the_same_data_in_other_ways() -> None:
    """An evaluation takes the data of the run's config and its own policies."""
    assert DataConfig(cache="kept", nan_policy="zero", max_bad_records=3).cache == "kept"


def test_configs_made_by_hand_are_checked_like_flags() -> None:
    with pytest.raises(UsageError, match=r"num_classes\b.*at least 1\b"):
        DataConfig(num_classes=0)
    with pytest.raises(UsageError, match=r"max_steps\b.*\bint\b"):
        TrainConfig(max_steps=1.5)


@pytest.mark.parametrize("steps", [(5,), (0, 3), (5, 4), (1, 2, 3)])
def test_a_trace_wants_its_first_and_last_step(steps: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=rf"--profile={','.join(map(str, steps))}: .*first.*last step"):
        DeviceConfig(profile=steps)
    assert DeviceConfig(profile=(5, 5)).profile == (5, 5)
    assert DeviceConfig(profile=(1, 3)).profile == (1, 3)


@pytest.mark.parametrize("ranges", [((), ()), ((-1.0, 1.0), ()), ((-1.0, 1.0), (0.0, 2.0))])
def test_each_feature_has_a_range_or_none(ranges: tuple[tuple[float, ...], ...]) -> None:
    names = ("rgb", "audio")
    assert DataConfig(feature_names=names, feature_ranges=ranges).feature_ranges == ranges
    for bad in ((1.0, -1.0), (1.0, 1.0), (0.0,), (0.0, 1.0, 2.0)):
        with pytest.raises(UsageError, match=r"feature_ranges is .*two ascending numbers.*rgb,audio"):
            DataConfig(feature_names=names, feature_ranges=(*ranges[:1], bad))


def test_a_cache_goes_with_the_usual_policies() -> None:
    frames = {"frame_features": True, "feature_names": ("rgb", "audio"), "nan_policy": "zero"}
    for more in ({}, {"max_bad_records": 2}, frames):
        assert TrainConfig(data=DataConfig(cache="kept", **more)).data.cache == "kept"


def test_the_lists_of_a_message_are_separated_by_commas() -> None:
    with pytest.raises(UsageError, match=r"--feature_sizes=3,0: .*at least 1\b"):
        DataConfig(feature_names=("a", "b"), feature_sizes=(3, 0))
    with pytest.raises(UsageError, match=r"--feature_names=rgb,other: .*\bother\b.*not known"):
        known_sizes(("rgb", "other"))
