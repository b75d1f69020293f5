"""The options of `yt8m predict`, and what its two parts, for records, arrays and videos, all show by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yt8m import options, terminal
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.errors import UsageError, quantity
from yt8m.options import option, path_option
from yt8m.records import thresholds
from yt8m.records.film_windows import WHOLE, WINDOWS
from yt8m.records.span_files import FORMS
from yt8m.records.vocabulary import Vocabulary
from yt8m.registry import TRUST_HELP, reserve_flags
from yt8m.scoring.scorer import ScoredClasses, Scorer


@dataclass(frozen=True)
class PredictConfig(options.Checked):
    """The flags of `yt8m predict`."""

    train_dir: str = path_option(
        "folder of a run or of an exported model, an archive (.tgz), or an ONNX file",
        flag="model",
        aliases=("train_dir",),
        is_required=True,
    )
    data: tuple[str, ...] = option(
        (),
        "records, or a .npy or .npz file of arrays, if no words after the flags name them",
        is_operand=True,
        is_path=True,
    )
    videos: tuple[str, ...] = option(
        (), "video files or folders, if no words after the flags name them", is_operand=True, is_path=True
    )
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    vocabulary: str = path_option(
        "CSV of the classes' names, with the columns index,name; by default the model's own, or vocabulary.csv by the "
        "records"
    )
    count: int = option(5, "number of records shown, the first ones", minimum=1, maximum=1000)
    top_k: int = option(5, "classes of each record, best first", minimum=1)
    tags: bool = option(False, "show all classes whose score reaches the threshold that `yt8m eval --report` chose")
    thresholds: str = path_option(thresholds.HELP)
    tags_of: str = option(
        "",
        "how a video that is longer than all training videos is scored: by windows of their median length, of which "
        "the best one counts for each class; or as a whole [windows; whole for features of YouTube-8M, and if the "
        "lengths are not known]",
        choices=("", WINDOWS, WHOLE),
    )
    video_id: str = option("", "show this video only, wherever it is in the files")
    csv: str = path_option(
        "for video files and arrays: write names, classes and scores to this CSV file instead of showing them",
        flag="out",
        aliases=("csv",),
    )
    features: str = path_option(
        "write the last hidden layer of the model for each video, its embedding, to this .npz, .csv or .parquet file, "
        "instead of showing classes"
    )
    spans: str = path_option(
        "write the spans of time in which the model finds each class in each video to this file, instead of showing "
        "classes"
    )
    spans_format: str = option(
        "csv",
        "form of the file of --spans: a table; pre-annotations of Label Studio's TimelineLabels; or results as "
        "ActivityNet's evaluation reads them",
        choices=FORMS,
        needs="spans",
    )
    spans_from: str = path_option(
        "eval/spans.json of the run of the model, for an export or an ONNX file [the model's own, if it is a run]",
        needs="spans",
    )
    frame_rate: float = option(24.0, "for label-studio: the frameRate of the Video tag", minimum=1e-3, needs="spans")
    timeline: bool = option(
        False,
        "of video files: also write VIDEO.timeline.html, a page with the scores of every 5 seconds and thumbnails",
    )
    extractors: tuple[str, ...] = option(
        (),
        "of video files: the extractors of a model that does not name its own, such as inception,vggish, or names of "
        "installed packages",
        is_code=True,
    )
    max_bad_packets: int = option(
        0, "of video files: number of damaged packets of a video that may be left out", minimum=0
    )
    trust_code: bool = option(False, TRUST_HELP)
    json: bool = option(False, "print one JSON list; what is for people goes to the error stream")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds and not (self.tags or self.timeline):
            raise UsageError(
                "--thresholds has no effect without --tags or --timeline: add one of them, or leave out --thresholds."
            )
        written = {"--out": self.csv, "--features": self.features, "--spans": self.spans}
        if self.json and (flags := [flag for flag, value in written.items() if value]):
            raise UsageError(f"--json prints the classes, which {flags[0]} replaces by a file: leave one of them out.")
        shown = {"--out": self.csv, "--tags": self.tags, "--timeline": self.timeline, "--video_id": self.video_id}
        if self.features and (flags := [flag for flag, value in shown.items() if value]):
            raise UsageError(
                f"--features writes vectors of all videos, without classes: leave out {' and '.join(flags)}."
            )


reserve_flags("extraction", PredictConfig)


def tagger_for(config: PredictConfig, scorer: Scorer) -> thresholds.Tagger | None:
    """Returns the thresholds that choose the tags of a video, or None if no tags are to be shown.

    No tags are shown if neither --tags nor --timeline is given, or if --timeline alone is given and the model has no
    thresholds.
    """
    if not (config.tags or config.timeline):
        return None
    tagger = scorer.tagger(config.thresholds)
    if tagger is None and config.tags:
        raise UsageError(
            f"--tags: {config.train_dir} has no {thresholds.NAME}; run `yt8m eval --report` on the run, and name its "
            f"eval/{thresholds.NAME} by --thresholds (or export the run again)."
        )
    return tagger


def few_positives(tagger: thresholds.Tagger | None, index: int) -> str:
    """A note about a class whose threshold was chosen on few videos; empty for others, and without thresholds."""
    count = tagger.few_positives(index) if tagger else None
    if count is None:
        return ""
    return f"its threshold comes from {quantity(count, 'video')}"


def describe_classes(
    scored: ScoredClasses, names: Vocabulary, tagger: thresholds.Tagger | None
) -> list[dict[str, Any]]:
    """The classes of a video as --json prints them; `few_positives` is that of the service's answers."""
    rows: list[dict[str, Any]] = []
    for index, score in scored:
        count = tagger.few_positives(index) if tagger else None
        few = {} if count is None else {"few_positives": count}
        rows.append({"index": index, "name": names.name(index), "score": score, **few})
    return rows


def show_classes(lines: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """Prints the classes of a video as a table without headers, or that the video has no tag if `lines` is empty.

    Args:
      lines: for each class the texts of its cells, such as its score and its name.
      notes: a note about each class, which may be empty.
    """
    if any(notes):
        lines = [(*cells, note) for cells, note in zip(lines, notes, strict=True)]
    if lines:
        terminal.print_table([""] * len(lines[0]), lines)
    else:
        print("no tag: no score reaches the threshold of its class")
