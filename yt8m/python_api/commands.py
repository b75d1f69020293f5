"""What commands of `yt8m` do, as functions that return values: records, features, audits, exports, pages, runs.

Each takes the options of its command by name, such as `level="frame"`. A DataFrame is taken where a command takes a
table, and an array where it takes a file of arrays.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import registry, storage
from yt8m.command_line import cli, program
from yt8m.datasets.extract.computing import Settings
from yt8m.errors import RunError, UsageError
from yt8m.python_api.call_scope import call_scope, in_words_of_python, local_path, name_list, video_path
from yt8m.python_api.fitting import command_line
from yt8m.python_api.loaded_model import Model, load
from yt8m.python_api.results import EvaluationReport, ResultRows
from yt8m.scoring import video_features
from yt8m.scoring.model_input import Data
from yt8m.scoring.table_input import holds_masked
from yt8m.storage import copies, temporary
from yt8m.tables.reading import find_column
from yt8m.tables.sources.source import refuse_repeated_columns

Path = str | os.PathLike[str]


def make_records(table: Any, out: Path, array: Any = None, **options: Any) -> dict[str, Any]:
    """Makes records of your own videos from a table of ids and labels and from arrays, as `yt8m make-records` does.

    Args:
      table: the path of a table; or a DataFrame, whose cells may have lists of labels and arrays of features, and whose
        index may have the ids; or its rows as a list of dicts, or its columns as {name: values of all rows}.
      out: the folder for the records.
      array: the path of the features, as for the command; an array [videos, values] or [videos, frames, values], or
        a list of the values of each video, in the order of the table; or a dict {feature: array}.
      **options: further options of the command, such as `level="frame"`, `splits={"train": 0.8, "validate": 0.2}` or
        `columns={"id": "clip", "labels": "genre"}`.

    Returns:
      The content of summary.json, and `understood`: what was understood of the table.

    Raises:
      UsageError: an option is wrong, or the table cannot be understood.
      RunError: the table or an array is damaged, or the records cannot be written.
    """
    from yt8m.datasets import make_records as records

    values = dict(table=table, out=out, array=array, **options)
    with _arguments("make-records", values) as (config,):
        summary = records.summary_of(config)
        if not _lies_in_memory(table):
            return summary
        name = os.path.basename(config.table)  # of the file that the rows were written into
        return {**summary, "understood": summary["understood"].replace(f"{name}: JSON lines; ", "table: ")}


def inspect(data: Path | Sequence[Path], **options: Any) -> ResultRows:
    """What shards hold, and what is damaged, as `yt8m inspect` shows it.

    Args:
      data: files or patterns.
      **options: further options of the command.

    Returns:
      A row for each shard, with the keys that `yt8m inspect --json` prints.

    Raises:
      UsageError: no file matches, or an option is wrong.
      RunError: a manifest or a vocabulary is damaged.
    """
    from yt8m.datasets import inspect_shards

    with _arguments("inspect", options, _paths(data)) as (config, patterns):
        return ResultRows("shards", inspect_shards.summaries_of(config, patterns))


def evaluate(
    model: Path | Model,
    data: Data,
    labels: Any = None,
    *,
    checkpoint: str | int = "",
    trust_code: bool = False,
    **options: Any,
) -> EvaluationReport:
    """Evaluates a model on data with labels; nothing is written.

    Args:
      model: the path of anything that `load` takes, or a loaded model.
      data: as for `Model.evaluate`; so are `labels`.
      checkpoint: as for `load`.
      trust_code: as for `load`.
      **options: further arguments of `Model.evaluate`. Unlike there, `intervals` is True by default.

    Returns:
      The figures with their 95 % confidence intervals, the classes, and the thresholds with the best F1.

    Raises:
      UsageError: there is no such model, or the data do not fit it.
      RunError: a record is damaged, or the data have no example.
    """
    arguments = {"intervals": True, **options}
    if isinstance(model, Model):
        return model.evaluate(data, labels, **arguments)
    with load(model, checkpoint=checkpoint, trust_code=trust_code) as loaded:
        return loaded.evaluate(data, labels, **arguments)


def audit(data: Path, out: Path, **options: Any) -> dict[str, Any]:
    """Looks for labels that are wrong or missing, and for copies of videos, as `yt8m audit` does.

    Args:
      data: the files to audit, of all splits.
      out: the folder for the tables and the page.
      **options: further options of the command, and those of `fit` that say how its models are trained.

    Returns:
      The content of summary.json; and `issues`, the rows of issues.csv as `ResultRows`.

    Raises:
      UsageError: an option is wrong, or the data have no labels or too few videos.
      RunError: a record is damaged, or a training failed.
    """
    from yt8m.labels import audit_summary, label_audit

    with _arguments("audit", dict(data=data, out=out, **options)) as (config, training, opened):
        summary = label_audit.audit(config, training, opened)
        if config.dry_run:
            return summary
        return {**summary, "issues": _rows_in("issues", storage.join(config.out, audit_summary.ISSUES))}


def select(model: Path, data: Path, out: Path, **options: Any) -> ResultRows:
    """Chooses the videos to label next, as `yt8m select` does.

    Args:
      model: the folder of a run.
      data: files of videos to choose from.
      out: the file to write.
      **options: further options of the command, such as `count=200`.

    Returns:
      The rows of the table; without rows for `format="label-studio"`.

    Raises:
      UsageError: an option is wrong, or all videos are labelled.
      RunError: a record is damaged.
    """
    from yt8m.labels import batch_selection

    with _arguments("select", dict(model=model, data=data, out=out, **options)) as (config,):
        batch_selection.choose(config)
        if config.dry_run:
            return ResultRows("videos", [])
        return _rows_in("videos", config.out) if config.format == "csv" else ResultRows("videos", [])


def _rows_in(kind: str, path: str) -> ResultRows:
    """The rows of a table that an audit or a selection wrote; a table without rows keeps its columns."""
    from yt8m.labels import label_audit

    columns, rows = label_audit.read_table(path)
    return ResultRows(kind, rows, columns)


def export_model(model: Path, out: Path, **options: Any) -> str:
    """Exports the model of a run, as `yt8m export` does.

    Args:
      model: the folder of a run.
      out: the folder or the file to write.
      **options: further options of the command, such as `format="onnx"` or `weights="int8"`.

    Returns:
      The absolute path of what was written.

    Raises:
      UsageError: there is no such run or checkpoint, `out` exists, or a package is not installed.
      RunError: the checkpoint cannot be read, or the model cannot be converted.
    """
    from yt8m.export import export_model as exports

    with _arguments("export", dict(model=model, out=out, **options)) as (config,):
        exports.run(config)
        return storage.absolute(config.out)


def report(runs: Path | Sequence[Path], **options: Any) -> str:
    """Writes a page of metrics and charts of one or several runs, as `yt8m report` does.

    Args:
      runs: the folders of evaluated runs.
      **options: further options of the command, such as `out="comparison.html"`.

    Returns:
      The absolute path of the page.

    Raises:
      UsageError: a run is not there, or a package is not installed.
      RunError: a run was not evaluated with --report.
    """
    from yt8m.reports import report_writer

    with _arguments("report", options, _paths(runs)) as (config, folders):
        return storage.absolute(report_writer.write(folders, config))


def list_runs(folders: Path | Sequence[Path] = (), sort: str = "age") -> ResultRows:
    """The runs in folders, at any depth, as `yt8m runs` lists them.

    Args:
      folders: by default `runs`.
      sort: the column that they are sorted by: a figure such as `GAP`, `run`, `model`, `step`, `state` or `age`.

    Returns:
      A row for each run, with the keys that `yt8m runs --json` prints.

    Raises:
      UsageError: there is no such folder, or no such column.
    """
    from yt8m.config.run_dir import RUNS
    from yt8m.reports import run_list

    return ResultRows("runs", [run.as_json() for run in run_list.find_runs(_paths(folders) or [RUNS], sort)])


def _paths(paths: Path | Sequence[Path]) -> list[str]:
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if isinstance(listed, Mapping) or not isinstance(listed, Iterable):
        raise UsageError(f"expected a path or a list of paths; found a {type(paths).__name__}.")
    return [local_path(path) for path in listed]


@contextlib.contextmanager
def _arguments(command: str, values: Mapping[str, Any], operands: Sequence[str] = ()) -> Iterator[Sequence[Any]]:
    """The arguments of the function of a command, inside the context of a call."""
    with (
        contextlib.ExitStack() as stack,
        call_scope(),
        program.shown_log(),
        program.calling(f"yt8m {command}"),
        in_words_of_python(),
    ):
        folder = ""  # a read-only container may have none
        if masked := next((name for name, value in values.items() if holds_masked(value)), ""):
            raise UsageError(f"{masked} has masked values, which are not supported: fill them, as by array.filled(0).")
        if any(map(_lies_in_memory, values.values())):
            folder = stack.enter_context(copies.private_folder(copies.IN_MEMORY))
        with temporary.naming_tmpdir_if_full():
            written = {name: _as_file(value, os.path.join(folder, name)) for name, value in values.items()}
        for entry in os.scandir(folder) if folder else ():
            os.utime(entry.path, ns=(0, 0))  # the content alone says whether it is the same as in an earlier call
        try:
            yield cli.parse_arguments(command, [*command_line(written), *operands])
        except (UsageError, RunError) as error:
            if not folder or folder not in str(error):
                raise
            raise type(error)(_without_files(str(error), folder)) from error


def _lies_in_memory(value: Any) -> bool:
    """Whether `_as_file` may write this value into a file."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, np.ndarray | Mapping | list | tuple) for item in value)
    return isinstance(value, np.ndarray | Mapping) or hasattr(value, "to_json")


def _without_files(message: str, folder: str) -> str:
    """A message with the names of arguments in place of the files that they were written to, and rows for lines."""
    file = rf"(?:--\w+=)?{re.escape(folder)}/(\w+)\.\w+"
    message = re.sub(rf"{file}, line (\d+)", r"\1, row \2", message)
    message = re.sub(rf"({file}, row \d+) \(line \d+\)", r"\1", message)
    return re.sub(file, r"\1", message)


def _with_index(frame: Any) -> Any:
    """A DataFrame whose index, if it has a name, or if no column has the ids, is a column."""
    index, columns = getattr(frame, "index", None), list(map(str, frame.columns))
    if index is None or getattr(index, "nlevels", 1) > 1 or index.name in frame.columns:
        return frame
    if index.name is not None:
        return frame.reset_index()
    is_numbered = list(index[:2]) == list(range(len(index[:2]))) and getattr(index, "step", None) == 1
    return frame if is_numbered or find_column("id", columns) else frame.rename_axis("id").reset_index()


def _as_file(value: Any, stem: str) -> Any:
    """The path of a new file with a table, an array, or a dict of arrays; other values as an option takes them."""
    if hasattr(value, "to_json") and hasattr(value, "columns"):
        refuse_repeated_columns(os.path.basename(stem), list(map(str, value.columns)))
        path = f"{stem}.jsonl"
        _with_index(value).to_json(path, orient="records", lines=True, date_format="iso", force_ascii=False)
        return path
    if rows := _rows_of(value) if stem.endswith("table") else None:
        with open(f"{stem}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row, default=_as_list)}\n" for row in rows)
        return file.name
    if isinstance(value, list | tuple) and value and all(map(_has_values, value)):
        value = _stacked(os.path.basename(stem), value)
    if isinstance(value, np.ndarray) and value.ndim >= 2:
        np.save(f"{stem}.npy", value)
        return f"{stem}.npy"
    if isinstance(value, Mapping):
        if all(isinstance(share, int | float) for share in value.values()):
            return [f"{name}:{share}" for name, share in value.items()]
        if os.path.basename(stem) == "columns":  # {meaning: column, or a list of columns}
            return [
                f"{name}={column if isinstance(column, str) else '+'.join(column)}" for name, column in value.items()
            ]
        if not all(hasattr(array, "shape") for array in value.values()):
            raise UsageError(f"{os.path.basename(stem)}: expected a dict {{feature: array}}, or a DataFrame.")
        np.savez(f"{stem}.npz", **value)
        return f"{stem}.npz"
    return value


def _has_values(item: Any) -> bool:
    """Whether an item of a list is an array of a video, or its values as lists."""
    if isinstance(item, list | tuple):
        return bool(item) and all(isinstance(part, int | float) or _has_values(part) for part in item)
    return isinstance(item, np.ndarray) and item.ndim > 0


def _rows_of(table: Any) -> list[Mapping[str, Any]] | None:
    """The rows of a table that is a list of dicts, or a dict {column: values of all rows}; None for other tables."""
    if isinstance(table, list | tuple) and table:
        if not all(isinstance(row, Mapping) for row in table):
            raise UsageError(
                "table: expected a path, a DataFrame, a list of dicts or a dict of the columns, such as "
                "{'id': ids, 'labels': labels}."
            )
        return list(table)
    # A dict of arrays alone is written as an .npz.
    if not isinstance(table, Mapping) or not any(isinstance(values, list | tuple) for values in table.values()):
        return None
    if not all(isinstance(values, list | tuple) or hasattr(values, "tolist") for values in table.values()):
        raise UsageError("table: expected a list or an array of the values of each column.")
    if len(set(map(len, table.values()))) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in table.items())
        raise UsageError(f"table: its columns have different lengths: {lengths}.")
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def _as_list(value: Any) -> Any:
    """An array or a number of NumPy as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise UsageError(f"table: a cell is a {type(value).__name__}; give texts, numbers, or lists of them.")


def _stacked(name: str, arrays: Sequence[Any]) -> NDArray[Any]:
    """The arrays of the videos as one array."""
    try:
        shapes = sorted({np.shape(array) for array in arrays})
    except ValueError:  # the rows of a list have different lengths
        raise UsageError(f"{name}: the frames of a video have different numbers of values.") from None
    if len(shapes) > 1:
        raise UsageError(
            f"{name}: the arrays of the videos have different shapes, such as {list(shapes[0])} and "
            f"{list(shapes[-1])}. Put them into a column of the DataFrame, or save each as ID.npy and give the folder."
        )
    return np.asarray(arrays)


def extract(
    path: str | os.PathLike[str],
    *,
    extractors: str | Sequence[str] = ("inception", "vggish"),
    frames_per_second: float = 1.0,
    max_frames: int = 300,
    max_bad_packets: int = 0,
    **settings: Any,
) -> dict[str, NDArray[np.float32]]:
    """Extracts the features of a video file, as `yt8m extract` does.

    Args:
      path: the video, local or gs://.
      extractors: the name of an extractor, or a list of names, as for the flag --extractors.
      frames_per_second: number of rows for each second of the video.
      max_frames: largest number of rows.
      max_bad_packets: number of damaged packets of the video that may be left out.
      **settings: values for the fields of the extractors, such as `picture_size=384` or `vggish_model="..."`.

    Returns:
      {feature: float32 [rows, size]}, all with the same number of rows.

    Raises:
      UsageError: an extractor or a setting is wrong, or there is no such file.
      RunError: the video cannot be decoded, or weights cannot be fetched.
    """
    sampling = Settings(frames_per_second, max_frames, max_bad_packets=max_bad_packets)
    video, chosen = video_path(path), name_list("extractors", extractors)
    with call_scope(), in_words_of_python():
        registry.set_command_line_names(chosen)
        ((_, features, names),) = video_features.extract([video], chosen, settings, sampling, 1)
    if features.bad:
        raise RunError(f"{video}: {features.bad}.")
    return dict(zip(names, features.arrays, strict=True))
