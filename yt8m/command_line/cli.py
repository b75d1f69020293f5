"""The `yt8m` command: one word chooses the program."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from yt8m.command_line.program import calling, run_main
from yt8m.errors import UsageError, suggestion


class Command(NamedTuple):
    """A module with `main(argv) -> int` and a sentence on its purpose; imported only when the command is run."""

    module: str
    purpose: str


# The commands by heading, in the order in which users need them.
_GROUPS = {
    "get and look at data": {
        "download": Command("yt8m.command_line.download", "fetch shards of YouTube-8M, checked by their md5"),
        "sample-data": Command("yt8m.command_line.sample_data", "generate small data in the formats of YouTube-8M"),
        "make-records": Command(
            "yt8m.command_line.make_records", "make records of your own videos from a table and arrays"
        ),
        "extract": Command("yt8m.command_line.extract", "make records of your own videos from the video files"),
        "inspect": Command("yt8m.command_line.inspect", "show what TFRecord shards hold, and what is damaged"),
        "audit": Command("yt8m.command_line.audit", "list labels that are wrong or missing, and copies of videos"),
        "select": Command("yt8m.command_line.select", "choose the videos to label next"),
        "verify": Command("yt8m.command_line.verify", "check that shards are complete; write a manifest of them"),
        "cache": Command(
            "yt8m.command_line.cache", "parse shards ahead of time, for train, eval and inference --cache"
        ),
        "from-mediapipe": Command("yt8m.command_line.from_mediapipe", "convert MediaPipe's features to frame records"),
        "vocabulary": Command("yt8m.command_line.vocabulary_search", "find classes: yt8m vocabulary search TEXT"),
    },
    "train": {
        "train": Command("yt8m.train", "train a model on TFRecord files"),
        "add-classes": Command("yt8m.command_line.add_classes", "add the classes of new data to a trained model"),
        "cloud-job": Command("yt8m.command_line.cloud_job", "train on Vertex AI: print the job, or submit it"),
        "from-text": Command("yt8m.command_line.from_text", "make a run of classes from their names alone"),
        "import-checkpoint": Command(
            "yt8m.command_line.import_checkpoint", "make a run from a checkpoint of published code"
        ),
    },
    "measure": {
        "eval": Command("yt8m.eval", "evaluate the checkpoints of a run: Hit@1, PERR, mAP, GAP"),
        "runs": Command("yt8m.command_line.runs", "list runs: their options, best figures and state"),
        "report": Command("yt8m.command_line.report", "write a page of metrics and charts of one or several runs"),
        "score": Command("yt8m.command_line.score", "compute GAP, Hit@1, PERR and mAP of a prediction file"),
        "count": Command("yt8m.command_line.count", "count the videos of each class, corrected by a labelled sample"),
        "segment-eval": Command("yt8m.command_line.segment_eval", "compute MAP@n of a file of ranked segments"),
    },
    "use a model": {
        "predict": Command("yt8m.command_line.predict", "show the best classes of a few records, with names"),
        "serve": Command("yt8m.command_line.serve", "serve a model over HTTP: records or features in, classes out"),
        "inference": Command("yt8m.inference", "write predictions for TFRecord files as CSV"),
        "bulk": Command("yt8m.command_line.bulk", "predict, rank, evaluate or extract many shards by Apache Beam"),
        "json-to-csv": Command("yt8m.command_line.json_to_csv", "convert the JSON lines of batch prediction to CSV"),
        "ensemble": Command(
            "yt8m.command_line.ensemble", "join predictions of several models, or make one model of several runs"
        ),
        "average-checkpoints": Command("yt8m.command_line.average_checkpoints", "average checkpoints of a run"),
        "export": Command("yt8m.command_line.export", "export a model, with smaller weights if asked"),
    },
    "more": {
        "doctor": Command(
            "yt8m.command_line.doctor", "show what this machine has, and try a training step on each device"
        ),
        "completion": Command("yt8m.command_line.completion", "let the shell complete commands, flags and names"),
    },
}
COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}


_EXAMPLES = """\
examples:
  yt8m sample-data --out=data
  yt8m train --train_data_pattern='data/video/train/*.tfrecord' --train_dir=runs/first
  yt8m eval --train_dir=runs/first --eval_data_pattern='data/video/validate/*.tfrecord' --run_once --report
  yt8m predict --model=runs/first data/video/test/test0000.tfrecord
  yt8m inference --train_dir=runs/first --input_data_pattern='data/video/test/*.tfrecord' \\
    --output_file=predictions.csv
  yt8m download --partition=2/video/train --mirror=us --shard=1,100 --out=data/2/video/train
  yt8m vocabulary search guitar

`yt8m COMMAND --help` or `yt8m help COMMAND` lists the flags of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `yt8m COMMAND ...`; without a command it prints the overview. Returns the exit status."""
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
        raise UsageError(f"unknown command {name!r}{suggestion(name, COMMANDS)} (known: {command_names})")
    with calling(f"yt8m {name}"):
        return run_main(name, importlib.import_module(COMMANDS[name].module).main, arguments)


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
