"""What a training takes over from the run that `--config` names. Flags that are given take precedence over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.command_line.flag_parsing import find_switch, find_word
from yt8m.config import run_dir
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.options import sections_of
from yt8m.records import vocabulary

# Options that are never taken over: the run's folders, and the flag that moves an earlier run aside.
_ITS_OWN = ("train_dir", "export_dir", "log_dir", "start_new_model")
# {flag: others}: if the flag is given and differs from the run's value, the run's values of the others are not taken
# over, because they describe what the flag replaces.
_REPLACES = {
    "train_data_pattern": ("vocabulary", "num_classes", "manifest"),
    "frame_features": ("feature_names", "feature_sizes", "feature_ranges", "segment_labels"),
    "feature_names": ("feature_sizes", "feature_ranges"),
    "feature_sizes": ("feature_ranges",),
    "optimizer": ("weight_decay",),
    "eval_every_n_epochs": ("eval_every_n_steps",),
    "eval_every_n_steps": ("eval_every_n_epochs",),
}
# Taken over even if they have their default values; otherwise the data would decide.
_ALWAYS = ("feature_names", "feature_sizes")


class Start(NamedTuple):
    """What a training takes over from a run.

    Attributes:
      path: the run's config.json; empty if nothing is taken over.
      config: the run's config; all defaults if nothing is taken over.
    """

    path: str = ""
    config: TrainConfig = TrainConfig()

    @property
    def vocabulary(self) -> str:
        """The path of the vocabulary in the run's folder; empty if there is none."""
        path = storage.join(self.path.rpartition("/")[0], vocabulary.NAME) if self.path else ""
        return path if path and storage.exists(path) else ""

    def values(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """{flag: value} of the training: `typed`, and for the other flags the run's values that are not defaults."""
        if not self.path:
            return dict(typed)
        saved = dict(self._options())
        replaced = {flag for flag in _REPLACES if flag in typed and typed[flag] != saved[flag][0]}
        dropped = set(_ITS_OWN).union(*(_REPLACES[flag] for flag in replaced))
        # The recorded vocabulary may lie anywhere; its copy travels with the run.
        named = {"vocabulary": self.vocabulary} if self.vocabulary else {}
        taken = {name: value for name, (value, usual) in saved.items() if value != usual or name in _ALWAYS}
        taken = {name: value for name, value in taken.items() if name != "vocabulary"} | named
        return {name: value for name, value in taken.items() if name not in dropped} | dict(typed)

    def _options(self) -> Iterator[tuple[str, tuple[Any, Any]]]:
        """(flag, (value, default)) of each option. `seed` comes twice: for the data and, last, for the run."""
        sections = [getattr(self.config, name) for name in sections_of(TrainConfig)]
        for section in (*sections, self.config):
            for field in dataclasses.fields(section):
                if "help" in field.metadata:
                    name = "train_data_pattern" if field.name == "data_pattern" else field.name
                    yield name, (getattr(section, field.name), field.default)

    def hyper_parameters_for(self, model: ModelConfig) -> ModelConfig:
        """`model` with the run's hyper-parameters of the model, if it is the run's model; the same for the loss."""
        saved = self.config.model
        return dataclasses.replace(
            model,
            hyper_parameters=saved.hyper_parameters if model.model == saved.model else {},
            loss_hyper_parameters=saved.loss_hyper_parameters if model.label_loss == saved.label_loss else {},
        )


def start_named_in(words: Sequence[str]) -> Start:
    """What `--config` among the words of a command line names; an empty `Start` if it is not given.

    Code that the run names is imported later only under the rules of `run_dir.read`.

    Raises:
      UsageError: there is no such file.
      RunError: the file is damaged, has unknown keys, or has a newer format.
    """
    path = storage.expanded(find_word("config", words))
    if not path:
        return Start()
    if storage.is_dir(path):
        path = storage.join(path, run_dir.CONFIG)
    if not storage.exists(path):
        raise UsageError(f"--config={path}: there is no such file; name the {run_dir.CONFIG} of a run.")
    return Start(path, run_dir.read_config(path, trust_code=find_switch("trust_code", words)))
