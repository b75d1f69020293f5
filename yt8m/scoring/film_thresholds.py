"""Chooses thresholds on what they are used on: films, where the videos of an evaluation are films.

A film is scored in windows (see `records.film_windows`), and the score of its best window is higher than that of the
whole film. So thresholds for films are chosen on such scores, if frame-level records of films are evaluated. Other
videos of the evaluation have the scores that `yt8m predict` gives them, those of the whole video.
"""

from __future__ import annotations

from absl import logging

from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.records.film_windows import FilmWindows, windows_for
from yt8m.records.opened_data import OpenedData
from yt8m.records.thresholds import NUM_CANDIDATES, OperatingPoints
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring.film_scores import score_films
from yt8m.scoring.graph_scorer import GraphScorer
from yt8m.scoring.model_input import input_of
from yt8m.scoring.scorer import Scorer


def choose(config: EvalConfig, model: TrainedModel, data: OpenedData) -> OperatingPoints | None:
    """The thresholds with the best F1 on the evaluated videos, if some of them are films; None if none is.

    The videos are read and scored once more, with the frames of films at hand.
    """
    declared = data.format
    if not config.report or config.target is not None or model.is_file or model.run.config.data.segment_labels:
        return None
    if declared is None or declared.format.level != "frame" or not declared.format.max_frames:
        return None
    of_run = model.run.data_for(InferenceConfig(), "", False)
    takes = input_of(of_run, model.run.folder, is_own=model.run.is_own)
    windows = windows_for(takes.format)
    if windows is None or takes.has_own_reader or not windows.are_for(declared.format.max_frames):
        return None
    with GraphScorer(model.run.folder, model, first_input="parsed records") as scorer:
        return _choose_on(scorer, windows, data, config.min_positives)


def _choose_on(scorer: Scorer, windows: FilmWindows, data: OpenedData, min_positives: int) -> OperatingPoints | None:
    metrics, films, videos = EvaluationMetrics(scorer.num_classes, NUM_CANDIDATES, metric_classes=()), 0, 0
    for batch in map(scorer.takes.arranged, scorer.records(data)):
        _, scores = scorer.scores(batch)
        films += len(score_films(scorer, batch, scores, windows))
        videos += len(batch)
        metrics.accumulate(scores, batch.labels)
    if not films:
        return None
    logging.info(
        "thresholds are chosen on %d films, by their best windows of %d frames, and on %d other videos",
        *(films, windows.size, videos - films),
    )
    return metrics.operating_points(min_positives)
