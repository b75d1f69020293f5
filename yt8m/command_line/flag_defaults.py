"""Finds the values of those flags of a training that the user does not give.

These values come from the run that `--config` names, or from the data. The values of the flags that describe the
records (level, features, classes) are taken from the data if the user gives none of these flags. If the user gives one
of them, or if the records have features of YouTube-8M, the defaults are those of the published code. An evaluation and
an inference take these options from the run. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from yt8m import options, storage
from yt8m.command_line.flag_parsing import find_switch, find_word
from yt8m.config import run_dir
from yt8m.config.data_config import KNOWN_SIZES, DataConfig, known_sizes
from yt8m.config.data_fit import DESCRIBING, are_own, feature_ranges, refuse_contradiction
from yt8m.config.search_config import AUTO, FOLLOW_A_CHOICE
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.options import flag_of, shown
from yt8m.records import vocabulary
from yt8m.records.data_format import DataFormat
from yt8m.records.opened_data import DiscoveredFormat, OpenedData
from yt8m.records.vocabulary import Vocabulary


class Start(NamedTuple):
    """The run whose options a training takes over, as `--config` names it.

    Attributes:
      path: path of the run's config.json; empty without `--config`.
      config: the config of the run; all defaults without `--config`.
    """

    path: str = ""
    config: TrainConfig = TrainConfig()

    @property
    def vocabulary(self) -> str:
        """The path of the vocabulary in the run's folder; empty if there is none."""
        path = storage.join(self.path.rpartition("/")[0], vocabulary.NAME) if self.path else ""
        return path if path and storage.exists(path) else ""

    def values(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the values of the run's options to those of the flags that the user gave.

        Args:
          typed: {flag: value} of the flags that the user gave; they take precedence.

        Returns:
          {flag: value} of the training. A value of the run is left out if it is the default, or if the user changes a
          flag on which it depends. How the run chose its model is no option of another training; if that one is to
          choose anew, what the run chose is left out too.
        """
        if not self.path:
            return dict(typed)
        fields = {path: each for path, each in options.fields_of(TrainConfig) if not path.startswith("search.")}
        # The vocabulary in the config may have been moved or deleted; the folder of the run has a copy of it.
        saved = {path: options.value_at(self.config, path) for path in fields} | {"data.vocabulary": self.vocabulary}
        flags = {path: flag_of(field) for path, field in fields.items()}
        changed = {flag for path, flag in flags.items() if typed.get(flag, saved[path]) != saved[path]}
        taken = {
            flags[path]: saved[path]
            for path, field in fields.items()
            if field.metadata["belongs_to"] != "start" and changed.isdisjoint(field.metadata["follows"])
            # Options that describe the records are taken over even if they are defaults; else the data would set them.
            if saved[path] != field.default or flags[path] in DESCRIBING
        }
        if typed.get("model") == AUTO:
            taken = {flag: value for flag, value in taken.items() if flag not in self._chosen()}
        return taken | dict(typed)

    def _chosen(self) -> set[str]:
        """The flags that the run did not get from its user, but from the choice of its model."""
        search = self.config.search
        return {origin["option"] for origin in search.origins} | set(search.free and FOLLOW_A_CHOICE)

    def hyper_parameters_for(self, model: ModelConfig) -> ModelConfig:
        """Returns `model` with those hyper-parameters of the run that belong to the same model, or to the same loss."""
        saved = self.config.model
        return dataclasses.replace(
            model,
            hyper_parameters=saved.hyper_parameters if model.model == saved.model else {},
            loss_hyper_parameters=saved.loss_hyper_parameters if model.label_loss == saved.label_loss else {},
        )


def start_named_in(words: Sequence[str]) -> Start:
    """Reads the config of the run that the flag `--config` names; returns an empty `Start` if the flag is missing.

    `--config` names a run's config.json or its folder. With `--trust_code`, code that the config names may be imported;
    `run_dir.read` says when it may be imported without that flag.
    """
    path = storage.expanded(find_word("config", words))
    if not path:
        return Start()
    if storage.is_dir(path):
        path = storage.join(path, run_dir.CONFIG)
    storage.refuse_missing(path, "config", f"name the {run_dir.CONFIG} of a run")
    return Start(path, run_dir.read_config(path, trust_code=find_switch("trust_code", words)))


def with_model_of_source(
    flags: Mapping[str, Any], hyper_parameters: Mapping[str, Any], *, trust_code: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Adds the model of the run that --init_from names, if the user names none: the weights fit no other model.

    If the training's own folder has a run already, the model is that of this run.

    Returns:
      The flags, and the hyper-parameters of the model, of which the given ones take precedence.
    """
    source = flags.get("init_from", "")
    if not source or "model" in flags:
        return dict(flags), dict(hyper_parameters)
    own_folder = "" if flags.get("start_new_model") else flags.get("train_dir", "")
    folder = own_folder if own_folder and run_dir.is_run(own_folder) else source
    saved = run_dir.read(folder, trust_code=trust_code) if run_dir.is_run(folder) else None
    if saved is None:
        return dict(flags), dict(hyper_parameters)
    model = saved.config.model
    if model.model != ModelConfig.model:
        logging.info("--model=%s, as %s has it (--init_from)", model.model, folder)
    return {**flags, "model": model.model}, {**model.hyper_parameters, **hyper_parameters}


def complete(
    flags: Mapping[str, Any], data: OpenedData, names: Vocabulary | None = None
) -> tuple[dict[str, Any], bool]:
    """Adds the values of flags that describe the records, from the data or as defaults, and logs what the data say.

    Args:
      flags: {flag: value} of the flags that were given for a training.
      data: the data; without files if this machine cannot read them, or if they are the sample data.
      names: the vocabulary of the run, which has the number of classes; None or empty if there is none.

    Returns:
      {option: value} including `flags`, and whether the level and the features were taken from the data.
    """
    # A custom reader may read records of another layout, which cannot be checked here.
    discovered = data.format if data.files and "reader" not in flags else None
    vocabulary_values = dict(vocabulary=names.path, num_classes=len(names)) if names else {}
    if discovered is None:
        return _add_sizes({"feature_names": _default_features(flags), **flags, **vocabulary_values}, {}, ""), False
    _refuse_more_classes(names, discovered)
    is_own = are_own(discovered.format)
    is_taken = is_own and not any(name in flags for name in DESCRIBING)
    taken: dict[str, Any] = (
        _options_of_format(discovered.format) if is_taken else {"feature_names": _default_features(flags)}
    )
    values = {"frame_features": False, **taken, **flags, **vocabulary_values}
    if is_own and discovered.format.num_classes is not None:
        values.setdefault("num_classes", discovered.format.num_classes)
    # Without a manifest, the format is that of the first record. If bad records are tolerated, the first may be bad, so
    # no flag is refused because of its format.
    if discovered.is_declared or not flags.get("max_bad_records"):
        # A vocabulary may have more classes than the data, if classes were appended after the data were made.
        compared_flags = {name: value for name, value in flags.items() if not names or name != "num_classes"}
        refuse_contradiction(compared_flags, discovered, values, is_own)
    if is_taken:
        _log_taken(values, discovered)
    else:
        _log_unused(values, discovered)
    values["feature_ranges"] = feature_ranges(values["feature_names"], discovered.format)
    values["video_frames"] = discovered.format.video_frames or ()
    values["columns"] = discovered.format.columns or ()
    values["one_class"] = bool(discovered.format.one_class)
    if size := discovered.format.segment_size:
        values["segment_size"] = size
    if rate := discovered.format.frames_per_second:
        values["frames_per_second"] = rate
    values["extractors"] = options.with_tuples(discovered.extractors)
    return _add_sizes(values, discovered.format.sizes(), str(discovered)), is_taken


def _refuse_more_classes(names: Vocabulary | None, discovered: DiscoveredFormat) -> None:
    """Raises `UsageError` if the records have more classes than their vocabulary."""
    if names and (discovered.format.num_classes or 0) > len(names):
        raise UsageError(
            f"{names.path} names {len(names)} classes, but according to {discovered} the data have "
            f"{discovered.format.num_classes}; name the vocabulary of these data by --vocabulary."
        )


def _options_of_format(format: DataFormat) -> dict[str, Any]:
    """{option: value} of the options that describe records of this format."""
    return dict(
        feature_names=tuple(feature.name for feature in format.features),
        feature_sizes=tuple(feature.size for feature in format.features),
        frame_features=format.level == "frame",
        segment_labels=format.segment_labels,
        # At least the default, because the model may be used on longer videos than those of the training.
        max_frames=max(DataConfig.max_frames, format.max_frames or 0),
    )


def _default_features(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """The features that are read by default: mean_rgb or rgb, as published; of the sample data also audio."""
    names = ("rgb", "audio") if flags.get("frame_features") else ("mean_rgb", "mean_audio")
    return names[:1] if "train_data_pattern" in flags else names


def _add_sizes(values: dict[str, Any], sizes: Mapping[str, int], where: str) -> dict[str, Any]:
    """Adds the value of `feature_sizes`, unless it is given; features without a given size must be ones of YouTube-8M.

    Args:
      sizes: {feature of the data: its size}; empty if the data are not known.
    """
    names = values["feature_names"]
    if "feature_sizes" in values:
        return values
    if not set(names) <= KNOWN_SIZES.keys() and set(names) <= sizes.keys():
        flag_text = f"--feature_names={shown(names)}"
        raise UsageError(
            f"{flag_text} needs --feature_sizes={shown(tuple(sizes[name] for name in names))} too ({where})."
        )
    return {**values, "feature_sizes": known_sizes(names)}


def _log_taken(values: Mapping[str, Any], discovered: DiscoveredFormat) -> None:
    unknown = (
        "" if "num_classes" in values else f"; the number of classes is unknown, so {DataConfig.num_classes} is assumed"
    )
    logging.info("taken from the data: %s (%s)%s", discovered.format, discovered, unknown)


def _log_unused(values: Mapping[str, Any], discovered: DiscoveredFormat) -> None:
    read = values["feature_names"]
    unused = [name for name in discovered.format.sizes() if name not in read]
    if unused and set(read) <= discovered.format.sizes().keys():
        names = shown((*read, *unused))
        logging.info(
            "the data also have the features %s (%s), which are not used; --feature_names=%s uses all",
            shown(unused),
            discovered,
            names,
        )
