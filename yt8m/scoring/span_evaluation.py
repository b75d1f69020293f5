"""`yt8m eval --spans`: joins the scores of cells to spans, and compares these with the true ones.

Thresholds and rule are chosen on all videos. The figures are cross-fitted: the spans of each half of the videos are
joined by what was chosen on the other half, since a choice looks better on the videos on which it was made.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.config.programs import EvalConfig
from yt8m.errors import RunError, UsageError, quantity
from yt8m.eval_util.resampling import Interval, interval
from yt8m.eval_util.span_joining import choose_rule, join_cells, runs_of, table_of
from yt8m.eval_util.span_metrics import AVERAGED, THRESHOLDS, MatchedSpans, SpanFigures
from yt8m.records import shards, span_rules
from yt8m.records.opened_data import open_data
from yt8m.records.rated_cells import is_annotated
from yt8m.records.span_files import EvaluatedFilm
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring import film_spans
from yt8m.scoring.film_spans import Joining
from yt8m.scoring.label_joining import MOST_VIDEOS, BestCells
from yt8m.scoring.scorer import Scorer

_RESAMPLES = 200
_SHOWN_CLASSES = 10


class ScoredCells(NamedTuple):
    """The cells of the videos that count.

    Attributes:
      scores, truth: of each video [T, C], the scores of its cells, and whether they show the classes.
      ids: those of the videos.
      seconds: the length of each video.
    """

    scores: list[NDArray[np.float32]]
    truth: list[NDArray[np.bool_]]
    ids: list[str]
    seconds: list[float]

    @property
    def digest(self) -> str:
        """A hash of the ids of the videos."""
        text = "\n".join(sorted(self.ids)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=8).hexdigest()


class EvaluatedSpans(NamedTuple):
    """What a report shows.

    Attributes:
      classes: the name of each class that has a true span, and its average AP, the worst first.
    """

    films: Sequence[EvaluatedFilm]
    figures: dict[str, tuple[float, float, float]]
    classes: Sequence[tuple[str, float]]
    names: Vocabulary
    folder: str


def evaluate(config: EvalConfig, write_report: Callable[[EvaluatedSpans], None] | None = None) -> int:
    """Prints the figures of spans on the records.

    How cells are joined is chosen on these records and written to eval/spans.json of the run, unless it was chosen on
    other videos before: then the figures are those of spans that are joined so.
    """
    if not config.eval_data_pattern:
        raise UsageError("--spans needs --eval_data_pattern, records of frames with spans.")
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        cells, folder = _scored(scorer, config), config.eval_dir or scorer.takes.folder
        if not cells.scores:
            _choose_by_labels(scorer, config, folder, cells)
            return 0
        given_path = config.spans_from or _choice_on_others(folder, cells, scorer.step)
        if given_path:
            joining = film_spans.joining_for(scorer, given_path)
            joined = [join_cells(scores, joining.thresholds, joining.rule) for scores in cells.scores]
        else:
            thresholds, rule = choose_rule(cells.scores, cells.truth)
            joining = film_spans.default_joining(scorer)._replace(thresholds=thresholds, rule=rule)
            joined = cross_fitted(cells)
        matched = compared(joined, cells)
        figures = figures_with_intervals(matched, len(cells.scores))
        _print(figures, matched.figures(), scorer.shown_names, joining)
        written = _as_json(figures, matched.figures(), scorer.shown_names)
        terminal.print_json(written)
        if not given_path:
            chosen_on = {"records": config.eval_data_pattern, "videos": len(cells.scores), "ids": cells.digest}
            others = {"chosen_on": chosen_on, "figures": written}
            film_spans.write(folder, joining, scorer.step, others)
        if write_report is not None:
            classes = sorted(written["AP of classes"].items(), key=lambda pair: pair[1])
            films = _films(cells, joined, joining)
            write_report(EvaluatedSpans(films, figures, classes, scorer.shown_names, folder))
    return 0


def _films(cells: ScoredCells, joined: Sequence[Any], joining: Joining) -> list[EvaluatedFilm]:
    """The true spans of each video, and those that were found, which are as `join_cells` returns them."""
    films = []
    for row, (video, seconds) in enumerate(zip(cells.ids, cells.seconds, strict=True)):
        classes, first, last = runs_of(cells.truth[row])
        totals = np.cumsum(np.pad(cells.scores[row], ((1, 0), (0, 0))), axis=0, dtype=np.float64)
        means = (totals[last, classes] - totals[first, classes]) / np.maximum(last - first, 1)
        truth = joining.as_spans((classes, first, last, means), seconds)
        films.append(EvaluatedFilm(video, seconds, truth, joining.as_spans(joined[row], seconds)))
    return films


def _choice_on_others(folder: str, cells: ScoredCells, step: int) -> str:
    """The path of what was chosen for this step on other videos; empty if there is none."""
    path = span_rules.path_in_run(folder)
    if not storage.exists(path):
        return ""
    try:
        written = storage.read_json(path)
        chosen_on, is_of_step = written["chosen_on"], written["step"] == step
        ids, records = str(chosen_on["ids"]), str(chosen_on["records"])
    except (RunError, ValueError, KeyError, TypeError):
        return ""  # it is written again
    if not is_of_step or ids == cells.digest:
        return ""
    print(f"joined as {path} says, which was chosen on {records}; without that file it is chosen on these videos")
    return path


def _as_json(
    figures: dict[str, tuple[float, float, float]], by_class: SpanFigures, names: Vocabulary
) -> dict[str, Any]:
    means = by_class.aps.mean(axis=1).tolist()
    aps = dict(zip(map(names.name, by_class.classes.tolist()), means, strict=True))
    finite = {name: [None if number != number else number for number in values] for name, values in figures.items()}
    return {**finite, "AP of classes": aps}


def _scored(scorer: Scorer, config: EvalConfig) -> ScoredCells:
    """The scores of the cells of each video, and whether these show each class."""
    pattern = config.eval_data_pattern
    joining, passed_over = film_spans.default_joining(scorer), 0
    ids, seconds, scores, truth = list[str](), list[float](), list[NDArray[np.float32]](), list[NDArray[np.bool_]]()
    data = open_data(pattern, manifest=config.manifest)
    declared = data.format.format.segment_size if data.format else None
    if declared not in (None, joining.frames):
        raise UsageError(
            f"--eval_data_pattern={pattern}: the records have cells of {declared} frames, and the model was trained on "
            f"cells of {joining.frames}."
        )
    films = film_spans.frames_of_records(scorer, data, joining, config.nan_policy)
    for name, frames, raw in terminal.with_bar(films, "evaluating"):
        record = shards.parse(raw[0], with_lists=False)
        if not is_annotated(record, len(frames)):
            passed_over += 1
            continue
        ids.append(name)
        seconds.append(len(frames) / joining.per_second)
        scores.append(film_spans.score_cells(scorer, frames, joining))
        truth.append(joining.cells.shown(record, len(frames), scorer.num_classes))
    if passed_over and scores:
        print(f"{passed_over} videos were not annotated as a whole, and do not count")
    if len(scores) == 1:
        print("one video counts: the thresholds are chosen on it too, so its figures are too high, without an interval")
    return ScoredCells(scores, truth, ids, seconds)


def _choose_by_labels(scorer: Scorer, config: EvalConfig, folder: str, cells: ScoredCells) -> None:
    """Chooses how cells are joined by the labels of videos, and writes it; there is nothing to compare spans with.

    What was chosen on spans that people have marked is not replaced.
    """
    is_chosen = (
        config.spans_from or scorer.training_data.segment_labels or _choice_on_others(folder, cells, scorer.step)
    )
    unannotated = f"{config.eval_data_pattern}: no video was annotated as a whole, so spans that are found"
    joining, best = film_spans.default_joining(scorer), BestCells(scorer.num_classes)
    if not is_chosen:
        data = open_data(config.eval_data_pattern, manifest=config.manifest)
        films = film_spans.frames_of_records(scorer, data, joining, config.nan_policy)
        for _, frames, raw in terminal.with_bar(itertools.islice(films, MOST_VIDEOS), "choosing"):
            labels = np.zeros(scorer.num_classes, np.bool_)
            numbers = np.array(shards.parse(raw[0], with_lists=False).values("labels"), np.int64)
            labels[numbers[(numbers >= 0) & (numbers < labels.size)]] = True
            if len(frames):
                best.add(film_spans.score_cells(scorer, frames, joining), labels)
    if not best.labels:
        raise RunError(
            f"{unannotated} cannot be called wrong; make the records by `yt8m make-records --rows=spans "
            "--annotated=whole`."
        )
    others = {"chosen_on": {"labels of videos": best.videos}}
    film_spans.write(folder, best.joining(joining), scorer.step, others)
    terminal.print_json(others)
    print(
        f"{unannotated} have no figures; how they are joined was chosen on the labels of "
        f"{quantity(best.videos, 'video')}: {span_rules.path_in_run(folder)}"
    )


def cross_fitted(cells: ScoredCells) -> list[Any]:
    """The spans of each video, as `join_cells` returns them: each half is joined as was chosen on the other one."""
    scores, truth = cells.scores, cells.truth
    halves = [range(0, len(scores), 2), range(1, len(scores), 2)] if len(scores) > 1 else [range(1)] * 2
    spans: dict[int, Any] = {}
    for half, other in (halves, halves[::-1]):
        thresholds, rule = choose_rule([scores[video] for video in other], [truth[video] for video in other])
        spans |= {video: join_cells(scores[video], thresholds, rule) for video in half}
    return [spans[video] for video in range(len(scores))]


def compared(spans: Sequence[Any], cells: ScoredCells) -> MatchedSpans:
    """The spans of each video, as `join_cells` returns them, compared with the truth."""
    true_spans = [(*runs, np.zeros(runs[0].size)) for runs in map(runs_of, cells.truth)]
    return MatchedSpans(table_of(true_spans), table_of(spans))


def figures_with_intervals(matched: MatchedSpans, videos: int, seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """{name of a figure: (value, ends of its 95 % interval)}; the intervals come from resampled videos.

    A single video gives no interval: its ends are nan.
    """
    if videos < 2:
        return {name: (value, np.nan, np.nan) for name, value in _by_name(matched.figures()).items()}
    draws = np.random.default_rng(seed).multinomial(videos, np.full(videos, 1 / videos), _RESAMPLES)
    resampled = [_by_name(matched.figures(counts)) for counts in draws]
    figures = {}
    for name, value in _by_name(matched.figures()).items():
        ends: Interval = interval(value, np.array([sample[name] for sample in resampled]))
        figures[name] = value, ends.low, ends.high
    return figures


def _by_name(figures: SpanFigures) -> dict[str, float]:
    by_name = {f"mAP@{threshold:g}": figures.mean_ap(threshold) for threshold in THRESHOLDS}
    return by_name | {f"average mAP@{AVERAGED[0]:g}..{AVERAGED[-1]:g}": figures.average_map}


def _print(
    figures: dict[str, tuple[float, float, float]], by_class: SpanFigures, names: Vocabulary, joining: Joining
) -> None:
    rows: list[Any] = [
        (name, f"{value:.3f}", f"{low:.3f} to {high:.3f}" if low == low else "-")
        for name, (value, low, high) in figures.items()
    ]
    terminal.print_table(["spans", "value", "95 % interval"], rows)
    rule = joining.rule
    print(
        f"spans: hysteresis {rule.hysteresis:g}, gaps up to {quantity(rule.gap, 'cell')}, at least "
        f"{quantity(rule.least, 'cell')} of {joining.frames / joining.per_second:g} s"
    )
    means = by_class.aps.mean(axis=1)
    worst = np.argsort(means, kind="stable")[:_SHOWN_CLASSES]
    for row in worst.tolist():
        print(f"  {means[row]:.3f}  {names.name(int(by_class.classes[row]))}")
