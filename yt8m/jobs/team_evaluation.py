"""Evaluation under TF_CONFIG: every process takes a share of the data, the chief merges and reports."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

from yt8m import runner
from yt8m.config import EvalConfig, TrainConfig
from yt8m.errors import RunError
from yt8m.jobs import evaluation, team
from yt8m.jobs.workload import Workload


def evaluate(config: EvalConfig) -> int:
    """Evaluates alone, or as one of several; returns the exit status.

    The chief chooses the checkpoints. The figures are those of one process, since metrics merge exactly
    (but for the rounding of the sums of PERR and loss).

    Raises:
      UsageError: the cluster cannot be; as `evaluation.evaluate`.
      RunError: the part of a worker is lost; as `evaluation.evaluate`.
    """
    cluster = team.cluster_here()
    if cluster is None:
        return evaluation.evaluate(config)
    if team.has_no_part(cluster):
        return 0
    with team.Team(cluster, config.stall_timeout) as others:
        if not cluster.is_chief:
            return _work(config, others)
        return evaluation.evaluate(config, evaluate_one=_Leader(others))


class _Leader:
    """Evaluates a checkpoint with the workers."""

    def __init__(self, others: team.Team) -> None:
        self._others = others

    def __call__(
        self, config: EvalConfig, run: TrainConfig, train_dir: str, checkpoint: str, parts: Workload
    ) -> runner.Outcome:
        """The outcome of all of them together.

        Raises:
          RunError: a part is lost.
        """
        self._others.send(checkpoint)
        outcome = evaluation.run_one(config, run, train_dir, checkpoint, _share(parts, self._others))
        if outcome.exit_code:
            return outcome
        results = dict(outcome.results)
        for replica, part in enumerate(self._others.collect(), start=1):
            message, evaluator, examples, data = pickle.loads(part)
            name = self._others.cluster.replica_name(replica)
            if message:
                raise RunError(f"{name} failed: {message}")
            if data != _digest(parts):
                raise RunError(team.OTHER_DATA.format(name))
            results["evaluator"].merge(evaluator)
            results["examples"] += examples
        results["figures"] = results["evaluator"].get()
        return dataclasses.replace(outcome, results=results)


def _work(config: EvalConfig, others: team.Team) -> int:
    """A worker: evaluates its share of what the chief names, until that is done."""
    train_dir, run, parts = evaluation.prepare(config)
    parts, status = _share(parts, others), 0
    while checkpoint := others.receive():
        outcome = evaluation.run_one(config, run, train_dir, checkpoint, parts)
        results: Any = outcome.results
        status = outcome.exit_code
        message = outcome.message if status else ""
        # Whoever may connect here may run any graph already; unpickling gives him nothing more.
        told = (message, results.get("evaluator"), results.get("examples", 0), _digest(parts))
        others.reply(pickle.dumps(told))
    return status


def _digest(parts: Workload) -> str:
    return parts.walked.digest if parts.walked is not None else ""


def _share(parts: Workload, others: team.Team) -> Workload:
    cluster = others.cluster
    return parts._replace(inputter=parts.inputter.share(cluster.replica, len(cluster.replicas)))
