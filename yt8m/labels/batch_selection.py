"""`yt8m select`: the videos to label next, as a batch: uncertain, of rare classes, and different from one another.

This is active learning in batches. Two measures decide:

- *Uncertainty* of a class is twice the standard deviation sqrt(p (1 - p)) of a label with the probability p. The value
  of a video is the sum of the uncertainties of its 20 best-scored classes, each divided by 1 + the number of labelled
  videos of the class, so that rare classes count. A model that was trained on few labels underestimates rare classes.
  So the odds of each class are first multiplied by those of its share of the labelled videos, and divided by those of
  its mean score (M. Saerens, P. Latinne and C. Decaestecker, Adjusting the Outputs of a Classifier to New a Priori
  Probabilities, Neural Computation 14 (2002)).
- *Difference* is the distance (1 - cosine) of the features from those of the nearest video that is labelled or was
  chosen before.

Videos are chosen one after another by the largest value x distance^15 (the greedy algorithm for k centres: T. F.
Gonzalez, Clustering to Minimize the Maximum Intercluster Distance, Theoretical Computer Science 38 (1985), weighted).
The exponent is large because distances in many dimensions differ little: without it, the values alone would decide.
To save time, only the 50,000 candidates with the largest values and the first 20,000 labelled videos are compared.

A model of spans chooses among the cells of films (`cell_selection`).

With `--by=uncertainty` the value of a video is the sum of 4 p (1 - p) over its best classes, and nothing else counts.
With `--by=random` the videos are drawn at random.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from yt8m import scoring, storage, terminal
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.config.programs import EvalConfig
from yt8m.datasets.make_records import human_labels
from yt8m.errors import UsageError, quantity
from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints64
from yt8m.eval_util.top_k import TopK, top_k
from yt8m.labels import after_selection
from yt8m.labels.findings import class_text
from yt8m.options import Checked, option, path_option
from yt8m.records import label_check
from yt8m.records.batches import read_records
from yt8m.records.opened_data import REMEDY, OpenedData, open_data
from yt8m.records.prediction_files import write_table
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.thresholds import Tagger
from yt8m.records.vocabulary import Vocabulary
from yt8m.registry import TRUST_HELP
from yt8m.reports import media_links
from yt8m.scoring import Scorer
from yt8m.tables.words.spreadsheets import spreadsheet_text

FORMATS = {"csv": ".csv", "label-studio": ".json"}
CLASSES_OF_VIDEO = 20  # number of best classes of a video that count
_POOL = 50_000  # this many candidates with the largest values (or --count, if it is larger) are compared
_POWER = 15  # exponent of the distance in value x distance^_POWER, by which the next video is chosen
MOST_LABELLED = 20_000  # largest number of labelled videos with which candidates are compared
_BLOCK = 2048  # number of labelled videos with which candidates are compared at once
HEADER = ("rank", "video", "value", "distance", "classes")
_LEAST_SCORE = 1e-9  # mean scores are kept this far from 0 and 1, so that their odds are finite
_SHOWN = 5  # number of classes of a video in the table


@dataclass(frozen=True)
class SelectConfig(Checked):
    """Which videos to label next, by which model."""

    model: str = path_option("folder of the trained run", aliases=("train_dir",), is_required=True)
    data: str = path_option("TFRecord files of videos to choose from", is_required=True)
    out: str = path_option("file to write", is_required=True)
    count: int = option(100, "number of videos to choose", minimum=1)
    by: str = option(
        "all",
        "what decides: all of uncertainty, rare classes and difference from other videos; or one alone",
        choices=("all", "uncertainty", "random"),
    )
    labelled: str = path_option("TFRecord files of videos with labels [those that the run was trained on]")
    format: str = option("csv", "what is written: a table, or tasks for Label Studio", choices=tuple(FORMATS))
    media: str = same_as(EvalConfig, "media", needs="", help="CSV file with the columns id,address of the videos")
    frame_rate: float = option(
        24.0, "for label-studio and a model of spans: the frameRate of the Video tag", minimum=1e-3
    )
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    seed: int = option(0, "seed of --by=random", minimum=0)
    trust_code: bool = option(False, TRUST_HELP)
    dry_run: bool = option(False, "say what would be chosen from, and write nothing")
    json: bool = option(False, terminal.JSON_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.out.endswith(FORMATS[self.format]):
            raise UsageError(
                f"--out={self.out}: with --format={self.format} the name must end in {FORMATS[self.format]}."
            )


class UnlabelledVideos(NamedTuple):
    """N videos to choose from.

    Attributes:
      mean_scores: float64 [C], the mean score of each class over all videos of `--data`.
      directions: float32 [N, D], the features of each, scaled to length 1, see `directions_of`.
    """

    ids: Sequence[str]
    best: TopK
    mean_scores: Floats64
    directions: Floats32

    def without(self, ids: Collection[str]) -> UnlabelledVideos:
        """A copy without the videos that have one of these ids. `mean_scores` stays the mean over all videos."""
        rows = [row for row, video in enumerate(self.ids) if video not in ids]
        best = TopK(self.best.scores[rows], self.best.classes[rows])
        return self._replace(ids=[self.ids[row] for row in rows], best=best, directions=self.directions[rows])


class LabelledVideos(NamedTuple):
    """Videos with labels.

    Attributes:
      counts: int64 [C], the number of labels of each class.
      directions: float32 [M, D], the features of the first M videos, scaled to length 1; M is at most MOST_LABELLED.
    """

    number: int
    counts: Ints64
    directions: Floats32
    among_candidates: Collection[str] = ()


class Selection(NamedTuple):
    """The n chosen videos, in the order in which they were chosen. All arrays are [n].

    Attributes:
      indices: int64, their indices among the candidates.
      values: float64, their values, as the top of this file defines them; with `--by=random` as for uncertainty.
      distances: float64, from the nearest video that is labelled or was chosen before; nan if distances do not count.
    """

    indices: Ints64
    values: Floats64
    distances: Floats64


def run(config: SelectConfig) -> int:
    """Chooses videos, writes them to `config.out` and prints what they are; returns the exit status.

    Raises:
      UsageError: there is no such model, the data do not fit it or have no video, the run does not say which videos are
        labelled, these number the classes differently, or all videos to choose from are labelled; or the table --media
        is missing or lacks a column.
      RunError: a record is damaged, or --media is not a CSV file.
    """
    chosen = choose(config)
    print("\n".join(chosen.lines), flush=True)
    terminal.print_json(chosen.figures)
    return 0


class Chosen(NamedTuple):
    """What a choice tells: lines for people, and what --json prints."""

    lines: Sequence[str]
    figures: Mapping[str, Any]


def choose(config: SelectConfig) -> Chosen:
    """Chooses videos and writes them to `config.out`."""
    with scoring.open(
        config.model, config.checkpoint, trust_code=config.trust_code, first_input="parsed records"
    ) as scorer:
        pattern = config.labelled or scorer.training_data.data_pattern
        labelled_data = open_data(pattern or None)
        refuse_other_numbers(scorer, labelled_data.vocabulary)
        if config.dry_run:
            understood = _describe_work(config, scorer, labelled_data)
            return Chosen([understood], {"understood": understood})
        if scorer.takes.has_frames and scorer.training_data.segment_labels:
            from yt8m.labels import cell_selection  # extends this module

            return cell_selection.choose(config, scorer, labelled_data)
        candidates = read_candidates(scorer, config.data)
        labelled = read_labelled(scorer, labelled_data, frozenset(candidates.ids))
        names, tagger = scorer.shown_names, None if config.format == "csv" else scorer.tagger()
    unlabelled = without_labelled(candidates, labelled, config, pattern)
    selection = select(unlabelled, labelled, config)
    write_selection(config, unlabelled, selection, names, tags_of(unlabelled.best, labelled, tagger))
    left_out = len(candidates.ids) - len(unlabelled.ids)
    lines = [describe_selection(unlabelled, selection, names, config)]
    lines += after_selection.for_videos(config.data, config.out if config.format == "csv" else "")
    if left_out:
        lines.append(f"left out of --data: {quantity(left_out, 'video')}, labelled already in {pattern}")
    figures = {"out": config.out, "candidates": len(unlabelled.ids), "left_out": left_out}
    return Chosen(lines, figures | {"chosen": [*json_rows(unlabelled.ids, unlabelled.best, selection, names)]})


def without_labelled(
    candidates: UnlabelledVideos, labelled: LabelledVideos, config: SelectConfig, pattern: str
) -> UnlabelledVideos:
    """The candidates that are not labelled yet; refuses if there are none. `pattern` names the labelled videos."""
    unlabelled = candidates.without(labelled.among_candidates)
    if not unlabelled.ids:
        raise UsageError(
            f"--data={config.data}: all {len(candidates.ids)} videos are among the labelled ones, {pattern}; name "
            "videos that are not, or name the labelled ones by --labelled."
        )
    return unlabelled


def _describe_work(config: SelectConfig, scorer: Scorer, labelled: OpenedData) -> str:
    """What would be chosen from what, in one paragraph."""
    by = {"all": "uncertainty, rare classes and difference from other videos"}.get(config.by, config.by)
    size = open_data(config.data, flag="data").size_in_words
    return (
        f"{config.data}: {size}, of which up to {config.count:,} would be chosen by {by}, with the "
        f"{quantity(scorer.num_classes, 'class', ',')} of {config.model}; labelled are {labelled.pattern or 'none'}: "
        f"{labelled.size_in_words}; the choice goes to {config.out}"
    )


def describe_selection(
    candidates: UnlabelledVideos, selection: Selection, names: Vocabulary, config: SelectConfig, noun: str = "videos"
) -> str:
    """A line for the terminal: the file, the number of chosen videos, and the 5 most frequent best classes of these."""
    counts = np.bincount(candidates.best.classes[selection.indices, 0])
    common = np.argsort(-counts, kind="stable")[:5]
    classes = ", ".join(names.name(int(number)) for number in common if counts[number])
    return f"{config.out}: {len(selection.indices)} of {len(candidates.ids)} {noun}, most of them of {classes}"


def directions_of(batch: NumpyBatch) -> Floats32:
    """The features of B videos, joined and scaled to length 1, float32 [B, D]; frames are averaged first."""
    joined = batch.joined_means()
    return np.asarray(joined / np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-12), np.float32)


def read_candidates(scorer: Scorer, pattern: str) -> UnlabelledVideos:
    """Reads the videos to choose from, and scores them by the model."""
    ids, scores, classes, directions = list[str](), [], [], []
    total = np.zeros(scorer.num_classes)
    records = read_records(pattern, num_classes=scorer.num_classes)
    scorer.check(records)
    for batch in terminal.with_bar(iter(records), "scoring"):
        all_scores = scorer.scores(scorer.takes.arranged(batch.without_labels()))[1]
        best = top_k(all_scores, CLASSES_OF_VIDEO)
        total += all_scores.sum(0, dtype=np.float64)
        ids += batch.ids
        scores.append(best.scores)
        classes.append(best.classes)
        directions.append(directions_of(batch))
    if not ids:
        raise UsageError(f"--data={pattern}: the files have no record; name files with videos.")
    best = TopK(np.concatenate(scores), np.concatenate(classes))
    return UnlabelledVideos(ids, best, total / len(ids), np.concatenate(directions))


def refuse_other_numbers(scorer: Scorer, labelled_names: Vocabulary) -> None:
    """Raises `UsageError` if a class has another number in the labelled videos than in the model.

    The vocabulary of the videos may have further classes at its end: those of records that were made later.

    Args:
      labelled_names: the vocabulary of the labelled videos; empty if they have none.
    """
    names = scorer.shown_names
    index = names.first_difference(labelled_names)
    if index is not None and index < min(len(names), len(labelled_names)):
        names.refuse_other(labelled_names, scorer.takes.folder, labelled_names.path, REMEDY)


def read_labelled(scorer: Scorer, data: OpenedData, candidates: Collection[str] = ()) -> LabelledVideos:
    """Reads the videos with labels."""
    if not data.files:
        raise UsageError(
            "the run does not say which videos it was trained on; name the files of labelled videos by --labelled."
        )
    label_check.warn(data)
    counts, directions, number = np.zeros(scorer.num_classes, np.int64), list[Any](), 0
    shared = set[str]()
    for batch in terminal.with_bar(iter(read_records(data, num_classes=scorer.num_classes)), "reading labels"):
        shared.update(video for video in batch.ids if video in candidates)
        scorer.takes.arranged(batch)  # raises if the features are not those that the model takes
        counts += batch.labels.sum(0)
        if number < MOST_LABELLED:
            directions.append(directions_of(batch)[: MOST_LABELLED - number])
        number += len(batch)
    if not number:
        raise UsageError(f"the files of labelled videos, {data.pattern}, have no record; name others by --labelled.")
    return LabelledVideos(number, counts, np.concatenate(directions), shared)


def select(candidates: UnlabelledVideos, labelled: LabelledVideos, config: SelectConfig) -> Selection:
    """Chooses `config.count` of the candidates, or all if there are fewer, by the method `config.by`; best first."""
    number = min(config.count, len(candidates.ids))
    scores = candidates.best.scores if config.by != "all" else _correct_scores(candidates, labelled)
    variances = 4.0 * scores * (1 - scores)
    if config.by == "random":
        indices = np.random.default_rng(config.seed).permutation(len(candidates.ids))[:number]
        return Selection(indices, variances.sum(1)[indices].astype(np.float64), np.full(number, np.nan))
    is_all = config.by == "all"
    rarity = 1 / (1 + labelled.counts[candidates.best.classes])
    values = ((np.sqrt(variances) * rarity) if is_all else variances).sum(1).astype(np.float64)
    pool = np.argsort(-values, kind="stable")[: max(number, _POOL) if is_all else number]
    if not is_all:
        return Selection(pool, values[pool], np.full(number, np.nan))
    chosen, distances = _choose_greedily(values[pool], candidates.directions[pool], labelled.directions, number)
    return Selection(pool[chosen], values[pool[chosen]], distances)


def _correct_scores(candidates: UnlabelledVideos, labelled: LabelledVideos) -> Floats64:
    """The scores of the K best classes, [N, K], corrected for the frequencies of the classes; see the top of this file.

    The scores become what they would be if each class were as frequent among the candidates as among the labelled
    videos.
    """
    share = (labelled.counts + 0.5) / (labelled.number + 1)
    mean = np.clip(candidates.mean_scores, _LEAST_SCORE, 1 - _LEAST_SCORE)
    ratio = (share / (1 - share) * (1 - mean) / mean)[candidates.best.classes]
    scores = candidates.best.scores.astype(np.float64)
    return np.asarray(scores * ratio / (scores * ratio + (1 - scores)))


def _choose_greedily(
    values: Floats64, directions: Floats32, labelled: Floats32, number: int
) -> tuple[Ints64, Floats64]:
    """Chooses, one after another, the video with the largest value x distance^_POWER.

    Args:
      values: [N], the value of each candidate.
      directions: [N, D], the features of the candidates, of length 1.
      labelled: [M, D], the features of the labelled videos, of length 1.

    Returns:
      int64 [number], the index of each chosen video; and float64 [number], its distance from the nearest video that is
      labelled or was chosen before.
    """
    nearest = np.full(len(values), -1.0)
    for start in range(0, len(labelled), _BLOCK):
        nearest = np.maximum(nearest, (directions @ labelled[start : start + _BLOCK].T).max(1))
    chosen, distances = [], []
    is_left = np.ones(len(values), np.bool_)
    for _ in range(number):
        distance = np.maximum(1 - nearest, 0)
        index = int(np.argmax(np.where(is_left, values * distance**_POWER, -1)))
        chosen.append(index)
        distances.append(distance[index])
        is_left[index] = False
        nearest = np.maximum(nearest, directions @ directions[index])
    return np.array(chosen, np.int64), np.array(distances)


def tags_of(best: TopK, labelled: LabelledVideos, tagger: Tagger | None) -> Bools:
    """Chooses the tags of N videos, that is the classes that the model predicts for them, among their best classes.

    Tags are the classes that reach the thresholds of `tagger`. Without thresholds, one threshold serves all videos and
    classes: the one at which a video has as many tags, on average, as a labelled video has labels.

    Args:
      tagger: has the thresholds of the model; None if it has none.

    Returns:
      bool [N, K], True for a tag.
    """
    if tagger:
        return tagger.are_tags(best.classes, best.scores)
    num_tags = round(len(best.scores) * labelled.counts.sum() / max(labelled.number, 1))
    lowest = np.sort(best.scores, axis=None)[::-1][min(max(num_tags, 1), best.scores.size) - 1]
    return np.asarray(best.scores >= lowest)


def write_selection(
    config: SelectConfig, candidates: UnlabelledVideos, selection: Selection, names: Vocabulary, are_tags: Bools
) -> None:
    """Writes the chosen videos as a table, or as tasks for Label Studio with the model's tags as predictions.

    The JSON is that of https://labelstud.io/guide/predictions for choices on a video; its labelling config needs
    `<Video name="video" value="$video"/>` and `<Choices name="classes" toName="video" choice="multiple">`.

    Args:
      are_tags: bool [N, K], which of the best classes of the candidates are tags.
    """
    ids, best = candidates.ids, candidates.best
    if config.format == "csv":
        write_table(config.out, HEADER, rows_of(ids, best, selection, names))
        return
    chosen_ids = [ids[index] for index in selection.indices.tolist()]
    addresses = media_links.read_addresses(config.media, chosen_ids)
    tasks = []
    for video, index in zip(chosen_ids, selection.indices.tolist(), strict=True):
        tags = list(itertools.compress(_classes(best, index, names), are_tags[index].tolist()))
        tasks.append(_task(video, addresses.get(video, video), config.model, tags))
    storage.write(config.out, json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")


def rows_of(ids: Sequence[str], best: TopK, selection: Selection, names: Vocabulary) -> Iterator[list[Any]]:
    """The rows of the table, with the columns of `HEADER`."""
    columns = zip(*(values.tolist() for values in selection), strict=True)
    for rank, (index, value, distance) in enumerate(columns, 1):
        classes = [f"{label} {score:.2f}" for label, score in list(_classes(best, index, names))[:_SHOWN]]
        distance_text = "" if np.isnan(distance) else f"{distance:.4f}"
        yield [rank, spreadsheet_text(ids[index]), f"{value:.4f}", distance_text, spreadsheet_text("; ".join(classes))]


def json_rows(ids: Sequence[str], best: TopK, selection: Selection, names: Vocabulary) -> Iterator[dict[str, Any]]:
    """The chosen videos as --json prints them."""
    columns = zip(*(values.tolist() for values in selection), strict=True)
    for rank, (index, value, distance) in enumerate(columns, 1):
        classes = [{"name": name, "score": score} for name, score in list(_classes(best, index, names))[:_SHOWN]]
        yield {"rank": rank, "video": ids[index], "value": value, "distance": distance, "classes": classes}


def _classes(best: TopK, index: int, names: Vocabulary) -> Iterator[tuple[str, float]]:
    """The (name, score) of each of the best classes of the video with this index."""
    for number, score in zip(best.classes[index].tolist(), best.scores[index].tolist(), strict=True):
        yield class_text(names, number), score


def _task(video: str, address: str, model: str, tags: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """A task for Label Studio, with the tags of the video as its prediction; without tags it has no prediction."""
    choices = {"choices": [label for label, _ in tags]}
    result = {"from_name": human_labels.CONTROL, "to_name": "video", "type": "choices", "value": choices}
    prediction = {"model_version": model, "score": max((score for _, score in tags), default=0.0), "result": [result]}
    task: dict[str, Any] = {"data": {"video": address, "id": video}}
    return {**task, "predictions": [prediction] if tags else []}
