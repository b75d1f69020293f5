"""How the users of PyTorch read: videos from a memory-mapped array, frames by `yt8m.read_records` in a process."""

from __future__ import annotations

import pathlib
import queue
import threading
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

import yt8m
from benchmarks import data
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.networks import Batch

_CLASSES = 3862
_FOLDER = pathlib.Path("build", "benchmarks", "arrays")
_AHEAD = 2  # batches that are read ahead


def batches(row: Comparison, *, shuffled: bool = False) -> Iterator[Batch]:
    """The batches of all epochs, read ahead."""
    if row.network.level == "video":
        return _ahead(_of_arrays(row.network.batch, shuffled=shuffled))
    records = _Frames(row.network.batch, shuffled=shuffled)
    return iter(DataLoader(records, batch_size=None, num_workers=1, prefetch_factor=_AHEAD))


def _of_arrays(size: int, *, shuffled: bool) -> Iterator[Batch]:
    _write_arrays()
    features, labels, ends = (np.load(_FOLDER / f"{name}.npy", mmap_mode="r") for name in ("x", "labels", "ends"))
    draw, starts = np.random.default_rng(0), np.concatenate([[0], ends[:-1]])
    while True:
        order = draw.permutation(len(features)) if shuffled else np.arange(len(features))
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            hot = torch.zeros(len(rows), _CLASSES, dtype=torch.bool)
            counts = ends[rows] - starts[rows]
            places = np.repeat(starts[rows] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            hot[np.repeat(np.arange(len(rows)), counts), labels[places]] = True
            yield Batch((torch.from_numpy(features[rows]),), torch.ones(len(rows), dtype=torch.int64), hot)


def _write_arrays() -> None:
    """Writes features float32 [N, D], the classes of all labels, and where those of each video end."""
    if (_FOLDER / "ends.npy").exists():
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    read = list(yt8m.read_records(data.shards("video"), num_classes=_CLASSES))
    names = ("mean_rgb", "mean_audio")
    np.save(_FOLDER / "x.npy", np.concatenate([np.hstack([batch.features[name] for name in names]) for batch in read]))
    labels = np.concatenate([batch.labels for batch in read])
    np.save(_FOLDER / "labels.npy", np.nonzero(labels)[1])
    np.save(_FOLDER / "ends.npy", labels.sum(1).cumsum())


def _ahead(items: Iterator[Batch]) -> Iterator[Batch]:
    """The same items, made in a thread."""
    made: queue.Queue[Batch] = queue.Queue(_AHEAD)

    def fill() -> None:
        for item in items:
            made.put(item)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield made.get()


class _Frames(IterableDataset):
    """Batches of frames as bytes, epoch after epoch."""

    def __init__(self, size: int, *, shuffled: bool) -> None:
        self._size, self._shuffled = size, shuffled

    def __iter__(self) -> Iterator[Batch]:
        seed = 0 if self._shuffled else None
        names = ("rgb", "audio")
        records = yt8m.read_records(
            data.shards("frame"), batch_size=self._size, feature_names=names, num_classes=_CLASSES, seed=seed
        )
        while True:
            for batch in records:
                features = tuple(torch.from_numpy(batch.features[name]) for name in names)
                counts = torch.from_numpy(batch.num_frames.astype(np.int64))
                yield Batch(features, counts, torch.from_numpy(batch.labels))
