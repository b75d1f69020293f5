"""One extraction, shard by shard: reads videos, and writes records, manifests, the vocabulary and the splits.

Only the features are computed here; everything else is done by the code of `yt8m make-records`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from yt8m import options, storage
from yt8m.datasets import make_records
from yt8m.datasets.extract import weights
from yt8m.datasets.extract.computing import Chosen, Clip, describe_extractors
from yt8m.datasets.extract.journal import Journal, ProgressLine
from yt8m.datasets.extract.shard_extraction import ShardExtractor, TableRow, coded, os_text, ranges_of, settings_of
from yt8m.datasets.extract.video_table import open_videos
from yt8m.datasets.make_records.classes import known_vocabulary, number_labels, warn_of_labels, with_other_levels
from yt8m.datasets.make_records.features import LEARNED
from yt8m.datasets.make_records.output import Output, inputs_hash, newest_version
from yt8m.datasets.make_records.rows import BadRowError, BadRows, LabelRule, RowReader, Splits, second_in
from yt8m.errors import RunError, UsageError
from yt8m.records.data_format import FeatureFormat
from yt8m.storage.base import Stamp

if TYPE_CHECKING:
    from yt8m.datasets.extract import ExtractConfig

REPORT = "extract.jsonl"
_ROWS_AT_ONCE = 8192


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
        self._weights = [weights.find(choice.extractor, choice.name) for choice in chosen]
        self._ranges = ranges_of(config.ranges, chosen)
        self._features = [choice.extractor.feature for choice in chosen]
        self._splits = Splits(config.splits)
        self._known = known_vocabulary(config.vocabulary, config.out)
        table = open_videos(config.videos, config.labels, [config.group_by] if config.group_by else [])
        self._left_out, self._passed_over = table.left_out, table.passed_over
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
        self._stamps: dict[str, Stamp] = {}

    def _read_rows(self, bad: BadRows) -> dict[int, TableRow]:
        """{position of a row in the table: the row}."""
        rows_by_place = {}
        for batch in self._reader.videos(self._scan, _ROWS_AT_ONCE):
            number = np.array([self._classes.number[name] for name in self._reader.names], np.int64)
            labels = batch.labels.coded(number) if len(batch.labels.codes) else batch.labels
            classes: dict[int, list[int]] = {}
            for place, code in zip(labels.rows.tolist(), labels.codes.tolist(), strict=True):
                classes.setdefault(place, []).append(code)
            for place in batch.places.tolist():
                position = batch.rows.first + place - 1
                try:
                    clip = _clip(batch.rows.cells, place)
                except BadRowError as error:
                    bad.add(position + 1, str(error))
                    continue
                rows_by_place[position] = TableRow(position + 1, batch.ids[place], tuple(classes.get(place, ())), clip)
        return rows_by_place

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
        self._stamps = storage.stamps([row.clip.path for row in self._rows.values()])
        newest = newest_version(self._stamps.values())
        state = {level: output.resume(inputs, config.overwrite, newest) for level, output in outputs.items()}
        wanted = {level: output for level, output in outputs.items() if state[level] != "made"}
        for level, output in wanted.items():
            if state[level] != "begun":
                output.begin(inputs, [])
        journal = Journal(config.out, inputs, ["frame"] if LEARNED in self._ranges else list(wanted))
        if wanted:
            warn_of_labels(self._scan.names, self._classes, config.label_separator, bool(config.vocabulary))
            self._extract(journal, wanted)
        journal.remove()  # also if an earlier start was killed before it came here
        summaries = {
            level: output.summary(self._classes, {int(row): why for row, why in output.progress.bad.items()})
            for level, output in outputs.items()
        }
        for level, output in outputs.items():
            make_records.tell(summaries[level], config.out, level, output.progress.formats())
        self._tell_notes(journal)
        return summaries

    def _inputs(self) -> str:
        options_text = options.shaping_values(self._config)
        classes = self._classes.inputs(self._scan.names, bool(self._config.vocabulary))
        rows = [(os_text(row.id), row.classes, row.clip) for row in self._rows.values()]
        return inputs_hash(options_text, self._describe_extractors(self._ranges), *classes, rows)

    def _describe_extractors(self, ranges: Sequence[Any]) -> list[Mapping[str, Any]]:
        fixed_ranges = [None if bounds == LEARNED else bounds for bounds in ranges]
        return describe_extractors(self._chosen, self._weights, fixed_ranges, settings_of(self._config))

    def _extract(self, journal: Journal, outputs: dict[str, Output]) -> None:
        first = next(iter(outputs.values()))
        plan = dict(first.parts(self._scan.splits, np.array(sorted(self._rows), np.int64)))
        rows = {shard: [self._rows[place] for place in places.tolist()] for shard, places in plan.items()}
        unfinished = {
            shard: rows_of_shard
            for shard, rows_of_shard in rows.items()
            if not journal.find(shard, self._newest(rows_of_shard))
        }
        if journal.finished:
            print(f"going on: {len(journal.finished)} of {len(plan)} shards are finished", file=sys.stderr)
        making = {level: output.making for level, output in outputs.items()}
        if LEARNED in self._ranges:
            making = {"frame": journal.floats}
        with ShardExtractor(self._config, self._chosen, self._weights, making) as extractor:
            try:
                self._refuse_many_bad(journal)
                self._fill(unfinished, extractor, journal)
            finally:
                journal.sort(list(plan))
                self._report(journal)
        self._finish(journal, outputs, list(map(FeatureFormat, self._features, extractor.sizes)))

    def _fill(self, unfinished: Mapping[str, Sequence[TableRow]], extractor: ShardExtractor, journal: Journal) -> None:
        """Extracts the shards that are missing, one after another."""
        videos = sum(map(len, unfinished.values()))
        with extractor.pool() as pool, ProgressLine(len(self._rows), len(self._rows) - videos) as line:
            for shard, rows in unfinished.items():
                entry = journal.begun(self._newest(rows))
                journal.add(shard, extractor.extract(shard, rows, entry, pool, line.advance))
                self._refuse_many_bad(journal)

    def _newest(self, rows: Sequence[TableRow]) -> int:
        """The newest version of the video files of some rows, when the command was started."""
        return newest_version(self._stamps[row.clip.path] for row in rows if row.clip.path in self._stamps)

    def _finish(self, journal: Journal, outputs: dict[str, Output], floats: Sequence[FeatureFormat]) -> None:
        bad, ranges = journal.bad(), self._ranges
        if LEARNED in ranges:
            ranges = coded(journal, outputs, floats, ranges, self._splits.training)
        of_level = {
            "frame": [feature._replace(range=bounds) for feature, bounds in zip(floats, ranges, strict=True)],
            "video": [feature._replace(name=f"mean_{feature.name}") for feature in floats],
        }
        for level, output in outputs.items():
            journal.fill(output, level, of_level[level])
            output.progress.bad = {str(number): why for number, why in bad.items()}
            output.finish(self._classes, bad, self._describe_extractors(ranges))

    def _refuse_many_bad(self, journal: Journal) -> None:
        bad = [*self._left_out.items()]
        bad += [(self._rows[number - 1].clip.path, why) for number, why in journal.bad().items()]
        allowed = self._allowed_bad()
        if len(bad) > allowed:
            path, why = bad[-1]
            raise RunError(
                f"{len(bad)} of {self._count_videos()} videos are bad, the last one {path}: {why}. {allowed} are "
                f"allowed; {storage.join(self._config.out, REPORT)} lists them. Mend the files, or allow more by "
                "--max_bad_videos=N; finished shards are kept."
            )

    def _allowed_bad(self) -> int:
        most = self._config.max_bad_videos
        return self._count_videos() // 10 if most is None else most

    def _count_videos(self) -> int:
        return len(self._rows) + len(self._left_out)

    def _lines(self, journal: Journal) -> list[Mapping[str, Any]]:
        """The lines of extract.jsonl."""
        left_out = [{"path": path, "state": "left out", "reason": why} for path, why in self._left_out.items()]
        return [*left_out, *journal.lines()]

    def _report(self, journal: Journal) -> None:
        with storage.write_atomic(storage.join(self._config.out, REPORT), "w") as file:
            for line in self._lines(journal):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _tell_notes(self, journal: Journal) -> None:
        counts: dict[str, int] = {}
        for line in self._lines(journal):
            for note in line.get("notes", ["left out"]):
                counts[note] = counts.get(note, 0) + 1
        for note, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"  {count} {'video' if count == 1 else 'videos'}: {note}")
        if counts:
            print(f"  {storage.join(self._config.out, REPORT)} lists them")
        if self._passed_over:
            endings = ", ".join(f"{count} {ending}" for ending, count in sorted(self._passed_over.items()))
            print(f"  passed over, because files with such endings are only taken if a pattern names them: {endings}")


def _clip(cells: Mapping[str, Sequence[Any]], place: int) -> Clip:
    start, end = second_in(cells, "start", place) or 0.0, second_in(cells, "end", place)
    if end is not None and end <= start:
        raise BadRowError(f"its end, {end:g}, is not after its start, {start:g}")
    return Clip(str(cells["path"][place]), start, end)
