"""The Beam pipelines of `yt8m bulk`: one task for each shard, and the steps that join the results of the tasks.

Results are always joined by key, so that no worker needs the entries of all videos: average precisions by
class, GAP by ranges of scores, ranked segments by class. No result depends on how Beam bundles the shards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np

from yt8m import storage
from yt8m.bulk import shard_work
from yt8m.bulk.beam_runs import BeamJob, ShardFn, note_size, run_tasks, write_json
from yt8m.bulk.bulk_config import PARTS, BulkConfig, Done, EvalBulk, RankBulk, ShardTask
from yt8m.bulk.shard_work import RankedSegments
from yt8m.eval_util import metrics
from yt8m.eval_util.arrays import Keys, class_of, hit_of, without_class
from yt8m.eval_util.average_precision import class_average_precisions, precision_sum
from yt8m.eval_util.evaluation_metrics import State, figures_of
from yt8m.eval_util.metrics import Metric
from yt8m.eval_util.ranked_entries import RankedEntries, third_of_class, thirds
from yt8m.scoring.segment_inference import line_of

DONE, FIGURES = "done.json", "figures.json"
_CLASS_GROUPS = 256  # a class is in the group of its number modulo this
_SCORE_SHIFT = np.uint64(1 + 20)  # above it a packed entry has the upper 12 bits of its score: 8 ranges for each octave
_RANGES_OF_A_LIST = 1 << 12
_JOINED, _LINES, _STATES, _ENTRIES, _RANGES, _COUNTS, _CLASS_COUNTS = (
    "joined",
    "lines",
    "states",
    "by_class",
    "by_score",
    "label_counts",
    "class_counts",
)


def run(name: str, config: BulkConfig, shards: Sequence[ShardTask], beam_words: Sequence[str]) -> list[Done]:
    """Runs the pipeline of the command `name` on the shards; returns the outcome of each; raises like `run_tasks`."""
    join: Any = {"infer": _predict, "rank": _rank, "eval": _evaluate}[name]
    note = storage.join(config.out, PARTS, DONE)
    job = BeamJob(config.runner, config.workers, beam_words, note, config.out)
    return run_tasks(job, shards, functools.partial(join, config))


def _predict(config: BulkConfig, tasks: Any) -> Any:
    return tasks | "predict" >> beam.ParDo(ShardFn(config, _predictions_of))


def _predictions_of(config: BulkConfig, shard: ShardTask) -> Iterator[Done]:
    yield shard_work.predict(config, shard)


def _rank(config: RankBulk, tasks: Any) -> Any:
    found = tasks | "rank" >> beam.ParDo(ShardFn(config, _lists_of)).with_outputs(_LINES, main=_JOINED)
    joined = found[_LINES] | "join the lists" >> beam.CombinePerKey(_BestSegments(config.segment_max_pred))
    joined | "write the lines" >> beam.Map(_write_line, config.out)
    return found[_JOINED]


def _lists_of(config: RankBulk, shard: ShardTask) -> Iterator[Any]:
    done, lists = shard_work.rank(config, shard)
    for number, segments in lists:
        yield beam.pvalue.TaggedOutput(_LINES, (number, segments))
    yield done


class _BestSegments(beam.CombineFn):
    """Keeps the best segments of a class; the order is total, so the result does not depend on the grouping."""

    def __init__(self, most: int) -> None:
        self._most = most

    def create_accumulator(self) -> list[RankedSegments]:
        """An accumulator without segments."""
        return []

    def add_input(self, held: list[RankedSegments], added: RankedSegments) -> list[RankedSegments]:
        """Adds the list of a shard."""
        return self.merge_accumulators([held, [added]])

    def merge_accumulators(self, lists: Iterable[list[RankedSegments]]) -> list[RankedSegments]:
        """Joins several lists into one."""
        found = [one for each in lists for one in each]
        return [RankedSegments.joined(found, self._most)] if found else []

    def extract_output(self, held: list[RankedSegments]) -> list[bytes]:
        """The names in order, each once."""
        return list(dict.fromkeys(held[0].names.tolist())) if held else []


def _write_line(found: tuple[int, list[bytes]], output: str) -> None:
    number, names = found
    line = line_of(number, names)
    note_size(len(line))
    storage.write(storage.join(output, PARTS, f"class{number:09d}"), line)


def _evaluate(config: EvalBulk, tasks: Any) -> Any:
    outputs = (_ENTRIES, _RANGES, _COUNTS, _CLASS_COUNTS, _STATES)
    found = tasks | "evaluate" >> beam.ParDo(ShardFn(config, states_of)).with_outputs(*outputs, main=_JOINED)
    label_counts = found[_COUNTS] | "label counts" >> beam.CombineGlobally(_sum_arrays)
    class_counts = found[_CLASS_COUNTS] | "class counts" >> beam.CombineGlobally(_any)
    aps = (
        found[_ENTRIES]
        | "by class" >> beam.GroupByKey()
        | "average precisions" >> beam.FlatMap(_average_precisions, beam.pvalue.AsSingleton(label_counts))
    )
    sizes = found[_RANGES] | "sizes" >> beam.MapTuple(size_of_range) | "sum" >> beam.CombinePerKey(_sum_pairs)
    sums = (
        found[_RANGES]
        | "by score" >> beam.GroupByKey()
        | "precisions" >> beam.Map(_precision_sum, beam.pvalue.AsDict(sizes))
    )
    (
        tasks.pipeline
        | "once" >> beam.Create([storage.join(config.out, PARTS, FIGURES)])
        | "figures"
        >> beam.Map(
            _write_figures,
            beam.pvalue.AsList(found[_STATES]),
            beam.pvalue.AsSingleton(label_counts),
            beam.pvalue.AsSingleton(class_counts),
            beam.pvalue.AsList(aps),
            beam.pvalue.AsList(sums),
        )
    )
    return found[_JOINED]


def states_of(config: EvalBulk, shard: ShardTask) -> Iterator[Any]:
    """The metrics of a shard, cut into the parts that are joined by key; `Done` comes last."""
    done, model, state = shard_work.evaluate(config, shard)
    keys, counts = state.ranked.keys, state.ranked.class_counts
    yield beam.pvalue.TaggedOutput(_STATES, (shard.number, model, state.ranked.num_examples, list(state.metrics)))
    yield beam.pvalue.TaggedOutput(_COUNTS, state.ranked.label_counts)
    for number, part in parts_by_class(keys):
        yield beam.pvalue.TaggedOutput(_ENTRIES, (number, part))
    for number, part in parts_by_score(keys):
        yield beam.pvalue.TaggedOutput(_RANGES, (number, part))
    if counts is not None and counts.any():
        yield beam.pvalue.TaggedOutput(_CLASS_COUNTS, counts)
        lists = 1 + third_of_class(counts)[class_of(keys)]
        for number, part in _grouped(keys, lists * _RANGES_OF_A_LIST + _range_of_scores(keys)):
            yield beam.pvalue.TaggedOutput(_RANGES, (number, part))
    yield done


def parts_by_class(keys: Keys) -> Iterator[tuple[int, bytes]]:
    """(group of classes, the bytes of its packed entries)."""
    return _grouped(keys, class_of(keys) % _CLASS_GROUPS)


def parts_by_score(keys: Keys) -> Iterator[tuple[int, bytes]]:
    """(range of scores, the bytes of its packed entries); lower numbers hold better scores."""
    return _grouped(keys, _range_of_scores(keys))


def _range_of_scores(keys: Keys) -> Any:
    return (without_class(keys) >> _SCORE_SHIFT).astype(np.int64)


def _grouped(keys: Keys, groups: Any) -> Iterator[tuple[int, bytes]]:
    """(group, the bytes of its packed entries) for each group."""
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    for number, part in zip(numbers.tolist(), np.split(keys[order], starts[1:]), strict=True):
        yield number, part.tobytes()


def _entries(parts: Iterable[bytes]) -> Keys:
    joined = b"".join(parts)
    note_size(len(joined))
    return np.frombuffer(joined, np.uint64)


def _average_precisions(found: tuple[int, Iterable[bytes]], label_counts: Any) -> Iterator[tuple[int, float]]:
    """(class, AP) of the classes of one group that have a label."""
    number, parts = found
    aps = class_average_precisions(_entries(parts), label_counts)
    for index in np.flatnonzero(label_counts).tolist():
        if index % _CLASS_GROUPS == number:
            yield index, float(aps[index])


def _list_of(number: int) -> int:
    """The list of a range of scores: 0 has the entries of all classes, 1 to 3 those of head, middle and tail."""
    return number // _RANGES_OF_A_LIST


def size_of_range(number: int, part: bytes) -> tuple[int, tuple[int, int]]:
    """The numbers of entries and of positives in a range of scores."""
    keys = np.frombuffer(part, np.uint64)
    return number, (len(keys), int(hit_of(keys).sum()))


def _precision_sum(found: tuple[int, Iterable[bytes]], sizes: dict[int, tuple[int, int]]) -> tuple[int, float]:
    """(list, the part of its GAP's sum that one range of scores adds).

    Ranges with lower numbers hold better scores.
    """
    number, parts = found
    better = [size for other, size in sizes.items() if other < number and _list_of(other) == _list_of(number)]
    added = precision_sum(_entries(parts), sum(size for size, _ in better), sum(hits for _, hits in better))
    return _list_of(number), added


def _sum_arrays(arrays: Iterable[Any]) -> Any:
    return sum(arrays, np.zeros(1, np.int64))


def _any(arrays: Iterable[Any]) -> Any:
    """One of several equal values; None if there is none."""
    return next((one for one in arrays if one is not None), None)


def _sum_pairs(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    columns = [0, 0]
    for first, second in pairs:
        columns = [columns[0] + first, columns[1] + second]
    return columns[0], columns[1]


def _write_figures(
    path: str,
    states: list[tuple[int, str, int, list[Metric]]],
    label_counts: Any,
    class_counts: Any,
    aps: list[tuple[int, float]],
    sums: list[tuple[int, float]],
) -> None:
    """Completes the figures from all parts, and writes them."""
    if not states:
        return  # every shard failed
    ordered = sorted(states, key=lambda state: state[0])  # sums of floats depend on their order
    merged = [metric() for metric in metric_classes()]
    for _, _, _, parts in ordered:
        for metric, part in zip(merged, parts, strict=True):
            metric.merge(part)
    by_class = dict(aps)
    values = np.array([by_class.get(index, 0.0) for index in np.flatnonzero(label_counts).tolist()])
    gap = _gap(sums, 0, label_counts) if label_counts.any() else 0.0
    of_thirds = [_gap(sums, 1 + number, label_counts[one]) for number, one in enumerate(thirds(class_counts))]
    count = sum(state[2] for state in states)
    ranked = RankedEntries.of_values(label_counts, count, values, gap, class_counts, np.array(of_thirds))
    figures = {key: np.asarray(value).tolist() for key, value in figures_of(State(merged, ranked)).items()}
    write_json(dict(figures=figures, num_classes=len(label_counts), model=ordered[0][1]), path)


def _gap(sums: list[tuple[int, float]], number: int, label_counts: Any) -> float:
    """The GAP of list `number`, whose classes have these numbers of labels; nan if there is no label."""
    positives = int(label_counts.sum())
    return math.fsum(added for one, added in sums if one == number) / positives if positives else math.nan


def metric_classes() -> Sequence[type[Metric]]:
    """The metrics of a bulk evaluation: the built-in ones."""
    return metrics.load()


def with_arrays(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures as `EvaluationMetrics.get` gives them, from JSON."""
    types = {"aps": np.float64, "aps_class": np.int64, "aps_positives": np.int64}
    return {name: np.array(value, types[name]) if name in types else value for name, value in figures.items()}
