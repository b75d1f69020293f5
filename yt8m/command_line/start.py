"""What a training takes over from the run that `--config` names. Flags that are given take precedence over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import options, storage
from yt8m.command_line.flag_parsing import find_switch, find_word
from yt8m.config import run_dir
from yt8m.config.data_fit import DESCRIBING
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.options import flag_of
from yt8m.records import vocabulary


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
        fields = dict(options.fields_of(TrainConfig))
        # The recorded vocabulary may lie anywhere; its copy travels with the run.
        saved = {path: options.value_at(self.config, path) for path in fields} | {"data.vocabulary": self.vocabulary}
        flags = {path: flag_of(field) for path, field in fields.items()}
        changed = {flag for path, flag in flags.items() if typed.get(flag, saved[path]) != saved[path]}
        taken = {
            flags[path]: saved[path]
            for path, field in fields.items()
            if field.metadata["belongs_to"] != "start" and changed.isdisjoint(field.metadata["follows"])
            # Even defaults describe the records; otherwise the data would decide.
            if saved[path] != field.default or flags[path] in DESCRIBING
        }
        return taken | dict(typed)

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
