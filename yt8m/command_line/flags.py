"""Turns command lines into configs, which are frozen dataclasses.

Nothing here imports TensorFlow, because that would delay `--help` and error messages.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from absl import logging

from yt8m import losses, models, options, readers, registry
from yt8m.command_line import flag_defaults, search_flags
from yt8m.command_line.config_flags import (
    are_flags_of,
    config_section,
    has_unknown_flag,
    load_own_classes,
    parse_program,
    read,
    read_values,
    read_with,
)
from yt8m.command_line.flag_defaults import Start, start_named_in
from yt8m.command_line.flag_parsing import (
    Flag,
    Program,
    find_switch,
    find_word,
    flags_of,
    flags_of_parts,
    own_hyper_parameters,
    program_flags,
)
from yt8m.command_line.model_checks import check_level, check_model_takes, check_names
from yt8m.command_line.run_words import flags_of_training, with_run_named
from yt8m.config import data_fit, resume, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import AuditConfig, EvalConfig, ImportConfig, InferenceConfig, StartFlags
from yt8m.config.run_dir import SavedRun
from yt8m.config.run_options import StorageConfig, ValidationConfig, refuse_cache_of_bucket
from yt8m.config.search_config import ModelSearchConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.datasets.cache_making import CacheConfig
from yt8m.eval_util import metrics
from yt8m.models import published
from yt8m.options import about_flags, flag_of, sections_of
from yt8m.records import data_folders
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.registry import Others

if TYPE_CHECKING:
    from yt8m.training.growth_config import AddClassesConfig

C = TypeVar("C")
P = TypeVar("P", EvalConfig, InferenceConfig)

__all__ = ["EVALUATION", "INFERENCE", "TRAIN"]
__all__ += ["cache_config", "eval_config", "growth_config", "import_config", "inference_config"]
__all__ += ["evaluation", "inference", "train_config", "training"]
__all__ += ["check_level", "check_model_takes", "check_names", "environment_defaults", "read", "read_with"]

# {environment variable of a Vertex AI job: flag whose value it is, if the flag is not given}:
# https://cloud.google.com/vertex-ai/docs/training/code-requirements#environment-variables
_RUN_FOLDER = {"AIP_CHECKPOINT_DIR": "train_dir"}  # this variable counts for all three programs
TRAIN = {
    **_RUN_FOLDER,
    "AIP_MODEL_DIR": "export_dir",
    "AIP_TENSORBOARD_LOG_DIR": "log_dir",
    "AIP_TRAINING_DATA_URI": "train_data_pattern",
    "AIP_VALIDATION_DATA_URI": "eval_data_pattern",
}
EVALUATION = {**_RUN_FOLDER, "AIP_VALIDATION_DATA_URI": "eval_data_pattern"}
INFERENCE = {**_RUN_FOLDER, "AIP_TEST_DATA_URI": "input_data_pattern"}


def train_config(words: Sequence[str], *, files_are_here: bool = True) -> TrainConfig:
    """Reads the command line `train.py WORDS`; returns the config of the training.

    Args:
      words: the command line without the program's name.
    """
    return training(words, files_are_here=files_are_here)[0]


def training(words: Sequence[str], *, files_are_here: bool = True) -> tuple[TrainConfig, OpenedData | None]:
    """Like `train_config`, but also returns the opened training data; None if this machine does not read any files."""
    start = start_named_in(words)
    program = Program("train.py", "Trains a model on TFRecord files.", training_flags())
    typed, hyper_parameter_values = _parse_training_flags(program, words, TRAIN, start)
    values = start.values(typed)
    if files_are_here and not start.path:  # a config names the model, also if it is the default
        values, hyper_parameter_values = flag_defaults.with_model_of_source(
            values, hyper_parameter_values, trust_code=find_switch("trust_code", words)
        )
    return _make_training_config(start, values, hyper_parameter_values, files_are_here, may_choose=True)


def import_config(words: Sequence[str]) -> tuple[ImportConfig, TrainConfig, set[str]]:
    """Reads the command line `yt8m import-checkpoint WORDS`; the errors are those of `train_config`.

    Returns:
      The config of the command; the config of the run to write, whose hyper-parameters are by default those of the
      published network; and the names of the hyper-parameters that the user gave, by flags or by --config.
    """
    start = start_named_in(words)
    purpose = "Makes a run from a checkpoint that the published code of another group wrote."
    listed = import_flags()
    names = {flag.name for flag in listed}
    # A flagfile with the recipe of a network also has flags of its training. They are accepted, and the run saves them.
    training_only = [flag for flag in training_flags() if flag.name not in names]
    typed, hyper_parameter_values = _parse_training_flags(
        Program("yt8m import-checkpoint", purpose, listed, training_only), words, {}, start
    )
    config_of_import = config_section(ImportConfig, typed)
    values = {**start.values(typed), "train_dir": config_of_import.out}
    values.pop("checkpoint", None)  # here the file to import; in a training, which of its checkpoints the run means
    network = published.find(config_of_import.source, values.get("model", ModelConfig.model))
    config, _ = _make_training_config(
        start, values, published.options(network, hyper_parameter_values, usual=not start.path)
    )
    return (
        config_of_import,
        config,
        {*hyper_parameter_values, *start.hyper_parameters_for(config.model).hyper_parameters},
    )


def audit_config(words: Sequence[str]) -> tuple[AuditConfig, TrainConfig, OpenedData]:
    """Reads the command line `yt8m audit WORDS`; the errors are those of `train_config`."""
    start = start_named_in(words)
    purpose = "Lists labels that are probably wrong or missing, by models that have not seen the videos."
    flags = audit_flags()
    typed, hyper_parameter_values = _parse_training_flags(Program("yt8m audit", purpose, flags), words, {}, start)
    config = config_section(AuditConfig, typed)
    if config.videos and config.dry_run:
        return config, TrainConfig(), open_data(None)
    if config.videos:
        from yt8m.labels import audited_videos  # imports what downloads files, which no other start needs

        config = audited_videos.with_records(config)
    else:
        from yt8m.labels import audited_cells  # as above

        config = audited_cells.with_cells(config, open_data(config.data, flag="data"))
        if config.dry_run and isinstance(config, audited_cells.AuditOfCells):
            return config, TrainConfig(), open_data(None)
    names = {flag.name for flag in flags} - set(AuditConfig.__dataclass_fields__)
    values = {name: value for name, value in start.values(typed).items() if name in names}
    values["train_data_pattern"] = config.data
    values["train_dir"] = config.out
    training, data = _make_training_config(
        start, values, hyper_parameter_values, data_flag="data", unsaid=AuditConfig.__dataclass_fields__
    )
    return config, training, data or data_fit.open_for(training.data)


def _make_training_config(
    start: Start,
    flags: dict[str, Any],
    hyper_parameter_values: Mapping[str, Any],
    files_are_here: bool = True,
    *,
    may_choose: bool = False,
    data_flag: str = "train_data_pattern",
    unsaid: Collection[str] = (),
) -> tuple[TrainConfig, OpenedData | None]:
    """Makes the config of a training from values of flags, after checking them against the data; see `train_config`.

    Args:
      data_flag: the flag of the command that names the files, for messages.
      unsaid: flags that the command gives values of its own later; the log does not compare them with the run's.

    Returns:
      The config; and the opened data, None if no files are named or this machine cannot read them.
    """
    config_section(StorageConfig, flags).use()
    pattern = flags.get("train_data_pattern", "")
    refuse_cache_of_bucket(flags.get("cache", ""), pattern)
    if files_are_here and data_flag == "train_data_pattern":
        flags = {**flags, "train_data_pattern": data_folders.of_training(pattern)} if pattern else flags
        if validation := flags.get("eval_data_pattern"):
            flags = {**flags, "eval_data_pattern": data_folders.of_validation(validation)}
    data = _open_training_data(flags, start.vocabulary, data_flag) if files_are_here else open_data(None)
    search = ModelSearchConfig()
    if may_choose:
        flags, search = search_flags.for_training(flags, hyper_parameter_values, start.path, data, files_are_here)
    values, are_taken = flag_defaults.complete(flags, data, data.vocabulary)
    values.setdefault("num_classes", start.config.data.num_classes)
    if files_are_here:
        values["weight_of_class"] = _read_class_weights(values, data)
    config = _make_config(TrainConfig, values)
    check_names(config.model, config.optimizer)
    if config.data.reader:
        readers.own_reader_class(config.data.reader)
    with about_flags(f"--best_metric={config.validation.best_metric}: "):
        metrics.find(config.validation.best_metric)
    model = start.hyper_parameters_for(config.model)
    model = search_flags.with_hyper_parameters_for(model, hyper_parameter_values, data)
    check_model_takes(config.data, model, are_taken)
    config = dataclasses.replace(config, model=model, search=search)
    if start.path:
        changed = [
            str(change)
            for change in resume.list_changes(SavedRun(start.config, False), config)
            # How the run chose its model is no option of another training.
            if not change.name.startswith("search.") and run_dir.flag_at(change.name) not in {"train_dir", *unsaid}
        ]
        logging.info("the options are those of %s, except: %s", start.path, "; ".join(changed) or "nothing")
    return config, data if data.files else None


def eval_config(words: Sequence[str]) -> EvalConfig:
    """Reads the command line `eval.py WORDS`; the errors are those of `train_config`.

    The user may give hyper-parameters, for runs that did not save them. Whether the model has them is checked later,
    by `with_hyper_parameters`, when the run is read.
    """
    return evaluation(words)[0]


def evaluation(words: Sequence[str]) -> tuple[EvalConfig, OpenedData | None]:
    """Like `eval_config`, but also returns the opened data; None if the flags name none."""
    listed = program_flags(EvalConfig, "Evaluation")
    program = Program("eval.py", "Evaluates the checkpoints of a run.", listed, (), flags_of_training(listed))
    values, hyper_parameter_values = _parse_training_flags(program, with_run_named(words), EVALUATION)
    stated = {flag.name: values[flag.name] for flag in program.unlisted if flag.name in values}
    config = _make_config(EvalConfig, values)
    return _with_data(config, stated, hyper_parameter_values, "eval_data_pattern", data_folders.of_evaluation)


def inference_config(words: Sequence[str]) -> InferenceConfig:
    """Reads the command line `inference.py WORDS`; returns the config of the inference; see `eval_config`."""
    return inference(words)[0]


def inference(words: Sequence[str]) -> tuple[InferenceConfig, OpenedData | None]:
    """Like `inference_config`, but also returns the opened data; None if the flags name none."""
    listed = program_flags(InferenceConfig, "Inference")
    program = Program("inference.py", "Writes predictions for TFRecord files.", listed, (), flags_of_training(listed))
    words = with_run_named(words, "input_model_tgz")
    values, hyper_parameter_values = _parse_training_flags(program, words, INFERENCE, with_losses=False)
    stated = {flag.name: values[flag.name] for flag in program.unlisted if flag.name in values}
    return _with_data(_make_config(InferenceConfig, values), stated, hyper_parameter_values, "input_data_pattern")


def _with_data(
    config: P,
    stated: Mapping[str, Any],
    hyper_parameters: Mapping[str, Any],
    flag: str,
    in_folder: Callable[[str], str] = str,
) -> tuple[P, OpenedData | None]:
    """Adds values that the user gave to a config, and opens the data that `flag` names, if it does.

    Args:
      stated: the flags of a training, which are compared with the run when it is opened.
      in_folder: chooses the files of a folder of records.
    """
    config = dataclasses.replace(config, stated=stated, hyper_parameters=hyper_parameters)
    pattern = getattr(config, flag)
    refuse_cache_of_bucket(config.cache, pattern)
    if not pattern:
        return config, None
    pattern = in_folder(pattern)
    chosen: dict[str, Any] = {flag: pattern}
    config = dataclasses.replace(config, **chosen)
    return config, open_data(pattern, vocabulary=config.vocabulary, manifest=config.manifest, flag=flag)


def cache_config(words: Sequence[str]) -> tuple[CacheConfig, DataConfig, OpenedData]:
    """Reads the command line `yt8m cache WORDS`; the errors are those of `train_config`."""
    purpose = "Parses shards into the cache that train, eval and inference read by --cache, ahead of time."
    config, flag_values = read_values(
        CacheConfig, Program("yt8m cache", purpose, flags_of(CacheConfig, "Flags")), words, None
    )
    refuse_cache_of_bucket(config.out, config.data, "out")
    described = {name: flag_values[name] for name in flag_values if name in DataConfig.__dataclass_fields__}
    described["train_data_pattern"] = config.data
    data = open_data(config.data, vocabulary=config.vocabulary, manifest=config.manifest, flag="data")
    data.vocabulary.refuse_count(described.get("num_classes"))
    values, _ = flag_defaults.complete(described, data, data.vocabulary)
    return config, config_section(DataConfig, dict(values, data_pattern=config.data, cache=config.out)), data


def growth_config(words: Sequence[str]) -> tuple[AddClassesConfig, TrainConfig | None, OpenedData | None]:
    """Reads the command line `yt8m add-classes WORDS`; the errors are those of `train_config`.

    Returns:
      The config of the command, and that of the training of the new run with its data; with --from_text, which needs
      no training, None.
    """
    from yt8m.training.growth_config import AddClassesConfig  # other programs do not need it

    purpose = "Adds the classes of new data to a trained model, and compares the old classes before and after."
    config = read(AddClassesConfig, "yt8m add-classes", purpose, words)
    return config, *((None, None) if config.from_text else training(config.training_words()))


def environment_defaults(variables: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Reads the values of flags from environment variables; a slash at the end of a folder is removed.

    Args:
      variables: {name of a variable: flag that takes its value}, such as `TRAIN`.
      environment: {name of a variable: value}; by default that of this process.

    Returns:
      {flag: value} for the variables that are set and not empty.
    """
    values = {flag: environment.get(variable, "").strip() for variable, flag in variables.items()}
    return {flag: value.rstrip("/") for flag, value in values.items() if value}


def _parse_training_flags(
    program: Program,
    words: Sequence[str],
    variables: Mapping[str, str],
    start: Start = Start(),  # noqa: B008 - it is never changed
    with_losses: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses a command line with flags of a training, including those for the hyper-parameters of model and loss."""
    model, loss = find_word("model", words), find_word("label_loss", words)
    registry.set_command_line_names((model, loss))
    load_own_classes(("model", models, model), ("label_loss", losses, loss))
    start_model = start.config.model if start.path else ModelConfig("", label_loss="")
    model_and_loss = model or start_model.model, loss or start_model.label_loss
    own_flags = [*program.flags, *program.unlisted]
    part_flags = hyper_parameters(own_flags, *model_and_loss, with_losses=with_losses, others="none")
    # If the words have `--help` or further flags, all built-in models and losses are imported, so that all flags are
    # known; those of installed packages only if a flag is still unknown, and never for `--help`.
    if not are_flags_of([*own_flags, *part_flags], words):
        part_flags = hyper_parameters(own_flags, *model_and_loss, with_losses=with_losses)
        if has_unknown_flag([*own_flags, *part_flags], words):
            part_flags = hyper_parameters(own_flags, *model_and_loss, with_losses=with_losses, others="all")
    # `yt8m import-checkpoint`, the one program with `only_in_files`, uses no loss. So hyper-parameters of losses are
    # allowed only in its flagfiles, which may be those of a training.
    loss_flags = [flag for flag in part_flags if program.only_in_files and flag.group == OF_PARTS.format("losses")]
    program = program._replace(
        flags=[*program.flags, *(flag for flag in part_flags if flag not in loss_flags)],
        only_in_files=[*program.only_in_files, *loss_flags],
    )
    shown_in_help = own_hyper_parameters(models, model) | own_hyper_parameters(losses, loss)
    values = parse_program(program, words, shown_in_help)
    # Only the values of flags that name code are trusted: a folder called `module:Name` must not make code trusted.
    hyper_parameter_values = {flag.name: values[flag.name] for flag in part_flags if flag.name in values}
    code = [values[flag.name] for flag in (*program.flags, *program.unlisted) if flag.is_code and flag.name in values]
    registry.set_command_line_names(registry.names_of_code([*code, hyper_parameter_values]))
    return environment_defaults(variables) | values, hyper_parameter_values


def _make_config(cls: type[C], values: Mapping[str, Any]) -> C:
    """Makes a program's config with its sections, and applies its storage settings, which checks of files need."""
    config = config_section(
        cls, values, cls(**{name: config_section(kind, values) for name, kind in sections_of(cls).items()})
    )
    config.storage.use()  # type: ignore[attr-defined]
    return config


def _read_class_weights(values: Mapping[str, Any], data: OpenedData) -> tuple[float, ...]:
    """The weight of each class according to --class_weights; () if the flag is not given."""
    if not (path := values.get("class_weights", "")):
        return ()
    from yt8m.records.class_weights import read_class_weights  # imports the readers of tables

    return read_class_weights(path, data.vocabulary.shown(values["num_classes"]), values["num_classes"])


def _open_training_data(flags: Mapping[str, Any], start_vocabulary: str, flag: str) -> OpenedData:
    """Opens the data of a training. If they have no vocabulary, they get that of the run in --train_dir or in --config.

    Args:
      start_vocabulary: path of the vocabulary of the run that --config names; empty if there is none.
      flag: the flag that names the files, for messages.
    """
    vocabulary, manifest = flags.get("vocabulary", ""), flags.get("manifest", "")
    data = open_data(flags.get("train_data_pattern") or None, vocabulary=vocabulary, manifest=manifest, flag=flag)
    if not data.vocabulary:
        resumes = data.files and "train_dir" in flags and not flags.get("start_new_model")
        names = run_dir.own_names(flags["train_dir"], None) if resumes else None
        data = data.with_names(names or open_data(None, vocabulary=start_vocabulary).vocabulary)
    data.vocabulary.refuse_count(flags.get("num_classes"))
    return data


def training_flags() -> list[Flag]:
    """Makes the flags of train.py, without those for the hyper-parameters of models and losses."""
    return [*program_flags(TrainConfig, "Run"), *flags_of(StartFlags, "Run")]


def import_flags() -> list[Flag]:
    """Makes the flags of `yt8m import-checkpoint`: its own, --vocabulary, and those that shape a model's variables."""
    own_flags = [*flags_of(ImportConfig, "Import"), *flags_of(StartFlags, "Import")]
    shaping = (options.paths_where(section, shapes="variables") for section in (DataConfig, ModelConfig))
    names = {*itertools.chain(*shaping), "vocabulary"} - {flag.name for flag in own_flags}
    return [*own_flags, *(flag for flag in training_flags() if flag.name in names)]


# Flags of a training that `yt8m audit` lacks, because it sets the values itself, or because it divides the data into
# folds, for which it needs records of whole videos.
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
    """Makes the flags of `yt8m audit`: its own, and those of a training except `_NOT_OF_AUDIT`."""
    own_flags = flags_of(AuditConfig, "Audit")
    names = {flag.name for flag in own_flags} | _NOT_OF_AUDIT
    return [*own_flags, *(flag for flag in training_flags() if flag.name not in names)]


OF_PARTS = "Hyper-parameters of the {}"  # the heading of hyper-parameters in `--help`; {} is "models" or "losses"


def hyper_parameters(
    taken: Iterable[Flag], model: str = "", loss: str = "", *, with_losses: bool = True, others: Others = "built-in"
) -> list[Flag]:
    """Makes the flags for the hyper-parameters of models and losses; see `flags_of_parts`.

    Args:
      model: name of the model that is used, which may be the user's own; empty if it is unknown.
    """
    flags: list[Flag] = []
    kinds = [("models", models, model), ("losses", losses, loss)]
    for kind, catalogue, class_name in kinds if with_losses else kinds[:1]:
        names = {flag.name for flag in (*taken, *flags)}
        flags += flags_of_parts(catalogue, [class_name], OF_PARTS.format(kind), names, others=others)
    return flags
