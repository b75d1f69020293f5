"""The page of an evaluation whose sample is as large as it can be: 50,000 videos of YouTube-8M's 3862 classes."""

from __future__ import annotations

import tempfile

import numpy as np

from benchmarks.measure import Measured, repeat
from yt8m.eval_util import EvaluationMetrics, eval_samples
from yt8m.eval_util.arrays import places_within
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.videos import MAX_VIDEOS, Videos, hashes
from yt8m.records import vocabulary
from yt8m.reports import report_writer
from yt8m.scoring.evaluation_results import EvaluationResult, report_json

TOP_K, MOST_LABELS = 20, 12


def page(repeats: int) -> Measured:
    """Times `yt8m report` of that evaluation, by the videos a second."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        return repeat(lambda: report_writer.write([folder]), MAX_VIDEOS, repeats)


def write(folder: str, videos: int = MAX_VIDEOS, num_classes: int = 3862) -> None:
    """Writes the eval/videos.npz of a model that finds most labels; frequent classes have most of them."""
    eval_samples.write(folder, _samples(drawn(videos, num_classes), num_classes))


def drawn(count: int, num_classes: int) -> Videos:
    """Random videos with labels and their best classes, ranked."""
    draw = np.random.default_rng(0)
    # Sorted numbers with 0, 1, 2, ... added are distinct. The shuffled ones are the candidates of a video.
    width = min(TOP_K + MOST_LABELS, num_classes)
    drawn = np.sort(draw.beta(0.6, 2, (count, width)) * (num_classes - width), axis=1).astype(np.int32)
    candidates = np.asarray(draw.permuted(drawn + np.arange(width, dtype=np.int32), axis=1), np.int32)
    num_labels = np.clip(draw.poisson(3, count) + 1, 1, width - TOP_K).astype(np.int64)
    scores = -np.sort(-draw.beta(0.4, 2, size=(count, TOP_K)), axis=1).astype(np.float32)
    hits = np.arange(TOP_K) < num_labels[:, None]
    hits &= draw.random(hits.shape) < 0.85
    missed = num_labels - hits.sum(1)
    rows = np.concatenate([np.nonzero(hits)[0], np.repeat(np.arange(count), missed)])
    outside = candidates[np.repeat(np.arange(count), missed), TOP_K + places_within(missed)]
    classes = np.concatenate([candidates[:, :TOP_K][hits], outside])
    values = np.concatenate([scores[hits], draw.random(len(outside)).astype(np.float32) * 0.02])
    order = np.lexsort((classes, rows))
    ids = np.empty(count, object)
    ids[:] = [b"%08x" % number for number in range(count)]
    return Videos(
        keys=np.sort(hashes(ids)),
        scores=scores,
        classes=candidates[:, :TOP_K],
        hits=hits,
        perr=hits.sum(1) / num_labels,
        num_labels=num_labels,
        labels=classes[order],
        label_scores=values[order],
        losses=draw.gamma(2, 3, count),
        num_frames=draw.integers(100, 301, count).astype(np.int32),
        ids=ids,
    )


def _samples(videos: Videos, num_classes: int) -> EvalSamples:
    evaluator = EvaluationMetrics(num_classes, TOP_K)
    counts = np.bincount(videos.labels, minlength=num_classes)
    evaluator.accumulate_top_k(videos.scores, videos.classes, videos.hits, videos.num_labels, counts, videos.perr)
    names, figures = vocabulary.of_names(()).shown(num_classes), evaluator.get()
    result = EvaluationResult("model.ckpt-1000", 1000, figures, len(videos), evaluator.metric_classes, names)
    points = evaluator.operating_points(5)
    return EvalSamples(report_json(result, "MoeModel"), videos, num_classes, len(videos), points)
