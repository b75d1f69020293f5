"""Writes the last hidden layer of a model for each video: embeddings, from which other programs search or learn."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.errors import RunError, UsageError, missing_extra, quantity
from yt8m.records.opened_data import OpenedData
from yt8m.scoring.predict_config import PredictConfig

_Batch = tuple[list[str], NDArray[np.float32]]  # ids of B videos, vectors [B, F]


def write_for_records(config: PredictConfig, data: OpenedData) -> int:
    """Writes the vectors of all records; returns the exit status, 0."""
    with scoring.open(config.train_dir, config.checkpoint, trust_code=config.trust_code) as scorer:
        records = scorer.records(data)
        rows = records.batch_size
        vectors = (scorer.hidden(videos, rows) for videos in scorer.batches(records))
        write(config.features, terminal.with_bar(vectors, "predicting"))
    return 0


def write_for_videos(config: PredictConfig, settings: Mapping[str, Any], ids: Mapping[str, str]) -> int:
    """Writes the vectors of video files, by their ids; returns the exit status: 1 if a video is bad, else 0.

    The vector of a video is the mean of those of its parts, weighted by their numbers of frames.

    Args:
      ids: {path: id} of the videos.
    """
    from yt8m.scoring import video_predictions  # slow to import, and records do not need it

    bad: list[str] = []

    def vectors() -> Iterator[_Batch]:
        for path, features in source.extract_features(list(ids)):
            if features.bad:
                bad.append(f"{path}: {features.bad}")
                continue
            parts_of_video = video_predictions.divide_frames(len(features.arrays[0]), source.max_frames)
            of_parts = video_predictions.compute_windows(
                scorer.hidden, scorer.takes, source, features.arrays, parts_of_video
            )
            mean = np.average(of_parts, axis=0, weights=[last - first for first, last in parts_of_video])
            yield [ids[path]], mean[np.newaxis].astype(np.float32)

    with video_predictions.opened(config, settings) as (scorer, source):
        write(config.features, terminal.with_bar(vectors(), "predicting"))
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad else 0


def write(path: str, batches: Iterable[_Batch]) -> None:
    """Writes ids and vectors into a file of the format that its ending names, and prints their number."""
    write = _WRITERS[path.rpartition(".")[2].lower()]
    with storage.write_atomic(path, "w" if write is _write_csv else "wb") as file:
        count, width = write(file, iter(batches))
        if not count:
            raise RunError(f"--features={path}: there is no video to write; name other files.")
    print(f"{path}: the last hidden layer of {quantity(count, 'video')}, {quantity(width, 'value')} each")


def _write_npz(file: IO[bytes], batches: Iterator[_Batch]) -> tuple[int, int]:
    ids: list[str] = []
    collected: list[NDArray[np.float32]] = []
    for names, vectors in batches:
        ids += names
        collected.append(vectors)
    joined = np.concatenate(collected) if collected else np.zeros((0, 0), np.float32)
    content = io.BytesIO()  # a file in a bucket cannot be written in parts that go back
    np.savez(content, id=np.array(ids), features=joined)
    file.write(content.getbuffer())
    return joined.shape[0], joined.shape[1]


def _write_csv(file: IO[str], batches: Iterator[_Batch]) -> tuple[int, int]:
    count, width, writer = 0, 0, csv.writer(file, lineterminator="\n")
    for names, vectors in batches:
        if not count:
            width = vectors.shape[1]
            writer.writerow(["id", *(f"f{number}" for number in range(width))])
        writer.writerows([name, *map(str, row)] for name, row in zip(names, vectors, strict=True))
        count += len(names)
    return count, width


def _write_parquet(file: IO[bytes], batches: Iterator[_Batch]) -> tuple[int, int]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("--features=FILE.parquet", "pyarrow", "data", ", or write FILE.npz") from error
    schema = pyarrow.schema([("id", pyarrow.string()), ("features", pyarrow.list_(pyarrow.float32()))])
    count = width = 0
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for names, vectors in batches:
            count, width = count + len(names), vectors.shape[1]
            starts = np.arange(0, vectors.size + 1, width, dtype=np.int32)
            lists = pyarrow.ListArray.from_arrays(starts, np.ascontiguousarray(vectors).ravel())
            writer.write_batch(pyarrow.record_batch([pyarrow.array(names), lists], schema=schema))
    return count, width


_WRITERS: Mapping[str, Callable[[IO[Any], Iterator[_Batch]], tuple[int, int]]] = {
    "npz": _write_npz,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


def refuse_format(path: str) -> None:
    """Raises a `UsageError` if no format has the ending of `path`."""
    if path.rpartition(".")[2].lower() not in _WRITERS:
        raise UsageError(f"--features={path}: expected a name that ends in .{', .'.join(_WRITERS)}.")
