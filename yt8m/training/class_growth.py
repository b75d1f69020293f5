"""`yt8m add-classes`: adds classes to a trained model, and compares old and new model on the same videos."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.config import run_dir
from yt8m.config.run_options import DistillConfig, ValidationConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError, quantity
from yt8m.eval_util import MeanAveragePrecisionCalculator
from yt8m.records import label_check
from yt8m.records.batches import read_records
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.vocabulary import match_classes, read_renames
from yt8m.scoring import Scorer
from yt8m.training import splits, training_run
from yt8m.training.growth_config import AddClassesConfig

# A comparison stops after the batch with which a model has more scores than this, because all are kept in memory.
_MOST_SCORES = 1 << 25


def run(config: AddClassesConfig, training: TrainConfig | None, data: OpenedData | None) -> int:
    """Makes a run that has the classes of an old run and new ones; returns the exit status.

    If the new classes are given by data, the new run is trained, or its training is resumed. Then both runs are
    compared on the validation data, and the comparison is printed and written into the folder of the new run.

    Args:
      config: the flags of `yt8m add-classes`.
      training: the config of the training; None if the new classes are given by texts, which needs no training.
      data: the training data; None without a training.

    Raises:
      UsageError, RunError: as from `training_run.train` or `text_run.add_classes`.
    """
    if training is None:
        from yt8m.training import text_run  # slow to import, and a training does not need it

        texts = config.from_text, config.template
        return text_run.add_classes(config.model, *texts, config.out, trust_code=config.trust_code)
    pattern = _validation_data(config)
    # The old run's teacher and its validation data have only the old classes, so the new run must not use them.
    training = dataclasses.replace(
        training, max_steps=None, validation=ValidationConfig(), distillation=DistillConfig()
    )
    _, outcome = training_run.train(training, data)
    facts = {"out": config.out, "step": outcome.global_step}
    if outcome.exit_code or not pattern:
        terminal.print_json({**facts, "comparison": None})
        return outcome.exit_code
    comparison = compare(config.model, config.out, pattern, config.rename, trust_code=config.trust_code)
    storage.write(storage.join(config.out, run_dir.ADDED_CLASSES), json.dumps(comparison._asdict()) + "\n")
    print(comparison.summary(pattern), flush=True)
    terminal.print_json({**facts, "comparison": comparison._asdict()})
    return 0


def _validation_data(config: AddClassesConfig) -> str:
    """Finds the files on which the models are compared: those of --eval_data, else those next to the training files.

    Returns:
      Their pattern; empty if --eval_data is not given and no files are found.
    """
    if config.eval_data_pattern:
        return open_data(config.eval_data_pattern).pattern
    pattern = splits.proposed(config.data, "validate")
    try:
        open_data(pattern if pattern != config.data else "")
    except UsageError:
        logging.warning("the models are not compared: give --eval_data to see whether the old classes got worse")
        return ""
    return pattern


class Comparison(NamedTuple):
    """How well an old model and a new one, with added classes, find classes in the same videos.

    Attributes:
      before: mean average precision of all scores (full mAP) of the kept classes, by the old model; None if there are
        none.
      added: full mAP of the added classes, by the scores of the new model; None if there are none.
    """

    videos: int
    kept_classes: int
    added_classes: int
    before: float | None
    after: float | None
    added: float | None

    def summary(self, pattern: str) -> str:
        """The comparison as text of several lines."""
        lines = [f"on {quantity(self.videos, 'video')} of {pattern}:"]
        if self.before is not None and self.after is not None:
            change = f"full mAP {self.before:.4f} before, {self.after:.4f} after ({self.after - self.before:+.4f})"
            lines.append(f"  {quantity(self.kept_classes, 'class')} of both models: {change}")
        if self.added is not None:
            lines.append(f"  {self.added_classes} new classes: full mAP {self.added:.4f}")
        return "\n".join(lines)


def compare(old_run: str, new_run: str, pattern: str, rename: str = "", *, trust_code: bool = False) -> Comparison:
    """Compares two runs on videos that have labels of the new run; classes of the old run are matched by their names.

    The comparison ends early, after the batch with which the number of scores per model exceeds 33.5 million.

    Args:
      old_run: folder of the run without the added classes.
      rename: CSV file (columns old,new) of classes that have another name in the new run; empty if there are none.
    """
    open_scorer = functools.partial(scoring.open, trust_code=trust_code, first_input="parsed records")
    with open_scorer(old_run) as old, open_scorer(new_run) as new:
        renames = read_renames(rename) if rename else {}
        sources = np.array(match_classes(old.shown_names, new.shown_names, renames).sources)
        calculators = [MeanAveragePrecisionCalculator(new.num_classes, filter_empty_classes=False) for _ in range(2)]
        counts, videos = np.zeros(new.num_classes, np.int64), 0
        for labels, scores in _score_batches(old, new, pattern, sources):
            counts += labels.sum(0)
            videos += len(labels)
            for calculator, columns in zip(calculators, scores, strict=True):
                calculator.accumulate(list(columns.T), list(labels.T))
            if videos * len(sources) > _MOST_SCORES:
                break
    before, after = (np.array(calculator.peek_map_at_n()) for calculator in calculators)
    is_kept, is_added = (sources >= 0) & (counts > 0), (sources < 0) & (counts > 0)
    measured = ((before, is_kept), (after, is_kept), (after, is_added))
    means = (float(values[classes].mean()) if classes.any() else None for values, classes in measured)
    return Comparison(videos, int(is_kept.sum()), int(is_added.sum()), *means)


def _score_batches(
    old: Scorer, new: Scorer, pattern: str, sources: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.bool_], tuple[NDArray[np.float32], NDArray[np.float32]]]]:
    """Yields (labels [B, C], (scores of the old model, of the new model) [B, C] each) for the C classes of the new run.

    Args:
      sources: [C], the index of each class in the old model; negative for a new class, for which its scores are 0.
    """
    records = read_records(pattern, num_classes=new.num_classes)
    new.check(records)
    label_check.warn(records.data)
    for batch in terminal.with_bar(iter(records), "compared"):
        plain = dataclasses.replace(batch, labels=np.zeros((len(batch), 0), np.bool_))
        before, after = (scorer.scores(scorer.takes.arranged(plain))[1] for scorer in (old, new))
        yield batch.labels, (np.where(sources >= 0, before[:, sources], 0), after)
