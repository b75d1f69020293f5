"""The job as Vertex AI wants it: a CustomJobSpec, and the gcloud command that hands it over.

Fields: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec; pools in the order chief,
workers, parameter servers, where an empty one keeps the place of the next.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from yt8m.tools.cloud_job.config import CloudJobConfig

_MODULE = "yt8m.train"


def job_spec(config: CloudJobConfig, args: Sequence[str]) -> dict[str, Any]:
    """The CustomJobSpec, as far as it stands in a file.

    Code from this folder is packed by gcloud itself, which takes pools with such code on its command line
    only: then they are not in here.

    Args:
      config: what is asked for.
      args: the flags of the training.
    """
    spec: dict[str, Any] = {}
    if not _is_packed_here(config):
        spec["workerPoolSpecs"] = [_pool(pool, config, args) for pool in _pools(config)]
    if config.output_dir:
        spec["baseOutputDirectory"] = {"outputUriPrefix": config.output_dir}
    if config.service_account:
        spec["serviceAccount"] = config.service_account
    return spec


def command(config: CloudJobConfig, args: Sequence[str], display_name: str, config_file: str) -> list[str]:
    """The words of the gcloud command; `config_file` holds `job_spec`, where that is not empty."""
    words = ["gcloud", "ai", "custom-jobs", "create", f"--project={config.project}"]
    words += [f"--region={config.region}", f"--display-name={display_name}"]
    if job_spec(config, args):
        words.append(f"--config={config_file}")
    if _is_packed_here(config):
        words += [
            f"--worker-pool-spec={_flag_pool(i, pool, config)}" for i, pool in enumerate(_pools(config))
        ]
        words += [f"--args={_escaped(args)}"] if args else []
    return words


def _is_packed_here(config: CloudJobConfig) -> bool:
    return not (config.image or config.package)


def _pools(config: CloudJobConfig) -> list[dict[str, Any]]:
    """Machine and count of each pool; empty for one that is skipped."""
    trains: dict[str, Any] = {"machineType": config.machine}
    if config.accelerator:
        trains |= {"acceleratorType": config.accelerator, "acceleratorCount": config.accelerator_count}
    pools = [{"machineSpec": trains, "replicaCount": 1}]
    if config.workers or config.ps:
        pools.append({"machineSpec": trains, "replicaCount": config.workers} if config.workers else {})
    if config.ps:
        pools.append({"machineSpec": {"machineType": config.ps_machine}, "replicaCount": config.ps})
    return pools


def _pool(pool: dict[str, Any], config: CloudJobConfig, args: Sequence[str]) -> dict[str, Any]:
    if not pool:
        return {}
    if config.image:
        code = {"imageUri": config.image, "command": ["python", "-m", _MODULE], "args": list(args)}
        return {**pool, "containerSpec": code}
    package = {
        "executorImageUri": config.executor,
        "packageUris": [config.package],
        "pythonModule": _MODULE,
        "args": list(args),
    }
    return {**pool, "pythonPackageSpec": package}


def _flag_pool(index: int, pool: dict[str, Any], config: CloudJobConfig) -> str:
    """A pool as `--worker-pool-spec` wants it; the code stands in the first alone and is every pool's."""
    if not pool:
        return ""
    machine = pool["machineSpec"]
    parts = [f"machine-type={machine['machineType']}", f"replica-count={pool['replicaCount']}"]
    if "acceleratorType" in machine:
        parts.append(f"accelerator-type={machine['acceleratorType']}")
        parts.append(f"accelerator-count={machine['acceleratorCount']}")
    if not index:
        parts += [f"executor-image-uri={config.executor}", "local-package-path=.", f"python-module={_MODULE}"]
    return ",".join(parts)


def _escaped(args: Sequence[str]) -> str:
    """A list for gcloud, which cuts at commas unless another separator is named (`gcloud topic escaping`)."""
    text = "".join(args)
    if "," not in text:
        return ",".join(args)
    separator = next(mark for mark in ";|~#@!%" + string.ascii_letters if mark not in text)
    return f"^{separator}^{separator.join(args)}"
