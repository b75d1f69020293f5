"""What sample data is asked for.

Generated videos as TFRecord shards in the three formats of YouTube-8M.

Writes sample data where it is asked for, or once into the user's cache folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from yt8m import options, storage
from yt8m.commands.sample_data import world
from yt8m.commands.sample_data.world import pictures, surroundings
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.records import shards

LEVELS = ("video", "frame", "segment")
SPLITS = ("train", "validate", "test")
# Enough for a GAP above 0.5 in some seconds at video level; frames take 240 kB a video.
_DEFAULT_SIZES = {"video": (5000, 1000, 500), "frame": (1000, 200, 100), "segment": (1000, 200, 100)}
_MOST = 4_000_000  # ids have four characters, as the real ones


@dataclass(frozen=True)
class SampleConfig:
    """Which shards to write. Videos with the same number, split and seed are the same at any size."""

    out_dir: str = option("", "folder to write into; the shards are D/<level>/<split>/<split>NNNN.tfrecord")
    level: str = option("video", "which of the three record formats, or all of them", choices=(*LEVELS, "all"))
    train: int | None = option(
        None, "training videos [5000; 1000 at frame and segment level]", minimum=0, maximum=_MOST
    )
    validate: int | None = option(None, "validation videos [1000; 200]", minimum=0, maximum=_MOST)
    test: int | None = option(None, "test videos, which have no labels [500; 100]", minimum=0, maximum=_MOST)
    num_classes: int = option(
        3862, "how many of the classes of the vocabulary, from the first on", minimum=1, maximum=3862
    )
    seed: int = option(0, "another seed, other videos of the same classes", minimum=0)
    shards: int = option(8, "files a split", minimum=1, maximum=10_000)
    min_frames: int = option(120, "frames of the shortest video", minimum=10, maximum=10_000)
    max_frames: int = option(300, "frames of the longest video", minimum=10, maximum=10_000)
    temporal: bool = option(
        False, "hide the classes in the order of frames and in single frames; segments are left as they are"
    )

    def __post_init__(self) -> None:
        options.check(self)
        if not self.out_dir:
            raise UsageError("sample data needs a folder to write into: --out_dir=FOLDER")
        if self.min_frames > self.max_frames:
            raise UsageError(
                f"--min_frames={self.min_frames} is more than --max_frames={self.max_frames}; "
                "give the shorter length to the former."
            )

    def levels(self) -> tuple[str, ...]:
        """The levels to write."""
        return LEVELS if self.level == "all" else (self.level,)

    def sizes(self, level: str) -> dict[str, int]:
        """Videos of each split."""
        asked = (self.train, self.validate, self.test)
        defaults = zip(SPLITS, asked, _DEFAULT_SIZES[level], strict=True)
        return {split: default if size is None else size for split, size, default in defaults}


def split_paths(config: SampleConfig, level: str, split: str, count: int) -> list[str]:
    """The shards of a split, none empty."""
    folder = storage.join(config.out_dir, level, split)
    return [storage.join(folder, f"{split}{number:04d}.tfrecord") for number in range(min(config.shards, count))]


def refuse_other_shards(folder: str, paths: list[str]) -> None:
    """Raises `UsageError` where shards lie in `folder` that would not be replaced and so be mixed in."""
    other = sorted(set(storage.glob(storage.join(folder, "*.tfrecord"))) - set(paths))
    if other:
        raise UsageError(f"{other[0]} is there already and would be mixed in; name another --out_dir")


def write_split(config: SampleConfig, level: str, split: str, advance: Callable[[int], None]) -> None:
    """Writes all shards of a split, each appearing whole; tells `advance` of videos done."""
    count = config.sizes(level)[split]
    paths = split_paths(config, level, split, count)
    made = _records(config, level, split, count)
    for number, path in enumerate(paths):
        here = (number + 1) * count // len(paths) - number * count // len(paths)
        with storage.write_atomic(path) as file:
            for _ in range(here):
                file.write(shards.framed(next(made)))
                advance(1)


def _records(config: SampleConfig, level: str, split: str, count: int) -> Iterator[bytes]:
    encode = {"video": _video_record, "frame": _frame_record, "segment": _segment_record}[level]
    segments = level == "segment"
    lengths = config.min_frames, config.max_frames
    for video in world.videos(config.seed, SPLITS.index(split), count, config.num_classes, segments, lengths):
        yield encode(video, config, split != "test")


def _context(video: world.Video, labelled: bool) -> dict[str, bytes]:
    context = {"id": shards.bytes_feature(video.id)}
    if labelled:
        context["labels"] = shards.int64_feature(video.labels)
    return context


def _video_record(video: world.Video, config: SampleConfig, labelled: bool) -> bytes:
    mean = world.mean_features(video, config.temporal)
    features = {
        "mean_rgb": shards.float_feature(mean[: world.RGB]),
        "mean_audio": shards.float_feature(mean[world.RGB :]),
    }
    return shards.example({**_context(video, labelled), **features})


def _frame_record(video: world.Video, config: SampleConfig, labelled: bool) -> bytes:
    return _sequence(_context(video, labelled), world.frames(video, temporal=config.temporal))


def _segment_record(video: world.Video, config: SampleConfig, labelled: bool) -> bytes:
    shown = world.windows(video)
    context = _context(video, labelled)
    if labelled:
        starts, classes, scores = world.ratings(video, shown, config.num_classes).T
        context["segment_start_times"] = shards.int64_feature(starts)
        context["segment_end_times"] = shards.int64_feature(starts + world.SEGMENT)
        context["segment_labels"] = shards.int64_feature(classes)
        context["segment_scores"] = shards.float_feature(scores)
    shows = np.zeros((video.num_frames, len(video.labels)), np.float32)
    shows[: len(shown) * world.SEGMENT] = np.repeat(shown, world.SEGMENT, axis=0)
    around = surroundings(video) + pictures(video, config.num_classes)
    return _sequence(context, world.frames(video, shows, around=around))


def _sequence(context: Mapping[str, bytes], frames: NDArray[np.uint8]) -> bytes:
    lists = {
        "rgb": shards.frame_features(frames[:, : world.RGB]),
        "audio": shards.frame_features(frames[:, world.RGB :]),
    }
    return shards.sequence_example(context, lists)


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
