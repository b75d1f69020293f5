"""`yt8m extract`: makes records from the user's own video files, shard by shard.

This package computes the features; the code of `yt8m make-records` reads the table and writes the records.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yt8m import extractors, storage, terminal
from yt8m.datasets.extract import weights
from yt8m.datasets.extract.computing import ChosenExtractor, Clip, LocatedExtractor, describe_extractors, locate
from yt8m.datasets.extract.extract_config import ExtractConfig as ExtractConfig
from yt8m.datasets.extract.extract_config import choose_rules
from yt8m.datasets.extract.shard_extraction import (
    Journal,
    ProgressLine,
    ShardExtractor,
    TableRow,
    VideoVersion,
    floats_folder,
    grid_of,
    quantize_shards,
    ranges_of,
    settings_of,
)
from yt8m.datasets.extract.video_table import open_videos
from yt8m.datasets.make_records import understanding
from yt8m.datasets.make_records.classes import match_other_levels, number_labels
from yt8m.datasets.make_records.features import LEARNED
from yt8m.datasets.make_records.output import Output
from yt8m.datasets.make_records.rows import BadRowError, BadRows, RowReader, parse_seconds
from yt8m.datasets.make_records.saved_progress import FileVersions, hash_inputs, hash_of_files
from yt8m.datasets.make_records.span_cells import number_spans
from yt8m.datasets.make_records.summary_text import print_summary
from yt8m.errors import RunError, UsageError, quantity
from yt8m.extractors import video_paths
from yt8m.options import about_flags
from yt8m.records.data_format import FeatureFormat
from yt8m.records.shards import id_text
from yt8m.registry import refuse_two_meanings
from yt8m.storage import new_outputs
from yt8m.storage.base import Stamp

REPORT = "extract.jsonl"  # the file in --out that lists the videos that were left out or are unusual
_ROWS_AT_ONCE = 8192  # number of rows of the table that are read at a time


def run(config: ExtractConfig, settings: Mapping[str, Any]) -> None:
    """Makes the records, or only fetches the weights if --fetch_weights is set.

    Args:
      settings: {name of a flag of an extractor: value}, for the flags that the user gave.

    Raises:
      UsageError, RunError: see `choose`, `make` and `weights.find`.
    """
    chosen_extractors = choose(config.extractors, settings)
    if config.fetch_weights:
        for name, extractor in chosen_extractors:
            files = weights.find(extractor, name)
            for field, path in files.paths.items():
                print(f"{name} {field}: {path}, sha256 {files.sha256[field]}")
    else:
        make(config, chosen_extractors)


def make(config: ExtractConfig, chosen: Sequence[ChosenExtractor]) -> dict[str, Any]:
    """Extracts the features, and writes the records into the folder `config.out`.

    If an earlier start with the same inputs was interrupted, continues after the shards that it finished.

    Returns:
      {level: content of summary.json}.
    """
    extraction = Extraction(config, chosen)
    if config.dry_run:
        facts = {"understood": "\n".join([extraction.understood, *extraction.describe_missing()])}
        print(facts["understood"])
        terminal.print_json(facts)
        return facts
    print(extraction.understood, file=sys.stderr)
    return extraction.run()


def choose(names: Sequence[str], flags: Mapping[str, Any]) -> list[ChosenExtractor]:
    """Creates the extractors that the user chose, with their settings.

    Args:
      flags: {setting: value} of the flags that the user gave; an extractor gets the settings that it has.
    """
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise UsageError(f"--extractors={','.join(names)}: {', '.join(repeated)} is named twice; name it once.")
    kinds = {name: extractors.split_name(name)[0] for name in names}
    refuse_two_meanings(kinds)
    fields = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in kinds.items()}
    for setting, value in flags.items():
        if not any(setting in field_names for field_names in fields.values()):
            raise UsageError(f"--{setting}={value}: none of the extractors {', '.join(names)} has such a setting.")
    with about_flags():
        chosen_extractors = [
            ChosenExtractor(
                name, extractors.create(name, {key: value for key, value in flags.items() if key in fields[name]})
            )
            for name in kinds
        ]
        for choice in chosen_extractors:
            choice.extractor.refuse_unused()
    features = [choice.extractor.feature for choice in chosen_extractors]
    for feature in features:
        if features.count(feature) > 1:
            raise UsageError(
                f"--extractors={','.join(names)}: two of them compute a feature {feature!r}. A feature has the name of "
                "its extractor's file, folder or network: leave one out, or rename one."
            )
    return chosen_extractors


class Extraction:
    """One run of the command. The constructor reads and checks the table before anything is written."""

    def __init__(self, config: ExtractConfig, chosen: Sequence[ChosenExtractor]) -> None:
        config = dataclasses.replace(config, rules=choose_rules(config))
        self._config, self._chosen = config, chosen
        self._located: list[LocatedExtractor] = []
        self._ranges = ranges_of(config.ranges, chosen)
        self._features = [choice.extractor.feature for choice in chosen]
        flags = understanding.table_flags(config, can_have_spans="frame" in config.level and config.labels == "column")
        table = open_videos(config.videos, config.labels, flags, has_earlier_ids=config.rules == 1)
        self._has_spans = "spans" in table.columns
        if self._has_spans:
            config = self._config = config.with_spans(table.are_clips)
            grid_of(config)  # refuses cells that are not whole frames before anything is extracted
        self._left_out, self._passed_over = table.left_out, table.passed_over
        bad = BadRows(config.videos, 0, table.where, " of the table")
        self._reader = RowReader(table, config, bad)
        self._scan = self._reader.scan()
        unlabelled = f"--videos={config.videos}: no video has a label, so there are no classes; fill the column labels"
        self._classes = number_labels(self._scan.names, config, f"{unlabelled}, or add --labels=folder")
        if len(config.level) == 1:
            self._classes = match_other_levels(self._classes, config, config.level[0])
        described = understanding.describe(table, self._scan, self._classes, config, config.level)
        self.understood = "\n".join([described, *video_paths.describe_passed_over(self._passed_over)])
        self._rows = self._read_rows(bad)
        self._stamps: dict[str, Stamp] = {}
        self._samples: dict[str, int] = {}
        self._checksums: dict[str, int] = {}  # those of the journal, of files that were read when their shard was made

    def _read_rows(self, bad: BadRows) -> dict[int, TableRow]:
        """Reads the good rows: {position in the table, from 0: row}.

        Adds rows with impossible times, or with a label without a class, to `bad`.
        """
        rows = {}
        for batch in self._reader.videos(self._scan, _ROWS_AT_ONCE):
            labels, indices = self._reader.number_labels(batch, self._classes)
            classes: dict[int, list[int]] = {}
            for index, number in zip(labels.rows.tolist(), labels.codes.tolist(), strict=True):
                classes.setdefault(index, []).append(number)
            for index in indices.tolist():
                position = batch.rows.first + index - 1
                try:
                    clip = _clip_of_row(batch.rows.cells, index)
                except BadRowError as error:
                    bad.add(position + 1, str(error))
                    continue
                spans = batch.rows.cells["spans"][index] if "spans" in batch.rows.cells else None
                rows[position] = TableRow(
                    *(position + 1, batch.ids[index], tuple(classes.get(index, ())), clip),
                    spans=None if spans is None else number_spans(spans, self._classes.number),
                    seconds=0.0 if spans is None else batch.rows.cells["seconds"][index],
                )
        return rows

    def describe_missing(self) -> list[str]:
        """A sentence about the videos that do not exist; none if all do. Raises `UsageError` if none does."""
        paths = dict.fromkeys(row.clip.path for row in self._rows.values())
        existing = storage.stamps(list(paths))
        missing = [path for path in paths if path not in existing]
        if missing and not existing:
            raise UsageError(
                f"--videos={self._config.videos}: none of the {len(paths)} videos exists, such as {missing[0]}. Paths "
                "in a table are relative to its folder."
            )
        return [f"videos that do not exist: {len(missing)}, such as {missing[0]}"] if missing else []

    def run(self) -> dict[str, Any]:
        """Extracts the features and writes the records; returns {level: content of summary.json}."""
        config = self._config
        self._located = locate(self._chosen)  # only now: --dry_run, and mistakes in the table, need no weights
        with new_outputs.locked_folder(config.out):
            videos = dict(zip(self._reader.splits.names, self._scan.videos, strict=True))
            outputs = {level: Output(config.out, level, videos, config.shards) for level in config.level}
            if "frame" in outputs and self._has_spans:
                outputs["frame"].grid = grid_of(config)
            try:
                return self._write_outputs(outputs)
            finally:
                for output in outputs.values():
                    output.close()

    def _write_outputs(self, outputs: dict[str, Output]) -> dict[str, Any]:
        """Writes the records of the levels that are not complete; returns {level: content of summary.json}."""
        config, inputs = self._config, self._hash_inputs()
        paths = [row.clip.path for row in self._rows.values()]
        self._stamps, self._samples = storage.stamps(paths), storage.samples(paths)
        files = FileVersions.from_stamps(self._stamps, self._samples)
        state = {
            level: output.resume(inputs, config.overwrite, files, True, self._hash_of_videos)
            for level, output in outputs.items()
        }
        for level, output in outputs.items():
            if state[level] == "written":
                output.install(self._classes)
        unfinished_outputs = {
            level: output for level, output in outputs.items() if state[level] not in ("made", "written")
        }
        for level, output in unfinished_outputs.items():
            if state[level] != "begun":
                output.begin(inputs)
        folders = {level: output.making for level, output in unfinished_outputs.items()}
        if LEARNED in self._ranges:
            folders = {"frame": floats_folder(config.out)}
        journal = Journal(config.out, inputs, folders)
        if unfinished_outputs:
            self._extract(journal, unfinished_outputs, folders)
        for output in outputs.values():
            output.restore_vocabulary(self._classes)
        # The journal is removed even if all records were complete already: an earlier start may have been killed before
        # this line.
        journal.remove()
        summaries = {
            level: output.summary(self._classes, {int(row): why for row, why in output.progress.bad.items()})
            for level, output in outputs.items()
        }
        for level, output in outputs.items():
            print_summary(summaries[level], config.out, level, output.progress.formats())
        self._print_notes(journal)
        terminal.print_json({"understood": self.understood, "levels": summaries})
        return summaries

    def _hash_inputs(self) -> str:
        """A hash of all inputs that determine the records: flags, extractors and weights, classes and rows."""
        options_text = self._config.shaping_values()
        classes = self._classes.inputs(self._scan.names, bool(self._config.vocabulary))
        rows = [
            (id_text(row.id), row.classes, row.clip, *([] if row.spans is None else [row.hashed_spans]))
            for row in self._rows.values()
        ]
        # 0 is left out, so that the hash is that of earlier versions, which had no such flag.
        tolerance = [self._config.max_bad_packets] if self._config.max_bad_packets else []
        return hash_inputs(options_text, self._describe_extractors(self._ranges), *classes, rows, *tolerance)

    def _describe_extractors(self, ranges: Sequence[Any]) -> list[Mapping[str, Any]]:
        """The entries of the extractors in manifests; a range that is still to be learned is None, as for floats."""
        fixed_ranges = [None if bounds == LEARNED else bounds for bounds in ranges]
        return describe_extractors(self._located, fixed_ranges, settings_of(self._config, self._located))

    def _extract(self, journal: Journal, outputs: dict[str, Output], folders: Mapping[str, str]) -> None:
        """Extracts the shards that are not in the journal and writes extract.jsonl; then completes the outputs.

        After an error, extract.jsonl is written too.
        """
        first = next(iter(outputs.values()))  # any output would do: all levels put the same videos into a shard
        plan = dict(first.assign_to_shards(self._scan.splits, np.array(sorted(self._rows), np.int64)))
        rows = {shard: [self._rows[position] for position in positions.tolist()] for shard, positions in plan.items()}
        unfinished = {
            shard: rows_of_shard
            for shard, rows_of_shard in rows.items()
            if not journal.load(shard, self._video_versions(rows_of_shard))
        }
        if journal.finished:
            print(f"continuing: {len(journal.finished)} of {len(plan)} shards are finished", file=sys.stderr)
        with ShardExtractor(self._config, self._located, folders) as extractor:
            try:
                self._refuse_many_bad(journal)
                self._extract_missing(unfinished, extractor, journal)
            finally:
                journal.sort_entries(list(plan))
                self._write_report(journal)
        for shard, rows_of_shard in rows.items():
            checksums = zip(rows_of_shard, journal.finished[shard].checksums, strict=False)
            self._checksums |= {row.clip.path: checksum for row, checksum in checksums if checksum is not None}
        self._finish_outputs(journal, outputs, list(map(FeatureFormat, self._features, extractor.sizes)))

    def _extract_missing(
        self, unfinished: Mapping[str, Sequence[TableRow]], extractor: ShardExtractor, journal: Journal
    ) -> None:
        """Extracts the shards that are not finished, one after another, and adds them to the journal."""
        videos = sum(map(len, unfinished.values()))
        with extractor.pool() as pool, ProgressLine(len(self._rows), len(self._rows) - videos) as line:
            for shard, rows in unfinished.items():
                entry = journal.new_entry(self._video_versions(rows))
                journal.add(shard, extractor.extract(shard, rows, entry, pool, line.advance))
                self._refuse_many_bad(journal)

    def _video_versions(self, rows: Sequence[TableRow]) -> list[VideoVersion]:
        """The version of each row's video file at the start of the command."""
        paths, stamps, samples = (row.clip.path for row in rows), self._stamps, self._samples
        return [
            VideoVersion(path, str([*stamps[path][:2], samples.get(path)]), stamps[path].status)
            if path in stamps
            else VideoVersion(path, "", "")
            for path in paths
        ]

    def _hash_of_videos(self) -> str:
        """A hash of the checksums of all video files; those that the journal does not have are read now."""
        unread = [row.clip.path for row in self._rows.values() if row.clip.path not in self._checksums]
        return hash_of_files(self._checksums | storage.dense_samples(unread))

    def _finish_outputs(self, journal: Journal, outputs: dict[str, Output], floats: Sequence[FeatureFormat]) -> None:
        """Quantizes the shards if ranges must be learned, then completes each output."""
        bad, ranges = journal.bad(), self._ranges
        if LEARNED in ranges:
            ranges = quantize_shards(journal, outputs, floats, ranges, self._reader.splits.training)
        features_by_level = {
            "frame": [feature._replace(range=bounds) for feature, bounds in zip(floats, ranges, strict=True)],
            "video": [feature._replace(name=f"mean_{feature.name}") for feature in floats],
        }
        files = FileVersions.from_stamps(self._stamps, self._samples)._replace(dense=self._hash_of_videos())
        for level, output in outputs.items():
            journal.fill_progress(output, level, features_by_level[level], files)
            output.progress.bad = {str(number): why for number, why in bad.items()}
            output.finish(self._classes, bad, self._describe_extractors(ranges), groups=self._scan.groups)

    def _refuse_many_bad(self, journal: Journal) -> None:
        """Raises `RunError` if more videos are bad than --max_bad_videos allows."""
        bad = [*self._left_out.items()]
        bad += [(self._rows[number - 1].clip.path, why) for number, why in journal.bad().items()]
        allowed = self._allowed_bad()
        if len(bad) > allowed:
            path, why = bad[-1]
            raise RunError(
                f"{len(bad)} of {self._count_videos()} videos are bad, the last one {path}: {why}. {allowed} are "
                f"allowed; {storage.join(self._config.out, REPORT)} lists them. Correct the files, or allow more by "
                "--max_bad_videos=N; finished shards are kept."
            )

    def _allowed_bad(self) -> int:
        """The value of --max_bad_videos, or else a tenth of all videos."""
        limit = self._config.max_bad_videos
        return self._count_videos() // 10 if limit is None else limit

    def _count_videos(self) -> int:
        """The number of all videos, including those that are left out because their paths cannot be used."""
        return len(self._rows) + len(self._left_out)

    def _report_lines(self, journal: Journal) -> list[Mapping[str, Any]]:
        """The lines of extract.jsonl."""
        left_out = [{"path": path, "state": "left out", "reason": why} for path, why in self._left_out.items()]
        return [*left_out, *journal.report_lines()]

    def _write_report(self, journal: Journal) -> None:
        with storage.write_atomic(storage.join(self._config.out, REPORT), "w") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in self._report_lines(journal))

    def _print_notes(self, journal: Journal) -> None:
        """Prints how many videos were left out or are unusual, and how many files of a folder were skipped."""
        counts = Counter(note for line in self._report_lines(journal) for note in line.get("notes", ["left out"]))
        for note, count in counts.most_common():
            print(f"  {quantity(count, 'video')}: {note}")
        if counts:
            print(f"  {storage.join(self._config.out, REPORT)} lists them")
        for line in video_paths.describe_passed_over(self._passed_over):
            print(f"  {line}")


def _clip_of_row(cells: Mapping[str, Sequence[Any]], index: int) -> Clip:
    """The part of a video that a row of a batch names; raises `BadRowError` if its times are impossible."""
    start, end = parse_seconds(cells, "start", index) or 0.0, parse_seconds(cells, "end", index)
    if end is not None and end <= start:
        raise BadRowError(f"the end, {end:g}, is not after the start, {start:g}")
    return Clip(str(cells["path"][index]), start, end)
