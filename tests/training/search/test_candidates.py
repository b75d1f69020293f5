"""The candidates that the flags of a training leave."""

from __future__ import annotations

import dataclasses

import pytest

from yt8m.config.data_config import DataConfig
from yt8m.config.search_config import MODEL, PENALTY, RATE, TRANSFORM, ModelSearchConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.training.search.candidates import candidates_for


def bags_of(config: TrainConfig) -> list[int]:
    return [each.options["iterations"] for each in candidates_for(config) if each.model == "DbofModel"]


@pytest.mark.parametrize(("longest", "sampled"), [(60, 60), (3000, 300)])
def test_a_bag_has_all_frames_of_a_video_so_that_it_misses_no_short_event(longest: int, sampled: int) -> None:
    data = DataConfig(frame_features=True, max_frames=longest)
    config = TrainConfig(data=data, search=ModelSearchConfig(free=(MODEL, TRANSFORM, PENALTY, RATE)))
    assert set(bags_of(config)) == {sampled}
    named = TrainConfig(
        data=data,
        model=ModelConfig("DbofModel", {"iterations": 7}),
        search=ModelSearchConfig(free=(TRANSFORM, PENALTY, RATE)),
    )
    assert set(bags_of(named)) == {7}  # what the user gave


@pytest.mark.parametrize(("videos", "is_tried"), [(4_999, False), (5_000, True)])
def test_a_transformer_is_tried_on_frames_if_there_are_enough_videos_to_teach_it(videos: int, is_tried: bool) -> None:
    data = DataConfig(frame_features=True, max_frames=60)
    config = TrainConfig(data=data, search=ModelSearchConfig(free=(MODEL, TRANSFORM, PENALTY, RATE)))
    models = [candidate.model for candidate in candidates_for(config, videos)]
    assert ("TransformerModel" in models) is is_tried
    assert "SoftDbowModel" in models
    named = dataclasses.replace(
        config,
        model=ModelConfig("TransformerModel", {"transformer_size": 64}),
        search=ModelSearchConfig(free=(TRANSFORM, PENALTY, RATE)),
    )
    assert {candidate.options["transformer_size"] for candidate in candidates_for(named, videos)} == {64}
