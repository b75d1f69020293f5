"""Reads the labels from records that a test made."""

from __future__ import annotations

import pathlib

from yt8m.records import vocabulary
from yt8m.records.batches import read_records


def labels_of(made: pathlib.Path) -> dict[str, set[str]]:
    """{id of a video: the names of its labels}, from all splits in a folder of records."""
    names = vocabulary.read(str(made.parent / vocabulary.NAME)).names
    return {
        video: {names[number] for number in row.nonzero()[0]}
        for batch in read_records(f"{made}/*/*.tfrecord")
        for video, row in zip(batch.ids, batch.labels, strict=True)
    }
