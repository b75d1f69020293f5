"""Compares what all replicas of a training must share: the model, and the flags that change the common steps.

Each replica computes one number, the fingerprint. With all-reduce the replicas send it to one another before their
first step. With parameter servers the chief writes it into cluster.json, and each worker compares its own with that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from yt8m import options
from yt8m.config.train_config import TrainConfig
from yt8m.lazy import tf
from yt8m.runner.creation import graph_signature
from yt8m.runner.run_config import RunnerConfig

# The options of the graph's signature that may differ between the machines of the replicas: threads, paths, and GPUs.
_MACHINE_OPTIONS = {
    "devices",
    *map(options.short_name, options.paths_where(TrainConfig, belongs_to="machine")),
    *map(options.short_name, options.paths_where(TrainConfig, is_path=True)),
}

# With parameter servers each replica makes its own steps, so that a machine with fewer GPUs or less memory may take
# smaller batches, and read them in its own way.
_OPTIONS_OF_SEPARATE_STEPS = {
    "num_gpu",
    *map(options.short_name, options.paths_where(TrainConfig, shapes="input")),
    *map(options.short_name, options.paths_where(RunnerConfig, shapes="input")),
}


def fingerprint(config: RunnerConfig, variables: Sequence[tf.Variable]) -> int:
    """A number from 0 to 2^63 - 1 that two replicas share only if they fit together."""
    names = [variable.op.name for variable in variables]
    shapes = [[str(variable.dtype.base_dtype.name), *variable.shape.as_list()] for variable in variables]
    values = [names, shapes, *_common_settings(config)]
    digest = hashlib.sha256(json.dumps(values, default=str).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def message_of_difference(names: Sequence[str]) -> str:
    """The error message about replicas that do not fit the chief; `names` are their names."""
    return (
        f"{', '.join(names)} and the chief differ in the model, or in flags that all processes must share "
        "(such as --label_loss, --max_steps, the optimizer's, or with all-reduce --batch_size and the number of "
        "towers, which --num_gpu and the GPUs of the machine decide); start all with the same flags."
    )


def _common_settings(config: RunnerConfig) -> list[Any]:
    """The values of the options that must be the same on all replicas."""
    may_differ = _MACHINE_OPTIONS if config.is_all_reduce else _MACHINE_OPTIONS | _OPTIONS_OF_SEPARATE_STEPS
    shared = {name: value for name, value in graph_signature(config).items() if name not in may_differ}
    settings = [shared, config.max_steps, config.checkpoints.exact_resume]
    exchange = config.distributed
    if config.is_all_reduce:
        return [*settings, config.members.replicas, exchange.exchange_dtype, exchange.check_replicas_steps]
    return [*settings, exchange.sync_replicas]
