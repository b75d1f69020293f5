"""Makes the records of an audit from records of spans: each rated cell of a film is a video of its own.

A cell is named by its film and the second at which it begins, `film@12`. Its features are three means: of its own
frames, and of those of the seconds before and after it, since a cell alone hardly shows where a span begins. The cells
of a film stay in one fold. Findings on neighbouring cells of a film are joined to spans.

The records are in the folder of the audit, in `records/cells`. They take 12 bytes for each value of a cell.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage, terminal
from yt8m.config.programs import AuditConfig
from yt8m.errors import RunError, UsageError
from yt8m.labels.folds import split_of
from yt8m.options import option
from yt8m.records import encoding, manifest, shards, vocabulary
from yt8m.records.batches import Records, read_records
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.manifest import Shard, ShardWriter
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.rated_cells import Cells
from yt8m.storage import new_outputs

FOLDER, GRID, _STATE = ("records", "cells"), "grid.json", "inputs.txt"
_PLACES = ("cell", "before", "after")  # the beginnings of the names of a cell's features
_CONTEXT_SECONDS = 5.0
_LONGEST = 100_000  # frames of a film
_VERSION = 2  # of what the features are


@dataclasses.dataclass(frozen=True)
class AuditOfCells(AuditConfig):
    """The flags of `yt8m audit` for records of spans."""

    source: str = option("", "the records whose cells are audited", shapes="nothing")


def are_cells(data: OpenedData) -> bool:
    """Whether the manifest says that people have rated all classes of whole cells."""
    return data.format is not None and data.format.format.annotated is not None


def grid_of(data: DataFormat) -> Cells:
    """The grid of records of spans."""
    return Cells(data.segment_size or shards.SEGMENT_SIZE, data.frames_per_second or 1.0)


def cell_name(video: str, cell: int, cells: Cells) -> str:
    """The name of a cell of a video, by its number."""
    return f"{video}@{cell * cells.seconds:g}"


def place_of(name: str, cells: Cells) -> tuple[str, int]:
    """The video and the number of a cell, from its name."""
    video, _, start = name.rpartition("@")
    return video, round(float(start) / cells.seconds)


def film_of(name: str) -> str:
    """The video of a cell, from its name."""
    return name.rpartition("@")[0]


def with_cells(config: AuditConfig, data: OpenedData) -> AuditConfig:
    """Writes the cells of records of spans, unless an earlier start did; returns a config that names them.

    A config for other records is returned as it is. With --dry_run nothing is written.
    """
    if not are_cells(data):
        return config
    config = AuditOfCells(**vars(config), source=config.data)
    if config.dry_run:
        return config
    folder = storage.join(config.out, *FOLDER)
    state = storage.join(folder, _STATE)
    with new_outputs.locked_folder(config.out):
        if not storage.exists(state) or storage.read_text(state) != _digest(data):
            if storage.exists(folder):
                storage.remove_tree(folder)
            _CellWriter(folder, data).write()
            storage.write(state, _digest(data))
    return dataclasses.replace(config, data=storage.pattern_in(folder, "*", "*.tfrecord"))


def describe(config: AuditConfig) -> str:
    """What would be audited, in one paragraph."""
    data = open_data(config.data)
    assert data.format is not None
    cells = grid_of(data.format.format)
    count = sum(
        record.annotated_segments(cells.frames) for path in data.files for _, record in shards.read_contexts(path)
    )
    return (
        f"{data.pattern}: {data.size_in_words}, {count:,} rated cells of {cells.seconds:g} s; {config.folds} folds of "
        f"whole videos, each scored by a model that has not seen it; findings on spans go to {config.out}"
    )


def source_of(config: AuditConfig) -> str:
    """The pattern of the records that an audit is about."""
    return config.source if isinstance(config, AuditOfCells) else config.data


def grid_of_audit(config: AuditConfig) -> Cells:
    """The grid of the cells of an audit."""
    written = storage.read_json(storage.join(config.out, *FOLDER, GRID))
    return Cells(int(written["frames"]), float(written["per_second"]))


def _digest(data: OpenedData) -> str:
    """A hash of the content of the files, as other programs know it."""
    return hashlib.sha256(json.dumps([_VERSION, manifest.versions(data.files)]).encode()).hexdigest()


class _CellWriter:
    """Writes the rated cells of records, a shard for each of their shards."""

    def __init__(self, folder: str, data: OpenedData) -> None:
        self._folder, self._data = folder, data
        assert data.format is not None
        self._format = data.format.format
        self._cells = grid_of(self._format)
        self._context = round(_CONTEXT_SECONDS * self._cells.per_second)

    def write(self) -> None:
        """Writes the shards, the vocabulary and the manifest of each split."""
        count = self._data.num_classes()
        if count is None:
            raise UsageError(f"{self._data.pattern}: nothing says how many classes there are.")
        written: dict[str, dict[str, Shard]] = {}
        for number, path in enumerate(terminal.with_bar(iter(self._data.files), "cutting into cells")):
            split = split_of(path)
            out = storage.join(self._folder, split, f"{split}{number:05}.tfrecord")
            storage.makedirs(storage.join(self._folder, split))
            with storage.write_atomic(out) as file:
                writer = ShardWriter(file)
                records = read_records(
                    self._data.of_files([path]), batch_size=1, num_classes=count, max_frames=_LONGEST
                )
                for video, cells in self._videos(records, count):
                    self._add(writer, video, cells)
            written.setdefault(split, {})[out] = writer.content()
        if not any(shard.records for shards_of_split in written.values() for shard in shards_of_split.values()):
            raise RunError(
                f"{self._data.pattern} holds no cell in which every class is rated: audit the labels of whole videos, "
                "of the records that `yt8m make-records --rows=spans --level=video` makes."
            )
        self._describe(written, count)

    def _describe(self, written: dict[str, dict[str, Shard]], num_classes: int) -> None:
        """Writes the vocabulary and, for each split, the manifest; shards without a cell are removed."""
        if names := self._data.vocabulary:
            storage.write(storage.join(self._folder, vocabulary.NAME), storage.read_bytes(names.path))
        features = tuple(
            FeatureFormat(f"{place}_{feature.name}", feature.size)
            for place in _PLACES
            for feature in self._format.features
        )
        grid = {"frames": self._cells.frames, "per_second": self._cells.per_second}
        storage.write(storage.join(self._folder, GRID), json.dumps(grid) + "\n")
        described = DataFormat("video", features, num_classes=num_classes)
        for split, shards_of_split in written.items():
            for path in [path for path, shard in shards_of_split.items() if not shard.records]:
                storage.remove(path)
                del shards_of_split[path]
            if shards_of_split:
                path = storage.join(self._folder, split, manifest.NAME)
                manifest.write(path, shards_of_split, described, self._data.manifest.extractors, split)

    def _videos(self, records: Records, num_classes: int) -> Iterator[tuple[str, FilmCells]]:
        """Yields the id and the rated cells of each video."""
        for raws in records.serialized():
            batch = records.parsed(raws).dequantize()
            count = int(batch.num_frames[0])
            record = shards.parse(raws[0][0], with_lists=False)
            rated = np.flatnonzero(self._cells.annotated(record, count, num_classes).all(axis=1))
            if rated.size:
                frames = {name: values[0, :count] for name, values in batch.features.items()}
                labels = self._cells.shown(record, count, num_classes)[rated]
                yield batch.ids[0], FilmCells(rated, labels, self._features(frames, rated))

    def _features(self, frames: dict[str, NDArray[np.float32]], rated: NDArray[np.int64]) -> dict[str, Any]:
        """{name of a feature: its values, float32 [cells, size]}.

        At the ends of a film its first and last frame are repeated: a mean of no frames, 0, may be unlike all others.
        """
        features = {}
        size, context = self._cells.frames, self._context
        for name, values in frames.items():
            padded = np.pad(values, ((context, context), (0, 0)), "edge")
            totals = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(padded, axis=0, dtype=np.float64)])
            starts = rated * size + context
            ends = np.minimum(starts + size, len(values) + context)
            ranges = ((starts, ends), (starts - context, starts), (ends, ends + context))
            for place, (low, high) in zip(_PLACES, ranges, strict=True):
                means = (totals[high] - totals[low]) / np.maximum(high - low, 1)[:, np.newaxis]
                features[f"{place}_{name}"] = means.astype(np.float32)
        return features

    def _add(self, writer: ShardWriter, video: str, cells: FilmCells) -> None:
        """Writes the cells of a video."""
        names = [cell_name(video, cell, self._cells) for cell in cells.numbers.tolist()]
        ids = [shards.id_bytes(name.encode("utf-8", "surrogateescape")) for name in names]
        rows, classes = np.nonzero(cells.labels)
        contexts = encoding.Contexts(ids, rows, classes)

        def features(indices: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
            return {name: values[indices] for name, values in cells.features.items()}

        for block in encoding.VideoRecords(contexts, np.arange(len(ids)), features):
            writer.add_framed(block)


class FilmCells(NamedTuple):
    """The cells of a video in which every class is rated.

    Attributes:
      numbers: int64 [n], the numbers of the cells.
      labels: bool [n, C], whether each shows each class.
      features: {name: float32 [n, size]}.
    """

    numbers: NDArray[np.int64]
    labels: NDArray[np.bool_]
    features: dict[str, NDArray[np.float32]]
