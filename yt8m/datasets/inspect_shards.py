"""`yt8m inspect FILES`: shows the content of TFRecord shards as a table or as JSON."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from yt8m import options, storage, terminal
from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.config.of_run import same_as
from yt8m.datasets import labelled_spans
from yt8m.errors import RunError, UsageError, quantity
from yt8m.options import option, path_option
from yt8m.records import label_check, shards, span_files
from yt8m.records.data_format import DataFormat, Range
from yt8m.records.deep_check import DeepCheck
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.shards import SEGMENT_SIZE, Feature, Record, id_text
from yt8m.records.vocabulary import Vocabulary
from yt8m.terminal import is_terminal, printable

_SHOWN_IDS, _SHOWN_CLASSES, _SHOWN_DAMAGE = 5, 10, 20  # largest numbers of ids, classes and problems shown per shard


class FeatureSummary:
    """Summary of one feature over all records of a shard.

    Attributes:
      kinds: the types: `uint8` (values in bytes), `float`, `int64`, or `empty` for a feature without values.
      sizes: {number of values of a frame: number of frames}.
      low, high: the smallest and the largest finite value; `low` is larger than `high` if there is none.
    """

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.sizes: Counter[int] = Counter()
        self.low, self.high = float("inf"), float("-inf")
        self.not_finite = 0

    def add(self, features: list[Feature]) -> None:
        """Adds the frames of one record; a video-level feature counts as one frame."""
        for frame in features:
            values = frame.numbers()
            self.kinds.add("uint8" if frame.kind == "bytes" else frame.kind or "empty")
            self.sizes[len(values)] += 1
            finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
            self.not_finite += len(values) - len(finite)
            if len(finite):
                self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    def as_json(self, bounds: Range | None) -> dict[str, Any]:
        """The summary as a dict for `--json`; `bounds` is the range of values that bytes represent, None if unknown."""
        return {
            "type": "/".join(sorted(self.kinds)),
            **({"bytes_stand_for": list(bounds)} if bounds and "uint8" in self.kinds else {}),
            "sizes": {str(size): count for size, count in sorted(self.sizes.items())},
            "range": [self.low, self.high] if self.low <= self.high else None,
            "not_finite": self.not_finite,
        }


class ShardSummary:
    """Summary of one shard: level, features, ids, labels, frames, ratings, and the damage that `DeepCheck` finds.

    Args:
      declared_format: the format of the records according to the shard's manifest; None if there is none.

    Attributes:
      size: bytes of the file.
      features: {name: summary}.
      levels: {video, frame or segment: number of records}.
      labels: {class: number of records with this label}.
      unlabelled: number of records without a label.
      ratings: {class: number of ratings}.
      positive: number of ratings above 0.
      annotated: number of segments in which people have rated every class.
    """

    def __init__(self, path: str, declared_format: DataFormat | None = None) -> None:
        self._check = DeepCheck({})
        self._check.begin_shard(declared_format)
        self.path, self.size, self.records = path, storage.size(path), 0
        self.features: defaultdict[str, FeatureSummary] = defaultdict(FeatureSummary)
        self.levels: Counter[str] = Counter()
        self.ids: list[str] = []
        self.labels: Counter[int] = Counter()
        self.unlabelled = 0
        self.frames: list[int] = []
        self.ratings: Counter[int] = Counter()
        self.segments = self.positive = self.annotated = 0
        self._segment_size = (declared_format.segment_size if declared_format else None) or SEGMENT_SIZE
        self.damage: list[str] = []

    def read(self) -> ShardSummary:
        """Reads the shard up to the first record that cannot be read, and collects all damage; returns `self`."""
        try:
            for number, payload in enumerate(shards.read_shard(self.path)):
                self.records += 1
                try:
                    self._add_record(shards.parse(payload), number)
                except (ValueError, OverflowError) as error:  # OverflowError: a label or rating is infinite
                    self.damage.append(f"record {number}: {error}")
        except RunError as error:
            self.damage.append(str(error).removeprefix(f"{self.path}: "))
        return self

    def _add_record(self, record: Record, number: int) -> None:
        """Adds a record to all counts, and its problems to `damage`; `number` is its number in the shard, from 0."""
        location = f"record {number}"
        self.damage += [f"{location}: {problem}" for problem in self._check.problems_of(record, location)]
        self.ids.append(id_text(record.id()))
        labels, starts, classes, scores = (_numbers(record, name) for name in ("labels", *shards.RATING_LISTS))
        self.labels.update(map(int, labels))
        self.unlabelled += not labels
        self.ratings.update(map(int, classes))
        self.segments += len(set(starts))
        self.positive += sum(float(score) > 0 for score in scores)
        self.annotated += record.annotated_segments(self._segment_size)
        is_rated = "segment_labels" in record.context or "annotated_start_times" in record.context
        self.levels["segment" if is_rated else "frame" if record.lists else "video"] += 1
        for key, frames in record.features().items():
            self.features[key].add(frames)
        if record.lists:
            self.frames.append(max(map(len, record.lists.values())))

    def as_json(self, names: Vocabulary, ranges: Mapping[str, Range | None]) -> dict[str, Any]:
        """The summary as a dict for `--json`.

        Args:
          ranges: {feature: the range of values that its bytes represent}.
        """
        return {
            "path": self.path,
            "bytes": self.size,
            "level": "/".join(sorted(self.levels)) or "empty",
            "records": self.records,
            "features": {name: feature.as_json(ranges.get(name)) for name, feature in self.features.items()},
            "ids": self.ids[:_SHOWN_IDS],
            "frames": _min_mean_max(self.frames),
            "labels": {**_class_counts(self.labels, names), "records_without": self.unlabelled},
            "ratings": {
                **_class_counts(self.ratings, names),
                "segments": self.segments,
                "positive": self.positive,
                "annotated": self.annotated,
            },
            "damage": self.damage[:_SHOWN_DAMAGE],
            "damages": len(self.damage),
        }


def _numbers(record: Record, name: str) -> list[float]:
    """The values of a feature; none if they are no numbers, which is a problem that `DeepCheck` names."""
    return [value for value in record.values(name) if not isinstance(value, bytes)]


def _min_mean_max(values: list[int]) -> dict[str, float] | None:
    """{"least": ..., "mean": ..., "most": ...} of the values; None if there are none."""
    if not values:
        return None
    return {"least": min(values), "mean": sum(values) / len(values), "most": max(values)}


def _class_counts(counts: Counter[int], names: Vocabulary) -> dict[str, Any]:
    """The number of labels, the number and range of their classes, and the most frequent classes with their names."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_CLASSES]
    return {
        "count": sum(counts.values()),
        "classes": len(counts),
        "range": [min(counts), max(counts)] if counts else None,
        "most_frequent": [{"class": number, "name": names.name(number), "count": count} for number, count in ranked],
    }


_WIDTH = 160  # characters per line if the output is not a terminal


@dataclass(frozen=True)
class InspectConfig(options.Checked):
    """The flags of `yt8m inspect`."""

    data: tuple[str, ...] = option((), "shards, if no words after the flags name them", is_operand=True, is_path=True)
    json: bool = option(False, "print one JSON list rather than tables")
    num_classes: int | None = option(
        None,
        "number of classes of data without a vocabulary; if it is not YouTube-8M's 3862, classes are shown without "
        "names [that of the manifest, or 3862 for YouTube-8M's features]",
        minimum=1,
    )
    vocabulary: str = same_as(DataConfig, "vocabulary")
    spans: str = path_option("write the spans that people have marked in the videos to this file, instead of a table")
    spans_format: str = option(
        span_files.CSV,
        "form of the file of --spans: a table; annotations of Label Studio's TimelineLabels; or ActivityNet's JSON",
        choices=span_files.FORMS,
        needs="spans",
    )
    frame_rate: float = option(24.0, "for label-studio: the frameRate of the Video tag", minimum=1e-3, needs="spans")


def run(config: InspectConfig, patterns: list[str]) -> int:
    """Prints the content of the shards as tables or as JSON; returns the exit status, 1 if a shard is damaged.

    Raises:
      UsageError: no file is named, or none matches, or a flag contradicts the vocabulary.
      RunError: a manifest or a vocabulary is damaged.
    """
    if config.spans and config.json:
        raise UsageError("--json prints tables, which --spans replaces by a file: leave one of them out.")
    if config.spans:
        file = span_files.SpanFile(config.spans, config.spans_format, config.frame_rate, are_labels=True)
        data = open_data(patterns, vocabulary=config.vocabulary)
        labelled_spans.write(file, data, data_fit.assumed_classes(data, config.num_classes))
        return 0
    summaries = summaries_of(config, patterns)
    terminal.print_json(summaries)
    if not config.json:
        console = Console(soft_wrap=True, width=None if is_terminal(sys.stdout) else _WIDTH)
        for summary in summaries:
            console.print(_format_table(summary))
    return 1 if any(summary["damages"] for summary in summaries) else 0


def summaries_of(config: InspectConfig, patterns: Sequence[str]) -> list[dict[str, Any]]:
    """What each shard holds, as `--json` prints it."""
    data = open_data(patterns, vocabulary=config.vocabulary, whole_folders=True)
    # Each folder has its own vocabulary, because the shards may belong to different data sets.
    path_of_folder = {os.path.dirname(path): path for path in data.as_named}
    data_of_folder = {folder: data.of_files([path]) for folder, path in path_of_folder.items()}
    for data_there in data_of_folder.values():
        label_check.warn(data_there, are_needed=False)
    names = {folder: _shown_names(data_there, config.num_classes) for folder, data_there in data_of_folder.items()}
    summaries = []
    for path in data.as_named:
        folder = os.path.dirname(path)
        discovered = data_of_folder[folder].format
        declared_format = discovered.format if discovered and discovered.is_declared else None
        ranges = {feature.name: feature.range for feature in discovered.format.features} if discovered else {}
        summaries.append(ShardSummary(path, declared_format).read().as_json(names[folder], ranges))
    return summaries


def _shown_names(data: OpenedData, num_classes: int | None) -> Vocabulary:
    """The names of the classes of the shards of a folder.

    They are those of the file that --vocabulary names, or of the vocabulary in the shards' folder or above it. Without
    such a file they are YouTube-8M's, or none if --num_classes or the format of the records says that the classes are
    not YouTube-8M's.
    """
    return data.vocabulary.shown(data_fit.assumed_classes(data, num_classes))


def _format_table(shard: dict[str, Any]) -> Table:
    """The table of one shard, with one row for each fact; `shard` is the dict from `ShardSummary.as_json`."""
    table = Table(title=Text(printable(shard["path"])), show_header=False, title_justify="left")
    for row in _format_rows(shard):
        # `Text` is shown as it is. In a plain string, rich would take a name in brackets for markup.
        table.add_row(*(Text(printable(text)) for text in row))
    return table


def _format_rows(shard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (what the row is about, the text that is shown) for each row of the table of a shard."""
    yield "level", shard["level"]
    yield "records", f"{shard['records']} in {shard['bytes']:,} bytes"
    yield "ids", ", ".join(shard["ids"]) + (", ..." if shard["records"] > len(shard["ids"]) else "")
    if shard["frames"]:
        yield "frames", "{least} to {most}, {mean:.1f} on average".format(**shard["frames"])
    for name, feature in shard["features"].items():
        yield f"feature {name}", _format_feature(feature)
    yield (
        "labels",
        _format_labels(shard["labels"]) + f"; {quantity(shard['labels']['records_without'], 'record')} without",
    )
    if shard["ratings"]["count"] or shard["ratings"]["annotated"]:
        segments_text = f"; {shard['ratings']['segments']} segments, {shard['ratings']['positive']} positive"
        if shard["ratings"]["annotated"]:
            segments_text += f"; {shard['ratings']['annotated']} segments with every class rated"
        yield "ratings", _format_labels(shard["ratings"]) + segments_text
    for problem in shard["damage"]:
        yield "DAMAGE", problem
    if shard["damages"] > len(shard["damage"]):
        yield "DAMAGE", f"and {shard['damages'] - len(shard['damage'])} more"


def _format_feature(feature: dict[str, Any]) -> str:
    """A line about a feature, such as `float, 1024 values, -1.5 to 2`, from `FeatureSummary.as_json`."""
    sizes = ", ".join(
        f"{size} values ({count} times)" if len(feature["sizes"]) > 1 else f"{size} values"
        for size, count in feature["sizes"].items()
    )
    low, high = feature["range"] or (float("nan"), float("nan"))
    not_finite_text = f"; {feature['not_finite']} NOT FINITE" if feature["not_finite"] else ""
    range_text = "; bytes stand for {:g} to {:g}".format(*bounds) if (bounds := feature.get("bytes_stand_for")) else ""
    return f"{feature['type']}, {sizes}, {low:g} to {high:g}{not_finite_text}{range_text}"


def _format_labels(labels: dict[str, Any]) -> str:
    """A line with the number of labels or ratings and the most frequent classes, from the result of `_class_counts`."""
    if not labels["count"]:
        return "none"
    classes_text = ", ".join(f"{row['name']} ({row['class']}): {row['count']}" for row in labels["most_frequent"][:5])
    low, high = labels["range"]
    counts = f"{labels['count']} in {quantity(labels['classes'], 'class')}, numbers {low} to {high}"
    return f"{counts}; most frequent {classes_text}"
