"""The command line of `yt8m sample-data`."""

from __future__ import annotations

import textwrap

from yt8m import options, storage
from yt8m.commands.sample_data.output import SampleConfig, generate
from yt8m.config.flag_parsing import Flag, HelpAsked, parse
from yt8m.config.flags import as_flag
from yt8m.errors import UsageError

_PURPOSE = """\
usage: yt8m sample-data --out_dir=D [--flag=value ...]

Writes small generated data in the formats of YouTube-8M, with its class frequencies.
What a model scores on it says nothing of YouTube-8M.

flags:"""


def main(argv: list[str]) -> int:
    """Writes what the flags ask for; returns the exit status.

    Raises:
      UsageError, RunError: see `generate`.
    """
    try:
        asked = config(argv)
    except HelpAsked:
        print(_help(_flags()))
        return 0
    generate(asked)
    print(_next_step(asked))
    return 0


def config(argv: list[str]) -> SampleConfig:
    """What the flags ask for.

    Raises:
      HelpAsked: `--help` was given.
      UsageError: it cannot be.
    """
    try:
        return SampleConfig(**parse(_flags(), argv))
    except UsageError as error:
        raise UsageError(as_flag(error)) from error


def _flags() -> list[Flag]:
    return [
        Flag(name, {bool: bool, str: str}.get(one.type, int), one.default, one.help, "Sample data")
        for name, one in options.declared(SampleConfig).items()
    ]


def _help(known: list[Flag]) -> str:
    lines = [_PURPOSE]
    for flag in known:
        default = "" if flag.default in (None, "") else f" [{flag.default}]"
        lines += [f"  --{flag.name}", textwrap.indent(flag.help + default, " " * 6)]
    return "\n".join(lines)


def _next_step(config: SampleConfig) -> str:
    """What to do with it, on few examples in small batches."""
    level = config.levels()[0]
    pattern = storage.join(config.out_dir, level, "train", "*.tfrecord")
    flags = {
        "video": "--feature_names=mean_rgb,mean_audio --model=LogisticModel --batch_size=256",
        "frame": "--frame_features --feature_names=rgb,audio --model=FrameLevelLogisticModel --batch_size=32",
        "segment": "--frame_features --segment_labels --feature_names=rgb,audio "
        "--model=FrameLevelLogisticModel --batch_size=32",
    }[level]
    return (
        f"Wrote generated sample data (no YouTube-8M videos) into {config.out_dir}. Train on it by\n"
        f"  yt8m train --train_data_pattern='{pattern}' --train_dir=runs/sample {flags} "
        f"--num_classes={config.num_classes}"
    )
