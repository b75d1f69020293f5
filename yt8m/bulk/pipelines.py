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
from yt8m.bulk.beam_runs import BeamJob, ShardFn, record_joined_size, run_tasks, write_json
from yt8m.bulk.bulk_config import PARTS, BulkConfig, Done, EvalBulk, RankBulk, ShardTask
from yt8m.bulk.shard_work import RankedSegments
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.segment_ranking import format_line

# Files in the folder `PARTS`: the outcomes of the shards, and the merged metrics of an evaluation.
_OUTCOMES_FILE, FIGURES_FILE = "done.json", "figures.json"
_OUTCOMES, _LINES, _METRICS = "outcomes", "lines", "metrics"  # tags of the outputs of a task


def run(name: str, config: BulkConfig, shards: Sequence[ShardTask], beam_words: Sequence[str]) -> list[Done]:
    """Runs the pipeline of a command; returns the outcome of each shard, in any order.

    Raises:
      RunError: for the reasons of `run_tasks`.
    """
    build: Any = {"infer": _build_prediction, "rank": _build_ranking, "eval": _build_evaluation}[name]
    outcomes_path = storage.join(config.out, PARTS, _OUTCOMES_FILE)
    job = BeamJob(config.runner, config.workers, beam_words, outcomes_path, config.out)
    return run_tasks(job, shards, functools.partial(build, config))


def _build_prediction(config: BulkConfig, tasks: Any) -> Any:
    """Builds the pipeline that predicts; returns the PCollection of the outcomes."""
    return tasks | "predict" >> beam.ParDo(ShardFn(config, _predict_shard))


def _predict_shard(config: BulkConfig, shard: ShardTask) -> Iterator[Done]:
    yield shard_work.predict(config, shard)


def _build_ranking(config: RankBulk, tasks: Any) -> Any:
    """Builds the pipeline that ranks segments and writes the line of each class; returns the outcomes."""
    outputs = tasks | "rank" >> beam.ParDo(ShardFn(config, _rank_shard)).with_outputs(_LINES, main=_OUTCOMES)
    best_segments = outputs[_LINES] | "join the lists" >> beam.CombinePerKey(_BestSegments(config.segment_max_pred))
    best_segments | "write the lines" >> beam.Map(_write_line, config.out)
    return outputs[_OUTCOMES]


def _rank_shard(config: RankBulk, shard: ShardTask) -> Iterator[Any]:
    """Yields (class, best segments of the shard) for each class for the output `_LINES`, then the shard's `Done`."""
    done, lists = shard_work.rank(config, shard)
    for number, segments in lists:
        yield beam.pvalue.TaggedOutput(_LINES, (number, segments))
    yield done


class _BestSegments(beam.CombineFn):
    """Keeps the best `most` segments of a class.

    Beam combines the lists of the shards in groups of its own choice. The result does not depend on the groups, because
    segments of equal score are in the order of their shards, and then of the list of a shard.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def create_accumulator(self) -> list[RankedSegments]:
        """An accumulator without segments; other accumulators are lists with one `RankedSegments`."""
        return []

    def add_input(self, accumulator: list[RankedSegments], segments: RankedSegments) -> list[RankedSegments]:
        """Returns the accumulator with the list of one more shard."""
        return self.merge_accumulators([accumulator, [segments]])

    def merge_accumulators(self, lists: Iterable[list[RankedSegments]]) -> list[RankedSegments]:
        """Joins several accumulators into one, and keeps the best segments."""
        joined_lists = [segments for accumulator in lists for segments in accumulator]
        return [RankedSegments.joined(joined_lists, self._most)] if joined_lists else []

    def extract_output(self, accumulator: list[RankedSegments]) -> list[bytes]:
        """The names of the segments, best first; a name that occurs several times is listed once."""
        return list(dict.fromkeys(accumulator[0].names.tolist())) if accumulator else []


def _write_line(class_and_names: tuple[int, list[bytes]], output: str) -> None:
    """Writes a file with the line of one class: its number and the names of its best segments."""
    number, names = class_and_names
    line = format_line(number, names)
    record_joined_size(len(line))
    storage.write(storage.join(output, PARTS, f"class{number:09d}"), line)


def _build_evaluation(config: EvalBulk, tasks: Any) -> Any:
    """Builds the pipeline that evaluates and writes the merged metrics; returns the PCollection of the outcomes."""
    outputs = tasks | "evaluate" >> beam.ParDo(ShardFn(config, _evaluate_shard)).with_outputs(_METRICS, main=_OUTCOMES)
    path = storage.join(config.out, PARTS, FIGURES_FILE)
    # A PCollection of one element: `_write_figures` is called once, with the metrics of all shards as a side input.
    once = tasks.pipeline | "once" >> beam.Create([path])
    once | "figures" >> beam.Map(_write_figures, beam.pvalue.AsList(outputs[_METRICS]))
    return outputs[_OUTCOMES]


class _ShardMetrics(NamedTuple):
    """The number of one shard, the name of the model that scored it, and the metrics of the shard."""

    number: int
    model: str
    metrics: EvaluationMetrics


def _evaluate_shard(config: EvalBulk, shard: ShardTask) -> Iterator[Any]:
    """Evaluates a shard; yields its metrics for the output `_METRICS`, then its outcome for the main output."""
    done, model, accumulated = shard_work.evaluate(config, shard)
    yield beam.pvalue.TaggedOutput(_METRICS, _ShardMetrics(shard.number, model, accumulated))
    yield done


def _write_figures(path: str, shards: list[_ShardMetrics]) -> None:
    """Merges the metrics of all shards, and writes their values to the JSON file `path`."""
    if not shards:
        return  # every shard failed, so there is nothing to write
    first, *others = sorted(shards, key=lambda shard: shard.number)  # a sum of floats depends on the order
    merged = copy.deepcopy(first.metrics)
    for shard in others:
        merged.merge(shard.metrics)
    figures = {name: np.asarray(value).tolist() for name, value in merged.get().items()}
    write_json(dict(figures=figures, num_classes=merged.num_class, model=first.model), path)


def restore_arrays(figures: dict[str, Any]) -> dict[str, Any]:
    """Converts the lists in metrics that were read from JSON to the arrays that `EvaluationMetrics.get` returns."""
    types = {"aps": np.float64, "aps_class": np.int64, "aps_positives": np.int64}
    return {name: np.array(value, types[name]) if name in types else value for name, value in figures.items()}
