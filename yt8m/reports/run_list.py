"""`yt8m runs`: a table of the runs in folders, at any depth, with their metrics, their states and what differs."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from yt8m import options, runner, storage, terminal
from yt8m.config import run_dir
from yt8m.config.run_dir import BEST_NOTE, RUNS
from yt8m.errors import RunError, UsageError, first_line, quantity, suggestion
from yt8m.eval_util.metrics import Gap, gap_first, metrics, names_of_details
from yt8m.options import option, shown
from yt8m.reports import run_figures
from yt8m.reports.measures import UNDEFINED
from yt8m.reports.run_figures import TRAINING, Figures
from yt8m.runner import checkpoints, metric_files
from yt8m.runs.opened_run import RunFiles
from yt8m.terminal import print_table, printable

RUNNING, FINISHED, STOPPED, FAILED, DAMAGED = "running", "finished", "stopped", "failed", "damaged"
_KILLED = "it recorded no end, so it was killed"
_UNSET: tuple[Any, ...] = (None, "", ())  # options with such a value are not set; the table does not show them
_STATE_WIDTH = 60  # largest number of characters of a state in the table; --json has the whole text
_NUM_THREADS = 16  # so many runs in a bucket are read at the same time, because each takes several slow requests


@dataclass
class ListedRun:
    """One run of the table.

    Attributes:
      why: the reason for the state, in words; empty if there is nothing to say.
      written: when a file of the run was last written, in seconds since 1970; 0 if it is not known.
      step: its last training step; None if it is not known.
      figures: of the split test, if the training chose the model and evaluated it there; or else the best evaluation
        by the metric that the table is sorted by (else by GAP), of the checkpoint in best/ alone if the run means that
        one; or else those of the choice; or else the last training batch; None if there is none of them.
      model: name of the model; empty if the config cannot be read.
      options: {path of the option: value} of the config.
      differing: {flag: value} of the options that differ between the runs of the table.
      chosen: {flag: reason} of the options that followed the data.
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
    chosen: dict[str, str] = field(default_factory=dict)

    @property
    def age(self) -> float:
        """Seconds since a file of the run was last written."""
        return max(0.0, time.time() - self.written)

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        figures = self.figures or Figures("", 0, {})
        written = datetime.datetime.fromtimestamp(self.written, datetime.UTC).isoformat(timespec="seconds")
        return {
            "run": self.folder,
            "model": self.model or None,
            "differs": self.differing,
            "chosen": self.chosen,
            "step": self.step,
            "figures": dict(figures.values),
            "figures_of": figures.source or None,
            "figures_step": figures.step if self.figures else None,
            "figures_videos": figures.videos,
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
    """Prints the table of the runs in the folders (by default in RUNS), or JSON; returns the exit status 0.

    Raises:
      UsageError: there is no such folder, or no such column to sort by.
    """
    runs = find_runs(folders or [RUNS], config.sort)
    if config.json:
        terminal.print_json([run.as_json() for run in runs])
    elif runs:
        _print_runs(runs, _metric_name(config.sort))
        for note in filter(None, (*undefined_notes(runs), not_comparable(runs, _metric_name(config.sort)))):
            print(note)
    else:
        print(f"there is no run in {', '.join(folders or [RUNS])}")
    return 0


def find_runs(folders: Sequence[str], sort: str = "age") -> list[ListedRun]:
    """The runs in the folders, at any depth, sorted."""
    trees: dict[str, list[str]] = {}  # {folder: names of its files}
    for folder in folders:
        if not storage.is_dir(folder):
            raise UsageError(f"{folder}: {storage.why_no_folder(folder)}; name one that holds runs.")
        trees |= storage.tree(folder.rstrip("/") or folder)
    run_folders = list(_run_folders(trees))
    metric = _metric_name(sort) or Gap.name
    with ThreadPoolExecutor(_NUM_THREADS if any(map(storage.is_remote, run_folders)) else 1) as threads:
        runs = list(threads.map(lambda folder: read_run(folder, trees[folder], metric), run_folders))
    _fill_differing(runs)
    return _sort_runs(runs, sort)


def _run_folders(trees: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The folders of runs. Parts of runs and exported models, which hold files of the same names, are left out."""
    runs_and_exports: set[str] = set()
    for folder in sorted(trees):
        components = folder.split("/")
        is_part = any(
            "/".join(components[:n]) in runs_and_exports and run_dir.matches(components[n], run_dir.WRITTEN)
            for n in range(len(components))
        )
        is_export = storage.join(folder, "saved_model") in trees or any(name in _RESULT_FILES for name in trees[folder])
        if not is_part and any(run_dir.matches(name, _RUN_FILES) for name in trees[folder]):
            runs_and_exports.add(folder)
            if not is_export:
                yield folder


_RUN_FILES = (
    *(run_dir.CONFIG, run_dir.MODEL_FLAGS, run_dir.ENDED, run_dir.LOCK),
    *(metric_files.METRICS, "model.ckpt-*.index"),
)
# Files that an evaluation or an export writes to a folder other than that of the run.
_RESULT_FILES = (BEST_NOTE, "report.json", "inference_model.meta", "saved_model.pb")


def read_run(folder: str, names: Sequence[str], metric: str = Gap.name) -> ListedRun:
    """Reads the files of a run. If one of them cannot be read, the state of the run is `damaged`."""
    run, files = ListedRun(folder), RunFiles(folder, names)
    for fill in (_fill_state, _fill_config, lambda run, files: _fill_figures(run, files, metric)):
        try:
            fill(run, files)
        except storage.NotFoundError as error:
            if storage.is_dir(folder):  # if not, the whole run was moved meanwhile
                run.state, run.why = DAMAGED, first_line(error)
        except (RunError, UsageError) as error:
            run.state, run.why = DAMAGED, first_line(error)
    return run


def _fill_state(run: ListedRun, files: RunFiles) -> None:
    """Fills in `written`, `step`, `state` and `why`."""
    run.written = max(storage.times(run.folder).values(), default=0.0)
    steps = checkpoints.steps_in(run.folder)
    run.step = steps[0] if steps else None
    if run_dir.LOCK in files.names and storage.is_locked(storage.join(run.folder, run_dir.LOCK)):
        run.state, run.why = RUNNING, ""
        return
    end = run_dir.read_end(run.folder) if run_dir.ENDED in files.names else None
    if end is not None:
        is_finished = end.status in (runner.Status.FINISHED, runner.Status.OUT_OF_DATA)
        run.state = FINISHED if is_finished else FAILED if end.status == runner.Status.FAILED else STOPPED
        run.why = "" if end.message == run.state else end.message
        run.step = run.step if end.step is None else end.step


def _fill_config(run: ListedRun, files: RunFiles) -> None:
    """Fills in `model`, `options` and `chosen`; raises `RunError` if the run has no config."""
    saved = files.saved
    if saved is None:
        raise RunError(f"{run.folder} holds neither {run_dir.CONFIG} nor {run_dir.MODEL_FLAGS}.")
    run.model = saved.config.model.model
    run.chosen = {origin["option"]: origin["reason"] for origin in saved.config.search.origins}
    run.options = {
        name: value
        for name, value in options.flat(dataclasses.asdict(saved.config)).items()
        if run_dir.is_compared(name) and (not saved.published or name in run_dir.PUBLISHED)
    }


def _fill_figures(run: ListedRun, files: RunFiles, metric: str) -> None:
    """Fills in `figures`, and `step` of a run that neither finished nor failed."""
    if files.training_lines and run.state not in (FINISHED, FAILED):
        run.step = max(files.training_lines[-1]["step"], run.step or 0)
    run.figures = run_figures.shown(files, run.step or 0, metric)


def _metric_name(column: str) -> str:
    """The name of the built-in metric with this name or key, in any case; empty if there is none."""
    return next(
        (
            built_in.name
            for built_in in metrics.all()
            if column.lower() in (built_in.name.lower(), built_in.key.lower())
        ),
        "",
    )


def _fill_differing(runs: Sequence[ListedRun]) -> None:
    """Fills in `differing`. An option differs if two runs that have it have different values."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.options.items():
            values.setdefault(name, set()).add(shown(value))
    for run in runs:
        for name, value in run.options.items():
            if len(values[name]) > 1:
                run.differing[run_dir.flag_at(name)] = value


def _sort_runs(runs: Sequence[ListedRun], column: str) -> list[ListedRun]:
    """The runs sorted by a column.

    By a metric, runs with an evaluation come first. The metrics of other runs are of a batch that they are trained on,
    and are therefore too good.
    """
    keys: dict[str, Callable[[ListedRun], Any]] = {
        "run": lambda run: run.folder,
        "model": lambda run: run.model,
        "step": lambda run: (run.step is None, -(run.step or 0)),
        "state": lambda run: run.state,
        "age": lambda run: -run.written,
    }
    if key_of_column := keys.get(column.lower()):
        return sorted(runs, key=lambda run: (key_of_column(run), run.folder))
    figures = {name.lower(): name for run in runs if run.figures for name in run.figures.values}
    metric = _metric_name(column) or figures.get(column.lower(), "")
    if not metric:
        columns = [*keys, *(built_in.name for built_in in gap_first(metrics.all()))]
        similar = suggestion(column, columns)
        raise UsageError(f"--sort={column}: there is no such column{similar} (known: {', '.join(columns)})")

    def metric_key(run: ListedRun) -> Any:
        value = run.figures.values.get(metric) if run.figures else None
        return (
            value is None,
            run.figures is not None and run.figures.source == TRAINING,
            *run_figures.rank(value, metric),
        )

    return sorted(runs, key=metric_key)


def not_comparable(runs: Sequence[ListedRun], metric: str) -> str:
    """A line which says that the runs were evaluated on different videos; empty if not, or if it is not known.

    Validations of a training are left out, since their videos are not recorded.

    Args:
      metric: the metric that they are sorted by; empty for none.
    """
    groups: dict[tuple[int, str], list[str]] = {}
    for run in runs:
        if metric and run.figures and metric in run.figures.values and run.figures.videos is not None:
            groups.setdefault((run.figures.videos, run.figures.labels), []).append(run.folder)
    if len(groups) < 2:
        return ""
    shown_groups = (f"{quantity(at[0], 'video', ',')} ({printable(', '.join(names))})" for at, names in groups.items())
    return (
        f"not comparable by {metric}: evaluated on different videos, {'; '.join(shown_groups)}. "
        "`yt8m report RUN RUN` compares runs on their common videos."
    )


def undefined_notes(runs: Sequence[ListedRun]) -> Iterator[str]:
    """Lines which say why a figure of some runs is a dash; details, which have no column, are left out."""
    reasons: dict[str, tuple[list[str], list[str]]] = {}  # {reason: (metrics, folders)}
    details = names_of_details()
    for run in runs:
        for name, why in run.figures.undefined.items() if run.figures else ():
            if name not in details:
                for column, text in zip(reasons.setdefault(why, ([], [])), (name, run.folder), strict=True):
                    if text not in column:
                        column.append(text)
    for why, (metrics_of_reason, folders) in reasons.items():
        yield f"{UNDEFINED} {', '.join(metrics_of_reason)}: {why} ({printable(', '.join(folders))})"


def _print_runs(runs: Sequence[ListedRun], sorted_by: str) -> None:
    """Prints the table.

    Each metric that some run has gets a column. Metrics that are details of others (`names_of_details`) get none.

    Args:
      sorted_by: a metric that gets a column even if it is a detail; empty for none.
    """
    names = {name for run in runs if run.figures for name in (*run.figures.values, *run.figures.undefined)}
    names -= names_of_details() - {sorted_by}
    built_in = [metric.name for metric in gap_first(metrics.all())]
    figures = [*(name for name in built_in if name in names), *sorted(names.difference(built_in))]
    of_header = ["of"] if figures else []
    has_differing = any(run.differing for run in runs)
    headers = ["run", "model", "step", *figures, *of_header, "age", "state", *["what differs"] * has_differing]
    print_table(
        headers, ([printable(cell) for cell in _cells(run, figures, has_differing)] for run in runs), ["step", *figures]
    )


def _cells(run: ListedRun, figures: Sequence[str], has_differing: bool) -> Iterator[str]:
    """The cells of the row of a run."""
    model = f"{run.model} (chosen)" if "model" in run.chosen else run.model
    yield from (run.folder, model, "" if run.step is None else str(run.step))
    values = run.figures.values if run.figures else {}
    for name in figures:
        is_undefined = run.figures is not None and name in run.figures.undefined
        yield f"{values[name]:.4f}" if name in values else UNDEFINED * is_undefined
    if figures:
        yield f"{run.figures.source}, step {run.figures.step}" if run.figures else ""
    yield _duration(run.age) if run.written else ""
    state = f"{run.state}: {run.why.replace(f'{run.folder}/', '')}" if run.why else run.state
    yield state if len(state) <= _STATE_WIDTH else f"{state[: _STATE_WIDTH - 1]}…"
    if has_differing:
        set_options = {name: value for name, value in run.differing.items() if value not in _UNSET}
        yield " ".join(
            f"{name}={run_dir.show_option(run.options, value)}{' (chosen)' * (name in run.chosen)}"
            for name, value in set_options.items()
        )


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
