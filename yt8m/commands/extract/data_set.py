"""One extraction, shard by shard: reads videos, and writes records, manifests, the vocabulary and the splits.

Only the features are computed here; everything else is done by the code of `yt8m make-records`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.commands import make_records
from yt8m.commands.extract import weights
from yt8m.commands.extract.computing import Chosen, Clip, Computer, Features, Settings, described
from yt8m.commands.extract.journal import Finished, Journal, ProgressLine
from yt8m.commands.extract.video_table import open_videos
from yt8m.commands.make_records.features import parse_range
from yt8m.commands.make_records.output import Output, inputs_hash
from yt8m.commands.make_records.rows import (
    BadRows,
    LabelRule,
    RowReader,
    Splits,
    known_vocabulary,
    number_labels,
    with_other_levels,
)
from yt8m.errors import RunError, UsageError
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.records import data_format, encoding
from yt8m.records.data_format import FeatureFormat, Range

if TYPE_CHECKING:
    from yt8m.commands.extract import ExtractConfig

REPORT = "extract.jsonl"
_ROWS_AT_ONCE = 8192
# Flags that do not change the bytes of the records.
_FREE = ("out", "level", "overwrite", "max_bad_videos", "jobs", "decode_seconds", "decode_memory", "vocabulary")


class _TableRow(NamedTuple):
    """A row of the table: its number, the id, the classes and the video."""

    number: int
    id: bytes
    classes: tuple[int, ...]
    clip: Clip


class Extraction:
    """One call of the command. The constructor reads and checks the table, before anything is written.

    Args:
      config: the flags.
      chosen: the extractors.

    Raises:
      UsageError: a flag contradicts the table, or a file is missing.
      RunError: a row of the table is bad, or weights cannot be fetched.
    """

    def __init__(self, config: ExtractConfig, chosen: Sequence[Chosen]) -> None:
        self._config, self._chosen = config, chosen
        self._ranges = _ranges(config.ranges, chosen)
        self._splits = Splits(config.splits)
        self._known = known_vocabulary(config.vocabulary, config.out)
        table = open_videos(config.videos, config.labels, [config.group_by] if config.group_by else [])
        names = set(self._known.names) if self._known else set()
        rule = LabelRule(config.label_separator, names, bool(config.vocabulary), config.label_names)
        bad = BadRows(config.videos, 0, " of the table")
        self._reader = RowReader(table, rule, self._splits, config.group_by, bad)
        self._scan = self._reader.scan()
        if not self._scan.names and self._known is None:
            raise UsageError(
                f"--videos={config.videos}: no video has a label, so there are no classes; fill the column labels, or "
                "add --labels=folder. To make records without labels, name the classes by --vocabulary=FILE."
            )
        classes = number_labels(self._scan.names, self._known, not config.vocabulary, config.label_names)
        if len(config.level) == 1:
            classes = with_other_levels(classes, config.out, config.level[0], config.vocabulary)
        self._classes = classes
        self._rows = self._read_rows(bad)
        self._weights = [weights.find(one.extractor, one.name) for one in chosen]

    def _read_rows(self, bad: BadRows) -> dict[int, _TableRow]:
        """{position of a row in the table: the row}."""
        found = {}
        for batch in self._reader.videos(self._scan, _ROWS_AT_ONCE):
            number = np.array([self._classes.number[name] for name in self._reader.names], np.int64)
            labels = batch.labels.coded(number) if len(batch.labels.codes) else batch.labels
            classes: dict[int, list[int]] = {}
            for place, code in zip(labels.rows.tolist(), labels.codes.tolist(), strict=True):
                classes.setdefault(place, []).append(code)
            for place in batch.places.tolist():
                clip = _clip(batch.rows.cells, place, batch.rows.first + place, bad)
                position = batch.rows.first + place - 1
                found[position] = _TableRow(position + 1, batch.ids[place], tuple(classes.get(place, ())), clip)
        return found

    def run(self) -> dict[str, Any]:
        """Extracts and writes; returns {level: content of summary.json}."""
        config = self._config
        storage.makedirs(config.out)
        with storage.lock(storage.join(config.out, ".lock")):
            videos = dict(zip(self._splits.names, self._scan.videos, strict=True))
            outputs = {level: Output(config.out, level, videos, config.shards) for level in config.level}
            try:
                return self._run(outputs)
            finally:
                for output in outputs.values():
                    output.close()

    def _run(self, outputs: dict[str, Output]) -> dict[str, Any]:
        config, inputs = self._config, self._inputs()
        state = {level: output.resume(inputs, config.overwrite) for level, output in outputs.items()}
        wanted = {level: output for level, output in outputs.items() if state[level] != "made"}
        for level, output in wanted.items():
            if state[level] != "begun":
                output.begin(inputs, [])
        journal = Journal(config.out, inputs, list(wanted))
        if wanted:
            self._extract(journal, wanted)
        summaries = {
            level: output.summary(self._classes, {int(row): why for row, why in output.progress.bad.items()})
            for level, output in outputs.items()
        }
        for level, output in outputs.items():
            make_records.tell(summaries[level], config.out, level, output.progress.formats())
        self._tell_notes(journal)
        return summaries

    def _inputs(self) -> str:
        given = {key: value for key, value in dataclasses.asdict(self._config).items() if key not in _FREE}
        # Only the names in this table count, not all in the folder's vocabulary: records of other levels append names.
        classes = sorted((name, self._classes.number.get(name, -1)) for name in self._scan.names)
        names = self._classes.vocabulary.names if self._config.vocabulary and self._classes.vocabulary else ()
        rows = [(os_text(row.id), row.classes, row.clip) for row in self._rows.values()]
        return inputs_hash(given, self._described(), classes, names, rows)

    def _settings(self) -> Settings:
        config = self._config
        return Settings(config.frames_per_second, config.max_frames, config.batch_size)

    def _described(self) -> list[Mapping[str, Any]]:
        return described(self._chosen, self._weights, self._ranges, self._settings())

    def _extract(self, journal: Journal, outputs: dict[str, Output]) -> None:
        config = self._config
        first = next(iter(outputs.values()))
        plan = dict(first.parts(self._scan.splits, np.array(sorted(self._rows), np.int64)))
        left = {shard: places for shard, places in plan.items() if not journal.find(shard)}
        if journal.finished:
            print(f"going on: {len(journal.finished)} of {len(plan)} shards are finished", file=sys.stderr)
        limits = Limits(config.decode_seconds, config.decode_memory)
        with (
            Computer(self._chosen, self._weights, self._settings()) as computer,
            DecoderPool(config.processes, limits) as pool,
            ProgressLine(len(self._rows), sum(len(plan[shard]) for shard in journal.finished)) as line,
        ):
            formats = {level: self._formats(level, computer.sizes) for level in outputs}
            try:
                self._refuse_many_bad(journal)
                for shard, places in left.items():
                    rows = [self._rows[place] for place in places.tolist()]
                    entry = self._shard(shard, rows, computer, pool, outputs, journal, line)
                    journal.add(shard, entry)
                    self._refuse_many_bad(journal)
            finally:
                self._report(journal)
        self._finish(journal, outputs, formats)

    def _finish(self, journal: Journal, outputs: dict[str, Output], formats: dict[str, list[FeatureFormat]]) -> None:
        bad = journal.bad()
        for level, output in outputs.items():
            journal.fill(output, level, formats[level])
            output.progress.bad = {str(number): why for number, why in bad.items()}
            output.finish(self._classes, bad, self._described())
        journal.remove()

    def _formats(self, level: str, sizes: Sequence[int]) -> list[FeatureFormat]:
        return [
            FeatureFormat(one.extractor.feature, size, bounds)
            if level == "frame"
            else FeatureFormat(f"mean_{one.extractor.feature}", size)
            for one, size, bounds in zip(self._chosen, sizes, self._ranges, strict=True)
        ]

    def _shard(
        self,
        shard: str,
        rows: Sequence[_TableRow],
        computer: Computer,
        pool: DecoderPool,
        outputs: dict[str, Output],
        journal: Journal,
        line: ProgressLine,
    ) -> Finished:
        """Extracts the videos of a shard and writes it at each level."""
        entry = journal.begun(shard)
        threads = max(1, (os.cpu_count() or 1) // self._config.processes)
        with contextlib.suppress(_NothingWrittenError), contextlib.ExitStack() as files:
            writers = {level: _Writer(files, storage.join(output.making, shard)) for level, output in outputs.items()}
            clips = [row.clip for row in rows]
            for row, found in zip(rows, computer.features(clips, pool, threads), strict=True):
                self._note(entry, shard, row, found)
                if not found.bad:
                    self._append(writers, row, found.arrays)
                line.advance(found.seconds)
            for level, writer in writers.items():
                if not writer.records:
                    raise _NothingWrittenError  # so that no empty file appears
                entry.levels[level] = [writer.records, writer.bytes, writer.crc]
        return entry

    def _note(self, entry: Finished, shard: str, row: _TableRow, found: Features) -> None:
        told = {"id": os_text(row.id), "path": row.clip.path, "shard": shard}
        if found.bad:
            entry.bad[str(row.number)] = found.bad
            entry.videos.append({**told, "state": "left out", "reason": found.bad})
            return
        count = len(found.arrays[0])
        entry.cut += any(note.startswith("only the first") for note in found.notes)
        for index in row.classes:
            entry.positives[str(index)] = entry.positives.get(str(index), 0) + 1
        entry.frames, entry.longest = entry.frames + count, max(entry.longest, count)
        if found.notes:
            entry.videos.append({**told, "state": "extracted", "notes": list(found.notes)})

    def _append(self, writers: dict[str, _Writer], row: _TableRow, arrays: Sequence[NDArray[np.float32]]) -> None:
        places = np.zeros(len(row.classes), np.int64)
        context = encoding.Contexts([row.id], places, np.array(row.classes, np.int64))
        stored: dict[str, NDArray[Any]] = {}
        means: dict[str, NDArray[np.float32]] = {}
        for one, values, bounds in zip(self._chosen, arrays, self._ranges, strict=True):
            name, read = one.extractor.feature, values
            stored[name] = values
            if bounds:  # the mean is that of the frames as a reader of the frame records gets them
                stored[name] = data_format.quantized(values, bounds)
                read = data_format.dequantized(stored[name], bounds)
            means[f"mean_{name}"] = read.mean(axis=0, dtype=np.float64).astype(np.float32)
        if "frame" in writers:
            writers["frame"].write(encoding.frame_records(context, 0, stored))
        if "video" in writers:
            size = sum(values.nbytes for values in means.values())
            rows = {name: values[np.newaxis] for name, values in means.items()}
            for records in encoding.video_records(context, np.zeros(1, np.int64), size, lambda _: rows):
                writers["video"].write(records)

    def _refuse_many_bad(self, journal: Journal) -> None:
        bad, most = journal.bad(), self._config.max_bad_videos
        allowed = math.ceil(len(self._rows) / 10) if most is None else most
        if len(bad) > allowed:
            number, why = list(bad.items())[-1]
            path = self._rows[number - 1].clip.path
            raise RunError(
                f"{len(bad)} of {len(self._rows)} videos are bad, the last one {path}: {why}. {allowed} are allowed; "
                f"{storage.join(self._config.out, REPORT)} lists them. Mend the files, or allow more by "
                "--max_bad_videos=N; finished shards are kept."
            )

    def _report(self, journal: Journal) -> None:
        with storage.write_atomic(storage.join(self._config.out, REPORT), "w") as file:
            for told in journal.lines():
                file.write(json.dumps(told, ensure_ascii=False) + "\n")

    def _tell_notes(self, journal: Journal) -> None:
        counts: dict[str, int] = {}
        for told in journal.lines():
            for note in told.get("notes", ["left out"]):
                counts[note] = counts.get(note, 0) + 1
        for note, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"  {count} {'video' if count == 1 else 'videos'}: {note}")
        if counts:
            print(f"  {storage.join(self._config.out, REPORT)} lists them")


def os_text(video_id: bytes) -> str:
    """The id as text, from which the same bytes can be made."""
    return video_id.decode("utf-8", "backslashreplace")


def _ranges(written: Sequence[str], chosen: Sequence[Chosen]) -> list[Range | None]:
    """The range of the bytes of each feature at frame level; None for floats."""
    if len(written) not in (0, 1, len(chosen)):
        raise UsageError(
            f"--ranges={','.join(written)} has {len(written)} ranges, and there are {len(chosen)} extractors; give one "
            "each, or one."
        )
    whole = list(written or ["usual"]) * (len(chosen) if len(written) < 2 else 1)
    given = f"--ranges={','.join(written)}"
    return [
        one.extractor.bytes_range
        if text == "usual"
        else None
        if text == "floats"
        else parse_range(text, given, "usual")
        for text, one in zip(whole, chosen, strict=True)
    ]


def _clip(cells: Any, place: int, number: int, bad: BadRows) -> Clip:
    times: list[float | None] = []
    for column in ("start", "end"):
        cell = cells[column][place] if column in cells else ""
        try:
            time = None if cell in ("", None) else float(cell)
        except (TypeError, ValueError):
            time = -1.0
        if time is not None and not 0 <= time < 1e9:
            bad.add(number, f"its {column} is {str(cell)[:40]!r}; expected seconds from 0")
        times.append(time)
    start, end = times[0] or 0.0, times[1]
    if end is not None and end <= start:
        bad.add(number, f"its end, {end:g}, is not after its start, {start:g}")
    return Clip(str(cells["path"][place]), start, end)


class _NothingWrittenError(Exception):
    """No video of a shard is good."""


class _Writer:
    """A shard that is being written; it appears under its name when `files` is closed.

    Attributes:
      records, bytes, crc: number of records, size, and checksum so far.
    """

    def __init__(self, files: contextlib.ExitStack, path: str) -> None:
        storage.discard_unfinished(path)  # what a killed start left; the lock keeps others away
        self._file = files.enter_context(storage.write_atomic(path))
        self.records = self.bytes = self.crc = 0

    def write(self, records: NDArray[np.uint8]) -> None:
        """Adds framed records, one in each row, as `encoding` makes them."""
        content = records.tobytes()
        self._file.write(content)
        self.records, self.bytes = self.records + len(records), self.bytes + len(content)
        self.crc = google_crc32c.extend(self.crc, content)
