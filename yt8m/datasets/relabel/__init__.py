"""`yt8m relabel`: records with corrected labels, made of records that exist; their features stay as they are.

So the decisions of an audit come to records that `yt8m extract` has made without a film being decoded again. Each shard
becomes one of the same name in `OUT/<level>/<split>/`. The folder is written as `yt8m make-records` writes its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from yt8m import options, storage, terminal
from yt8m.config.of_run import same_as
from yt8m.datasets.make_records import span_cells
from yt8m.datasets.make_records.classes import WHOLE, Classes, SpanFlags
from yt8m.datasets.make_records.human_labels import ADDED, REMOVED, Corrections
from yt8m.datasets.make_records.output import SUMMARY, WITHOUT_VIDEO, making_folder
from yt8m.datasets.make_records.saved_progress import FileVersions, RecordsProgress, hash_inputs
from yt8m.datasets.make_records.span_cells import Grid
from yt8m.datasets.make_records.summary_text import absent_lines, training_command
from yt8m.datasets.relabel.given_answers import GivenAnswers
from yt8m.datasets.relabel.given_spans import GivenSpans
from yt8m.datasets.relabel.relabelled_output import RelabelledOutput, splits_of
from yt8m.datasets.relabel.shard_labels import Changes, Relabeller
from yt8m.errors import UsageError, quantity
from yt8m.options import option, path_option
from yt8m.records import groups, manifest, shards, vocabulary
from yt8m.records.data_folders import TRAIN
from yt8m.records.manifest import Shard
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.storage import new_outputs, sending

_VERSION = 3  # of what is written
_OF_WHOLE = "the records have no cells of spans, as their manifest says; name those that have"
_OF_SEGMENTS = (
    "in the records single classes of segments were rated, as in YouTube-8M; relabel adds no class to a segment, nor "
    "takes one from it; make the records of a table of spans (yt8m make-records --rows=spans)"
)


@dataclass(frozen=True, kw_only=True)
class RelabelConfig(options.Checked):
    """The flags of `yt8m relabel`."""

    data: str = path_option("records of one level, with all of their splits: files, or their folder", is_required=True)
    corrections: str = path_option(
        "CSV file, as yt8m audit writes it, with decisions on labels, or spans, that may be wrong or missing"
    )
    labels: str = path_option(
        "table of ids and labels, or JSON export of Label Studio; its labels replace those of the same videos; for "
        "records of spans: of spans"
    )
    frame_rate: float | None = same_as(SpanFlags, "frame_rate")
    annotated: str = same_as(
        SpanFlags,
        "annotated",
        help="of spans in --labels: which part of a video people have looked at: the whole video, so that a class is "
        "absent outside its spans; or the spans, and the labels of the rest stay [whole; spans for clips of longer "
        "videos and tables of yt8m select; parts that tasks name]",
    )
    out: str = path_option(
        "folder of the new data set; the shards are OUT/<level>/<split>/, with the names that they have",
        is_required=True,
    )
    dry_run: bool = option(False, "say what would change, and write nothing")
    overwrite: bool = option(False, "replace records made from other records or by other decisions")
    json: bool = option(False, terminal.JSON_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.corrections and not self.labels:
            raise UsageError(
                "--corrections or --labels is missing: name a table of decisions, as yt8m audit writes it; a table of "
                "ids and labels; or the JSON export of tasks that were answered in Label Studio."
            )

    def refuse_flags_of_spans(self) -> None:
        """Refuses flags that only the spans of --labels need."""
        if self.frame_rate or self.annotated:
            raise UsageError(f"--{'frame_rate' if self.frame_rate else 'annotated'} is for spans, but {_OF_WHOLE}.")

    @property
    def named_files(self) -> list[str]:
        """The files that determine the labels."""
        return list(filter(None, (self.corrections, self.labels)))


def run(config: RelabelConfig) -> int:
    """Writes the records with corrected labels, and prints what has changed; returns the exit status.

    Raises:
      UsageError: the data are of several levels, nothing is decided, or of other videos or classes; or --out has
        records already, or lies in the data.
      RunError: a record or the table of decisions is damaged.
    """
    relabelling = _Relabelling(config)
    if relabelling.spans.understood:
        print(relabelling.spans.understood, file=sys.stderr)
    summary = relabelling.run()
    print("\n".join(_lines(summary, config, relabelling.data)), flush=True)
    terminal.print_json(summary)
    return 0


class _Relabelling:
    """One call of the command. The constructor checks the decisions; only `run` writes files.

    Attributes:
      data: the records whose labels are corrected.
      spans: what people have marked in the videos.
    """

    def __init__(self, config: RelabelConfig) -> None:
        self._config = config
        self._corrections = Corrections(config.corrections)
        if config.corrections:
            self._corrections.refuse_undecided()
        self.data = open_data(config.data, flag="data", whole_folders=True)
        self._level = _level_of(self.data)
        _refuse_own_folder(self.data, config.out)
        self._splits = splits_of(self.data)
        self._classes = _classes_of(self.data, config.out)
        of_whole = _OF_SEGMENTS if self.data.format and self.data.format.format.segment_labels else _OF_WHOLE
        self._corrections.check(self._classes, are_spans=self._grid is not None, of_whole=of_whole)
        if self._grid is None:
            config.refuse_flags_of_spans()
        self._answers = GivenAnswers("" if self._grid else config.labels, self._classes)
        self.spans = GivenSpans(config.labels, self._classes, config, self._grid)
        self._relabeller = Relabeller(self._corrections, self._answers, self.spans, self._classes, self._grid)

    @cached_property
    def _grid(self) -> Grid | None:
        """The grid of the cells in which people have rated every class; None if the records have none."""
        data = self.data.format.format if self.data.format else None
        if data is None or data.annotated is None or data.level != "frame":
            return None
        return Grid(data.segment_size or shards.SEGMENT_SIZE, data.frames_per_second or 1.0, data.annotated or WHOLE)

    def run(self) -> dict[str, Any]:
        """Writes the records, unless --dry_run is set; returns the summary."""
        if self._config.dry_run:
            return self._summary(self._find_changes())
        out = self._config.out
        folder = making_folder(out, self._level)
        with new_outputs.locked_folder(out), sending.staged_folder(folder) as local_folder:
            return self._write(local_folder)

    def _write(self, local_folder: str) -> dict[str, Any]:
        """Writes the records that an earlier start with the same inputs has not written; returns the summary."""
        counts = {name: split.count_videos() for name, split in self._splits.items()}
        output = RelabelledOutput(self._config.out, self._level, counts, self._splits, local_folder)
        inputs, files = self._hash_inputs(), FileVersions.of_arrays([], self._config.named_files)
        try:
            state = output.resume(inputs, self._config.overwrite, files)
            if state == "made":
                output.restore_vocabulary(self._classes)
                print(f"{output.final} already has all these records; nothing was written.", file=sys.stderr)
            elif state == "written":
                output.install(self._classes)
            if state:
                return dict(storage.read_json(storage.join(output.final, SUMMARY)))
            return self._make(output, RecordsProgress(inputs, self._features(), files=files))
        finally:
            output.close()

    def _features(self) -> list[Any]:
        return [list(each) for each in self.data.format.format.features] if self.data.format else []

    def _make(self, output: RelabelledOutput, progress: RecordsProgress) -> dict[str, Any]:
        """Writes all shards and completes the folder; returns the summary."""
        self._find_changes()
        output.progress = progress
        changes = {}
        for name, split in self._splits.items():
            changes[name] = self._relabeller.no_changes()
            for path in terminal.with_bar(iter(split.files), f"writing {name}"):
                shard = split.name_of(path)
                out = storage.join(output.making, shard)
                progress.shards[shard] = manifest.write_shard(out, self._relabeller.records(path, changes[name]))
            progress.positives[name] = changes[name].positives.tolist()
            progress.corrected[name] = [changes[name].added, changes[name].removed]
        output.content = self._summary(changes, progress.shards)
        groups_of_data = groups.find(self.data.files)
        self._answers.write(self._config.out)
        output.finish(
            self._classes,
            {},
            corrections=self._manifest_entry,
            groups=groups_of_data if len(groups_of_data.videos) else None,
        )
        return output.content

    def _manifest_entry(self, added: int, removed: int) -> dict[str, Any]:
        """What the manifest of a split says of the files by which its labels were corrected."""
        of_decisions = self._corrections.manifest_entry(added, removed) or {ADDED: added, REMOVED: removed}
        return {**of_decisions, **self._answers.manifest_entry(), **self.spans.manifest_entry()}

    def _hash_inputs(self) -> str:
        """A hash of all that determines the records, except the table of decisions."""
        described = [each.manifest.data and each.manifest.data.as_json() for each in self._splits.values()]
        names = self._classes.vocabulary.names if self._classes.vocabulary else []
        layout = [(name, split.files) for name, split in self._splits.items()]
        versions = manifest.versions(self.data.files)
        others = ["labels"] if self._config.labels else []
        others += list(filter(None, [str(self._config.frame_rate or ""), self._config.annotated]))
        return hash_inputs(["relabel", _VERSION, *others], versions, layout, described, self._classes.size, list(names))

    def _find_changes(self) -> dict[str, Changes]:
        """What the decisions change in each split; refuses decisions on videos that the data do not have."""
        changes = {}
        for name, split in self._splits.items():
            changes[name] = self._relabeller.no_changes()
            for path in terminal.with_bar(iter(split.files), f"reading {name}"):
                for _ in self._relabeller.records(path, changes[name]):
                    pass
        seen = set[bytes]().union(*(each.seen for each in changes.values()))
        self._answers.check_videos(seen, self.data.pattern)
        self.spans.check_videos(seen, self.data.pattern)
        span_cells.refuse_without_cells(each.said for each in changes.values())
        unknown = set(self._corrections.videos).difference(seen)
        if unknown:
            decisions = [each for video in unknown for each in self._corrections.changes_of(video)]
            first = min(decisions)
            raise UsageError(
                f"--corrections={self._config.corrections}: {len(decisions)} of {self._corrections.count} decisions "
                f"are about {len(unknown)} videos that {self.data.pattern} does not have, such as "
                f"{shards.id_text(first.video)[:60]!r} in line {first.line}. Name all records that were audited as "
                "--data, or take these lines out."
            )
        return changes

    def _summary(self, changes: Mapping[str, Changes], written: Mapping[str, Shard] | None = None) -> dict[str, Any]:
        """The content of summary.json; warns of decisions that have changed nothing."""
        self._corrections.warn_of_idle("the record")
        _warn_of_segments(sum(each.without_segment for each in changes.values()))
        splits = {}
        for name, of_split in changes.items():
            contents = [shard for path, shard in (written or {}).items() if path.startswith(f"{name}/")]
            size = {"bytes": sum(shard.bytes for shard in contents)} if written else {}
            absent = self._classes.without_video(of_split.positives.tolist())
            described = {"shards": len(self._splits[name].files), WITHOUT_VIDEO: absent}
            splits[name] = of_split.counts() | described | size
        return {
            "level": self._level,
            "features": [str(each) for each in self.data.format.format.features] if self.data.format else [],
            "classes": self._classes.size,
            "splits": splits,
            "labels corrected": {
                "added": sum(each.added for each in changes.values()),
                "removed": sum(each.removed for each in changes.values()),
            },
            "decisions": self._corrections.count,
            "decisions that changed nothing": len(self._corrections.idle),
            **({"answers": len(self._answers) + len(self.spans)} if self._config.labels else {}),
        }


def _warn_of_segments(count: int) -> None:
    """Says that labels were added of which --segment_labels learns nothing."""
    if count:
        print(
            f"Warning: of {quantity(count, 'label')} added to videos with rated segments, no decision says in which "
            "segments these classes are. A training with --segment_labels learns nothing of them; to say where they "
            "are, make the records of a table of spans (yt8m make-records --rows=spans).",
            file=sys.stderr,
        )


def _level_of(data: OpenedData) -> str:
    """The level of some records."""
    if data.format is None:
        raise UsageError(f"--data={data.pattern}: no record shows what these files hold; name records with features.")
    return data.format.format.level


def _refuse_own_folder(data: OpenedData, out: str) -> None:
    """Refuses to write into the folders of the records that are read, or around them."""
    folders = {os.path.dirname(storage.absolute(path)) for path in data.files}
    levels = {os.path.dirname(folder) for folder in folders}
    folders |= {folder for folder in levels if storage.exists(storage.join(folder, SUMMARY))}
    folders |= {storage.absolute(path) for path, _ in storage.paths_by_pattern(data.pattern) if storage.is_dir(path)}
    for folder in sorted(folders):
        inner, outer = sorted((folder, storage.absolute(out)), key=len, reverse=True)
        if f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/"):
            raise UsageError(
                f"--out={out} and {folder} of --data lie one in the other; name another folder as --out, beside that "
                "of the records: they stay as they are, in case a decision was wrong."
            )


def _classes_of(data: OpenedData, out: str) -> Classes:
    """The classes of the records; refuses a folder whose vocabulary has others."""
    size = data.num_classes()
    if size is None:
        raise UsageError(
            f"{data.pattern}: nothing says how many classes there are; put their {vocabulary.NAME} (index,name) beside "
            "the shards, or above them."
        )
    names = data.vocabulary or None
    path = storage.join(out, vocabulary.NAME)
    if names and storage.exists(path):
        vocabulary.read(path).refuse_other(names, path, names.path, "Name another folder as --out.")
    return Classes({}, names, size)


def _lines(summary: Mapping[str, Any], config: RelabelConfig, data: OpenedData) -> Iterator[str]:
    """Yields what people are told of a summary."""
    folder = storage.join(config.out, summary["level"])
    used = summary["decisions"] - summary["decisions that changed nothing"]
    counts = [f"{quantity(summary['answers'], 'video')} answered in {config.labels}"] if config.labels else []
    counts += [f"{used} of {summary['decisions']} decisions change labels"] if config.corrections else []
    yield f"{folder} {'would have' if config.dry_run else 'has'} the features of {config.data}; {', '.join(counts)}"
    for name, split in summary["splits"].items():
        changes = f"{split['labels added']} added, {split['labels removed']} removed"
        videos, labels, shards = (quantity(split[f"{noun}s"], noun) for noun in ("video", "label", "shard"))
        yield f"  {name}: {videos}, {labels} ({changes}), {shards}"
        yield from (f"    {line}" for line in span_cells.describe(split.get("spans", {})))
        yield from absent_lines(name, split)
    if not config.dry_run and TRAIN in summary["splits"] and data.format:
        described = data.format.format
        pattern = storage.pattern_in(storage.join(folder, TRAIN), "*.tfrecord")
        yield "Train on it by"
        yield f"  {training_command(pattern, described.level, described.features, described.segment_labels)}"
