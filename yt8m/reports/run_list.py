"""`yt8m runs`: a table of the runs in folders, at any depth: what differs between them, how good each is, its state."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yt8m import options, runner, storage
from yt8m.config import run_dir
from yt8m.config.run_dir import BEST_FOLDER, BEST_NOTE, RUNS
from yt8m.errors import RunError, UsageError, first_line, suggestion
from yt8m.eval_util.metrics import Gap, gap_first, metrics, names_of_details
from yt8m.options import option, shown
from yt8m.reports import eval_samples
from yt8m.runner import checkpoints, metric_files
from yt8m.runs.opened_run import RunFiles
from yt8m.terminal import printable, show

RUNNING, FINISHED, STOPPED, FAILED, DAMAGED = "running", "finished", "stopped", "failed", "damaged"
_KILLED = "it noted no end: killed"
EVALUATION, TRAINING = "evaluation", "training batch"
_NO_FIGURE = ("step", "examples", "examples_per_second", "zeroed_values", "bad_records")
_UNSET: tuple[Any, ...] = (None, "", ())  # values of options that were not given and have no default
_WIDEST_STATE = 60  # characters in the table; --json has the whole text
_AT_ONCE = 16  # runs of a bucket that are read at the same time: each takes several requests


class Figures(NamedTuple):
    """The metrics of one evaluation of a run, or of its last training batch, and where they come from."""

    of: str
    step: int
    values: Mapping[str, float]


@dataclass
class ListedRun:
    """What is known of one run.

    Attributes:
      folder: its path.
      state: running, finished, stopped, failed or damaged.
      why: one sentence on the state; empty if there is nothing to say.
      written: when one of its files was last written, in seconds since 1970; 0 if it is not known.
      step: the last step that it trained, as far as is known.
      figures: the best evaluation, or else the last training batch; None if there is neither.
      model: name of the model; empty if the config cannot be read.
      options: {path of the option: value} of the config.
      differing: those of the options that differ between the runs of the table, by the names of the flags.
    """

    folder: str
    state: str = STOPPED
    why: str = _KILLED
    written: float = 0.0
    step: int | None = None
    figures: Figures | None = None
    model: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    differing: dict[str, Any] = field(default_factory=dict)

    @property
    def age(self) -> float:
        """Seconds since the run was last written to."""
        return max(0.0, time.time() - self.written)

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        figures = self.figures or Figures("", 0, {})
        written = datetime.datetime.fromtimestamp(self.written, datetime.UTC).isoformat(timespec="seconds")
        return {
            "run": self.folder,
            "model": self.model or None,
            "differs": self.differing,
            "step": self.step,
            "figures": dict(figures.values),
            "figures_of": figures.of or None,
            "figures_step": figures.step if self.figures else None,
            "state": self.state,
            "why": self.why or None,
            "written": written if self.written else None,
            "age_seconds": round(self.age) if self.written else None,
        }


@dataclass(frozen=True)
class RunsConfig(options.Checked):
    """The flags of `yt8m runs`."""

    model: tuple[str, ...] = option(
        (),
        "folders of runs, if no words after the flags name them",
        aliases=("train_dir",),
        is_operand=True,
        is_path=True,
    )
    sort: str = option(
        "age",
        "column that the runs are sorted by, in any case: a figure such as GAP (best first), run, model, step, state "
        "or age",
    )
    json: bool = option(False, "print one JSON list rather than a table")


def run(config: RunsConfig, folders: Sequence[str]) -> int:
    """Prints the table; returns the exit status.

    Raises:
      UsageError: there is no such folder, or no such column to sort by.
    """
    runs = find(folders or [RUNS], config.sort)
    if config.json:
        print(json.dumps([run.as_json() for run in runs], indent=2, ensure_ascii=False))
    elif runs:
        _show(runs, _metric_name(config.sort))
    else:
        print(f"there is no run in {', '.join(folders or [RUNS])}")
    return 0


def find(folders: Sequence[str], sort: str = "age") -> list[ListedRun]:
    """The runs in the folders, sorted.

    Raises:
      UsageError: there is no such folder, or no such column to sort by.
    """
    trees: dict[str, list[str]] = {}
    for folder in folders:
        if not storage.is_dir(folder):
            raise UsageError(f"{folder}: {storage.why_no_folder(folder)}; name one that holds runs.")
        trees |= storage.tree(folder.rstrip("/") or folder)
    places = list(_runs_among(trees))
    metric = _metric_name(sort) or Gap.name
    with ThreadPoolExecutor(_AT_ONCE if any(map(storage.is_remote, places)) else 1) as threads:
        runs = list(threads.map(lambda place: read(place, trees[place], metric), places))
    _compare(runs)
    return _sorted(runs, sort)


def _runs_among(trees: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The folders that hold a run, without the parts of runs and the exported models, which have the same files."""
    whole: set[str] = set()
    for folder in sorted(trees):
        components = folder.split("/")
        is_part = any(
            "/".join(components[:n]) in whole and run_dir.matches(components[n], run_dir.WRITTEN)
            for n in range(len(components))
        )
        is_export = storage.join(folder, "saved_model") in trees or any(name in _OF_MODELS for name in trees[folder])
        if not is_part and any(run_dir.matches(name, _SIGNS) for name in trees[folder]):
            whole.add(folder)
            if not is_export:
                yield folder


_SIGNS = (run_dir.CONFIG, run_dir.MODEL_FLAGS, run_dir.ENDED, run_dir.LOCK, metric_files.METRICS, "model.ckpt-*.index")
# What an evaluation or an export writes elsewhere.
_OF_MODELS = (BEST_NOTE, "report.json", "inference_model.meta", "saved_model.pb")


def read(folder: str, names: Sequence[str], metric: str = Gap.name) -> ListedRun:
    """Reads the files of a run; if one of them cannot be read, the run is `damaged`.

    Args:
      folder: path of the run's folder.
      names: names of the files in the folder.
      metric: name of the metric by which the best evaluation is chosen.
    """
    run, files = ListedRun(folder), RunFiles(folder, names)
    for fill in (_fill_state, _fill_config, lambda run, files: _fill_figures(run, files, metric)):
        try:
            fill(run, files)
        except storage.NotFoundError as error:
            if storage.is_dir(folder):  # else it was moved meanwhile
                run.state, run.why = DAMAGED, first_line(error)
        except (RunError, UsageError) as error:
            run.state, run.why = DAMAGED, first_line(error)
    return run


def _fill_state(run: ListedRun, files: RunFiles) -> None:
    run.written = max(storage.times(run.folder).values(), default=0.0)
    steps = checkpoints.steps_in(run.folder)
    run.step = steps[0] if steps else None
    if run_dir.LOCK in files.names and storage.is_locked(storage.join(run.folder, run_dir.LOCK)):
        run.state, run.why = RUNNING, ""
        return
    ended = run_dir.read_end(run.folder) if run_dir.ENDED in files.names else None
    if ended is not None:
        done = (runner.Status.FINISHED, runner.Status.OUT_OF_DATA)
        run.state = FINISHED if ended.status in done else FAILED if ended.status == runner.Status.FAILED else STOPPED
        run.why = "" if ended.message == run.state else ended.message
        run.step = run.step if ended.step is None else ended.step


def _fill_config(run: ListedRun, files: RunFiles) -> None:
    saved = files.saved
    if saved is None:
        raise RunError(f"{run.folder} holds neither {run_dir.CONFIG} nor {run_dir.MODEL_FLAGS}.")
    run.model = saved.config.model.model
    run.options = {
        name: value
        for name, value in options.flat(dataclasses.asdict(saved.config)).items()
        if name not in run_dir.NOT_COMPARED and (not saved.published or name in run_dir.PUBLISHED)
    }


def _fill_figures(run: ListedRun, files: RunFiles, metric: str) -> None:
    """Finds the best evaluation. The last training batch stands in for it until there is one.

    Validations that no longer count for best/ do not count here either: they may have been on easier data.
    """
    trained = files.training_lines
    if trained and run.state not in (FINISHED, FAILED):
        run.step = max(trained[-1]["step"], run.step or 0)
    validated = [line for line in files.validation_lines if line["step"] not in files.forgotten]
    evaluated = [Figures(EVALUATION, line["step"], _numbers(line)) for line in validated]
    evaluated += _in_file(storage.join(run.folder, eval_samples.FOLDER, "report.json"), _of_report)
    evaluated += _in_file(storage.join(run.folder, BEST_FOLDER, BEST_NOTE), _of_best)
    if evaluated:
        # Of evaluations with the same value, the one with the most figures counts.
        run.figures = min(
            evaluated, key=lambda evaluation: (*_rank(evaluation.values.get(metric), metric), -len(evaluation.values))
        )
    elif trained:
        run.figures = Figures(TRAINING, trained[-1]["step"], _numbers(trained[-1]))


def _in_file(path: str, take: Callable[[Any], Figures]) -> list[Figures]:
    """The figures that `take` finds in a JSON file; none if there is no such file."""
    try:
        return [take(storage.read_json(path))]
    except storage.NotFoundError:
        return []
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{path} is cut short or damaged ({error}).") from error


def _of_report(report: Any) -> Figures:
    # The file describes its metrics, which may be the user's own.
    by_name = {str(row["name"]): report.get(row["key"]) for row in report["metrics"]}
    return Figures(EVALUATION, int(report["global_step"]), _numbers(by_name))


def _of_best(note: Any) -> Figures:
    return Figures(
        EVALUATION,
        int(note["step"]),
        _numbers(note["figures"] if "figures" in note else {Gap.name: float(note["gap"])}),
    )


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if name not in _NO_FIGURE and isinstance(value, int | float) and math.isfinite(value)
    }


def _metric_name(column: str) -> str:
    """The name of the built-in metric that a user may write in any case or by its key; empty if there is none."""
    return next(
        (
            built_in.name
            for built_in in metrics.all()
            if column.lower() in (built_in.name.lower(), built_in.key.lower())
        ),
        "",
    )


def _rank(value: float | None, metric: str) -> tuple[bool, float]:
    """A key that sorts the values of a metric: the best first, None last."""
    falls = any(built_in.name == metric and not built_in.higher_is_better for built_in in metrics.all())
    return (value is None, 0.0 if value is None else value if falls else -value)


def _compare(runs: Sequence[ListedRun]) -> None:
    """Fills in `differing`. An option counts if two runs that have it differ in it."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.options.items():
            values.setdefault(name, set()).add(shown(value))
    for run in runs:
        for name, value in run.options.items():
            if len(values[name]) > 1:
                run.differing[run_dir.flag_at(name)] = value


def _sorted(runs: Sequence[ListedRun], column: str) -> list[ListedRun]:
    """The runs sorted by a column; evaluations come before training batches, whose figures are too good."""
    by: dict[str, Callable[[ListedRun], Any]] = {
        "run": lambda run: run.folder,
        "model": lambda run: run.model,
        "step": lambda run: (run.step is None, -(run.step or 0)),
        "state": lambda run: run.state,
        "age": lambda run: -run.written,
    }
    if of_column := by.get(column.lower()):
        return sorted(runs, key=lambda run: (of_column(run), run.folder))
    figures = {name.lower(): name for run in runs if run.figures for name in run.figures.values}
    metric = _metric_name(column) or figures.get(column.lower(), "")
    if not metric:
        columns = [*by, *(built_in.name for built_in in gap_first(metrics.all()))]
        close = suggestion(column, columns)
        raise UsageError(f"--sort={column}: there is no such column{close} (known: {', '.join(columns)})")

    def key(run: ListedRun) -> Any:
        value = run.figures.values.get(metric) if run.figures else None
        return (value is None, run.figures is not None and run.figures.of == TRAINING, *_rank(value, metric))

    return sorted(runs, key=key)


def _show(runs: Sequence[ListedRun], sorted_by: str) -> None:
    """Prints the table, with a column for each figure that some run has, except details that it is not sorted by."""
    names = {name for run in runs if run.figures for name in run.figures.values}
    names -= names_of_details() - {sorted_by}
    usual = [metric.name for metric in gap_first(metrics.all())]
    figures = [*(name for name in usual if name in names), *sorted(names.difference(usual))]
    of = ["of"] if figures else []
    compared = ["what differs"] if any(run.differing for run in runs) else []
    headers = ["run", "model", "step", *figures, *of, "age", "state", *compared]
    show(headers, ([printable(cell) for cell in _cells(run, figures, compared)] for run in runs), ["step", *figures])


def _cells(run: ListedRun, figures: Sequence[str], compared: Sequence[str]) -> Iterator[str]:
    yield from (run.folder, run.model, "" if run.step is None else str(run.step))
    values = run.figures.values if run.figures else {}
    for name in figures:
        yield f"{values[name]:.4f}" if name in values else ""
    if figures:
        yield f"{run.figures.of}, step {run.figures.step}" if run.figures else ""
    yield _duration(run.age) if run.written else ""
    state = f"{run.state}: {run.why.replace(f'{run.folder}/', '')}" if run.why else run.state
    yield state if len(state) <= _WIDEST_STATE else f"{state[: _WIDEST_STATE - 1]}…"
    if compared:
        set_options = {name: value for name, value in run.differing.items() if value not in _UNSET}
        yield " ".join(f"{name}={shown(value)}" for name, value in set_options.items())


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
