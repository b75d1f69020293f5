"""The generated shards that the rows read, made once into build/."""

from __future__ import annotations

import contextlib
import pathlib
import sys

from yt8m.datasets.sample_data import SampleConfig, generate_once

# Videos: whole batches, so many that the start of an epoch does not dominate the measured time.
EXAMPLES = {"video": 40_960, "frame": 2048, "segment": 512}
FOLDER = pathlib.Path("build", "benchmarks")


def shards(level: str, count: int = 0) -> str:
    """The file pattern of the shards of a level. After the call they are in the page cache."""
    count = count or EXAMPLES[level]
    folder = FOLDER / f"{level}-{count}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with contextlib.redirect_stdout(sys.stderr):
        generate_once(SampleConfig(str(folder), level, train=count, validate=0, test=0))
    for path in folder.glob("*/*/*.tfrecord"):
        path.read_bytes()
    return str(folder / level / "train" / "*.tfrecord")
