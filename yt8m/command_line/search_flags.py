"""Decides whether a training chooses its model, and which options it may set; nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from yt8m.config import run_dir
from yt8m.config.data_config import KNOWN_SIZES
from yt8m.config.model_options import with_hyper_parameters
from yt8m.config.search_config import (
    AUTO,
    BATCH,
    DECAY,
    EPOCHS,
    METRIC,
    MODEL,
    PENALTY,
    RATE,
    STEPS,
    TRANSFORM,
    USUAL_TRANSFORM,
    ModelSearchConfig,
)
from yt8m.config.train_config import ModelConfig
from yt8m.errors import UsageError
from yt8m.options import shown
from yt8m.records.data_format import DataFormat
from yt8m.records.opened_data import DiscoveredFormat, OpenedData
from yt8m.records.shards import SEGMENT_SIZE

# {level: the model in the config until the search has chosen one}
_UNTIL_CHOSEN = {"video": "LogisticModel", "frame": "FrameLevelLogisticModel"}
# With one of these flags the user leads the training, and nothing is searched unless --model=auto is given.
_LED_BY = ("config", "init_from", "callbacks", STEPS, EPOCHS)
_LENGTHENED_BY = ("callbacks", STEPS, EPOCHS)  # a run that was chosen goes on with one of these as it was chosen
# With these flags candidates cannot be compared without the training's own input or loss.
_UNFIT = (
    *("reader", "distill_from", "teacher", "balance", "segment_labels", "mixup", "augment_noise", "augment_crop"),
    *("augment_frame_dropout", "film_mean", "accumulate_steps", "train_only", "learning_rate_schedule"),
)

_CONTEXT_SECONDS = 5.0


def is_led_by_user(flags: Mapping[str, Any]) -> bool:
    """Whether one of these flags leads the training, so that no model is searched unless --model=auto is given."""
    return any(flags.get(name) not in (None, "", (), False) for name in (*_UNFIT, *_LED_BY))


def for_training(
    flags: Mapping[str, Any],
    hyper_parameters: Mapping[str, Any],
    config_path: str,
    data: OpenedData,
    files_are_here: bool = True,
) -> tuple[dict[str, Any], ModelSearchConfig]:
    """Decides about the search of a training.

    Args:
      flags: {flag: value} of the flags that were given, or that come from the run of --config.
      hyper_parameters: {hyper-parameter: value} of those that were given.

    Returns:
      The flags, with a model in place of `auto`; and the config of the search, in which nothing is free if there is
      none.
    """
    is_asked = flags.get("model") == AUTO
    if not files_are_here:  # the machine that trains chooses
        return {name: value for name, value in flags.items() if not (is_asked and name == "model")}, ModelSearchConfig()
    discovered = data.format if data.patterns and not flags.get("reader") else None
    reasons = list(_reasons_against(flags, config_path, discovered, is_asked))
    if is_asked and reasons:
        raise UsageError(f"--model={AUTO}: {reasons[0]}; name a model.")
    of_one_model = sorted(hyper_parameters.keys() - {TRANSFORM, PENALTY})
    if is_asked and of_one_model:
        raise UsageError(f"--{of_one_model[0]} is an option of one model, and --model={AUTO} tries several; name one.")
    if reasons or discovered is None:
        if flags.get("budget") is not None:
            raise UsageError(
                f"--budget={flags['budget']:g} limits the choice of a model, but {reasons[0]}; leave it out."
            )
        return dict(flags), ModelSearchConfig(follows=_followed(flags, hyper_parameters, config_path, discovered))
    free = [name for name in (RATE, BATCH, STEPS, EPOCHS, METRIC) if flags.get(name) is None]
    free += [name for name in (TRANSFORM, PENALTY, DECAY) if name not in hyper_parameters]
    completed = dict(flags)
    if "model" not in flags or is_asked:
        free.append(MODEL)
        if discovered.format.annotated:
            completed.setdefault("segment_context", _context_of(discovered.format))
        completed["model"] = _UNTIL_CHOSEN["frame" if flags.get("frame_features") else discovered.format.level]
    search = {name: flags[name] for name in ("budget", "refit") if name in flags}
    return completed, ModelSearchConfig(free=tuple(free), **search)


def with_hyper_parameters_for(chosen: ModelConfig, values: Mapping[str, Any], data: OpenedData) -> ModelConfig:
    """The model with these hyper-parameters, and with the usual transform if its default reverses a whitening.

    The data must be one's own for that: only YouTube-8M's features are whitened.

    Args:
      chosen: the model with the hyper-parameters that an earlier run has chosen.
    """
    model = with_hyper_parameters(chosen, values)
    is_chosen = TRANSFORM in {*chosen.hyper_parameters, *values}
    is_reversed = not is_chosen and model.hyper_parameters.get(TRANSFORM) == "reverse_whitening"
    if not is_reversed or not data.patterns or data.format is None or not _is_own(data.format):
        return model
    return dataclasses.replace(model, hyper_parameters={**model.hyper_parameters, TRANSFORM: USUAL_TRANSFORM})


def _context_of(format: DataFormat) -> int:
    """The frames before and after a cell that a model sees: those of five seconds, at least a cell."""
    return max(format.segment_size or SEGMENT_SIZE, round(_CONTEXT_SECONDS * (format.frames_per_second or 1.0)))


def _followed(
    flags: Mapping[str, Any], hyper_parameters: Mapping[str, Any], config_path: str, discovered: DiscoveredFormat | None
) -> tuple[str, ...]:
    """The options that follow one's own data though nothing is searched."""
    is_alone = not (os.environ.get("TF_CONFIG") or os.environ.get("CLUSTER_SPEC"))
    if discovered is None or discovered.format.segment_labels or flags.get("segment_labels"):
        return ()
    if not (is_alone and _is_own(discovered)):
        return ()
    has_decay = DECAY in hyper_parameters or config_path  # the run of --config has one
    return (BATCH,) * (flags.get(BATCH) is None) + (DECAY,) * (not has_decay)


def _is_own(discovered: DiscoveredFormat) -> bool:
    """Whether data are one's own: their features are not those of YouTube-8M."""
    return bool(discovered.extractors) or not any(f.name in KNOWN_SIZES for f in discovered.format.features)


def _reasons_against(
    flags: Mapping[str, Any], config_path: str, discovered: DiscoveredFormat | None, is_asked: bool
) -> Iterator[str]:
    """Yields the reasons for which nothing is searched."""
    if os.environ.get("TF_CONFIG") or os.environ.get("CLUSTER_SPEC"):
        yield "the processes of a cluster choose no model"
    are_spans = discovered is not None and discovered.format.annotated is not None
    for name in _UNFIT:
        if flags.get(name) and not (are_spans and name == "segment_labels"):
            yield f"--{name}={shown(flags[name])} is given"
    if discovered is None or (discovered.format.segment_labels and not are_spans and not is_asked):
        yield "the training data are not whole videos of a known format"
    elif not is_asked and not _is_own(discovered):
        yield "the data have features of YouTube-8M, for which the published defaults stay"
    if not is_asked:
        values = {"config": config_path, **flags}
        # The run is looked up only if that matters: its folder may be in a bucket that cannot be reached from here.
        is_lengthened = any(values.get(name) not in (None, "", ()) for name in _LENGTHENED_BY)
        goes_on = is_lengthened and _was_chosen(flags)
        for name in _LED_BY:
            if goes_on and name in _LENGTHENED_BY:
                continue
            if values.get(name) not in (None, "", ()):
                yield f"--{name}={shown(values[name])} is given"


def _was_chosen(flags: Mapping[str, Any]) -> bool:
    """Whether the training goes on with a run whose model was chosen."""
    folder = flags.get("train_dir")
    saved = run_dir.read(folder) if folder and not flags.get("start_new_model") else None
    return saved is not None and bool(saved.config.search.trials)
