"""`yt8m from-mediapipe`: converts files of MediaPipe's feature extraction into a shard of frame records.

MediaPipe's YouTube-8M graph writes one serialized SequenceExample for each video.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yt8m import options, storage
from yt8m.config.model_options import check_files
from yt8m.errors import RunError
from yt8m.options import option
from yt8m.records import data_format, shards
from yt8m.records.shards import Feature, Record

NAMES = {"RGB/feature/floats": "rgb", "AUDIO/feature/floats": "audio"}  # MediaPipe's name: name in frame records


def run(config: FromMediapipeConfig) -> int:
    """Converts the files that the flags name; returns the exit status.

    Raises:
      UsageError: no file matches.
      RunError: a file is not a valid SequenceExample, or two are of one video. The message names the file, and nothing
          is written.
    """
    paths = check_files("data", config.input_pattern)
    seen: dict[bytes, str] = {}
    with storage.write_atomic(config.output_file) as shard:
        for path in paths:
            payload = convert(path, config.keep_floats)
            video_id = shards.parse(payload, with_lists=False).id()
            if seen.setdefault(video_id, path) != path:
                raise RunError(
                    f"{path} and {seen[video_id]} both are of video {shards.id_text(video_id)}; "
                    "a proto without an id is named after its file: give each file a name of its own."
                )
            shard.write(shards.framed(payload))
    print(f"{len(paths)} videos are in {config.output_file}", file=sys.stderr)
    return 0


@dataclass(frozen=True)
class FromMediapipeConfig(options.Checked):
    """The flags of `yt8m from-mediapipe`."""

    input_pattern: str = option(
        "",
        "files of one serialized SequenceExample each: a glob, local or gs://",
        flag="data",
        aliases=("input_pattern",),
        is_required=True,
        is_path=True,
    )
    output_file: str = option(
        "", "the TFRecord shard to write", flag="out", aliases=("output_file",), is_required=True, is_path=True
    )
    keep_floats: bool = option(
        False, "write the floats under MediaPipe's names, not bytes as in YouTube-8M (four times as large)"
    )


def convert(path: str, keep_floats: bool = False) -> bytes:
    """The frame record of one proto file, with its id, labels and features. Without an id the file's name is used.

    The features have one frame per second. If the lists differ in length, the longer ones are cut to the shortest:
    MediaPipe's last audio window may reach past the last picture.

    Raises:
      RunError: the file is damaged, holds none of the features, or has frames of unequal size.
    """
    try:
        record = shards.parse(storage.read_bytes(path))
    except ValueError as error:
        raise RunError(f"{path} is not a serialized SequenceExample: {error}.") from error
    features = {name: _frames(record.lists[name], name, path) for name in NAMES if name in record.lists}
    if not features:
        list_names = ", ".join(record.lists) or "no feature list"
        raise RunError(f"{path} holds {list_names}; expected {' or '.join(NAMES)}.")
    shortest = min(map(len, features.values()))
    lists: dict[str, Sequence[bytes]] = {}
    for name, frames in features.items():
        if keep_floats:
            lists[name] = [shards.float_feature(frame) for frame in frames[:shortest]]
        else:
            lists[NAMES[name]] = shards.frame_features(data_format.quantized(frames[:shortest], data_format.PUBLISHED))
    return shards.sequence_example(_context(record, path), lists)


def _context(record: Record, path: str) -> dict[str, bytes]:
    name = os.path.splitext(os.path.basename(path))[0]
    context = {"id": shards.bytes_feature(record.id() or os.fsencode(name))}
    labels = record.context["labels"].values() if "labels" in record.context else []
    if labels:
        context["labels"] = shards.int64_feature([int(label) for label in labels])
    return context


def _frames(features: Sequence[Feature], name: str, path: str) -> npt.NDArray[np.float32]:
    """The frames of one feature list, float32 [T, size].

    Raises:
      RunError: frames are missing, of unequal size, or hold values that no feature may have.
    """
    rows = [np.array(feature.values(), np.float32) for feature in features if feature.kind == "float"]
    sizes = {len(row) for row in rows}
    if not rows or len(rows) < len(features) or len(sizes) > 1 or 0 in sizes:
        problem = f"found {sorted(sizes)}" if features else "it has no frame"
        raise RunError(f"{path}: {name} must hold as many floats in each frame; {problem}.")
    frames = np.array(rows, np.float32)
    if shards.unfit_values(frames):
        raise RunError(f"{path}: {name} holds a value that is {shards.UNFIT}.")
    return frames
