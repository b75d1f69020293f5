"""The `yt8m` command: a table of its commands, with the purpose, the options and the function of each."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from yt8m import terminal
from yt8m.command_line import synonyms
from yt8m.command_line.program import calling, run_main, set_up_log
from yt8m.errors import UsageError
from yt8m.lazy import as_program, begin_work


class Command(NamedTuple):
    """A command of `yt8m`. The modules that its attributes name are imported only when the command runs.

    Attributes:
      function: "module:function". With `options`, the function takes the config; its result is the exit status if it is
        an int, else the status is 0. Without `options`, it takes the words of the command line and returns the status.
      options: the config class, as "Class" of the same module or "module:Class"; or "module:function", a function that
        maps the words of the command line to the arguments of `function`. Empty if `function` takes the words.
      extractors: the name of the option that names extractors, if the settings of these are flags too; `function` gets
        {name: value} of the settings after the config. Empty for other commands.
      operands: whether the command line may have words that are not flags, such as files; `function` gets the list of
        them as its last argument.
    """

    function: str
    purpose: str
    options: str = ""
    help: str = ""
    extractors: str = ""
    operands: bool = False


# The commands by heading, in the order in which users need them.
_GROUPS = {
    "get and look at data": {
        "download": Command(
            "yt8m.datasets.download:run",
            "fetch shards of YouTube-8M, checked by their md5",
            "DownloadConfig",
            "Fetches shards of YouTube-8M and checks their md5. If you start it again, it continues where it stopped.",
        ),
        "sample-data": Command(
            "yt8m.datasets.sample_data:run",
            "generate small data in the formats of YouTube-8M",
            "SampleConfig",
            "Generates small data sets in the formats of YouTube-8M, with its class frequencies. "
            "Metrics on these data say nothing about YouTube-8M.",
        ),
        "make-records": Command(
            "yt8m.datasets.make_records:make",
            "make records of your own videos from a table and arrays",
            "RecordsConfig",
            "Makes records of your own videos from a table of ids and labels and arrays of features.",
        ),
        "extract": Command(
            "yt8m.datasets.extract:run",
            "make records of your own videos from the video files",
            "ExtractConfig",
            "Makes records out of video files: the features that extractors compute from pictures and sound.",
            extractors="extractors",
        ),
        "inspect": Command(
            "yt8m.datasets.inspect_shards:run",
            "show what TFRecord shards hold, and what is damaged",
            "InspectConfig",
            "Shows what TFRecord shards hold: name files or patterns after the flags.",
            operands=True,
        ),
        "audit": Command(
            "yt8m.labels.label_audit:run",
            "list labels that are wrong or missing, and copies of videos",
            "yt8m.command_line.flags:audit_config",
        ),
        "select": Command(
            "yt8m.labels.batch_selection:run",
            "choose the videos to label next",
            "SelectConfig",
            "Chooses the videos to label next: uncertain ones of rare classes that differ from one another.",
        ),
        "relabel": Command(
            "yt8m.datasets.relabel:run",
            "make records with corrected labels of records, without their videos",
            "RelabelConfig",
            "Applies the decisions of an audit to records that exist, and writes new ones; features stay as they are.",
        ),
        "verify": Command(
            "yt8m.datasets.verification:run",
            "check that shards are complete; write a manifest of them",
            "VerifyConfig",
            "Checks TFRecord shards: lengths and checksums of all records, and their counts.",
            operands=True,
        ),
        "cache": Command(
            "yt8m.datasets.cache_making:fill_cache",
            "parse shards ahead of time, for train, eval and inference --cache",
            "yt8m.command_line.flags:cache_config",
        ),
        "from-mediapipe": Command(
            "yt8m.datasets.conversions:from_mediapipe",
            "convert MediaPipe's features to frame records",
            "FromMediapipeConfig",
            "Converts files of MediaPipe's features, one proto per video, to a shard of frame records.",
        ),
        "vocabulary": Command(
            "yt8m.runs.class_search:run",
            "find classes: yt8m vocabulary search TEXT",
            "SearchConfig",
            "yt8m vocabulary search TEXT: shows the classes whose name, vertical or number matches TEXT.",
            operands=True,
        ),
    },
    "train": {
        "train": Command("yt8m.train:main", "train a model on TFRecord files"),
        "add-classes": Command(
            "yt8m.training.class_growth:run",
            "add the classes of new data to a trained model",
            "yt8m.command_line.flags:growth_config",
        ),
        "cloud-job": Command("yt8m.command_line.cloud_job:main", "train on Vertex AI: print the job, or submit it"),
        "from-text": Command(
            "yt8m.training.text_run:run",
            "make a run of classes from their names alone",
            "TextConfig",
            "Makes a run out of the names of its classes, by a network that compares pictures with texts.",
            extractors="extractor",
        ),
        "import-checkpoint": Command(
            "yt8m.training.checkpoint_import:run",
            "make a run from a checkpoint of published code",
            "yt8m.command_line.flags:import_config",
        ),
    },
    "measure": {
        "eval": Command("yt8m.eval:main", "evaluate the checkpoints of a run: Hit@1, PERR, mAP, GAP"),
        "runs": Command(
            "yt8m.reports.run_list:run",
            "list runs: their options, best figures and state",
            "RunsConfig",
            "yt8m runs [FOLDER ...]: lists the runs in folders at any depth, local or gs://; by default in runs/.",
            operands=True,
        ),
        "report": Command(
            "yt8m.reports.report_writer:run",
            "write a page of metrics and charts of one or several runs",
            "ReportConfig",
            "Writes a page on one run, or on several side by side: name their folders after the flags.",
            operands=True,
        ),
        "score": Command(
            "yt8m.reports.file_scores:score_predictions",
            "compute GAP, Hit@1, PERR and mAP of a prediction file",
            "ScoreConfig",
            "Computes the metrics of a prediction file from the labels in records.",
        ),
        "count": Command(
            "yt8m.labels.class_counting:run",
            "count the videos of each class, corrected by a labelled sample",
            "CountConfig",
            "Counts the videos that show each class, with intervals: a labelled sample corrects the model's errors.",
        ),
        "segment-eval": Command(
            "yt8m.reports.file_scores:score_segments",
            "compute MAP@n of a file of ranked segments",
            "SegmentEvalConfig",
            "Computes MAP@n of a segment submission, over the rated segments.",
        ),
    },
    "use a model": {
        "predict": Command(
            "yt8m.scoring.predictions:run",
            "show the best classes of a few records, with names",
            "yt8m.scoring.predict_config:PredictConfig",
            "Shows the best classes of records or of videos: name TFRecord files or video files after the flags.",
            extractors="extractors",
            operands=True,
        ),
        "serve": Command(
            "yt8m.serving.server:run",
            "serve a model over HTTP: records or features in, classes out",
            "yt8m.serving.serve_config:ServeConfig",
            "Answers HTTP requests by a trained model: POST /predict and /spans, GET /health, /ready, /metrics.",
        ),
        "inference": Command("yt8m.inference:main", "write predictions for TFRecord files as CSV"),
        "bulk": Command("yt8m.command_line.bulk:main", "predict, rank, evaluate or extract many shards by Apache Beam"),
        "json-to-csv": Command(
            "yt8m.datasets.conversions:json_to_csv",
            "convert the JSON lines of batch prediction to CSV",
            "JsonToCsvConfig",
            "Converts the JSON lines of batch prediction to one prediction file.",
        ),
        "ensemble": Command(
            "yt8m.export.ensembles:run",
            "join predictions of several models, or make one model of several runs",
            "yt8m.export.ensemble_config:EnsembleConfig",
            "Joins the predictions of several models, or makes one exported model of several runs.",
        ),
        "average-checkpoints": Command(
            "yt8m.export.derived_runs:run",
            "average checkpoints of a run",
            "yt8m.config.programs:AverageConfig",
            "Averages checkpoints of a run.",
        ),
        "export": Command(
            "yt8m.export.export_model:run",
            "export a model, with smaller weights if asked",
            "yt8m.config.export_config:ExportConfig",
            "Exports the model of a checkpoint, with weights of 32, 16 or 8 bits.",
        ),
    },
    "more": {
        "doctor": Command(
            "yt8m.command_line.doctor:run",
            "show what this machine has, and try a training step on each device",
            "DoctorConfig",
            "yt8m doctor: shows what this machine has, and compares a tiny training step on each of its devices.",
        ),
        "completion": Command("yt8m.command_line.completion:main", "let the shell complete commands, flags and names"),
    },
}
COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}


def call(name: str, words: Sequence[str]) -> int:
    """Runs a command and returns its exit status; errors of the command are not caught."""
    command = COMMANDS[name]
    set_up_log()  # before the flags are read, because reading them may log values that come from the data
    if not command.options:
        main_of_command = _import_object(command.function)
        begin_work()
        return int(main_of_command(list(words)))
    arguments = parse_arguments(name, words)
    # The function is imported after the flags are read, so that flag errors come before slow imports.
    function = _import_object(command.function)
    begin_work()
    with terminal.json_output(getattr(arguments[0], "json", False) is True):
        status = function(*arguments)
    return status if isinstance(status, int) else 0


def parse_arguments(name: str, words: Sequence[str]) -> Sequence[Any]:
    """Parses the words after the name of a command into the arguments of the command's function."""
    command = COMMANDS[name]
    from yt8m.command_line import config_flags  # slow to import, and the overview does not need it

    options = _import_object(command.options, command.function.partition(":")[0])
    if not isinstance(options, type):
        return tuple(options(words))
    operands: list[str] | None = [] if command.operands else None
    about = (options, f"yt8m {name}", command.help, words)
    arguments: tuple[Any, ...]
    if command.extractors:
        from yt8m import extractors

        arguments = config_flags.read_with(*about, extractors, command.extractors, operands)
    else:
        arguments = (config_flags.read(*about, operands),)
    return arguments if operands is None else (*arguments, operands)


def _import_object(path: str, default_module: str = "") -> Any:
    module, _, name = path.rpartition(":")
    return getattr(importlib.import_module(module or default_module), name)


_EXAMPLES = """\
examples:
  yt8m sample-data --out=data
  yt8m train --data=data --out=runs/first
  yt8m eval --model=runs/first --data='data/video/validate/*.tfrecord' --run_once --report
  yt8m predict --model=runs/first data/video/test/test0000.tfrecord
  yt8m inference --model=runs/first --data='data/video/test/*.tfrecord' --out=predictions.csv
  yt8m download --partition=2/video/train --mirror=us --shard=1,100 --out=data/2/video/train
  yt8m vocabulary search guitar

`yt8m COMMAND --help` or `yt8m help COMMAND` lists the flags of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `yt8m COMMAND ...`, or prints the overview if there is no command; returns the exit status.

    Args:
      argv: the words after `yt8m`; None for sys.argv[1:].
    """
    with contextlib.nullcontext() if argv is not None else as_program():
        return run_main("yt8m", _dispatch, argv)


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help", *words[2:]]
    if not words or words[0] in ("--help", "--help=all", "-h", "help"):
        print(overview(), end="")
        return 0
    name, arguments = words[0], words[1:]
    if name == "--version":
        print(importlib.import_module("yt8m").__version__)
        return 0
    if name not in COMMANDS:
        command_names = ", ".join(COMMANDS)
        raise UsageError(f"unknown command {name!r}{synonyms.command_hint(name, COMMANDS)} (known: {command_names})")
    with calling(f"yt8m {name}"):
        return run_main(name, functools.partial(call, name), arguments)


def overview() -> str:
    """The text that `yt8m` prints without a command."""
    width = max(map(len, COMMANDS)) + 2
    lines = ["usage: yt8m COMMAND [--flag=value ...]", ""]
    for title, group in _GROUPS.items():
        entries = [f"  {name:<{width}}{command.purpose}" for name, command in group.items()]
        lines += [f"{title}:", *entries, ""]
    return "\n".join([*lines, _EXAMPLES])


if __name__ == "__main__":
    sys.exit(main())
