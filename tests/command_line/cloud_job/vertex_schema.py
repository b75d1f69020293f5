"""What Vertex AI and gcloud document of a custom job, as far as this project uses it, and a check by it.

CustomJobSpec and its parts: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
gcloud: https://cloud.google.com/sdk/gcloud/reference/ai/custom-jobs/create
"""

from __future__ import annotations

import shlex
from typing import Any

# {message: {field: its kind}}; a kind in a list is repeated.
MESSAGES: dict[str, dict[str, Any]] = {
    "CustomJobSpec": {
        "workerPoolSpecs": ["WorkerPoolSpec"],
        "baseOutputDirectory": "GcsDestination",
        "serviceAccount": str,
        "network": str,
        "tensorboard": str,
    },
    "WorkerPoolSpec": {
        "machineSpec": "MachineSpec",
        "replicaCount": int,
        "diskSpec": "DiskSpec",
        "containerSpec": "ContainerSpec",
        "pythonPackageSpec": "PythonPackageSpec",
    },
    "MachineSpec": {"machineType": str, "acceleratorType": str, "acceleratorCount": int},
    "DiskSpec": {"bootDiskType": str, "bootDiskSizeGb": int},
    "ContainerSpec": {"imageUri": str, "command": [str], "args": [str]},
    "PythonPackageSpec": {"executorImageUri": str, "packageUris": [str], "pythonModule": str, "args": [str]},
    "GcsDestination": {"outputUriPrefix": str},
}
REQUIRED = {
    "CustomJobSpec": {"workerPoolSpecs"},
    "MachineSpec": {"machineType"},
    "ContainerSpec": {"imageUri"},
    "PythonPackageSpec": {"executorImageUri", "packageUris", "pythonModule"},
    "GcsDestination": {"outputUriPrefix"},
}
ACCELERATORS = {
    *("NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_V100", "NVIDIA_TESLA_P4", "NVIDIA_TESLA_T4"),
    *("NVIDIA_TESLA_A100", "NVIDIA_A100_80GB", "NVIDIA_L4", "NVIDIA_H100_80GB", "NVIDIA_H100_MEGA_80GB"),
}
COMMAND_FLAGS = {
    *("project", "region", "display-name", "config", "worker-pool-spec", "args", "command"),
    *("enable-dashboard-access", "enable-web-access", "labels", "network", "persistent-resource-id"),
    *("python-package-uris", "service-account"),
}
POOL_KEYS = {"machine-type", "replica-count", "accelerator-type", "accelerator-count"}
CODE_KEYS = {"executor-image-uri", "container-image-uri", "local-package-path", "python-module", "script"}


def check_message(kind: Any, value: Any) -> None:
    """Refuses fields that are not documented, kinds that are others, and required fields that are missing."""
    if isinstance(kind, list):
        assert isinstance(value, list)
        for one in value:
            check_message(kind[0], one)
    elif isinstance(kind, str):
        assert value.keys() <= MESSAGES[kind].keys()
        for name, inner in value.items():
            check_message(MESSAGES[kind][name], inner)
        assert REQUIRED.get(kind, set()) <= value.keys()
    else:
        assert type(value) is kind


def check_job(spec: dict[str, Any]) -> None:
    """What holds beyond the fields: one chief, one kind of code a pool, empty pools only in the middle."""
    check_message("CustomJobSpec", spec)
    pools = spec["workerPoolSpecs"]
    assert 1 <= len(pools) <= 4
    assert pools[0]["replicaCount"] == 1
    assert pools[-1]
    for pool in filter(None, pools):
        assert pool["replicaCount"] >= 1
        assert ("containerSpec" in pool) != ("pythonPackageSpec" in pool)
        machine = pool["machineSpec"]
        assert ("acceleratorType" in machine) == ("acceleratorCount" in machine)
        assert machine.get("acceleratorType", "NVIDIA_L4") in ACCELERATORS


def check_command(text: str) -> dict[str, list[str]]:
    """{flag: values} of a printed command, by its documented flags and pools."""
    words = shlex.split(text.replace("\\\n", " "))
    assert words[:4] == ["gcloud", "ai", "custom-jobs", "create"]
    found: dict[str, list[str]] = {}
    for word in words[4:]:
        name, equals, value = word.partition("=")
        assert name.startswith("--")
        assert equals
        found.setdefault(name[2:], []).append(value)
    assert found.keys() <= COMMAND_FLAGS
    assert {"project", "region", "display-name"} <= found.keys()
    assert {"config", "worker-pool-spec"} & found.keys()
    check_flag_pools(found.get("worker-pool-spec", []))
    return found


def check_flag_pools(pools: list[str]) -> None:
    """Code from a local folder stands in the first pool alone, which is never empty."""
    for place, pool in enumerate(pools):
        keys = {part.partition("=")[0] for part in pool.split(",")} if pool else set()
        assert keys <= POOL_KEYS | CODE_KEYS
        assert not pool or {"machine-type", "replica-count"} <= keys
        wanted = {"executor-image-uri", "local-package-path", "python-module"} if place == 0 else set()
        assert keys & CODE_KEYS == wanted


def list_of(text: str) -> list[str]:
    """A list as gcloud reads it: commas between, or what `^x^` at its start names."""
    if text.startswith("^"):
        separator, _, rest = text[1:].partition("^")
        return rest.split(separator)
    return text.split(",")
