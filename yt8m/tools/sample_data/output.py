"""Writes sample data where it is asked for, or once into the user's cache folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress

from yt8m import storage
from yt8m.tools.sample_data.config import SPLITS, SampleConfig
from yt8m.tools.sample_data.shards import refuse_other_shards, split_paths, write_split

# Raised when other bytes come out for the same config, so that no old cache is taken for new.
EDITION = 3
# With the default flags of training on two towers these give some seventy steps.
_CACHED_VIDEO_LEVEL = SampleConfig("cached", train=30_000, validate=2_000, test=1_000)


def generate(config: SampleConfig) -> None:
    """Writes the shards that `config` asks for.

    Raises:
      UsageError: other shards lie where these would go. Nothing was written.
      RunError: the folder cannot be written.
    """
    jobs = [(level, split) for level in config.levels() for split in SPLITS]
    for level, split in jobs:
        paths = split_paths(config, level, split, config.sizes(level)[split])
        refuse_other_shards(storage.join(config.out_dir, level, split), paths)
    for level, split in jobs:
        count = config.sizes(level)[split]
        with _progress(f"{level} {split}: {count} sample videos", count) as advance:
            write_split(config, level, split, advance)


@contextlib.contextmanager
def _progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, one line elsewhere; on stderr, for stdout may be a program's input."""
    if not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(text, total=total)
        yield lambda count: bar.advance(task, count)


def default_sample_data(level: str) -> str:
    """The folder of sample data that stands in where no data is named; made at the first call.

    It lies in XDG_CACHE_HOME or ~/.cache. Other processes that want it meanwhile wait.

    Args:
      level: video, frame or segment.

    Returns:
      A folder D with the shards D/<level>/<split>/<split>NNNN.tfrecord.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    config = _CACHED_VIDEO_LEVEL if level == "video" else SampleConfig("cached", level)
    parts = [EDITION, level, *config.sizes(level).values(), config.num_classes, config.seed]
    folder = os.path.join(cache, "yt8m", "-".join(map(str, ["sample-data", *parts])))
    return generate_once(dataclasses.replace(config, out_dir=folder))


def generate_once(config: SampleConfig) -> str:
    """Generates unless a marker, written last, says that it was done; returns the folder.

    Raises:
      RunError: the folder cannot be written.
    """
    marker = storage.join(config.out_dir, "complete.json")
    while not storage.exists(marker):
        try:
            with storage.lock(config.out_dir + ".lock"):
                if not storage.exists(marker):
                    generate(config)
                    with storage.write_atomic(marker, "w") as file:
                        json.dump(dataclasses.asdict(config), file)
        except storage.Locked:
            time.sleep(0.2)  # another process makes it
    return config.out_dir
