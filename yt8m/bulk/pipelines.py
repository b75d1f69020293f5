"""The Beam pipelines of `yt8m bulk`: one task for each shard, and the steps that join the results of the tasks.

Ranked segments are joined class by class; the metrics of an evaluation are merged in the order of the shards. So no
result depends on how Beam bundles the shards.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np

from yt8m import storage
from yt8m.bulk import shard_work
from yt8m.bulk.beam_runs import BeamJob, ShardFn, note_size, run_tasks, write_json
from yt8m.bulk.bulk_config import PARTS, BulkConfig, Done, EvalBulk, RankBulk, ShardTask
from yt8m.bulk.shard_work import RankedSegments
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.segment_ranking import format_line

DONE, FIGURES = "done.json", "figures.json"
_JOINED, _LINES, _METRICS = "joined", "lines", "metrics"


def run(name: str, config: BulkConfig, shards: Sequence[ShardTask], beam_words: Sequence[str]) -> list[Done]:
    """Runs the pipeline of the command `name`; returns the outcome of each shard; raises like `run_tasks`."""
    join: Any = {"infer": _predict, "rank": _rank, "eval": _evaluate}[name]
    note = storage.join(config.out, PARTS, DONE)
    job = BeamJob(config.runner, config.workers, beam_words, note, config.out)
    return run_tasks(job, shards, functools.partial(join, config))


def _predict(config: BulkConfig, tasks: Any) -> Any:
    return tasks | "predict" >> beam.ParDo(ShardFn(config, _predictions_of))


def _predictions_of(config: BulkConfig, shard: ShardTask) -> Iterator[Done]:
    yield shard_work.predict(config, shard)


def _rank(config: RankBulk, tasks: Any) -> Any:
    outputs = tasks | "rank" >> beam.ParDo(ShardFn(config, _lists_of)).with_outputs(_LINES, main=_JOINED)
    joined = outputs[_LINES] | "join the lists" >> beam.CombinePerKey(_BestSegments(config.segment_max_pred))
    joined | "write the lines" >> beam.Map(_write_line, config.out)
    return outputs[_JOINED]


def _lists_of(config: RankBulk, shard: ShardTask) -> Iterator[Any]:
    done, lists = shard_work.rank(config, shard)
    for number, segments in lists:
        yield beam.pvalue.TaggedOutput(_LINES, (number, segments))
    yield done


class _BestSegments(beam.CombineFn):
    """Keeps the best `most` segments of a class. No two segments tie, so the result does not depend on the grouping."""

    def __init__(self, most: int) -> None:
        self._most = most

    def create_accumulator(self) -> list[RankedSegments]:
        """An accumulator without segments."""
        return []

    def add_input(self, accumulator: list[RankedSegments], added: RankedSegments) -> list[RankedSegments]:
        """Adds the list of a shard."""
        return self.merge_accumulators([accumulator, [added]])

    def merge_accumulators(self, lists: Iterable[list[RankedSegments]]) -> list[RankedSegments]:
        """Joins several lists into one."""
        joined_lists = [segments for each in lists for segments in each]
        return [RankedSegments.joined(joined_lists, self._most)] if joined_lists else []

    def extract_output(self, accumulator: list[RankedSegments]) -> list[bytes]:
        """The names of the segments, best first, each once."""
        return list(dict.fromkeys(accumulator[0].names.tolist())) if accumulator else []


def _write_line(class_and_names: tuple[int, list[bytes]], output: str) -> None:
    number, names = class_and_names
    line = format_line(number, names)
    note_size(len(line))
    storage.write(storage.join(output, PARTS, f"class{number:09d}"), line)


def _evaluate(config: EvalBulk, tasks: Any) -> Any:
    outputs = tasks | "evaluate" >> beam.ParDo(ShardFn(config, _metrics_of)).with_outputs(_METRICS, main=_JOINED)
    path = storage.join(config.out, PARTS, FIGURES)
    once = tasks.pipeline | "once" >> beam.Create([path])
    once | "figures" >> beam.Map(_write_figures, beam.pvalue.AsList(outputs[_METRICS]))
    return outputs[_JOINED]


class _ShardMetrics(NamedTuple):
    """The metrics of one shard, and the name of the model that scored it."""

    number: int
    model: str
    metrics: EvaluationMetrics


def _metrics_of(config: EvalBulk, shard: ShardTask) -> Iterator[Any]:
    """Yields the metrics of a shard, then its `Done`."""
    done, model, accumulated = shard_work.evaluate(config, shard)
    yield beam.pvalue.TaggedOutput(_METRICS, _ShardMetrics(shard.number, model, accumulated))
    yield done


def _write_figures(path: str, shards: list[_ShardMetrics]) -> None:
    """Merges the metrics of all shards, and writes the values to the JSON file `path`."""
    if not shards:
        return  # every shard failed
    first, *others = sorted(shards, key=lambda shard: shard.number)  # sums of floats depend on their order
    merged = copy.deepcopy(first.metrics)
    for shard in others:
        merged.merge(shard.metrics)
    figures = {name: np.asarray(value).tolist() for name, value in merged.get().items()}
    write_json(dict(figures=figures, num_classes=merged.num_class, model=first.model), path)


def with_arrays(figures: dict[str, Any]) -> dict[str, Any]:
    """The values of `EvaluationMetrics.get`, from those that were read from JSON."""
    types = {"aps": np.float64, "aps_class": np.int64, "aps_positives": np.int64}
    return {name: np.array(value, types[name]) if name in types else value for name, value in figures.items()}
