"""`yt8m doctor`: describes this machine, and checks that a tiny training step gives the same result on each device."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import filesize

from yt8m import __version__, cores, options
from yt8m.errors import RunError, missing_tensorflow
from yt8m.options import option
from yt8m.storage.local import free_bytes
from yt8m.terminal import print_table
from yt8m.training import trial_steps

_PACKAGES = ("tensorflow", "numpy", "protobuf", "absl-py", "google-cloud-storage")  # whose versions are shown
# Instruction sets that TensorFlow's kernels use if the processor has them; `yt8m doctor` shows those that it has.
_INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")
# {precision: largest `Trial.difference` that counts as rounding}. A matrix product is exact to 10
# bits in float32 on a GPU (TF32), and to 8 bits in bfloat16; the errors of about ten products in a row add up.
_TOLERANCES = {"float32": 5e-3, "bfloat16": 5e-2}


@dataclass(frozen=True)
class DoctorConfig(options.Checked):
    """The flags of `yt8m doctor`."""

    json: bool = option(False, "print one JSON object instead of tables")
    steps: bool = option(True, "run the training steps; without them no process imports TensorFlow")


@dataclass(frozen=True)
class Trial:
    """A tiny training step, compared with the same step of one tower on the CPU in float32.

    Attributes:
      place: the device, such as "CPU, two towers" or "GPU 0 (NVIDIA H100)".
      model: the name of the model.
      precision: the dtype of matrix products: float32 or bfloat16.
      difference: the largest difference between this update of a weight and that on the CPU, divided by the largest
        update on the CPU; None if the step failed or computed NaN.
      error: why the step failed; empty if it ran.
    """

    place: str
    model: str
    precision: str
    difference: float | None
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the step ran and its result equals that of the CPU up to rounding."""
        return self.difference is not None and self.difference <= _TOLERANCES[self.precision]


def run(config: DoctorConfig) -> int:
    """Prints a description of this machine and a comparison of its devices; returns the exit status.

    Raises:
      UsageError: the training steps are to run, but TensorFlow is not installed.
      RunError: a training step failed, or its result differs from that of the CPU.
    """
    if config.steps and importlib.util.find_spec("tensorflow") is None:
        raise missing_tensorflow("the training steps need", ", or leave out the steps by --nosteps")
    facts, trials = machine(), list(compare_devices()) if config.steps else []
    if config.json:
        steps = [{**dataclasses.asdict(trial), "is_good": trial.is_good} for trial in trials]
        print(json.dumps({**facts, "steps": steps}, indent=2))
    else:
        _print_facts(facts)
        _print_trials(trials)
    bad = [f"{trial.model} in {trial.precision} on {trial.place}" for trial in trials if not trial.is_good]
    if bad:
        raise RunError(
            f"{len(bad)} of {len(trials)} training steps failed or differ from the CPU's: {', '.join(bad)}. Do not "
            "train there before the reason is found: check the driver and the versions that are printed above."
        )
    return 0


def machine() -> dict[str, Any]:
    """Describes this machine in JSON values: versions, processor, memory, disks, extras. Does not import TensorFlow."""
    return {
        "versions": {"yt8m": __version__, "python": platform.python_version()}
        | {package: _installed_version(package) for package in _PACKAGES},
        "system": platform.platform(),
        "processor": _describe_processor(),
        "memory_bytes": _memory_bytes(),
        "free_disk_bytes": {folder: free_bytes(folder) for folder in (os.getcwd(), tempfile.gettempdir())},
        "nvidia_driver": _nvidia_driver(),
        "missing_packages_of_extras": missing_packages(),
    }


def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _describe_processor() -> dict[str, Any]:
    """Name, number of usable cores and instruction sets of the processor.

    The instruction sets and the full name come from /proc/cpuinfo, which only Linux has.
    """
    description = _read_fields("/proc/cpuinfo")
    present = set(description.get("flags", "").split())
    return {
        "name": description.get("model name", platform.processor()),
        "cores": cores.usable(),
        "instructions": [name for name in _INSTRUCTIONS if name in present],
    }


def _memory_bytes() -> dict[str, int]:
    """Bytes of total and of available memory, from /proc/meminfo; empty except on Linux."""
    description = _read_fields("/proc/meminfo")
    names = {"total": "MemTotal", "available": "MemAvailable"}
    return {key: int(description[name].split()[0]) * 1024 for key, name in names.items() if name in description}


def _read_fields(path: str) -> dict[str, str]:
    """{name: first value} of the lines `name: value` in a file of the Linux kernel; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            pairs = [line.partition(":") for line in file]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in reversed(pairs)}


def _nvidia_driver() -> str | None:
    """The driver's version according to nvidia-smi; None if there is no nvidia-smi, or it fails."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout.split()[0] if process.returncode == 0 and process.stdout.strip() else None


def missing_packages() -> dict[str, list[str]]:
    """{name of an extra of yt8m: packages of the extra that are not installed}, from the metadata of yt8m."""
    extras = importlib.metadata.metadata("yt8m").get_all("Provides-Extra") or []
    return {
        extra: [name for name in packages_of("yt8m", extra) if _installed_version(name) is None] for extra in extras
    }


def packages_of(package: str, extra: str) -> list[str]:
    """The packages that an extra of a package requires; empty if the package is not installed.

    If the extra requires an extra of another package, such as `beam[gcp]`, the packages of that extra are included.
    """
    names: list[str] = []
    for requirement in importlib.metadata.requires(package) or [] if _installed_version(package) else []:
        matched = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?[^;]*;.*extra == ['\"]([\w-]+)['\"].*", requirement)
        if matched and matched[3] == extra:
            names.append(matched[1])
            for inner in matched[2].split(",") if matched[2] else ():
                names += packages_of(matched[1], inner)
    return list(dict.fromkeys(names))  # removes repetitions: metadata may list a package for each version of Python


def compare_devices() -> Iterable[Trial]:
    """Runs training steps on the CPU, on the CPU with two towers, on each GPU, and on two GPUs together.

    Each of these runs is a process of its own. Yields the comparison of each step with the same step of one tower on
    the CPU in float32. If the steps fail on the CPU, no other device is tried.
    """
    reference = _run_steps(trial_steps.CPU)
    expected = {step["model"]: step for step in reference.get("steps", []) if step["precision"] == "float32"}
    yield from _compare_steps("CPU", reference, expected)
    if not expected:  # the steps failed on the CPU: there is nothing to compare other devices with
        return
    yield from _compare_steps(trial_steps.TWO_CPUS, _run_steps(trial_steps.TWO_CPUS), expected)
    gpus = reference.get("gpus", [])
    for index, name in enumerate(gpus):
        outcome = _run_steps(trial_steps.GPU, {"CUDA_VISIBLE_DEVICES": str(index)})
        yield from _compare_steps(f"GPU {index} ({name})", outcome, expected)
    if len(gpus) > 1:
        yield from _compare_steps(trial_steps.TWO_GPUS, _run_steps(trial_steps.TWO_GPUS), expected)


def _run_steps(place: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Runs the training steps in a new process.

    Args:
      place: one of the places in `trial_steps`, such as `trial_steps.GPU`.
      environment: additional environment variables of the process.

    Returns:
      The JSON object that the process prints (see `trial_steps.main`), or {"error": status and last line of its error
      output} if the process fails.
    """
    command = [sys.executable, "-m", trial_steps.__name__, place]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if process.returncode == 0:
        outcome: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
        return outcome
    lines = process.stderr.strip().splitlines()
    return {"error": f"ended with status {process.returncode}: {lines[-1] if lines else 'no message'}"}


def _compare_steps(place: str, outcome: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterable[Trial]:
    """Yields the comparison of each training step with the same step of one tower on the CPU in float32.

    Args:
      place: the device that the comparison names, see `Trial`.
      outcome: what `_run_steps` returned for the device; if it is an error, one failed `Trial` is yielded.
      expected: {name of a model: its step on the CPU}.
    """
    if "error" in outcome:
        yield Trial(place, "every model", "float32", None, outcome["error"])
        return
    for step in outcome["steps"]:
        change, reference = (np.asarray(values["change"]) for values in (step, expected[step["model"]]))
        difference = float(np.abs(change - reference).max() / np.abs(reference).max())
        yield Trial(place, step["model"], step["precision"], difference if np.isfinite(difference) else None)


def _print_facts(facts: Mapping[str, Any]) -> None:
    processor, memory = facts["processor"], facts["memory_bytes"]
    rows = [
        *([name, version or "not installed"] for name, version in facts["versions"].items()),
        ["system", facts["system"]],
        ["processor", f"{processor['name']}, {processor['cores']} cores, {' '.join(processor['instructions'])}"],
        ["memory", ", ".join(f"{filesize.decimal(size)} {name}" for name, size in memory.items())],
        *(["free disk", f"{filesize.decimal(size)} in {name}"] for name, size in facts["free_disk_bytes"].items()),
        ["NVIDIA driver", facts["nvidia_driver"] or "none"],
    ]
    for extra, packages in sorted(facts["missing_packages_of_extras"].items()):
        missing = f"lacks {', '.join(packages)}: pip install -e '.[{extra}]' in the checkout"
        rows.append([f"extra {extra}", missing if packages else "installed"])
    print_table(["", ""], rows)


def _print_trials(trials: Iterable[Trial]) -> None:
    rows = [
        [
            trial.place,
            trial.model,
            trial.precision,
            "" if trial.difference is None else f"{trial.difference:.1e}",
            "good" if trial.is_good else trial.error or f"DIFFERS by more than {_TOLERANCES[trial.precision]:g}",
        ]
        for trial in trials
    ]
    if rows:
        print("\nOne training step, its update compared with that of one tower on the CPU in float32:")
        print_table(["device", "model", "precision", "difference", ""], rows, right=["difference"])
    if rows and not any(trial.place.startswith("GPU") for trial in trials):
        print("TensorFlow sees no GPU here.")
