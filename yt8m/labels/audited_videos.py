"""Makes the records of an audit from video files: `yt8m audit --videos`.

The records are in the folder of the audit, in `records`, where `yt8m extract` keeps what it has finished. A table with
the address of each video lies beside them, so that the page of the audit has links to the videos.
"""

from __future__ import annotations

import csv
import dataclasses

from yt8m import registry, storage
from yt8m.config.programs import AuditConfig
from yt8m.datasets import extract
from yt8m.datasets.extract.computing import ChosenExtractor
from yt8m.datasets.extract.video_table import open_videos
from yt8m.tables.opening import is_table
from yt8m.tables.understood import TableFlags

RECORDS, MEDIA = "records", "media.csv"
_ROWS_AT_ONCE = 8192  # number of videos whose addresses are read at a time


def with_records(config: AuditConfig) -> AuditConfig:
    """Extracts the features of the videos that a config names; returns a config that names their records."""
    extract.make(*_extraction(config))
    records = storage.pattern_in(config.out, RECORDS, "video", "*", "*.tfrecord")
    addresses = config.media or _write_addresses(config.videos, storage.join(config.out, RECORDS))
    return dataclasses.replace(config, videos="", extractors=(), data=records, media=addresses)


def describe(config: AuditConfig) -> str:
    """What the videos that a config names and their labels are understood as."""
    extraction, chosen = _extraction(config)
    return extract.Extraction(extraction, chosen).understood


def _extraction(config: AuditConfig) -> tuple[extract.ExtractConfig, list[ChosenExtractor]]:
    """The extraction of the records of an audit, and its extractors."""
    folder = storage.join(config.out, RECORDS)
    labels = "column" if is_table(config.videos) else "folder"
    extraction = extract.ExtractConfig(
        out=folder, videos=config.videos, extractors=config.extractors, labels=labels, level=("video",)
    )
    registry.set_command_line_names(config.extractors)
    return extraction, extract.choose(config.extractors, {})


def _write_addresses(videos: str, folder: str) -> str:
    """Writes the table of the ids and addresses of the videos, as for --media; returns its path."""
    path = storage.join(folder, MEDIA)
    with storage.write_atomic(path, "w") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("id", "address"))
        for rows in open_videos(videos, "folder", TableFlags()).batches(_ROWS_AT_ONCE):
            table.writerows(
                (video_id, storage.absolute(str(video)))
                for video_id, video in zip(rows.cells["id"], rows.cells["path"], strict=True)
            )
    return path
