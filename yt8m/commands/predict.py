"""`yt8m predict --train_dir=DIR FILE`: prints the best classes of a few records or videos, with the classes' names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from yt8m import extractors, options
from yt8m.command_line import flags, program
from yt8m.commands import vocabulary_search
from yt8m.errors import RunError, UsageError
from yt8m.export import saved_model
from yt8m.extractors.containers import ENDINGS
from yt8m.options import option
from yt8m.records import manifest, shards, thresholds, vocabulary
from yt8m.registry import TRUST_HELP


def main(argv: list[str]) -> int:
    """Prints the best classes of the first records; returns the exit status.

    Raises:
      UsageError: there is no such model or file, or the extractors of a video cannot be used.
      RunError: a record is damaged or does not fit the model, or there is no record to show.
    """
    patterns: list[str] = []
    purpose = "Shows the best classes of records or of videos: name TFRecord files or video files after the flags."
    config, given = flags.read_with(
        PredictConfig, "yt8m predict", purpose, argv, extractors, "extractors", operands=patterns
    )
    files = manifest.shards_at(patterns)
    if _are_videos(files):
        from yt8m.commands import video_predictions  # slow to import, and records do not need it

        return video_predictions.main(config, given, files)
    for name, value in (*given.items(), ("timeline", config.timeline), ("csv", config.csv)):
        if value:
            raise UsageError(f"--{name} is for video files; these are records.")
    program.set_up_log()
    saved_model.find(config.train_dir)
    found = vocabulary.of_data(config.vocabulary, files)
    records = list(itertools.islice(_records(files, config.video_id), config.count))
    if not records:
        what = f"no video {config.video_id!r}" if config.video_id else "no record"
        raise RunError(f"{', '.join(patterns)}: there is {what}.")
    with saved_model.opened(config.train_dir) as model:
        own = vocabulary.for_model(model.names, model.num_classes, model.folder, found)
        tagger = tagger_for(config, model.folder, model.num_classes)
        _show(model.predict(records), records, config.top_k, vocabulary.of(model.num_classes, own), tagger)
    return 0


@dataclass(frozen=True)
class PredictConfig(options.Checked):
    """The flags of `yt8m predict`."""

    required = ("train_dir",)

    train_dir: str = option("", "folder of a run, or of an exported model", alias="model")
    vocabulary: str = option(
        "",
        "CSV of the classes' names, with the columns index,name; by default the model's own, or vocabulary.csv by the "
        "records",
    )
    count: int = option(5, "number of records shown, the first ones", minimum=1, maximum=1000)
    top_k: int = option(5, "classes of each record, best first", minimum=1)
    tags: bool = option(False, "show all classes whose score reaches the threshold that `yt8m eval --report` chose")
    thresholds: str = option("", thresholds.HELP)
    video_id: str = option("", "show this video only, wherever it is in the files")
    csv: str = option("", "for video files: write paths, classes and scores to this CSV file instead of showing them")
    timeline: bool = option(
        False,
        "of video files: also write VIDEO.timeline.html, a page with the scores of every 5 seconds and thumbnails",
    )
    extractors: tuple[str, ...] = option(
        (), "of video files: the extractors of a model that does not name its own, such as inception,vggish"
    )
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds and not (self.tags or self.timeline):
            raise UsageError("--thresholds chooses the tags: add --tags (or --timeline), or leave it out.")


def _are_videos(paths: Sequence[str]) -> bool:
    """Whether the files are videos, by their endings.

    Raises:
      UsageError: only some of them are.
    """
    found = [path for path in paths if path.lower().endswith(ENDINGS)]
    if found and len(found) < len(paths):
        other = next(path for path in paths if path not in found)
        raise UsageError(f"{found[0]} is a video and {other} is not: name videos only, or records only.")
    return bool(found)


def _records(files: Sequence[str], video_id: str) -> Iterator[bytes]:
    """Yields the serialized records of the files; if `video_id` is not empty, only those of this video."""
    wanted = shards.id_bytes(os.fsencode(video_id))
    for path in files:
        for payload, record in shards.read_contexts(path):
            if not wanted or record.id() == wanted:
                yield payload


def tagger_for(config: PredictConfig, folder: str, num_classes: int | None) -> thresholds.Tagger | None:
    """Chooses the tags; None if the flags ask for none, or if a timeline has no thresholds.

    Args:
      config: the flags.
      folder: the folder of the model.
      num_classes: number of classes of the model; None if it is not known.

    Raises:
      UsageError: --tags is given, and there are no thresholds.
    """
    if not (config.tags or config.timeline):
        return None
    found = thresholds.find(folder, config.train_dir, num_classes, config.thresholds)
    if found is None and config.tags:
        raise UsageError(
            f"--tags: {config.train_dir} has no {thresholds.NAME}; run `yt8m eval --report` on the run, and name its "
            f"eval/{thresholds.NAME} by --thresholds (or export the run again)."
        )
    return found


def _show(
    found: saved_model.Predictions,
    records: Sequence[bytes],
    top_k: int,
    names: vocabulary.Vocabulary,
    tagger: thresholds.Tagger | None,
) -> None:
    """Prints a table for each record. A star marks the classes that are labels of the record."""
    for row, payload in enumerate(records):
        feature = shards.parse(payload, with_lists=False).context.get("labels")
        labels = sorted({int(value) for value in feature.values()} if feature else ())
        if row:
            print()
        told = ", ".join(map(names.name, labels)) or "none given"
        print(f"{shards.id_text(found.video_ids[row])}  labels: {told}")
        classes, scores = found.classes[row], found.scores[row]
        kept = np.arange(len(classes)) < top_k if tagger is None else tagger.are_tags(classes, scores)
        best = zip(classes[kept].tolist(), scores[kept].tolist(), strict=True)
        lines = [(f"{score:.3f}", "*" if c in labels else "", names.name(c), str(c)) for c, score in best]
        show_classes(lines)


def show_classes(lines: Sequence[Sequence[str]]) -> None:
    """Prints the classes of a video as a table without headers."""
    if lines:
        vocabulary_search.show([""] * len(lines[0]), lines)
    else:
        print("no tag: no score reaches the threshold of its class")
