"""The cells of spans of a search, in memory: each rated cell with its neighbours is an example, a video is a group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from yt8m.config.data_config import DataConfig
from yt8m.config.data_fit import Takes
from yt8m.errors import RunError
from yt8m.records import batches, groups, held_out, shards
from yt8m.records.opened_data import OpenedData
from yt8m.records.rated_cells import Cells
from yt8m.records.shards import DamagedError
from yt8m.training import numpy_records
from yt8m.training.search import videos_in_memory
from yt8m.training.search.videos_in_memory import MOST_BYTES, VideosInMemory


def count(data: OpenedData, size: int) -> int:
    """The number of cells of `size` frames in which people have rated every class."""
    try:
        return sum(record.annotated_segments(size) for path in data.files for _, record in shards.read_contexts(path))
    except DamagedError:  # whether damage is tolerated is decided where the records are read
        return 0


def read(data: DataConfig, pattern: str, most: int) -> tuple[VideosInMemory, int]:
    """Reads the rated cells of some files, or a sample of them that depends on ids and times alone.

    Args:
      most: largest number of cells to keep; fewer are kept if these take too much memory.

    Returns:
      The cells, and the number of cells in the files.
    """
    data, opened = numpy_records.fitted(data, pattern)
    total = count(opened, data.segment_size) or most
    frames = data.segment_size + 2 * data.segment_context
    most = min(most, max(1, MOST_BYTES // (4 * frames * sum(data.feature_sizes))))
    share = min(1.0, most / total)
    groups_of_data = groups.find(opened.files)
    cells_of_videos = [part for part in _cells_of_videos(data, opened, share, groups_of_data) if len(part)]
    if not cells_of_videos:
        raise RunError(f"{pattern} holds no cell in which every class is rated: name other files.")
    return videos_in_memory.stacked(cells_of_videos), total


def _cells_of_videos(
    data: DataConfig, opened: OpenedData, share: float, groups_of_data: groups.Groups
) -> Iterator[VideosInMemory]:
    """Yields the cells of each video; the rest of a file after a bad record is skipped if that is tolerated."""
    grid = Cells(data.segment_size, data.frames_per_second)
    for path in opened.files:
        zeroes_unfit = data.nan_policy == "zero"  # only then may the parser let such values through
        format = Takes(data).format
        records = batches.Records(
            *([path], format, 1, data.max_frames),
            dequantize=True,
            allows_unfit=zeroes_unfit,
            opened=opened.of_files([path]),
        )
        try:
            for raws in records.serialized():
                (raw,) = raws
                batch = records.parsed(raws)
                values = [batch.features[name][0, : int(batch.num_frames[0])] for name in data.feature_names]
                group = held_out.groups_of(batch.ids, groups_of_data)
                record = shards.parse(raw[0], with_lists=False)
                yield _cells_of(data, grid, np.concatenate(values, axis=-1), record, batch.ids[0], group, share)
        except DamagedError:
            if not data.max_bad_records:
                raise


def _cells_of(
    data: DataConfig,
    grid: Cells,
    frames: NDArray[np.float32],
    record: shards.Record,
    video: str,
    group: NDArray[np.uint64],
    share: float,
) -> VideosInMemory:
    """The rated cells of a video with `frames`, float32 [T, D], whose keys are in the first `share` of all keys."""
    if data.nan_policy == "zero":
        frames = np.where(np.abs(frames) <= shards.LARGEST, frames, 0)
    is_rated = np.all(grid.annotated(record, len(frames), data.num_classes), axis=1, keepdims=False)
    keys = held_out.keys_of(f"{video}:{cell}" for cell in range(len(is_rated)))
    rows = np.flatnonzero(is_rated & (keys.astype(np.float64) < share * 2.0**64))
    labels = grid.shown(record, len(frames), data.num_classes)[rows]
    windows, counts = grid.windows(frames, rows, data.segment_context)
    return VideosInMemory(windows.astype(np.float32), counts, labels, keys[rows], np.repeat(group, len(rows)))
