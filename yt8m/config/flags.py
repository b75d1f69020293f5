"""The optimizers that a learning rate is enough for, known without importing TensorFlow.

What the machine's environment says where a flag is not given: the variables of a Vertex AI job.

https://cloud.google.com/vertex-ai/docs/training/code-requirements#environment-variables

What flags must agree on with one another and with the models, losses, optimizers and files.

Command lines: absl's flags are read here and nowhere else, and become frozen dataclasses.

Nothing here imports TensorFlow, so that help and refusals come at once.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from yt8m import losses, models, readers, storage
from yt8m.config import flag_parsing, registry
from yt8m.config.flag_parsing import HelpAsked, find_word, owners, parse, usage
from yt8m.config.programs import (
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
from yt8m.errors import UsageError, suggestion
from yt8m.program import called

OPTIMIZERS = (
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamWOptimizer",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "RMSPropOptimizer",
)


TRAIN = {
    "AIP_CHECKPOINT_DIR": "train_dir",
    "AIP_MODEL_DIR": "export_dir",
    "AIP_TENSORBOARD_LOG_DIR": "log_dir",
    "AIP_TRAINING_DATA_URI": "train_data_pattern",
    "AIP_VALIDATION_DATA_URI": "eval_data_pattern",
}
EVALUATION = {"AIP_CHECKPOINT_DIR": "train_dir", "AIP_VALIDATION_DATA_URI": "eval_data_pattern"}
INFERENCE = {"AIP_CHECKPOINT_DIR": "train_dir", "AIP_TEST_DATA_URI": "input_data_pattern"}


def environment_defaults(variables: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """{flag: value} of the variables that are set; folders come with a slash at their end, which goes."""
    found = {flag: environment.get(variable, "").strip() for variable, flag in variables.items()}
    return {flag: value.rstrip("/") for flag, value in found.items() if value}


def as_flag(error: UsageError) -> str:
    """What a class says of its field, said of the flag that the user knows."""
    return re.sub(r"^\w+: (?=\w+ must )", "--", str(error))


def check_names(model: ModelConfig, optimizer: str) -> None:
    """Refuses a model, loss or optimizer that there is not, with the flag's name."""
    for flag, get, name, method in (
        ("model", models.get, model.model, "create_model"),
        ("label_loss", losses.get, model.label_loss, "calculate_loss"),
    ):
        try:
            found = get(name)
        except UsageError as error:
            raise UsageError(f"--{flag}={name}: {error}") from error
        if not (isinstance(found, type) and callable(getattr(found, method, None))):
            raise UsageError(f"--{flag}={name}: expected a class with a method {method}; found {found!r}.")
    if optimizer not in OPTIMIZERS:
        raise UsageError(
            f"--optimizer={optimizer}: unknown optimizer{suggestion(optimizer, OPTIMIZERS)} "
            f"(known: {', '.join(OPTIMIZERS)})"
        )


def check_level(model: str, frame_features: bool) -> None:
    """Refuses a video-level model on frames and the reverse; models that do not say are let through."""
    level = getattr(models.get(model), "level", None)
    if level == "video" and frame_features:
        raise UsageError(
            f"--model={model} takes one vector a video, but --frame_features is given. "
            f"Leave that out, or choose a frame-level model: {_of_level('frame')}."
        )
    if level == "frame" and not frame_features:
        raise UsageError(
            f"--model={model} takes frames: add --frame_features (with frame records), "
            f"or choose a video-level model: {_of_level('video')}."
        )


def check_files(flag: str, pattern: str) -> None:
    """Refuses a pattern that no file matches, or a folder; an empty one stands for the sample data."""
    if not pattern:
        return
    found = storage.glob(pattern)
    if not found:
        raise UsageError(f"--{flag}={pattern}: no file matches. Check the path, and quote the pattern.")
    # In a bucket only files are found, and each question would be a request.
    folder = next((path for path in found if not storage.is_remote(path) and storage.is_dir(path)), None)
    if folder is not None:
        raise UsageError(f"--{flag}={pattern}: {folder} is a folder; name the files in it: '{folder}/*.tfrecord'.")


def with_hyper_parameters(model: ModelConfig, given: Mapping[str, Any]) -> ModelConfig:
    """`model` with the given flags put over its hyper-parameters and its loss's, the rest at their defaults.

    What the model does not have goes to its video-level classifier, where it has one.

    Raises:
      UsageError: none of them has a flag that is given, or a value cannot be.
    """
    of_loss = _of_the_loss(model, given)
    own = models.hyper_parameters(models.get(model.model))
    of_model = {name: value for name, value in given.items() if name not in of_loss or name in own}
    return dataclasses.replace(
        model,
        hyper_parameters=_filled("model", models, model.model, model.hyper_parameters, of_model),
        loss_hyper_parameters=_filled("label_loss", losses, model.label_loss, model.loss_hyper_parameters, of_loss),
    )


def _of_the_loss(model: ModelConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the chosen loss has, or some loss and no model."""
    own = losses.hyper_parameters(losses.get(model.label_loss))
    of_losses = owners(losses).keys() - owners(models, model.model).keys()
    return {name: value for name, value in given.items() if name in own or name in of_losses}


def _filled(
    flag: str, catalogue: Any, name: str, saved: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """All hyper-parameters of the class `name` of `catalogue`, chosen by `flag`."""
    cls = catalogue.get(name)
    if not dataclasses.is_dataclass(cls):  # of the user's own, without declared hyper-parameters
        _refuse_foreign(flag, catalogue, name, given)
        return saved
    arranged = cls.arrange(given) if hasattr(cls, "arrange") else given
    foreign = {n: v for n, v in given.items() if n in arranged.keys() - _fields(cls)}
    _refuse_foreign(flag, catalogue, name, foreign)
    try:
        made = catalogue.create(name, {**saved, **given})
    except UsageError as error:
        raise UsageError(as_flag(error)) from error
    return {field: getattr(made, field) for field in _fields(cls)}


def check_features(data: DataConfig, model: ModelConfig) -> None:
    """Refuses a model that cannot take features of these kinds and sizes."""
    cls, sizes = models.get(model.model), data.feature_sizes
    check_level(model.model, data.frame_features)
    if getattr(cls, "input_transform", "") == "reverse_whitening" and KNOWN_SIZES["rgb"] not in sizes:
        raise UsageError(
            f"--model={model.model} undoes the whitening of the {KNOWN_SIZES['rgb']} rgb features, but "
            f"--feature_sizes is {','.join(map(str, sizes))}; add rgb to --feature_names, or choose another "
            "--model."
        )
    if "feature_sizes" in models.hyper_parameters(cls):
        try:
            models.create(model.model, {**model.hyper_parameters, "feature_sizes": sizes})
        except UsageError as error:
            raise UsageError(as_flag(error)) from error


def _fields(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _refuse_foreign(flag: str, catalogue: Any, chosen: str, foreign: Mapping[str, Any]) -> None:
    """Refuses hyper-parameters that the model or loss does not have, naming those that have them."""
    for name, value in foreign.items():
        having = [owner for owner, _ in owners(catalogue, chosen).get(name, [])]
        none = f"no {flag.replace('_', ' ')}"
        raise UsageError(
            f"--{name}={value}: {chosen} has no such hyper-parameter; {', '.join(having) or none} has. "
            f"Leave the flag out or choose another --{flag}."
        )


def _of_level(level: str) -> str:
    return ", ".join(name for name in models.names() if models.get(name).level == level)


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
    given = environment_defaults(TRAIN)
    given |= _given("train.py", "Trains a model on TFRecord files.", flag_parsing.training_flags, words)
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
    check_names(config.model, config.optimizer.optimizer)
    if config.data.reader:
        readers.own_reader_class(config.data.reader)
    model = with_hyper_parameters(config.model, _hyper_parameters(given, flag_parsing.training_flags()))
    check_features(config.data, model)
    if files_are_here:
        check_files("train_data_pattern", config.data.data_pattern)
    return dataclasses.replace(config, model=model)


def eval_config(words: Sequence[str]) -> EvalConfig:
    """What `eval.py WORDS` asks for; raises as `train_config`.

    Hyper-parameters are for runs that did not save them; whether the run's model has them is checked
    by `with_hyper_parameters` once the run is read.
    """
    given = environment_defaults(EVALUATION)
    given |= _given("eval.py", "Evaluates the checkpoints of a run.", flag_parsing.evaluation_flags, words)
    config = _section(EvalConfig, given, EvalConfig(storage=_storage(given)))
    check_files("eval_data_pattern", config.eval_data_pattern)
    return dataclasses.replace(config, hyper_parameters=_hyper_parameters(given, flag_parsing.evaluation_flags()))


def inference_config(words: Sequence[str]) -> InferenceConfig:
    """What `inference.py WORDS` asks for; raises as `train_config`, hyper-parameters as `eval_config`."""
    given = environment_defaults(INFERENCE)
    given |= _given("inference.py", "Writes predictions for TFRecord files.", flag_parsing.inference_flags, words)
    config = _section(InferenceConfig, given, InferenceConfig(storage=_storage(given)))
    check_files("input_data_pattern", config.input_data_pattern)
    return dataclasses.replace(config, hyper_parameters=_hyper_parameters(given, flag_parsing.inference_flags()))


def read(cls: type[C], program: str, purpose: str, words: Sequence[str], operands: list[str] | None = None) -> C:
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
    return _section(cls, _parsed(program, purpose, flag_parsing.flags_of(cls, "Flags"), words, {}, operands))


def _given(
    program: str, purpose: str, known: Callable[[], list[flag_parsing.Flag]], words: Sequence[str]
) -> dict[str, Any]:
    """The flags that were given, those of the models and losses among them."""
    flags = known()
    model, loss = find_word("model", words), find_word("label_loss", words)
    registry.given_on_command_line((model, loss))  # a class of the user's own is loaded for its flags
    own = {flag.name for flag in flags} - {"model", "label_loss", "callbacks", "metrics", "reader"}
    flags += flag_parsing.hyper_parameters(flags, model, loss, of_losses=known is not flag_parsing.inference_flags)
    names = {"models": models.names(), "losses": losses.names(), "optimizers": OPTIMIZERS}
    given = _parsed(program, purpose, flags, words, names)
    # Only of flags that name code: a folder called `module:Name` must not stand for the code of that name.
    registry.given_on_command_line(registry.names_of_code([value for name, value in given.items() if name not in own]))
    return given


def _parsed(
    program: str,
    purpose: str,
    known: Sequence[flag_parsing.Flag],
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


def _hyper_parameters(given: dict[str, Any], own: Sequence[flag_parsing.Flag]) -> dict[str, Any]:
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
        raise UsageError(as_flag(error)) from error


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
