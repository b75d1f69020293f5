"""`yt8m make-records`: makes records of the user's own videos, from arrays and a table of labels."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import storage, terminal
from yt8m.datasets.make_records import understanding
from yt8m.datasets.make_records.classes import Classes, DataSetFlags, match_other_levels, number_labels
from yt8m.datasets.make_records.features import LEARNED, FeatureReader, FrameRule, learn_ranges, parse_ranges
from yt8m.datasets.make_records.human_labels import (
    ANSWERS,
    AnsweredTable,
    CorrectedLabels,
    Corrections,
    read_answers,
    write_answers,
)
from yt8m.datasets.make_records.output import Output, making_folder
from yt8m.datasets.make_records.rows import BadRows, Labels, RowReader, TableVideos
from yt8m.datasets.make_records.saved_progress import FileVersions, RecordsProgress, hash_inputs
from yt8m.datasets.make_records.span_cells import ClassSpan, Grid, RatedCells, classes_within, refuse_without_cells
from yt8m.datasets.make_records.span_corrections import SpanCorrections
from yt8m.datasets.make_records.summary_text import print_summary
from yt8m.datasets.make_records.table_features import open_table
from yt8m.datasets.make_records.understanding import known_names, label_joiner, table_flags
from yt8m.errors import UsageError, quantity
from yt8m.options import option, path_option
from yt8m.records import encoding, shards
from yt8m.records.data_format import LEVELS, FeatureFormat
from yt8m.storage import new_outputs, sending
from yt8m.tables.exports import label_tracks

# A batch has at most this many bytes of features and this many rows, so that its features fit into the CPU cache.
_BATCH_BYTES, _MOST_ROWS = 1 << 23, 8192


@dataclass(frozen=True, kw_only=True)
class RecordsConfig(DataSetFlags):
    """The flags of `yt8m make-records`."""

    table: str = path_option(
        "ids and labels: CSV, Parquet, Excel, JSON, NPZ, an export of a program for labels, or a folder of tracks",
        is_required=True,
    )
    bits: int = option(32, "32 stores floats; 8 stores bytes, a quarter of the size")
    array: str = path_option(
        ".npy or .npz file with the features of all rows of the table, in the order of the rows; or an .npz file with "
        "an array for each id, or a folder with a .npy file for each id"
    )
    level: str = option("video", "store one vector per video (the mean of its frames), or all frames", choices=LEVELS)
    feature_names: tuple[str, ...] = option(
        (), "features to store, in this order [all]; for a .npy file, the name of its array [features]"
    )
    ranges: tuple[str, ...] = option(
        (),
        "with --bits=8: LOW:HIGH, the range of values that bytes represent, for each feature; or learned, from the "
        "training videos; or floats, which stores no bytes [learned]",
    )
    frames_per_second: float = option(1.0, "frame rate of the arrays, for the columns start and end", minimum=1e-6)
    max_bad_rows: int = option(0, "number of bad rows that may be left out", shapes="nothing", minimum=0)
    labels: str = path_option(
        "table of ids and labels, or JSON export of Label Studio; its labels replace the table's labels of the same "
        "videos",
        shapes="nothing",  # `_hash_inputs` has the file's path, size and time instead
    )
    corrections: str = path_option(
        "CSV file, as yt8m audit writes it, with decisions on labels, or spans, that may be wrong or missing",
        shapes="nothing",  # `_hash_inputs` has the file's path, size and time instead
    )

    def __post_init__(self) -> None:
        if self.labels and not self.table:
            raise UsageError(
                f"--table is missing: it names the ids and labels, as in --table={self.labels}. --labels={self.labels} "
                "would be answers that replace some of them."
            )
        super().__post_init__()
        if self.bits not in (8, 32):
            raise UsageError(f"--bits={self.bits}: expected 32 (floats) or 8 (bytes).")
        if self.ranges and self.bits != 8:
            raise UsageError("--ranges is for bytes: add --bits=8, or leave out --ranges.")


def make(config: RecordsConfig) -> dict[str, Any]:
    """Makes the records in the folder `config.out`, and prints a summary; returns the content of summary.json."""
    maker = _RecordsMaker(config)
    if config.dry_run:
        print(maker.understood)
        terminal.print_json({"understood": maker.understood})
        return {"understood": maker.understood}
    print(maker.understood, file=sys.stderr)
    summary = maker.make()
    print_summary(summary, config.out, config.level, maker.formats)
    terminal.print_json({"understood": maker.understood, **summary})
    return summary


def summary_of(config: RecordsConfig) -> dict[str, Any]:
    """Makes the records and prints nothing; returns the content of summary.json, with how the table was understood."""
    maker = _RecordsMaker(config)
    return {"understood": maker.understood, **({} if config.dry_run else maker.make())}


class _RecordsMaker:
    """One call of the command. The constructor reads and checks the table; only `run` writes files."""

    def __init__(self, config: RecordsConfig) -> None:
        self._config = config
        self._corrections = Corrections(config.corrections)
        table = open_table(config.table, config.array, table_flags(config, can_have_spans=config.level == "frame"))
        self._answers = read_answers(config.labels, known_names(config)) if config.labels else {}
        answered_table = AnsweredTable(table, self._answers)
        self._bad = BadRows(config.table, config.max_bad_rows, table.where)
        self._rows = RowReader(answered_table if self._answers else table, config, self._bad)
        self._has_spans = "spans" in table.columns
        if self._has_spans and config.level == "frame":  # they may have been found without the flag
            config = self._config = config.with_spans(table.are_clips)
        self._grid = self._span_grid()
        rule = FrameRule(config.level, config.frame_limit, config.frames_per_second)
        self._features = FeatureReader(table, config.feature_names, rule, self._bad)
        missing_ids = set(self._corrections.videos)
        self._scan = self._rows.scan(missing_ids.difference_update)  # removes the ids that the table has
        _warn_of_missing_videos(f"--corrections={config.corrections}", missing_ids, config.table)
        missing_answers = {video.encode("utf-8", "surrogateescape") for video in answered_table.missing}
        _warn_of_missing_videos(f"--labels={config.labels}", missing_answers, config.table)
        self._classes = self._number_classes()
        self.understood = understanding.describe(table, self._scan, self._classes, config, [config.level])
        self._features.learn_formats(self._rows.videos(self._scan, 1, self._features.in_table))
        self._requested_ranges = parse_ranges(config.ranges, len(self._features.formats)) if config.ranges else []

    def _span_grid(self) -> Grid | None:
        """The grid of spans; None if the table has none, or if records of whole videos are made."""
        config = self._config
        if not self._has_spans:
            return None
        if config.labels:
            raise UsageError(
                f"--labels={config.labels} has labels of whole videos, but the rows of {config.table} are spans; leave "
                "it out, or add --rows=videos."
            )
        is_stored = config.level == "frame"
        return Grid.with_cells(config.segment_size, config.frames_per_second, config.annotated) if is_stored else None

    def _number_classes(self) -> Classes:
        """Gives each label its class; refuses decisions on labels that have no class."""
        unlabelled = f"{self._config.table}: no row has a label, so there are no classes; fill the column labels"
        classes = number_labels(self._scan.names, self._config, unlabelled)
        classes = match_other_levels(classes, self._config, self._config.level)
        self._corrections.check(classes, are_spans=self._has_spans)
        return classes

    @property
    def formats(self) -> Sequence[FeatureFormat]:
        """The names and sizes of the features, and the ranges of those stored as bytes."""
        return self._features.formats

    def make(self) -> dict[str, Any]:
        """Makes the records in the folder `config.out`; returns the summary."""
        config = self._config
        folder = making_folder(config.out, config.level)
        with new_outputs.locked_folder(config.out), sending.staged_folder(folder) as local_folder:
            if local_folder != folder:
                notice = f"the records are written to {local_folder}, and uploaded when they are complete"
                print(notice, file=sys.stderr)
            return self.run(local_folder)

    def run(self, local_folder: str) -> dict[str, Any]:
        """Writes the records to `local_folder`, and moves them to their final folder; returns the summary.

        If an earlier start with the same inputs has written all of them, only what is left is done.
        """
        config = self._config
        # Another process may have appended classes before this one got the lock.
        self._classes = self._number_classes()
        videos = dict(zip(self._rows.splits.names, self._scan.videos, strict=True))
        output = Output(config.out, config.level, videos, config.shards, local_folder)
        inputs = self._hash_inputs()
        files = FileVersions.of_arrays(list(self._features.files()), self._input_files())
        output.grid = self._grid
        state = output.resume(inputs, config.overwrite, files)
        for number, problem in output.progress.bad.items():
            self._bad.add(int(number), problem)
        if state == "made":
            output.restore_vocabulary(self._classes)
            print(f"{output.final} already has all these records; nothing was written.", file=sys.stderr)
        elif state == "written":
            output.install(self._classes)
        else:
            self._features.formats = tuple(self._stored_formats())
            output.progress = RecordsProgress(inputs, list(map(list, self._features.formats)), files=files)
            try:
                self._write(output)
                refuse_without_cells(output.progress.spans.values())
                if self._answers:
                    write_answers(storage.join(config.out, ANSWERS), self._answers, label_joiner(config))
                corrections, groups = self._corrections.manifest_entry, self._scan.groups
                output.finish(self._classes, self._bad.problems, corrections=corrections, groups=groups)
                self._corrections.warn_of_idle()
            finally:
                output.close()
        return output.summary(self._classes, self._bad.problems)

    def _input_files(self) -> list[str]:
        """The files that flags name."""
        config = self._config
        return [*label_tracks.files_of(config.table), *filter(None, (config.array, config.corrections, config.labels))]

    def _hash_inputs(self) -> str:
        """A hash of all inputs that determine the records: flags, input files, classes and sizes of the splits."""
        classes = self._classes.inputs(self._scan.names, bool(self._config.vocabulary))
        versions = {path: stamp[:2] for path, stamp in storage.stamps(self._input_files()).items()}
        return hash_inputs(self._config.shaping_values(), versions, *classes, self._scan.videos)

    def _stored_formats(self) -> list[FeatureFormat]:
        """The features, with the ranges of those to store as bytes; reads the videos of training to learn ranges."""
        formats = self._features.formats
        if self._config.bits == 32:
            return list(formats)
        ranges = list(self._requested_ranges or [LEARNED] * len(formats))
        if LEARNED in ranges:
            ranges = learn_ranges(ranges, self._values_to_learn_from())
        return [feature._replace(range=bounds) for feature, bounds in zip(formats, ranges, strict=True)]

    def _values_to_learn_from(self) -> Iterator[Sequence[Any]]:
        """Yields the values of the training videos: for a few videos at a time, one array for each feature.

        A table without training videos, such as that of a new test set, gives the values of all its videos.
        """
        train = self._rows.splits.names.index(self._rows.splits.training)
        has_training = bool(np.any(np.asarray(self._scan.splits) == train))
        for batch in self._batches():
            splits = batch.splits[batch.indices]
            yield from self._features.values(batch, batch.indices[splits == train if has_training else splits >= 0])

    def _batches(self) -> Iterator[TableVideos]:
        """Yields the videos of the table, in batches (see `_BATCH_BYTES`)."""
        size = max(1, min(_MOST_ROWS, _BATCH_BYTES // (4 * self._features.values_in_memory)))
        return self._rows.videos(self._scan, size, self._features.in_table)

    def _write(self, output: Output) -> None:
        """Writes the records of all rows, and counts videos, labels and frames in the progress."""
        write = self._write_videos if self._config.level == "video" else self._write_frames
        total = len(self._scan.splits)
        for batch in terminal.with_progress(self._batches(), total, "rows", lambda batch: batch.rows.size):
            labels, indices = self._rows.number_labels(batch, self._classes)
            labels, rows_of_added, rows_of_removed = self._corrected(batch, labels)
            frames, lengths, labels = write(output, batch, indices, labels)
            for split in np.flatnonzero(np.bincount(batch.splits[indices])).tolist():
                is_written = (frames > 0) & (batch.splits == split)
                output.count_lengths(split, lengths[is_written])
                output.count_videos(split, labels.codes[is_written[labels.rows]], int(frames[is_written].sum()))
                added, removed = (int(is_written[rows].sum()) for rows in (rows_of_added, rows_of_removed))
                output.count_changed_labels(split, added, removed)
        output.progress.bad = {str(number): problem for number, problem in self._bad.problems.items()}

    def _corrected(self, batch: TableVideos, labels: Labels) -> CorrectedLabels:
        """The labels of a batch after the decisions of --corrections."""
        if self._has_spans:
            return self._span_corrections.labels(batch.ids, batch.rows.cells["spans"], labels)
        return self._corrections.apply(batch.ids, labels, self._classes)

    @functools.cached_property
    def _span_corrections(self) -> SpanCorrections:
        """The decisions of --corrections on spans."""
        return SpanCorrections(self._corrections, self._classes)

    def _write_videos(
        self, output: Output, batch: TableVideos, indices: NDArray[np.int64], labels: Labels
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Labels]:
        """Writes the videos of a batch as video-level records.

        Args:
          indices: int64 [n], the indices of the good rows in the batch.

        Returns:
          int64 [rows of the batch]: 1 for each row that was written, and 0 for the other rows; the number of frames of
          each video, 0 where it is not known; and the labels that were written.
        """
        good, values, lengths = self._features.matrices(batch, indices)
        if self._has_spans:
            labels = self._labels_within(batch, labels, lengths)
        contexts = encoding.Contexts(batch.ids, labels.rows, labels.codes)
        is_written = np.zeros(batch.rows.size, bool)
        is_written[good] = True
        for shard, shard_indices in output.assign_to_shards(batch.splits, indices):
            rows = shard_indices[is_written[shard_indices]]
            quantize = functools.partial(self._features.quantize_rows, values)
            if len(rows):
                records = encoding.VideoRecords(contexts, rows, quantize)
                output.append(shard, records, records.size)
        return is_written.astype(np.int64), lengths, labels

    def _labels_within(self, batch: TableVideos, labels: Labels, lengths: NDArray[np.int64]) -> Labels:
        """The labels whose spans lie within their videos, of which `lengths` has the frames, 0 where unknown."""
        seconds = np.where(lengths > 0, lengths / self._config.frames_per_second, np.inf).tolist()
        classes = [classes_within(self._spans_of(batch, row), seconds[row]) for row in range(batch.rows.size)]
        return labels.only([code in classes[row] for row, code in zip(*map(np.ndarray.tolist, labels), strict=True)])

    def _write_frames(
        self, output: Output, batch: TableVideos, indices: NDArray[np.int64], labels: Labels
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Labels]:
        """Writes the videos of a batch as frame-level records; see `_write_videos` for the arguments.

        Returns:
          int64 [rows of the batch], twice: the number of frames of each row that was written, and 0 for other rows; and
          the labels that were written.
        """
        frames = np.zeros(batch.rows.size, np.int64)
        contexts, is_shown = encoding.Contexts(batch.ids, labels.rows, labels.codes), np.ones(len(labels.rows), bool)
        for shard, shard_indices in output.assign_to_shards(batch.splits, indices):
            for index, values, was_cut in self._features.frames(batch, shard_indices):
                if not was_cut and (problem := self._wrong_length(batch, index, len(values[0]))):
                    self._bad.add(batch.rows.first + index, problem)
                    continue
                quantized = self._features.quantize(values)
                if self._grid is None:
                    record = encoding.frame_records(contexts, index, quantized)
                else:
                    cells = self._cells_of_spans(output, batch, index, len(values[0]))
                    codes = labels.codes[labels.rows == index]
                    is_shown[labels.rows == index] = np.isin(codes, cells.shown)
                    record = _record_with_cells(batch.ids[index], cells.only_shown(codes.tolist()), quantized, cells)
                output.append(shard, [record], record.nbytes)
                frames[index] = len(values[0])
                output.progress.cut += was_cut
        output.progress.longest = max(output.progress.longest, int(frames.max()))
        return frames, frames, labels.only(is_shown)

    def _wrong_length(self, batch: TableVideos, index: int, frames: int) -> str:
        """Why the spans of a row do not fit to its frames, as far as the table says; empty if they do."""
        return self._grid.wrong_length(batch.rows.cells["seconds"][index], frames) if self._grid else ""

    def _spans_of(self, batch: TableVideos, index: int) -> Sequence[ClassSpan]:
        """The spans of a row after the decisions of --corrections."""
        return self._span_corrections.spans(batch.ids[index], batch.rows.cells["spans"][index]).spans

    def _cells_of_spans(self, output: Output, batch: TableVideos, index: int, frames: int) -> RatedCells:
        """Counts the spans of a row, and returns what its record stores of them."""
        assert self._grid is not None
        cells, said = self._grid.cells(self._spans_of(batch, index), frames)
        output.count_spans(int(batch.splits[index]), said)
        return cells


def _record_with_cells(
    video: bytes, classes: Sequence[int], values: Mapping[str, NDArray[Any]], cells: RatedCells
) -> NDArray[np.uint8]:
    """The record of the frames of a video with spans, whose labels are classes that a cell shows."""
    codes = np.array(classes, np.int64)
    contexts = encoding.Contexts([video], np.zeros(len(codes), np.int64), codes)
    return encoding.frame_records(contexts, 0, values, cells.context())


def _warn_of_missing_videos(source: str, videos: Collection[bytes], table: str) -> None:
    """Prints a warning if decisions or answers are about videos that the table does not have."""
    if videos:
        first = repr(shards.id_text(min(videos))[:60])
        count, are = quantity(len(videos), "video"), "is" if len(videos) == 1 else "are"
        print(f"Warning: {count} of {source} {are} not in {table}, such as {first}.", file=sys.stderr)
