"""How the processes of a cluster train together; which they are, TF_CONFIG says."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.options import option

STALL_TIMEOUT = 600.0
STALL_HELP = "seconds that a process of a cluster waits for the others in vain before it fails"


@dataclass(frozen=True)
class DistributedConfig:
    """Only read where TF_CONFIG or CLUSTER_SPEC describes a cluster."""

    sync_replicas: bool = option(
        False, "chief and workers take each step together, on the mean of their gradients"
    )
    stall_timeout: float = option(STALL_TIMEOUT, STALL_HELP, minimum=1.0)
    eval_data_pattern: str = option("", "what a cluster's evaluator reads; as eval.py's flag")

    def __post_init__(self) -> None:
        options.check(self)
