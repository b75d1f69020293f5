"""The records of a training as NumPy arrays, for what must be known of all of them before the graph is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from absl import logging

from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.config.data_fit import Takes
from yt8m.errors import UsageError
from yt8m.records import batches, input_statistics
from yt8m.records.held_out import HeldOut
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shards import DamagedError
from yt8m.video import fitted_transforms
from yt8m.video.fitted_transforms import Statistics

_BATCH_VALUES = 4_000_000  # about so many values are in memory at once


def read_batches(data: DataConfig, pattern: str) -> Iterator[NumpyBatch]:
    """Yields batches of dequantised videos, in the order of the sorted files; unfit values only if they become 0 later.

    Videos that the config holds out are left out.

    If bad records are tolerated (--max_bad_records), the rest of a file after one is skipped, as in the training.
    """
    if data.reader:
        raise UsageError(
            f"--reader={data.reader}: the values of its records are not known before the training, so they cannot be "
            "standardised, nor can models be compared on them; give --model and --input_transform=l2_normalize or raw."
        )
    frames = data.max_frames if data.frame_features else 1
    size = max(1, min(1024, _BATCH_VALUES // (frames * sum(data.feature_sizes))))
    data, opened = fitted(data, pattern)
    zeroes_unfit, held_out = data.nan_policy == "zero", HeldOut(data.held_out, opened.files)
    for path in opened.files:
        records = batches.Records(
            *([path], Takes(data).format, size, data.max_frames),
            dequantize=True,
            allows_unfit=zeroes_unfit,
            opened=opened.of_files([path]),
        )
        try:
            yield from _without(held_out, records.epoch(0)) if held_out else records.epoch(0)
        except DamagedError:
            if not data.max_bad_records:
                raise


def _without(held_out: HeldOut, batches_of_file: Iterable[NumpyBatch]) -> Iterator[NumpyBatch]:
    """The videos of each batch that are not held out."""
    for batch in batches_of_file:
        rows = np.flatnonzero(~held_out.of_texts(batch.ids))
        if len(rows):
            yield batch.take(rows)


def fitted(data: DataConfig, pattern: str) -> tuple[DataConfig, OpenedData]:
    """(the config by which the videos of a pattern are read, the files): videos to compare on may have other ranges.

    Videos to compare on that do not fit to the training data, or number the classes differently, are refused.
    """
    if pattern == data.data_pattern:
        return data, data_fit.open_for(data, "train_data_pattern")
    opened = open_data(pattern, flag="eval_data_pattern")
    remedy = f"Validate on data with the same format as those of --train_data_pattern={data.data_pattern}."
    takes = Takes(data, data_fit.open_for(data).vocabulary, data.data_pattern)
    takes.names_on(opened, remedy)
    config = data_fit.fit(takes, opened, {}, flag="eval_data_pattern", is_rated=data.segment_labels, remedy=remedy)
    return config, opened


def statistics_of(data: DataConfig, transform: str) -> Statistics:
    """What an input transform takes from the training data; raises like `read_batches`."""
    fit, zeroes_unfit = fitted_transforms.new_fit(transform), data.nan_policy == "zero"
    batches = read_batches(data, data.data_pattern)
    for vectors in input_statistics.vectors_of(batches, data.feature_names, zeroes_unfit=zeroes_unfit):
        fit.add(vectors)
    statistics = fit.statistics()
    constant = statistics.constant_values()
    logging.info(
        "%s: its numbers for %d values come from the training data%s",
        *(transform, sum(data.feature_sizes), f"; {constant} are constant and count as 0" if constant else ""),
    )
    return statistics
