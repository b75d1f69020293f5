"""`yt8m count`: estimates how many videos show each class, by a model whose errors a labelled sample corrects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging

from yt8m import options, scoring, terminal
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.errors import RunError, quantity
from yt8m.eval_util.prediction_powered import MIN_VIDEOS_PER_SIDE, ClassShares, ScoreSums, class_shares
from yt8m.options import option, path_option
from yt8m.records import label_check, prediction_files, shared_videos
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary
from yt8m.registry import TRUST_HELP
from yt8m.scoring.predict_config import PredictConfig
from yt8m.scoring.scorer import Scorer
from yt8m.tables.words.spreadsheets import spreadsheet_text

# The columns of the table: the estimates, then how they were made (`basis` is `corrected` or `labels`).
COLUMNS = ("index", "name", "videos", "videos_low", "videos_high", "share", "share_low", "share_high")
COLUMNS_OF_ORIGIN = ("basis", "weight", "labelled")


@dataclass(frozen=True)
class CountConfig(options.Checked):
    """The flags of `yt8m count`."""

    train_dir: str = same_as(PredictConfig, "train_dir", flag="model", aliases=("train_dir",))
    data: str = path_option("records of the videos to count, without labels", is_required=True)
    labelled: str = path_option(
        "records with labels: a random sample of videos like those to count, and none of these themselves",
        is_required=True,
    )
    out: str = option("count.csv", "CSV file to write, with a line for each class", is_path=True)
    level: float = option(0.95, "probability with which an interval contains the truth", minimum=0.5, maximum=0.9999)
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    vocabulary: str = same_as(PredictConfig, "vocabulary")
    trust_code: bool = option(False, TRUST_HELP)
    json: bool = option(False, terminal.JSON_HELP)


def run(config: CountConfig) -> int:
    """Counts the videos and writes the counts of all classes to `config.out`; returns the exit status.

    Raises:
      UsageError: there is no such model or file, or the records are not of the kind that the model takes.
      RunError: a record is damaged, --data or --labelled has no video, no video of --labelled has a label, or a video
        is in both.
    """
    data = open_data([config.data], vocabulary=config.vocabulary)
    ids_of_labelled: set[str] = set()
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="parsed records"
    ) as scorer:
        names = scorer.names_for(data)
        labelled = _sum_scores(scorer, open_data(config.labelled), "labelled", ids_of_labelled, has_labels=True)
        others = _sum_scores(scorer, data, "data", ids_of_labelled, has_labels=False)
    if not labelled.labels.any():
        raise RunError(
            f"--labelled={config.labelled}: no video has a label, so the errors of the model cannot be corrected; name "
            "records with labels."
        )
    shares = class_shares(labelled, others, config.level)
    rows = _rows(shares, names, others.videos)
    _write(config.out, rows)
    terminal.print_json(rows)
    corrected = int(shares.is_corrected.sum())
    logging.info(
        "%s has the counts of %d videos; the scores of %d classes are corrected by %d labelled videos",
        *(config.out, others.videos, corrected, labelled.videos),
    )
    if few := len(shares.shares) - corrected:
        logging.info(
            "%s estimated from the labels alone, because fewer than %d labelled videos have the class, or lack it",
            *(f"{quantity(few, 'class')} {'is' if few == 1 else 'are'}", MIN_VIDEOS_PER_SIDE),
        )
    return 0


def _sum_scores(scorer: Scorer, data: OpenedData, flag: str, ids_of_labelled: set[str], has_labels: bool) -> ScoreSums:
    """Scores the videos that a flag names, and sums up their scores and, with `has_labels`, their labels.

    The videos to count must not be among the labelled ones: the intervals assume that the sample is independent of the
    videos that are counted, and would otherwise be too narrow.
    """
    sums, records = ScoreSums(scorer.num_classes), scorer.records(data)
    scorer.check(records)
    if has_labels:
        label_check.warn(data)
        shared_videos.warn(data, scorer.training_data.data_pattern, flag)
    for batch in terminal.with_bar(iter(records), flag):
        ids, scores = scorer.scores(scorer.takes.arranged(batch))
        if has_labels:
            ids_of_labelled.update(ids)
        elif shared := ids_of_labelled.intersection(ids):
            raise RunError(
                f"--data={data.pattern}: the video {min(shared)} is in --labelled too. The videos to count must not be "
                "among the labelled ones; leave them out of --data, and add their labels to the counts."
            )
        sums.add(scores, batch.labels if has_labels else None)
    if not sums.videos:
        raise RunError(f"--{flag}={data.pattern}: the files have no record; name files with videos.")
    return sums


def _rows(shares: ClassShares, names: Vocabulary, videos: int) -> list[dict[str, Any]]:
    """The table, with a row for each class; `videos` is the number of videos that were counted."""
    counts = shares.shares * videos, shares.count_low, shares.count_high
    bases = ["corrected" if is_corrected else "labels" for is_corrected in shares.is_corrected.tolist()]
    classes = range(len(bases)), map(names.name, range(len(bases)))
    columns = *classes, *counts, shares.shares, shares.low, shares.high, bases, shares.weights, shares.positives
    return [dict(zip((*COLUMNS, *COLUMNS_OF_ORIGIN), row, strict=True)) for row in zip(*columns, strict=True)]


def _write(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    formats = dict.fromkeys(COLUMNS[2:5], ".1f") | dict.fromkeys(COLUMNS[5:], ".6g") | {"weight": ".3g"}
    lines = [{column: format(value, formats.get(column, "")) for column, value in row.items()} for row in rows]
    for line in lines:
        line["name"] = spreadsheet_text(line["name"])
    prediction_files.write_table(path, [*COLUMNS, *COLUMNS_OF_ORIGIN], [list(line.values()) for line in lines])
