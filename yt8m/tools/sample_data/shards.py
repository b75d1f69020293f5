"""Generated videos as TFRecord shards in the three formats of YouTube-8M."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from yt8m import records, storage
from yt8m.errors import UsageError
from yt8m.tools.sample_data import world
from yt8m.tools.sample_data.config import SPLITS, SampleConfig
from yt8m.tools.sample_data.surroundings import pictures, surroundings


def split_paths(config: SampleConfig, level: str, split: str, count: int) -> list[str]:
    """The shards of a split, none empty."""
    folder = storage.join(config.out_dir, level, split)
    return [
        storage.join(folder, f"{split}{number:04d}.tfrecord") for number in range(min(config.shards, count))
    ]


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
                file.write(records.framed(next(made)))
                advance(1)


def _records(config: SampleConfig, level: str, split: str, count: int) -> Iterator[bytes]:
    encode = {"video": _video_record, "frame": _frame_record, "segment": _segment_record}[level]
    segments = level == "segment"
    lengths = config.min_frames, config.max_frames
    for video in world.videos(config.seed, SPLITS.index(split), count, config.num_classes, segments, lengths):
        yield encode(video, config, split != "test")


def _context(video: world.Video, labelled: bool) -> dict[str, bytes]:
    context = {"id": records.bytes_feature(video.id)}
    if labelled:
        context["labels"] = records.int64_feature(video.labels)
    return context


def _video_record(video: world.Video, config: SampleConfig, labelled: bool) -> bytes:
    mean = world.mean_features(video, config.temporal)
    features = {
        "mean_rgb": records.float_feature(mean[: world.RGB]),
        "mean_audio": records.float_feature(mean[world.RGB :]),
    }
    return records.example({**_context(video, labelled), **features})


def _frame_record(video: world.Video, config: SampleConfig, labelled: bool) -> bytes:
    return _sequence(_context(video, labelled), world.frames(video, temporal=config.temporal))


def _segment_record(video: world.Video, config: SampleConfig, labelled: bool) -> bytes:
    shown = world.windows(video)
    context = _context(video, labelled)
    if labelled:
        starts, classes, scores = world.ratings(video, shown, config.num_classes).T
        context["segment_start_times"] = records.int64_feature(starts)
        context["segment_end_times"] = records.int64_feature(starts + world.SEGMENT)
        context["segment_labels"] = records.int64_feature(classes)
        context["segment_scores"] = records.float_feature(scores)
    shows = np.zeros((video.num_frames, len(video.labels)), np.float32)
    shows[: len(shown) * world.SEGMENT] = np.repeat(shown, world.SEGMENT, axis=0)
    around = surroundings(video) + pictures(video, config.num_classes)
    return _sequence(context, world.frames(video, shows, around=around))


def _sequence(context: Mapping[str, bytes], frames: NDArray[np.uint8]) -> bytes:
    lists = {
        "rgb": records.frame_features(frames[:, : world.RGB]),
        "audio": records.frame_features(frames[:, world.RGB :]),
    }
    return records.sequence_example(context, lists)
