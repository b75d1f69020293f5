"""Clones of a model on devices: where they are placed, how they share variables, how their gradients are combined."""

from __future__ import annotations

from yt8m.deploy.cluster import CHIEF, WORKER, ClusterConfig
from yt8m.deploy.collective import AllReduce
from yt8m.deploy.deployment import Clone, DeploymentConfig, count_gpus, create_clones, local
from yt8m.deploy.gradients import (
    average_gradients,
    clip_by_global_norm,
    clip_gradient_norms,
    combine_gradients,
    gradient_norms,
    gradients_after,
)
from yt8m.deploy.optimize import DeployedModel, Objective, deploy, optimize_clones, regularization_terms

__all__ = ["CHIEF", "WORKER", "AllReduce", "Clone", "ClusterConfig", "DeployedModel", "DeploymentConfig", "Objective"]
__all__ += ["average_gradients", "clip_by_global_norm", "clip_gradient_norms", "combine_gradients", "count_gpus"]
__all__ += ["create_clones", "deploy", "gradient_norms", "gradients_after", "local", "optimize_clones"]
__all__ += ["regularization_terms"]
