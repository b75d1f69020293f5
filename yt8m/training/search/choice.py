"""Chooses the model of a training on one's own data, by the plan, and completes the config of the run by the choice."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import cores, options, storage
from yt8m.config import data_fit, resume, run_dir
from yt8m.config.programs import EvalConfig
from yt8m.config.search_config import BATCH
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.records import groups, held_out, manifest, shared_videos, thresholds
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.thresholds import NUM_CANDIDATES
from yt8m.runner.creation import count_towers
from yt8m.storage import state_files
from yt8m.training import splits
from yt8m.training.search import cells_in_memory, outcome, plan, trial_figures, trials, videos_in_memory
from yt8m.training.search.budget_clock import BudgetClock
from yt8m.training.search.candidates import Candidate, candidates_for
from yt8m.training.search.plan import Plan
from yt8m.training.search.started_trial import StartedTrial
from yt8m.training.search.trials import CandidateTrial
from yt8m.training.search.videos_in_memory import Fold, VideosInMemory

_MIN_POSITIVES = EvalConfig.min_positives
_MOST_BYTES_IN_FOLDS = 1 << 28  # of the training videos; each fold has a copy of its own


def choose(config: TrainConfig, data: OpenedData) -> tuple[TrainConfig, OpenedData]:
    """Completes the config of a run by what the search chooses; of a run that exists, by what was chosen then."""
    saved = run_dir.read(config.train_dir)
    if saved is not None:
        chosen = outcome.resumed(config, saved.config)
    else:
        storage.makedirs(config.train_dir)
        with run_dir.lock(config.train_dir):
            chosen = _Search(config, data).completed()
    is_same = chosen.data.data_pattern == config.data.data_pattern
    data = data if is_same else data_fit.open_for(chosen.data)
    if saved is not None:
        held_out.groups_for(chosen.data.held_out, data.files, saved.config.data.data_pattern)
    return chosen, data


def _validation_of(config: TrainConfig) -> str:
    """The pattern of the validation videos; empty if there are none, and a share of the training videos is held out."""
    return config.validation.eval_data_pattern or splits.beside(config.data.data_pattern, "validate")


def _rule_for(config: TrainConfig, videos: VideosInMemory, total: int, *, by_group: bool = False) -> tuple[int, ...]:
    """The rule that holds videos out of the whole training; empty if the chosen model is trained on all of them.

    Args:
      videos: the training videos, or a sample of them.
      total: how many there are.
      by_group: whether the videos have groups.
    """
    is_trained_on_all = config.data.segment_labels or outcome.may_refit(config, total)
    return () if is_trained_on_all else held_out.rule_for(videos.groups, by_group=by_group)


class _Search:
    """One search: its videos, its plan and its trials."""

    def __init__(self, config: TrainConfig, opened: OpenedData) -> None:
        self._clock = BudgetClock()
        self._config, data = config, config.data
        self._names = opened.vocabulary
        self._validation = _validation_of(config)
        read = cells_in_memory.read if data.segment_labels else videos_in_memory.read
        training, self._total = read(data, data.data_pattern, plan.MOST_VIDEOS)
        self._is_sample = len(training) < self._total
        self._rule: tuple[int, ...] = ()
        if self._validation:
            shared_videos.warn(open_data(self._validation), data.data_pattern, "eval_data_pattern")
            compared, _ = read(data, self._validation, plan.MOST_VIDEOS // 4)
        else:
            by_group = len(groups.find(opened.files).videos) > 0
            self._rule = _rule_for(config, training, self._total, by_group=by_group)
            training, compared = videos_in_memory.divided(training, self._rule)
        if self._rule:  # of all videos too, as many are trained on
            self._total = round(self._total * len(training) / (len(training) + len(compared)))
        self._training, self._held_out = training, compared
        self._budget = config.search.budget or plan.default_budget(self._total)
        self._costs: dict[Any, float] = {}
        self._has_many = plan.are_many(self._total) and not data.segment_labels
        self._plan = self._make_plan()
        most_folds = max(rung.folds for rung in self._plan.rungs)
        self._folds = videos_in_memory.folds(Fold(training, compared), most_folds)
        fingerprint = _fingerprint(self._plan, config, opened.files, self._validation)
        self._rows = _SavedRows(storage.join(config.train_dir, run_dir.SEARCH), fingerprint)
        self._scores: dict[str, tuple[NDArray[np.float32], NDArray[np.bool_]]] = {}

    def completed(self) -> TrainConfig:
        """The config of the run with the chosen model, after all trials."""
        self._log_plan()
        rows = self._train_all()
        if not rows:
            raise RunError("no candidate could be trained; name a model by --model.")
        rows = self._comparable_first(rows)
        chosen = rows[0]
        self._write_thresholds(chosen)
        compared = sum(len(fold.held_out) for fold in self._folds[: chosen["folds"]])
        facts = outcome.SearchFacts(
            self._total, len(self._training), self._is_sample, self._validation, compared, self._budget
        )
        facts = facts._replace(held_out=self._rule, apart=len(self._held_out) if self._rule else 0)
        cost = self._cost(self._candidate(chosen), self._plan.batch_size)
        facts = facts._replace(seconds_left=self._budget - self._clock.spent())
        return outcome.with_choice(self._config, self._plan, rows, chosen, facts, cost)

    def _make_plan(self) -> Plan:
        config = self._config
        batch = config.data.batch_size * count_towers(config.devices.num_gpu)
        if BATCH in config.search.free:
            batch = plan.default_batch_size(self._total)

        def cost(candidate: Candidate) -> float:
            return self._cost(candidate, batch)

        may_train_on_all = not self._rule and outcome.may_refit(config, self._total)
        are_small = self._training.features.nbytes <= _MOST_BYTES_IN_FOLDS
        folds = plan.default_folds(len(self._held_out)) if may_train_on_all and are_small else 1
        compared = len(self._held_out) + (len(self._training) if folds > 1 else 0)
        comparison = trial_figures.seconds(compared, config.data.num_classes)
        listed = candidates_for(config, self._total)
        sizes = len(self._training), batch, self._budget, folds, comparison
        return plan.make_plan(listed, cost, *sizes, has_many=self._has_many)

    def _reserved(self) -> float:
        """Seconds of the budget that are kept for the training of the choice, whatever the clock says."""
        if self._is_sample:
            return self._budget * (1 - plan.SHARE)
        costs = (self._cost(candidate, self._plan.batch_size) for candidate in self._plan.candidates)
        return min(self._budget * (1 - plan.SHARE), max(costs) * self._plan.rungs[-1].steps)

    def _cost(self, candidate: Candidate, batch_size: int) -> float:
        """Seconds of a step of the candidate."""
        if candidate.family not in self._costs:
            features = self._training.features
            num_frames = features.shape[1] if features.ndim == 3 else 1
            if self._config.data.segment_labels:  # of the frames beside a segment, models get means
                num_frames = self._config.data.segment_size
            seconds = trials.seconds_per_step(candidate, self._config, batch_size, num_frames)
            self._costs[candidate.family] = seconds
        return self._costs[candidate.family]

    def _train_all(self) -> list[dict[str, Any]]:
        """The rows of all trials that ended; the clock or Ctrl-C may cut the plan short."""
        has_stopped, most = [False], self._budget - self._reserved()

        def should_stop() -> bool:
            return has_stopped[0] or (bool(self._rows.rows) and self._clock.spent() > most)

        if self._has_many:
            self._clock.share(min(plan.CORES_FOR_MANY, cores.usable()))
        remaining: Sequence[Candidate] = self._plan.candidates
        with contextlib.closing(trials.Trainer(self._config, self._training, should_stop)) as trainer:
            for rung in self._plan.rungs:
                tasks = [CandidateTrial(c, rung.steps, self._plan.batch_size) for c in remaining[: rung.candidates]]
                try:
                    rows = self._train_rung(trainer, tasks, rung.folds, has_stopped)
                except KeyboardInterrupt:
                    if not self._rows.rows:
                        raise
                    logging.warning("Ctrl-C: the search ends, and the best candidate so far is trained")
                    break
                remaining = [self._candidate(row) for row in _best_first(rows)]
                remaining = plan.best_of_each_model(remaining) if self._has_many else remaining
                if should_stop():
                    logging.warning("the budget of %g s is spent: the plan is cut short (--budget)", self._budget)
                    break
        return _best_first(self._rows.rows.values())

    def _train_rung(
        self, trainer: trials.Trainer, tasks: Sequence[CandidateTrial], folds: int, has_stopped: list[bool]
    ) -> list[dict[str, Any]]:
        """Trains every fold of all trials of a rung on all cores; returns the rows of those that ended."""
        trials_of_rung = [StartedTrial(trial, self._folds[:folds]) for trial in tasks]
        with ThreadPoolExecutor(cores.usable()) as pool:
            try:
                futures = [
                    pool.submit(self._train_fold, trainer, started, fold)
                    for started in trials_of_rung
                    if started.key not in self._rows.rows
                    for fold in range(len(started.folds))
                ]
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                has_stopped[0] = True
                raise
        keys = [started.key for started in trials_of_rung]
        return [dict(self._rows.rows[key]) for key in keys if key in self._rows.rows]

    def _train_fold(self, trainer: trials.Trainer, started: StartedTrial, number: int) -> None:
        """Trains one fold of a trial; after its last fold, the trial gets its row, unless it was given up or failed."""
        begin, fold, scores = self._clock.spent(), started.folds[number], None
        if not started.has_failed:
            try:
                scores = trainer.scores(started.trial, fold.held_out.without_labels(), fold.training)
            except RunError as error:
                logging.info("%s: %s", started.key, error)
        if started.add(number, scores, self._clock.spent() - begin) and not started.has_failed:
            self._add_row(started)

    def _add_row(self, started: StartedTrial) -> None:
        fold_scores, compared, key = started.scores(), started.held_out(), started.key
        scores = np.concatenate(fold_scores)
        row = {
            "candidate": key,
            "number": self._plan.candidates.index(started.trial.candidate),
            "steps": started.trial.steps,
            "folds": len(started.folds),
            **trial_figures.row_of(scores, compared.labels, compared.keys),
            **({"gap_weight": trial_figures.WEIGHT_FOR_CELLS} if self._config.data.segment_labels else {}),
            "seconds": round(started.seconds, 2),
        }
        if len(started.folds) > 1:
            row["alone"] = trial_figures.row_of(fold_scores[0], self._held_out.labels, self._held_out.keys)
        self._rows.add(key, row)
        self._scores[key] = scores, compared.labels
        logging.info("%s: full mAP %.4f, GAP %.4f (%.1f s)", key, row["map"], row["gap"], row["seconds"])

    def _write_thresholds(self, chosen: Mapping[str, Any]) -> None:
        """Writes the thresholds with the best F1 of the chosen candidate on the videos that it had not seen.

        If its scores were those of an earlier start, which was killed, it is trained once more.
        """
        scores, labels = self._scores.get(chosen["candidate"]) or self._scores_again(chosen)
        if chosen["folds"] == 1:  # of folds that cut what belongs together, only the first counts
            scores, labels = scores[: len(self._held_out)], labels[: len(self._held_out)]
        metrics = EvaluationMetrics(scores.shape[1], NUM_CANDIDATES)
        metrics.accumulate(scores, labels)
        path = storage.join(self._config.train_dir, thresholds.OF_CHOICE)
        thresholds.write(path, metrics.operating_points(_MIN_POSITIVES), self._names, None)

    def _scores_again(self, row: Mapping[str, Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The scores and labels of the trial of a row."""
        folds = self._folds[: self._rows.rows[row["candidate"]]["folds"]]
        trial = CandidateTrial(self._candidate(row), row["steps"], self._plan.batch_size)
        with contextlib.closing(trials.Trainer(self._config, self._training)) as trainer:
            scored = [trainer.scores(trial, fold.held_out.without_labels(), fold.training) for fold in folds]
        scores = np.concatenate([scores for scores in scored if scores is not None])
        return scores, np.concatenate([fold.held_out.labels for fold in folds])

    def _comparable_first(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """All rows, the best first of those that are compared: the ones with folds, if there are any."""
        folded, others = [row for row in rows if row["folds"] > 1], [row for row in rows if row["folds"] == 1]
        knows_groups = self._training.has_groups()
        if folded and self._validation and not knows_groups and trial_figures.are_cut(folded):
            logging.warning(
                "videos of %s resemble each other more than those of %s: they may belong together, and folds would cut "
                "them apart, so only the latter choose (make-records --group_by keeps together what belongs together)",
                *(self._config.data.data_pattern, self._validation),
            )
            unfolded = [{**row, **row["alone"], "folds": 1} for row in folded]
            folded, others = _best_first([*unfolded, *others]), []
        return [*folded, *others]

    def _candidate(self, row: Mapping[str, Any]) -> Candidate:
        number: int = row["number"]
        return self._plan.candidates[number]

    def _log_plan(self) -> None:
        rounds = ", then ".join(
            f"{rung.candidates} for {rung.steps} steps" + (f" in {len(self._folds)} folds" if rung.folds > 1 else "")
            for rung in self._plan.rungs
        )
        where = self._validation or f"a share of {self._config.data.data_pattern}"
        logging.info(
            "choosing a model within %g s (--budget): candidates %s; trained on %d %s, compared on %d (%s)",
            *(self._budget, rounds, len(self._training), outcome.noun(self._config), len(self._held_out), where),
        )
        if self._plan.seconds > self._budget:
            logging.warning(
                "to try %s takes about %.0f s of a core, longer than the budget: smaller layers take less (yt8m train "
                "--model=%s --help lists their flags)",
                *(self._config.model.model, self._plan.seconds, self._config.model.model),
            )


def _fingerprint(trials_plan: Plan, config: TrainConfig, files: Sequence[str], validation: str) -> str:
    """What the figures of a trial depend on: the plan, the options, and the records to train on and to compare on.

    No second that was measured is among it, so that a start on a busy machine finds the trials of an earlier one.
    """
    others = open_data(validation).files if validation else []
    signature = options.signature(resume.shaping(config))
    return repr((trials_plan, signature, config.seed, manifest.versions(files), manifest.versions(others)))


def _best_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows in the order of their figures. Of equal ones the longer training is first, then the earlier candidate.

    So the choice does not depend on which thread ended first.
    """
    return sorted(rows, key=lambda row: (-trial_figures.rank_of(row), -row["folds"], -row["steps"], row["number"]))


class _SavedRows:
    """The rows of the trials that have ended, in a file, by which a search that was killed goes on."""

    def __init__(self, path: str, fingerprint: str) -> None:
        self._path, self._fingerprint, self._lock = path, fingerprint, threading.Lock()
        self.rows: dict[str, dict[str, Any]] = {}
        try:
            saved = state_files.read(path)
            if saved["fingerprint"] == fingerprint:
                self.rows = dict(saved["rows"])
                logging.info("the search goes on: %d of its trainings had ended", len(self.rows))
        except storage.NotFoundError:
            return
        except (RunError, ValueError, KeyError, TypeError) as error:
            logging.warning("the search begins again, since its trials cannot be read: %s", error)

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Adds a row and writes the file."""
        with self._lock:
            self.rows = {**self.rows, key: row}
            state_files.write(self._path, {"fingerprint": self._fingerprint, "rows": self.rows})
