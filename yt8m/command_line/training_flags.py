"""The flags of a training and of its model and loss, which other programs that make a run have too."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from yt8m import losses, models, options
from yt8m.command_line.flag_parsing import Flag, flags_of, flags_of_parts, program_flags
from yt8m.config.programs import ImportConfig, StartFlags
from yt8m.config.run_options import ValidationConfig
from yt8m.config.train_config import DataConfig, ModelConfig, TrainConfig
from yt8m.labels.audit_config import AuditConfig
from yt8m.options import flag_of


def training_flags() -> list[Flag]:
    """The flags of train.py, without the models' own."""
    return [*program_flags(TrainConfig, "Run"), *flags_of(StartFlags, "Run")]


def import_flags() -> list[Flag]:
    """The flags of `yt8m import-checkpoint`: its own, and those that shape the variables and name the classes."""
    of_import = [*flags_of(ImportConfig, "Import"), *flags_of(StartFlags, "Import")]
    shaping = (options.paths_where(section, shapes="variables") for section in (DataConfig, ModelConfig))
    names = {*itertools.chain(*shaping), "vocabulary"} - {flag.name for flag in of_import}
    return [*of_import, *(flag for flag in training_flags() if flag.name in names)]


# What an audit decides itself about its trainings, or cannot divide into folds: its data are records of whole videos.
_NOT_OF_AUDIT = {
    *map(options.short_name, options.paths_where(TrainConfig, belongs_to="start")),
    *options.paths_where(ValidationConfig),
    *options.paths_where(DataConfig, needs="frame_features"),
    *(
        flag_of(DataConfig.__dataclass_fields__[name])
        for facts in ({"is_path": True}, {"is_code": True})
        for name in options.paths_where(DataConfig, **facts)
    ),
}


def audit_flags() -> list[Flag]:
    """The flags of `yt8m audit`: its own, and those of a training."""
    of_audit = flags_of(AuditConfig, "Audit")
    names = {flag.name for flag in of_audit} | _NOT_OF_AUDIT
    return [*of_audit, *(flag for flag in training_flags() if flag.name not in names)]


OF_PARTS = "Hyper-parameters of the {}"  # the heading of the fields of models, and of losses


def hyper_parameters(taken: Iterable[Flag], model: str = "", loss: str = "", *, of_losses: bool = True) -> list[Flag]:
    """The hyper-parameters of all models and losses as flags; those that share a name share a flag.

    Args:
      taken: flags whose names are not used again.
      model, loss: the chosen model and loss. Only their types and defaults are shown, and a user's
        `package.module:Class` adds its flags.
      of_losses: False for a program that has no loss.
    """
    flags: list[Flag] = []
    kinds = [("models", models, model), ("losses", losses, loss)]
    for kind, catalogue, chosen in kinds if of_losses else kinds[:1]:
        names = {flag.name for flag in (*taken, *flags)}
        flags += flags_of_parts(catalogue, [chosen], OF_PARTS.format(kind), names)
    return flags
