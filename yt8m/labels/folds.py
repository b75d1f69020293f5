"""The folds of an audit: parts of the videos, each of which is scored by a model that was trained on the other parts.

This is cross-validation: no model scores a video that it was trained on. The fold of a video follows from a hash of its
id, or of the group that the id belongs to, and from the number of folds. Of each video the best scores and the scores
of its labels are kept, each with its class in 8 bytes. All scores are also counted in bins; the size of these counts
does not depend on the number of videos.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import operator
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import ArrayLike, NDArray

from yt8m import runner, scoring, storage, terminal
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.eval_util.arrays import Floats32, Ints32, Ints64, places_within
from yt8m.eval_util.top_k import top_k
from yt8m.labels.score_counts import SCORE_COUNTS, ScoreCounts, log_odds
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.batches import Records
from yt8m.records.manifest import Shard, ShardWriter
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring import Scorer
from yt8m.tables.reading import open_columns
from yt8m.termination import Terminated
from yt8m.training import training_run

_MANY = 100  # so many groups for each fold leave none empty by their hashes
# Number of shards of a fold. They get videos in turn and are read in parallel. So neighbours in the data are rarely
# neighbours in a batch.
_SHARDS = 4
BEST = 20  # number of best scores of a video that are kept, besides those of its labels
# Unless the user sets the number of passes, a training has about _USUAL_STEPS steps, in 2 to 40 passes over the data.
_USUAL_STEPS, _MOST_PASSES, _LEAST_PASSES = 1000, 40, 2


class AuditedVideos(NamedTuple):
    """The N videos of an audit, in the order of the data.

    Attributes:
      splits: int32 [N], index in `split_names` of the split of each video.
      folds: int32 [N], number of the fold of each video.
    """

    ids: Sequence[str]
    splits: Ints32
    split_names: Sequence[str]
    folds: Ints32

    def of_fold(self, fold: int) -> Ints64:
        """The indices of the videos of a fold, in the order in which `FoldSets` stores them."""
        indices = np.flatnonzero(self.folds == fold)
        return np.concatenate([indices[start::_SHARDS] for start in range(_SHARDS)])


def split_of(path: str) -> str:
    """The split of the shard `path`: the one that the manifest beside it names, or else the name of its folder."""
    folder = os.path.dirname(storage.absolute(path))
    manifest_path = storage.join(folder, manifest.NAME)
    split = manifest.read(manifest_path).split if storage.exists(manifest_path) else ""
    return split or os.path.basename(folder)


def read_groups(table: str, column: str) -> Mapping[str, str]:
    """Reads {id as text: group} from the columns `id` and `column` of a table; {} if `table` is an empty string.

    If an id is in several rows, the last one counts.
    """
    if not table:
        return {}
    groups: dict[str, str] = {}
    for rows in open_columns("--table", table, ["id", column]).batches(8192):
        ids = (shards.id_text(str(cell).encode("utf-8", "surrogateescape")) for cell in rows.cells["id"])
        groups |= zip(ids, map(str, rows.cells[column]), strict=True)
    return groups


def fold_of(text: str, folds: int) -> int:
    """The fold, 0..folds-1, of a video whose id or group is `text`."""
    return _hashed(text) % folds


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


class FoldSets:
    """The folds of an audit, as shards in one folder.

    Args:
      film_of: gives the name of what a video is a part of, and which stays in one fold.
      noun: what the names of `film_of` are.
    """

    def __init__(
        self, folder: str, folds: int, film_of: Callable[[str], str] = lambda video: video, noun: str = "videos"
    ) -> None:
        self._folder, self._folds, self._film_of, self._noun = folder, folds, film_of, noun

    @property
    def is_complete(self) -> bool:
        """Whether `write` has written all folds."""
        return storage.exists(storage.join(self._folder, manifest.NAME))

    def pattern(self, fold: int) -> str:
        """The pattern of the shards of a fold."""
        return storage.pattern_in(self._folder, f"fold{fold}-*.tfrecord")

    def others(self, fold: int) -> str:
        """The patterns, joined by commas, of the shards of all folds but this one."""
        others = (self.pattern(other) for other in range(self._folds) if other != fold)
        return ",".join(pattern for pattern in others if storage.glob(pattern))

    def write(
        self, records: Records, groups: Mapping[str, str], on_batch: Callable[[NumpyBatch], None] = lambda _: None
    ) -> AuditedVideos:
        """Writes all videos into the shards of their folds, with a manifest and the vocabulary of the data.

        Args:
          groups: {id as text: group}; if empty, each video is a group of its own.
        """
        dealt = self._dealt(records.files, groups)
        names = list(dict.fromkeys(map(split_of, records.files)))
        split_indices = {path: names.index(split_of(path)) for path in records.files}
        ids, splits, folds = list[str](), list[int](), list[int]()
        with contextlib.ExitStack() as stack:
            writers = _Writers(self._folder, stack)
            for raws in terminal.with_bar(records.serialized(), "dividing"):
                batch = records.parsed(raws)
                on_batch(batch)
                for video, (payload, path, _) in zip(batch.ids, raws, strict=True):
                    group = _group(self._film_of(video), groups)
                    fold = dealt[group] if dealt else fold_of(group, self._folds)
                    writers.add(fold, payload)
                    ids.append(video)
                    splits.append(split_indices[path])
                    folds.append(fold)
        videos = AuditedVideos(ids, np.array(splits, np.int32), names, np.array(folds, np.int32))
        self._write_metadata(records, writers.written())
        return videos

    def _dealt(self, files: Sequence[str], groups: Mapping[str, str]) -> dict[str, int]:
        """{group: fold} of so few groups that their hashes leave a fold empty, which get folds in turn; else nothing.

        Raises UsageError if there are fewer groups than folds.
        """
        names = set[str]()
        for _, record in itertools.chain.from_iterable(map(shards.read_contexts, files)):
            names.add(_group(self._film_of(shards.id_text(record.id())), groups))
            if len(names) > _MANY * self._folds:
                return {}
        if len(names) < self._folds:
            noun = "groups" if groups else self._noun
            remedy = f"give at most --folds={len(names)}" if len(names) > 1 else "an audit needs at least two"
            raise UsageError(
                f"--folds={self._folds}: the number of {noun}, each of which stays in one fold, is only {len(names)}; "
                f"{remedy}."
            )
        if len({fold_of(name, self._folds) for name in names}) == self._folds:
            return {}
        return {name: place % self._folds for place, name in enumerate(sorted(names, key=_hashed))}

    def _write_metadata(self, records: Records, written: Mapping[str, Shard]) -> None:
        """Writes the vocabulary of the data, if there is one, and last the manifest: it marks the folds as complete."""
        if names := records.data.vocabulary:
            storage.write(storage.join(self._folder, vocabulary.NAME), storage.read_bytes(names.path))
        data, extractors = records.format._replace(positives=None), records.data.manifest.extractors
        manifest.write(storage.join(self._folder, manifest.NAME), written, data, extractors)


def _group(video: str, groups: Mapping[str, str]) -> str:
    """The group of a video; its id if `groups` is empty. Raises UsageError if `groups` has only other videos."""
    if not groups:
        return video
    if not groups.get(video):
        raise UsageError(f"--table: video {video!r} of the data has no row with a group; add it to the table.")
    return groups[video]


class _Writers:
    """The shards that are being written."""

    def __init__(self, folder: str, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._shards: dict[str, ShardWriter] = {}
        self._counts = Counter[int]()

    def add(self, fold: int, payload: bytes) -> None:
        """Appends a serialized record to a shard of a fold; the shards of the fold get records in turn."""
        path = storage.join(self._folder, f"fold{fold}-{self._counts[fold] % _SHARDS}.tfrecord")
        self._counts[fold] += 1
        if path not in self._shards:
            self._shards[path] = ShardWriter(self._stack.enter_context(storage.write_atomic(path)))
        self._shards[path].add(payload)

    def written(self) -> dict[str, Shard]:
        """{path: content} of the shards that got records."""
        return {path: writer.content() for path, writer in self._shards.items()}


def write_videos(path: str, videos: AuditedVideos) -> None:
    """Writes the videos of an audit into an NPZ file."""
    ids = np.frombuffer("\n".join(videos.ids).encode("utf-8", "surrogateescape"), np.uint8)
    write_arrays(path, {**videos._asdict(), "ids": ids})


def read_videos(path: str) -> AuditedVideos:
    """Reads the videos that `write_videos` wrote."""
    with reading_arrays(path) as arrays:
        ids = arrays["ids"].tobytes().decode("utf-8", "surrogateescape").split("\n")
        return AuditedVideos(ids, arrays["splits"], arrays["split_names"].tolist(), arrays["folds"])


def write_arrays(path: str, arrays: Mapping[str, ArrayLike]) -> None:
    """Writes arrays into an NPZ file. If this is interrupted, an earlier file stays as it was."""
    with storage.write_atomic(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


@contextlib.contextmanager
def reading_arrays(path: str) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields the arrays that `write_arrays` wrote; what fails in the block, as in a damaged file, names the file."""
    remedy = "Remove the file, and start again with the same flags"
    with refusing(lambda error: RunError(f"{path} is damaged ({first_line(error)}). {remedy}.")):
        with storage.open_read(path) as file, np.load(file, allow_pickle=False) as arrays:
            values = dict(arrays)
        yield values


class FoldScores(NamedTuple):
    """The scores of N videos, which have L labels together. Scores are log-odds.

    Attributes:
      num_labels: int32 [N], number of labels of each video.
      labels: int32 [L], the classes of the labels, video after video.
      label_scores: float32 [L], the score of each label.
      best: int32 [N, at most BEST], the classes with the best scores of each video, best first.
      best_scores: float32, of the same shape, their scores.
    """

    num_labels: Ints32
    labels: Ints32
    label_scores: Floats32
    best: Ints32
    best_scores: Floats32
    counts: ScoreCounts

    def owners(self) -> Ints64:
        """int64 [L], the index of the video of each label."""
        return np.repeat(np.arange(len(self.num_labels)), self.num_labels)


def score_videos(scorer: Scorer, batches: Iterable[NumpyBatch]) -> FoldScores:
    """Scores labelled videos, batch by batch, by a model that does not get the labels."""
    counts = ScoreCounts.of_classes(scorer.num_classes)
    columns: list[tuple[Any, ...]] = []
    for batch in batches:
        scores = log_odds(scorer.scores(scorer.takes.arranged(batch.without_labels()))[1])
        counts.add(scores, batch.labels)
        rows, classes = np.nonzero(batch.labels)
        top, number = top_k(scores, BEST), batch.labels.sum(1, dtype=np.int32)
        columns.append((number, classes.astype(np.int32), scores[rows, classes], top.classes, top.scores))
    return FoldScores._make([*map(np.concatenate, zip(*columns, strict=True)), counts])


def join_folds(folds: Iterable[tuple[Ints64, FoldScores]]) -> FoldScores:
    """Joins the scores of all folds, in the order of the videos."""
    indices, scores = zip(*folds, strict=True)
    *columns, counts = zip(*scores, strict=True)
    lengths, labels, label_scores, best, best_scores = map(np.concatenate, columns)
    order = np.argsort(np.concatenate(indices))
    starts, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
    sources = np.repeat(starts, lengths) + places_within(lengths)  # the index in `labels` of each label of the result
    all_counts = functools.reduce(operator.add, counts)
    return FoldScores(lengths, labels[sources], label_scores[sources], best[order], best_scores[order], all_counts)


def write_scores(path: str, scores: FoldScores) -> None:
    """Writes scores into an NPZ file."""
    write_arrays(
        path, {name: values for name, values in scores._asdict().items() if name != "counts"} | vars(scores.counts)
    )


def read_scores(path: str) -> FoldScores:
    """Reads the scores that `write_scores` wrote."""
    with reading_arrays(path) as arrays:
        counts = ScoreCounts(*(arrays.pop(name) for name in SCORE_COUNTS))
        return FoldScores(**arrays, counts=counts)


def with_usual_length(config: TrainConfig, videos: int, batch_size: int | None, epochs: int | None) -> TrainConfig:
    """A copy of the config of a training with a batch size and a number of passes.

    A rate that falls along half a cosine, as that of a chosen model does, falls to 0 at the end of them.

    Args:
      batch_size: examples per step; None: a 64th of the videos, rounded down to a power of two, from 16 to 1024.
      epochs: number of passes; None: so many that there are about _USUAL_STEPS steps, but from _LEAST_PASSES to
        _MOST_PASSES.
    """
    batch_size = batch_size or min(max(16, 1 << (videos // 64).bit_length() >> 1), 1024)
    steps = -(-videos // batch_size)
    epochs = epochs or min(max(_LEAST_PASSES, round(_USUAL_STEPS / steps)), _MOST_PASSES)
    data = dataclasses.replace(config.data, batch_size=batch_size, num_epochs=epochs)
    optimizer = config.optimizer
    if optimizer.learning_rate_schedule == "cosine":
        optimizer = dataclasses.replace(optimizer, learning_rate_decay_examples=float(videos * epochs))
    return dataclasses.replace(config, data=data, optimizer=optimizer)


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """A context in which only warnings and errors are logged, since an audit trains several models."""
    verbosity_before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity_before)


def score_fold(config: TrainConfig, held_out: Sequence[str]) -> FoldScores:
    """Trains a run to its end, and scores videos by it."""
    with _quiet_log():
        _, outcome = training_run.train(config)
    if outcome.status is runner.Status.STOPPED:
        raise KeyboardInterrupt if outcome.signal == signal.SIGINT else Terminated(outcome.signal or signal.SIGTERM)
    if outcome.exit_code:
        raise RunError(f"the training of {config.train_dir} failed: {outcome.message}")
    with scoring.open(config.train_dir, first_input="parsed records") as scorer:
        records = scorer.records(held_out)
        return score_videos(scorer, terminal.with_bar(iter(records), "scoring"))
