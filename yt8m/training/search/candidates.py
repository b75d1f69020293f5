"""The candidates among which a training on one's own data chooses. One candidate more is one line in `_CANDIDATES`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yt8m import models
from yt8m.config.data_config import DataConfig
from yt8m.config.search_config import DECAY, DECAY_OF_FEW_STEPS, MODEL, PENALTY, RATE, TRANSFORM, USUAL_TRANSFORM
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.video import workload


@dataclass(frozen=True)
class Candidate:
    """A model with its settings.

    Attributes:
      rate: the learning rate of the first step, from which it falls along half a cosine to 0.
      least_videos: the number of training videos from which on it is tried, if the user names no model.
      is_for_few_if_named: whether it is tried on fewer videos too, if the user names its model.
    """

    model: str
    transform: str
    penalty: float
    rate: float
    options: Mapping[str, Any] = field(default_factory=dict)
    least_videos: int = 0
    is_for_few_if_named: bool = True

    @property
    def family(self) -> tuple[str, ...]:
        """What the graph of the candidate depends on; penalty and rate are fed. Options may be lists and mappings."""
        return self.model, self.transform, json.dumps(self.options, sort_keys=True, default=repr)

    @property
    def hyper_parameters(self) -> dict[str, Any]:
        """The hyper-parameters of the model, with the transform, and with the penalty if the model has one."""
        values = {**self.options, TRANSFORM: self.transform}
        return {**values, PENALTY: self.penalty} if PENALTY in _hyper_parameters(self.model) else values

    def __str__(self) -> str:
        return f"{self.model}, {self.transform}, penalty {self.penalty:g}, rate {self.rate:g}"


def created(candidate: Candidate, data: DataConfig) -> Any:
    """An instance of the candidate's model."""
    return workload.create_model(ModelConfig(candidate.model, candidate.hyper_parameters), data)


def _hyper_parameters(model: str) -> Collection[str]:
    """The names of the hyper-parameters of a model, with those of its classifier."""
    cls = models.get(model)
    names = set(models.hyper_parameters(cls))
    if "video_level_classifier_model" in names:
        names |= set(models.hyper_parameters(models.get("LogisticModel")))
    return names


_SMALL = {DECAY: DECAY_OF_FEW_STEPS, "video_level_classifier_model": "LogisticModel"}
_RESIDUAL = {**_SMALL, "mlp_hidden_size": 256, "drop_rate": 0.3}
_MOST_IN_BAG = 300  # frames of a video that a bag of frames takes
_BAG = {**_SMALL, "dbof_cluster_size": 512, "dbof_hidden_size": 256, "dbof_activation": "relu"}
_SOFT_BAG = {**_SMALL, "dbof_cluster_size": 256, "dbof_hidden_size": 128}
_TRANSFORMER = {
    "transformer_layers": 1,
    "transformer_size": 128,
    "transformer_heads": 4,
    "transformer_feed_forward": 256,
    "video_level_classifier_model": "LogisticModel",
}

# In the order in which they are kept if the budget is too small for all. The first ones differ most.
_CANDIDATES: Sequence[Candidate] = (
    Candidate("LogisticModel", "standardize", 0.03, 0.01),
    Candidate("GatedMlpModel", "standardize", 0.006, 0.01),  # at 0.01 some trainings lose inputs that matter
    Candidate("LogisticModel", "standardize", 0.1, 0.01),
    Candidate("MoeModel", "standardize", 0.03, 0.01),
    Candidate("GatedMlpModel", "standardize", 0.003, 0.005),
    Candidate("LogisticModel", "l2_normalize", 1e-4, 0.1),
    Candidate("GatedMlpModel", "normal_scores", 0.003, 0.005),  # values of which a few are far from the others
    Candidate("LogisticModel", "standardize", 0.03, 0.05),  # reaches the biases of rare classes
    # Its rate teaches experts in few epochs. Up to 10,000 videos the budget has room for more of them.
    Candidate("MoeModel", "standardize", 0.01, 0.05, least_videos=10_001, is_for_few_if_named=False),
    Candidate("LogisticModel", "standardize", 1e-3, 0.05, least_videos=20_000),  # many videos need less of a penalty
    Candidate("LogisticModel", "standardize", 0.3, 0.01),
    Candidate("LogisticModel", "standardize", 0.01, 0.01),
    Candidate("MoeModel", "standardize", 0.1, 0.01),
    Candidate("GatedMlpModel", "standardize", 0.001, 0.003),
    Candidate("MoeModel", "standardize", 0.01, 0.01),
    Candidate("LogisticModel", "standardize", 0.003, 0.01),
    Candidate("LogisticModel", "l2_normalize", 1e-5, 0.1),
    Candidate("MoeModel", "l2_normalize", 1e-5, 0.05),
    Candidate("ResidualMlpModel", "standardize", 1e-3, 0.003, _RESIDUAL),
    Candidate("GatedMlpModel", "standardize", 1e-4, 0.003),
    Candidate("LogisticModel", "l2_normalize", 1e-3, 0.1),
    Candidate("LogisticModel", "normal_scores", 0.03, 0.01),
    Candidate("MoeModel", "standardize", 0.001, 0.01),
    # Of frames.
    Candidate("FrameLevelLogisticModel", "standardize", 0.03, 0.01),
    Candidate("AttentiveProbeModel", "standardize", 1e-4, 0.003),
    Candidate("SoftDbowModel", "standardize", 1e-5, 0.01, _SOFT_BAG),  # finds a class that few frames show
    Candidate("DbofModel", "standardize", 1e-3, 0.003, _BAG),
    Candidate("FrameLevelLogisticModel", "l2_normalize", 1e-4, 0.1),
    Candidate("FrameLevelLogisticModel", "standardize", 0.003, 0.01),
    Candidate("TransformerModel", "standardize", 1e-4, 0.001, _TRANSFORMER, least_videos=5_000),  # few teach it nothing
)

# Of rated segments, which have few frames, and whose neighbours are seen by --segment_context.
_BAG_OF_CELL = {**_BAG, "iterations": 5, "dbof_pooling_method": "average"}
_OF_SEGMENTS: Sequence[Candidate] = (
    Candidate("FrameLevelLogisticModel", "standardize", 0.03, 0.01),
    Candidate("FrameLevelLogisticModel", "l2_normalize", 1e-5, 0.1),
    Candidate("FrameLevelLogisticModel", "standardize", 0.3, 0.01),
    Candidate("DbofModel", "standardize", 1e-3, 0.003, _BAG_OF_CELL),
    Candidate("FrameLevelLogisticModel", "standardize", 0.003, 0.01),
    Candidate("FrameLevelLogisticModel", "l2_normalize", 1e-3, 0.1),
    Candidate("FrameLevelLogisticModel", "standardize", 0.003, 0.03),
)

# The penalties and rates with which a model is tried that the user named and that has no candidate of its own.
_PENALTIES, _RATES = (1e-5, 1e-3, 1e-2), (0.003, 0.01)


def candidates_for(config: TrainConfig, videos: int = 0) -> list[Candidate]:
    """The candidates that the user's flags leave: those of the level of the data, with the given values in place.

    Args:
      videos: number of training videos.
    """
    free = config.search.free
    level = "frame" if config.data.frame_features else "video"
    if MODEL in free and config.data.segment_labels:
        listed = [*_OF_SEGMENTS]
    elif MODEL in free:
        of_level = [candidate for candidate in _CANDIDATES if models.get(candidate.model).level == level]
        fitting = (candidate for candidate in of_level if candidate.least_videos <= videos)
        listed = [_of_all_frames(candidate, config.data) for candidate in fitting]
    else:
        listed = _of_model(config, videos)
    fixed: dict[str, Any] = {
        name: value
        for name, value in (
            ("transform", config.model.hyper_parameters.get(TRANSFORM, USUAL_TRANSFORM)),  # the usual one is not listed
            ("penalty", config.model.hyper_parameters.get(PENALTY)),
            ("rate", config.optimizer.base_learning_rate),
        )
        if {"transform": TRANSFORM, "penalty": PENALTY, "rate": RATE}[name] not in free
    }
    unique: dict[str, Candidate] = {}
    for candidate in listed:
        settled = dataclasses.replace(candidate, **fixed)
        unique.setdefault(str(settled), settled)
    return list(unique.values())


def _of_all_frames(candidate: Candidate, data: DataConfig) -> Candidate:
    """The candidate with a bag of all frames of a video: a class that a few frames show is missed by a sample."""
    if "dbof_cluster_size" not in candidate.options:
        return candidate
    return dataclasses.replace(
        candidate, options={**candidate.options, "iterations": min(data.max_frames, _MOST_IN_BAG)}
    )


def _of_model(config: TrainConfig, videos: int) -> list[Candidate]:
    """The candidates with the model of the config and its hyper-parameters; without any, some usual settings."""
    options = {name: value for name, value in config.model.hyper_parameters.items() if name not in (TRANSFORM, PENALTY)}
    if DECAY in options and DECAY in config.search.free:
        options[DECAY] = DECAY_OF_FEW_STEPS
    of_this_model = [
        candidate
        for candidate in _CANDIDATES
        if candidate.model == config.model.model and (candidate.is_for_few_if_named or candidate.least_videos <= videos)
    ]
    settings = [(c.transform, c.penalty, c.rate) for c in of_this_model] or [
        (transform, penalty, rate)
        for penalty in _PENALTIES
        for transform, rate in (("standardize", _RATES[0]), ("l2_normalize", _RATES[1]), ("standardize", _RATES[1]))
    ]
    return [Candidate(config.model.model, *setting, options) for setting in settings]
