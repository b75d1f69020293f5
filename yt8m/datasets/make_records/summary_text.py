"""What the end of `yt8m make-records` and `yt8m extract` prints: what was made, and how to train on it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yt8m import storage
from yt8m.config.data_config import KNOWN_SIZES
from yt8m.datasets.make_records.output import WITHOUT_VIDEO
from yt8m.datasets.make_records.span_cells import describe
from yt8m.errors import quantity
from yt8m.records.data_folders import TEST
from yt8m.records.data_format import FeatureFormat


def print_summary(summary: Mapping[str, Any], out: str, level: str, features: Sequence[FeatureFormat]) -> None:
    """Prints the content of summary.json, and the command that trains on the records."""
    folder = storage.join(out, level)
    has_labels = any(split["labels"] for split in summary["splits"].values())
    print(f"{folder}: {', '.join(summary['features'])}; {quantity(summary['classes'], 'class')}")
    for name, split in summary["splits"].items():
        frames = f", {quantity(split['frames'], 'frame')}" if "frames" in split else ""
        videos, labels, shards = (quantity(split[f"{noun}s"], noun) for noun in ("video", "label", "shard"))
        print(f"  {name}: {videos}{frames}, {labels}, {shards}")
        for line in describe(split.get("spans", {})):
            print(f"    {line}")
        for line in absent_lines(name, split) if has_labels else ():
            print(line)
    if summary["rows left out"]:
        print(f"  bad rows left out: {len(summary['rows left out'])}; summary.json lists them")
    if not has_labels:
        pattern = shlex.quote(storage.pattern_in(folder, "*/*.tfrecord"))
        print("No video has a label. Let a model find their classes, or choose which to label, by")
        print(f"  yt8m predict --model=RUN {pattern}\n  yt8m select --model=RUN --data={pattern} --out=next.csv")
        return
    has_spans = any(split.get("spans") for split in summary["splits"].values())
    training, *others = summary["splits"]
    pattern = storage.pattern_in(storage.join(folder, training), "*.tfrecord")
    if summary["splits"][training]["videos"]:
        print(f"Train on it by\n  {training_command(pattern, level, features, has_spans)}")
    elif filled := next((name for name in others if summary["splits"][name]["videos"]), None):
        pattern = storage.pattern_in(storage.join(folder, filled), "*.tfrecord")
        print("No video is for training. Evaluate a model on them by")
        print(f"  yt8m eval --model=RUN --data={shlex.quote(pattern)}")


def absent_lines(name: str, split: Mapping[str, Any]) -> Iterator[str]:
    """Yields the line about the classes without a video in a split of a summary, if there are any."""
    absent = split[WITHOUT_VIDEO]
    if absent and name != TEST:
        rest_of_names = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
        yield f"    classes without a video in this split: {', '.join(absent[:10])}{rest_of_names}"


def training_command(pattern: str, level: str, features: Sequence[FeatureFormat], has_spans: bool) -> str:
    """The command that trains on the records.

    Usually a training takes the features from the manifest. But for a feature with the name of a YouTube-8M feature it
    would assume the published size and choose no model, so in that case the command says both.
    """
    flags = dict(data=pattern)
    if any(feature.name in KNOWN_SIZES for feature in features):
        flags["model"] = "auto"
        flags["feature_names"] = ",".join(feature.name for feature in features)
        flags["feature_sizes"] = ",".join(str(feature.size) for feature in features)
        flags |= {"frame_features": "true"} if level == "frame" else {}
        flags |= {"segment_labels": "true"} if has_spans else {}
    return "yt8m train " + " ".join(f"--{name}={shlex.quote(value)}" for name, value in flags.items())
