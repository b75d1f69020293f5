"""The generated shards that the rows read, made once into build/."""

from __future__ import annotations

import os
import pathlib

from yt8m.datasets.sample_data import SampleConfig, generate_once

# Videos: whole batches, so many that the start of an epoch does not dominate the measured time.
EXAMPLES = {"video": 40_960, "frame": 2048, "segment": 512}
_FOLDER = pathlib.Path("build", "benchmarks")


def shards(level: str) -> str:
    """The file pattern of the shards of a level. After the call they are in the page cache."""
    count = EXAMPLES[level]
    folder = _FOLDER / f"{level}-{count}"
    os.makedirs(_FOLDER, exist_ok=True)
    generate_once(SampleConfig(str(folder), level, train=count, validate=0, test=0))
    for path in folder.glob("*/*/*.tfrecord"):
        path.read_bytes()
    return str(folder / level / "train" / "*.tfrecord")
