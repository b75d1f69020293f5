"""Trains one run: prepares its folder, builds its workload and its runner, trains, and reports how the run ended."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from absl import logging

from yt8m import forks, options, runner, storage, terminal
from yt8m.config import data_fit, resume, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.run_dir import Ended
from yt8m.config.run_options import DistillConfig
from yt8m.config.train_config import TrainConfig
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError, UsageError, first_line, refuse_without_tensorflow
from yt8m.options import Shaping, shown
from yt8m.readers.input_check import check_input
from yt8m.records import label_check
from yt8m.records.label_check import LABELS, RATINGS
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.runner.callbacks import check as check_callbacks
from yt8m.runner.callbacks import names_for
from yt8m.runner.validation_history import Best
from yt8m.runs.default_data import default_to_sample_data, is_sample_data
from yt8m.storage import copies
from yt8m.training import (
    final_figures,
    length_advice,
    missing_data,
    one_class,
    own_data_defaults,
    splits,
    training_workload,
)
from yt8m.training.exporter import Exporter, meant_step
from yt8m.training.search import outcome as search_outcome

if TYPE_CHECKING:
    from yt8m.training.validator import Validator


def hyper_parameters_of(shaping: Iterable[Shaping], max_steps: int | None) -> dict[str, bool | float | str]:
    """{option: value} of all options that change the result, for TensorBoard's table of hyper-parameters.

    Numbers and truth values stay as they are; all other values become text.
    """
    values = {
        option_value.name.rpartition(".")[2]: option_value.value
        for option_value in shaping
        if option_value.shapes != "nothing"
    }
    values["max_steps"] = max_steps
    return {name: value if isinstance(value, int | float) else shown(value or "") for name, value in values.items()}


def _refuse_process_and_folders(train_dir: str, folders: Mapping[str, str]) -> None:
    """Refuses a training that this process cannot run, or whose folders for outputs, by option, cannot be used."""
    forks.refuse_copy(train_dir)
    refuse_without_tensorflow()
    for name, folder in folders.items():
        if folder:
            storage.refuse_unusable_folder(folder, name)


def train(
    config: TrainConfig, data: OpenedData | None = None, cluster: ClusterConfig | None = None, *, validates: bool = True
) -> tuple[TrainConfig, runner.Outcome]:
    """Trains the run of `config`, or resumes it, and writes its folder.

    Args:
      data: the training data; None if they are not opened yet.
      cluster: the cluster, if this process is the chief of several that train together; else None.
      validates: whether this process validates, if the config has validation data and `cluster` is None.
    """
    paths = options.paths_where(TrainConfig, is_path=True, belongs_to="start")
    folders = {options.short_name(path): options.value_at(config, path) for path in paths}
    _refuse_process_and_folders(config.train_dir, folders)
    config, data = complete(config, data)
    resumed = "" if config.checkpoints.start_new_model else config.train_dir
    _refuse_unknown_bytes(data, (resumed, config.init_from, config.distillation.teacher))
    searches = bool(config.search.free)
    if searches:
        from yt8m.training.search import choice  # few trainings search

        _refuse_data_without_labels(data, config.data, config.distillation)
        config, data = choice.choose(_in_emptied_folder(config), data)
    elif config.search.follows and cluster is None:
        config = own_data_defaults.with_defaults(config, data)
    workload = training_workload.create_training(config, data)
    check_callbacks("train", config.callbacks)
    check_input(workload.inputter, config.data, is_training=True)
    if not searches:
        _refuse_data_without_labels(data, config.data, config.distillation)
    workload.inputter.log_settings()
    length_advice.log(config.data, config.devices.num_gpu, data, config.max_steps, bool(config.search.trials))
    settings = runner_config(config, cluster)
    start = training_workload.find_checkpoint(config) if config.init_from else ""
    classes = training_workload.map_classes(config, workload) if start else None
    with contextlib.ExitStack() as stack:
        validator = None
        if validates and cluster is None and config.validation.eval_data_pattern:
            from yt8m.training.validator import open_validator  # slow to import, and most trainings have none

            validator = stack.enter_context(open_validator(config, workload.names))
        storage.makedirs(config.train_dir)
        stack.enter_context(run_dir.lock(config.train_dir))
        stack.callback(_keep_config(config.train_dir))
        exporter = Exporter(config, workload._replace(names=_prepare_folder(config, data)))
        columns = classes.new_class_columns() if classes and config.train_only else None
        settings = dataclasses.replace(settings, init_checkpoint=start, init_classes=classes, columns=columns)
        run_dir.forget_end(config.train_dir)
        try:
            callbacks = runner.CallbackConfig(config.callbacks, options=_callback_options(config, exporter, validator))
            outcome = runner.build(settings, workload.inputter, workload.modeler, callbacks).run()
            config = _finish_training(config, outcome, exporter)
        except Exception as error:
            run_dir.note_end(config.train_dir, Ended(runner.Status.FAILED, None, first_line(error)))
            raise
        run_dir.note_end(config.train_dir, Ended(outcome.status, outcome.global_step, outcome.message))
    return config, outcome


def _checked_choice(config: TrainConfig, outcome: runner.Outcome, exporter: Exporter) -> TrainConfig:
    """The config after the comparison of a choice that was trained on all videos with what the candidate promised."""
    if outcome.status is not runner.Status.FINISHED or not search_outcome.is_trained_on_all(config):
        return config
    from yt8m.training.search import refit  # few trainings search

    return refit.checked(config, outcome.global_step, exporter if config.checkpoints.export_model_steps else None)


def _refuse_unknown_bytes(data: OpenedData, folders: Iterable[str]) -> None:
    """Refuses bytes without a manifest if a run that is resumed or used learned from bytes of another range.

    `folders` are those of these runs; an empty one stands for none.
    """
    for folder in filter(None, folders):
        saved = run_dir.read(folder) if run_dir.is_run(folder) else None
        if saved is not None and not saved.config.data.reader:
            data.refuse_unknown_bytes(data_fit.Takes(saved.config.data).format)


def _refuse_data_without_labels(data: OpenedData, read_by: DataConfig, distillation: DistillConfig) -> None:
    """Raises `UsageError` if the training needs labels, but the data have none, or something else in their place."""
    has_teacher = bool(distillation.teacher or distillation.distill_from)
    if read_by.reader or (has_teacher and distillation.distill_weight == 1):
        return
    problem = label_check.describe_problem(data, RATINGS if read_by.segment_labels else LABELS)
    if problem:
        raise UsageError(
            f"{problem}. Training learns from labels: name other files by --data (--train_data_pattern), or write the "
            "records again with labels; a teacher alone (--teacher with --distill_weight=1) needs none."
        )


def _finish_training(config: TrainConfig, outcome: runner.Outcome, exporter: Exporter) -> TrainConfig:
    """Copies the export to `export_dir` if the training succeeded, and logs how the training ended.

    Returns:
      The config, with what a choice that was trained on all videos was found to be.
    """
    config, step = _checked_choice(config, outcome, exporter), outcome.global_step
    if not outcome.exit_code:
        if config.checkpoints.export_model_steps:
            exporter.finish(step)
        exporter.publish(step)
    logging.info("training ended at step %d: %s (%s)", outcome.global_step, outcome.ending, config.train_dir)
    if outcome.status is runner.Status.OUT_OF_DATA and outcome.global_step == 0:
        raise RunError(f"{config.data.data_pattern} holds no example: nothing was trained; name other files.")
    return config


def show_outcome(config: TrainConfig, outcome: runner.Outcome) -> int:
    """Prints what to do next if the training succeeded; returns the exit status."""
    if not outcome.exit_code:
        test = None
        if config.search.trials:
            test = _show_choice(config)
        elif config.search.origins:
            print("\n".join(search_outcome.origin_lines(config)), flush=True)
        print(_describe_results(config, outcome.global_step), flush=True)
        if config.json:
            meant = meant_step(config, outcome.global_step)
            terminal.print_json(final_figures.of_training(config, outcome, meant, test))
    return outcome.exit_code


def _show_choice(config: TrainConfig) -> dict[str, Any] | None:
    """Prints what the search chose and why, and how good the trained model is; returns its evaluation on `test`."""
    from yt8m.training.search import quoting

    test = quoting.evaluate_test(config)
    print("\n".join((*search_outcome.lines(config), quoting.line(config, test))), flush=True)
    return test


def _describe_results(config: TrainConfig, step: int) -> str:
    """Returns lines that say where the results of the run are, and which two commands users usually run next."""
    training_pattern = search_outcome.given_data(config)
    validation = "" if config.validates_on_held_out else config.validation.eval_data_pattern
    pattern = chosen_on = validation or splits.proposed(training_pattern, "validate")
    if config.search.trials or config.checkpoint == "best":  # what chose, or was trained on, gives no honest figure
        pattern = splits.beside(training_pattern, "test") or pattern
    files, first, flags = "'FILES'", "FILE", "--segment_labels " * config.data.segment_labels + "--run_once"
    if not storage.is_remote(pattern):
        with contextlib.suppress(UsageError):  # if no file matches, the placeholders stay
            opened = open_data(pattern)
            files, first = shlex.quote(pattern), shlex.quote(opened.files[0])
            if opened.format and opened.format.format.annotated:  # the first command chooses how cells are joined
                files, first, flags = shlex.quote(chosen_on), f"--spans=found.csv {first}", "--spans"
    meant = meant_step(config, step)
    which = f" (step {meant}, the best by validation)" if meant != step else ""
    exported = f"the exported model: {storage.join(config.train_dir, 'export', str(meant))}{which}\n"
    return (
        f"checkpoints, metrics.jsonl and event files for TensorBoard: {config.train_dir}\n"
        f"{exported if config.checkpoints.export_model_steps else ''}"
        f"{next_commands(config.train_dir, files, first, flags)}"
        f"{_SAMPLE_DATA if is_sample_data(config.data) else ''}"
    )


_SAMPLE_DATA = "\nThis run was trained on SAMPLE DATA, because no data were named: it says nothing about other videos."


def next_commands(train_dir: str, files: str = "'FILES'", first: str = "FILE", flags: str = "--run_once") -> str:
    """Returns lines with the two commands that users usually run next, for evaluation and prediction."""
    run = shlex.quote(train_dir)
    return f"next:\n  yt8m eval --model={run} --data={files} {flags}\n  yt8m predict --model={run} {first}"


def _callback_options(
    config: TrainConfig, exporter: Exporter, validator: Validator | None
) -> Mapping[str, Mapping[str, Any]]:
    """{name of a callback: {argument: value}} for the callbacks of the training.

    Callbacks that the user removed by --callbacks=-NAME have no entry, because an entry would add them again.
    """
    options: dict[str, Mapping[str, Any]] = {}
    if config.checkpoints.export_model_steps:
        options["train_export"] = {"exporter": exporter}
    if "train_summary" in names_for("train", config.callbacks):
        hyper_parameters = hyper_parameters_of(resume.shaping(config), config.max_steps)
        options["train_summary"] = {"folder": config.log_dir, "hyper_parameters": hyper_parameters}
    if config.devices.profile:
        first, last = config.devices.profile
        options["train_profile"] = {"first": first, "last": last, "folder": config.log_dir}
    if validator is not None:
        validation, metric = config.validation, validator.metric
        options["train_validation"] = {
            "validate": validator,
            "epochs": validation.eval_every_n_epochs or 1,
            "steps": validation.eval_every_n_steps,
            "folder": config.log_dir,
            "best": Best(
                metric.name, metric.higher_is_better, validator.keep, validator.checkpoint_of, validation.patience
            ),
            "data": validator.data,
        }
    return options


def runner_config(config: TrainConfig, cluster: ClusterConfig | None = None) -> runner.RunnerConfig:
    """The config of the runner that trains the run of `config`.

    If the teacher's predictions are in a bucket, they are copied to this machine, and the graph reads the copy. So the
    signature, by which a resumed run decides whether it can use the saved graph, has the path of the copy.

    Args:
      cluster: the cluster, if this process trains with others; else None.
    """
    local = _local_teacher(config.distillation)
    shaping = resume.shaping(config if local is None else dataclasses.replace(config, distillation=local))
    return runner.RunnerConfig.for_run(
        config,
        "train",
        config.train_dir,
        signature=options.signature(shaping),
        cluster=cluster,
        progress=terminal.shows_bar(),
    )


def complete(config: TrainConfig, data: OpenedData | None = None) -> tuple[TrainConfig, OpenedData]:
    """Adds what the user did not give: sample data, the path of the data's vocabulary, and a new folder under runs/.

    The folder is only named, not made. The seed of the run becomes the seed of the data.

    Args:
      data: the training data; None if they are not opened yet.
    """
    section = dataclasses.replace(config.data, seed=config.seed)
    if not section.data_pattern:
        missing_data.refuse(config)
        section, data = default_to_sample_data(section, "train"), None
    data = data or data_fit.open_for(section)
    data.vocabulary.refuse_count(section.num_classes)
    data.log_names()
    section = dataclasses.replace(section, vocabulary=data.vocabulary.path or section.vocabulary)
    folder = config.train_dir or f"runs/{config.model.model}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    resumed = "" if config.checkpoints.start_new_model else folder
    section = one_class.with_fact(section, data, resumed, (config.init_from, config.distillation.teacher))
    return dataclasses.replace(config, data=section, train_dir=folder), data


def _prepare_folder(config: TrainConfig, data: OpenedData) -> Vocabulary:
    """Prepares the folder of the run, and writes the config into it.

    An old run in the folder is moved aside with --start_new_model, or if it never took a step and has other options.
    Otherwise an old run of another model is refused.

    Returns:
      The vocabulary that the run uses, which is then in its folder; empty if there is none.
    """
    if config.checkpoints.start_new_model:
        _move_former(config)
    saved, names = run_dir.read(config.train_dir), data.vocabulary
    changes = [] if saved is None else resume.list_changes(saved, config)
    if any(change.matters_at_the_start for change in changes) and not any(checkpoints.steps_in(config.train_dir)):
        moved, saved = run_dir.start_new_model(config.train_dir), None
        changes = []  # the changes are differences from the run that was just moved away
        logging.info("%s holds a run that never took a step: it is moved to %s", config.train_dir, moved)
    if saved is not None:
        count = config.data.num_classes if saved.published else saved.config.data.num_classes
        names_of_run = run_dir.own_names(config.train_dir, count)
        # If the number of classes differs, `refuse_other_model` below names it together with all other changes.
        if names_of_run or not names or count == len(names):
            names = data.names_for(names_of_run, count, config.train_dir)
        resume.refuse_other_model(config.train_dir, changes)
    if changes:
        logging.info("this start differs from the last one of the run: %s", "; ".join(map(str, changes)))
    run_dir.write(config.train_dir, config, names, is_own=True)
    return names


def _move_former(config: TrainConfig) -> None:
    """Moves the run in the folder aside, as --start_new_model says; the caller holds the lock of the folder."""
    _refuse_moving_sources(config)
    moved = run_dir.start_new_model(config.train_dir)
    if moved:
        logging.info("--start_new_model: the former run is in %s", moved)


def _in_emptied_folder(config: TrainConfig) -> TrainConfig:
    """The config of a choice, which fills the folder of the run: what was there before is moved aside now, and once."""
    if not config.checkpoints.start_new_model:
        return config
    storage.makedirs(config.train_dir)
    with run_dir.lock(config.train_dir):
        _move_former(config)
    return dataclasses.replace(config, checkpoints=dataclasses.replace(config.checkpoints, start_new_model=False))


def _keep_config(train_dir: str) -> Callable[[], None]:
    """Returns a function that puts the config of the run back if this start failed and saved no checkpoint.

    The options of such a start may not fit the checkpoints (another optimizer, averages that they lack or alone have),
    and then evaluation and prediction could not read them any more.
    """
    steps = checkpoints.steps_in(train_dir)
    paths = [storage.join(train_dir, name) for name in (run_dir.CONFIG, run_dir.MODEL_FLAGS)]
    former = {path: storage.read_bytes(path) for path in paths if storage.exists(path)}

    def put_back() -> None:
        with contextlib.suppress(RunError):
            end = run_dir.read_end(train_dir)
            if not steps or end is None or end.status != runner.Status.FAILED:
                return
            storage.refuse_lost_lock(train_dir)
            if checkpoints.steps_in(train_dir) == steps:
                for path, content in former.items():
                    storage.write(path, content)

    return put_back


def _refuse_moving_sources(config: TrainConfig) -> None:
    """Raises `UsageError` if --start_new_model would move what the new run is to read when its session opens."""
    folder, distillation = storage.absolute(config.train_dir).rstrip("/"), config.distillation
    for source in filter(None, (config.init_from, distillation.teacher, distillation.distill_from)):
        path = storage.absolute(source).rstrip("/")
        inner = path.removeprefix(f"{folder}/").partition("/")[0]
        if path == folder or (path.startswith(f"{folder}/") and run_dir.matches(inner, run_dir.WRITTEN)):
            raise UsageError(
                f"--start_new_model moves the run in --train_dir={config.train_dir} aside, but the new run is to read "
                f"{source} from there. Nothing was moved; name another --train_dir, or move the run yourself and name "
                "its new folder."
            )


def _local_teacher(distillation: DistillConfig) -> DistillConfig | None:
    """Copies the teacher's predictions to this machine, and returns a config with that path; None if they are here."""
    teacher = distillation.distill_from
    if not storage.is_remote(teacher):
        return None
    return dataclasses.replace(distillation, distill_from=copies.file_copy(teacher))
