"""Runs a workload: training, evaluation and inference through one session loop with callbacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from yt8m.graph import Inputter, Modeler
from yt8m.registry import Registry
from yt8m.runner import creation
from yt8m.runner.cluster.cluster_runner import AllReduceRunner, ClusterRunner
from yt8m.runner.cluster.exchange import say_done
from yt8m.runner.cluster.servers import serve as serve_variables
from yt8m.runner.cluster.servers import start as start_server
from yt8m.runner.lines import StepValues
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, RunnerConfig, Status
from yt8m.runner.runner import Runner, StandingEvaluation
from yt8m.runner.signals import StopSignals

__all__ = ["Callback", "CallbackConfig", "Context", "Outcome", "Runner", "RunnerConfig", "StandingEvaluation"]
__all__ += ["Status", "StepValues", "StopSignals"]
__all__ += ["build", "runners", "say_done", "serve_variables", "start_server"]

runners: Registry[Callable[..., Runner]] = Registry("runner")
runners.register(Runner, "local_runner")
runners.register(Runner, "parameter_server_runner")
runners.register(ClusterRunner, "cluster_runner")
runners.register(AllReduceRunner, "all_reduce_runner")


def build(
    config: RunnerConfig, inputter: Inputter, modeler: Modeler, callbacks: CallbackConfig | Sequence[str] = ()
) -> Runner:
    """Makes a runner, whose `run` does the whole run.

    Args:
      config: the options of the run. `config.name` is a name in `runners`; if it is empty, the runner is chosen by the
        number of processes and towers.
      inputter: lists the files and makes batches of them.
      modeler: the model and its loss.
      callbacks: the callbacks of the run, or their names.

    Raises:
      UsageError: there is no such runner, or the arguments do not fit each other.
    """
    if not (name := config.name):
        usual = "cluster_runner" if config.is_distributed else "local_runner"
        name = "all_reduce_runner" if config.is_all_reduce else usual
        if name == "local_runner" and creation.fit_to_gpus(config, quiet=True).towers > 1:
            name = "parameter_server_runner"
    return runners.get(name)(dataclasses.replace(config, name=name), inputter, modeler, callbacks)


def __getattr__(name: str) -> Any:
    # Callback is imported only when somebody uses it, because it derives from a class of TensorFlow, and making a
    # RunnerConfig must not import TensorFlow.
    if name != "Callback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from yt8m.runner.hooks import Callback

    return Callback
