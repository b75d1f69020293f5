"""Command lines: absl's flags are read here and nowhere else, and become frozen dataclasses.

Nothing here imports TensorFlow, so that help and refusals come at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from yt8m import losses, models, registry
from yt8m.config import (
    KNOWN_SIZES,
    AugmentConfig,
    CheckpointConfig,
    DataConfig,
    DeviceConfig,
    DistillConfig,
    DistributedConfig,
    EvalConfig,
    InferenceConfig,
    ModelConfig,
    OptimizerConfig,
    StorageConfig,
    TrainConfig,
)
from yt8m.errors import UsageError
from yt8m.flags import checks, declared, environment
from yt8m.flags.checks import check_level, with_hyper_parameters
from yt8m.flags.optimizers import OPTIMIZERS
from yt8m.flags.parsing import HelpAsked, find_word, parse
from yt8m.flags.usage import usage
from yt8m.program import called

__all__ = ["check_level", "eval_config", "inference_config", "read", "train_config", "with_hyper_parameters"]

C = TypeVar("C")


def train_config(words: Sequence[str], *, files_are_here: bool = True) -> TrainConfig:
    """What `train.py WORDS` asks for.

    Args:
      words: the command line without the program's name.
      files_are_here: False where the training runs on another machine, which alone sees the data.

    Raises:
      UsageError: it cannot be; nothing was written.
      SystemExit: with status 0, after `--help` was printed.
    """
    given = environment.defaults(environment.TRAIN)
    given |= _given("train.py", "Trains a model on TFRecord files.", declared.train, words)
    config = TrainConfig(
        data=_data(given),
        model=_section(ModelConfig, given),
        optimizer=_section(OptimizerConfig, given),
        devices=_section(DeviceConfig, given),
        checkpoints=_section(CheckpointConfig, given),
        distillation=_section(DistillConfig, given),
        augmentation=_section(AugmentConfig, given),
        distributed=_section(DistributedConfig, given),
        storage=_storage(given),
    )
    config = _section(TrainConfig, given, config)
    checks.check_names(config.model, config.optimizer.optimizer)
    model = with_hyper_parameters(config.model, _hyper_parameters(given, declared.train()))
    checks.check_features(config.data, model)
    if files_are_here:
        checks.check_files("train_data_pattern", config.data.data_pattern)
    return dataclasses.replace(config, model=model)


def eval_config(words: Sequence[str]) -> EvalConfig:
    """What `eval.py WORDS` asks for; raises as `train_config`.

    Hyper-parameters are for runs that did not save them; whether the run's model has them is checked
    by `with_hyper_parameters` once the run is read.
    """
    given = environment.defaults(environment.EVALUATION)
    given |= _given("eval.py", "Evaluates the checkpoints of a run.", declared.evaluation, words)
    config = _section(EvalConfig, given, EvalConfig(storage=_storage(given)))
    checks.check_files("eval_data_pattern", config.eval_data_pattern)
    return dataclasses.replace(config, hyper_parameters=_hyper_parameters(given, declared.evaluation()))


def inference_config(words: Sequence[str]) -> InferenceConfig:
    """What `inference.py WORDS` asks for; raises as `train_config`, hyper-parameters as `eval_config`."""
    given = environment.defaults(environment.INFERENCE)
    given |= _given("inference.py", "Writes predictions for TFRecord files.", declared.inference, words)
    config = _section(InferenceConfig, given, InferenceConfig(storage=_storage(given)))
    checks.check_files("input_data_pattern", config.input_data_pattern)
    return dataclasses.replace(config, hyper_parameters=_hyper_parameters(given, declared.inference()))


def read(
    cls: type[C], program: str, purpose: str, words: Sequence[str], operands: list[str] | None = None
) -> C:
    """The config of a workload of one's own: every option of the dataclass `cls` is a flag.

    Args:
      cls: a dataclass of `yt8m.options.option` fields that checks itself when it is made.
      program: its name, as `--help` shows it.
      purpose: one sentence.
      words: the command line without the program's name.
      operands: gets the words that are no flags (files, say); without it they are refused.

    Raises:
      UsageError: it cannot be.
      SystemExit: with status 0, after `--help` was printed.
    """
    registry.given_on_command_line(())
    return _section(cls, _parsed(program, purpose, declared.of(cls, "Flags"), words, {}, operands))


def _given(
    program: str, purpose: str, known: Callable[[], list[declared.Flag]], words: Sequence[str]
) -> dict[str, Any]:
    """The flags that were given, those of the models and losses among them."""
    flags = known()
    model, loss = find_word("model", words), find_word("label_loss", words)
    registry.given_on_command_line((model, loss))  # a class of the user's own is loaded for its flags
    own = {flag.name for flag in flags} - {"model", "label_loss", "callbacks"}
    flags += declared.hyper_parameters(flags, model, loss, of_losses=known is not declared.inference)
    names = {"models": models.names(), "losses": losses.names(), "optimizers": OPTIMIZERS}
    given = _parsed(program, purpose, flags, words, names)
    # Only of flags that name code: a folder called `module:Name` must not stand for the code of that name.
    registry.given_on_command_line(
        registry.names_of_code([value for name, value in given.items() if name not in own])
    )
    return given


def _parsed(
    program: str,
    purpose: str,
    known: Sequence[declared.Flag],
    words: Sequence[str],
    names: Mapping[str, Sequence[str]],
    operands: list[str] | None = None,
) -> dict[str, Any]:
    """The flags that were given; prints the help and exits where that is asked for."""
    try:
        return parse(known, words, operands)
    except HelpAsked:
        print(usage(called(program), purpose, known, names), end="")
        raise SystemExit(0) from None


def _hyper_parameters(given: dict[str, Any], own: Sequence[declared.Flag]) -> dict[str, Any]:
    names = {flag.name for flag in own}
    return {name: value for name, value in given.items() if name not in names}


def _section(cls: type[C], given: dict[str, Any], base: C | None = None) -> C:
    """`base` (by default all at defaults) with the given values of its fields."""
    # Nested sections have no help: the flag --model is a field of ModelConfig, not TrainConfig.model.
    names = {field.name for field in dataclasses.fields(cls) if "help" in field.metadata}  # type: ignore[arg-type]
    values = {name: value for name, value in given.items() if name in names}
    try:
        return dataclasses.replace(base, **values) if base else cls(**values)  # type: ignore[type-var]
    except UsageError as error:
        raise UsageError(checks.as_flag(error)) from error


def _storage(given: dict[str, Any]) -> StorageConfig:
    """Holds from now on, since the checks of the other flags look into buckets."""
    config = _section(StorageConfig, given)
    config.use()
    return config


def _data(given: dict[str, Any]) -> DataConfig:
    """The data flags; features that are not named follow from the rest."""
    values = dict(given)
    values["data_pattern"] = given.get("train_data_pattern", "")
    values.setdefault("feature_names", _usual_names(given))
    if "feature_sizes" not in given:
        values["feature_sizes"] = _sizes(values["feature_names"])
    return _section(DataConfig, values)


def _usual_names(given: dict[str, Any]) -> tuple[str, ...]:
    """As published the picture features alone; of the sample data, all."""
    names = ("rgb", "audio") if given.get("frame_features") else ("mean_rgb", "mean_audio")
    return names[:1] if given.get("train_data_pattern") else names


def _sizes(names: Sequence[str]) -> tuple[int, ...]:
    unknown = [name for name in names if name not in KNOWN_SIZES]
    if unknown:
        raise UsageError(
            f"--feature_names={','.join(names)}: the size of {unknown[0]} is not known; "
            "add --feature_sizes with one size for each name."
        )
    return tuple(KNOWN_SIZES[name] for name in names)
