"""`yt8m doctor`: describes this machine, and checks that a tiny training step gives the same result on each device.

`python -m yt8m.command_line.doctor PLACE` takes the steps of a device in a process of its own, so that a crash of a GPU
library ends only that process, and CUDA_VISIBLE_DEVICES can choose the GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import filesize

from yt8m import cores, deploy, forks, graph, huge_pages, losses, models, options, plug_ins, terminal
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.errors import RunError, install_advice, refuse_without_tensorflow
from yt8m.graph import Inputter
from yt8m.lazy import tf
from yt8m.options import option
from yt8m.storage import temporary
from yt8m.storage.local import free_bytes
from yt8m.terminal import print_table
from yt8m.types import Batch
from yt8m.version import __version__
from yt8m.video.modeler import VideoModeler

_ON_A_GPU = (
    "`make bench-gpu` in a checkout measures the speed of the GPU in at most eight minutes: rates, their share of the "
    "chip's peak, and the bytes that are copied to it. No GPU has run it yet: please send us its table."
)
_PACKAGES = ("tensorflow", "numpy", "protobuf", "absl-py", "google-cloud-storage")  # whose versions are shown
# Instruction sets that TensorFlow's kernels use if the processor has them; `yt8m doctor` shows those that it has.
_INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")
# {precision: largest `Trial.difference` that counts as rounding}. A matrix product is exact to 10
# bits in float32 on a GPU (TF32), and to 8 bits in bfloat16; the errors of about ten products in a row add up.
_TOLERANCES = {"float32": 5e-3, "bfloat16": 5e-2}
# The places of the steps, as the table of `yt8m doctor` shows them; a tower is a copy of the model on one device.
CPU, TWO_CPUS, GPU, TWO_GPUS = "CPU", "CPU, two towers", "GPU", "two GPUs, two towers"
_DEPLOYMENTS = {
    CPU: deploy.DeploymentConfig(clone_on_cpu=True),
    TWO_CPUS: deploy.DeploymentConfig(2, spread_on_cpu=True),
    GPU: deploy.DeploymentConfig(variables_on_clone=True),
    TWO_GPUS: deploy.DeploymentConfig(2),
}
PRECISIONS = ("float32", "bfloat16")
_VIDEOS, _FRAMES, _SIZE, _CLASSES = 16, 6, 64, 10  # of the batch: videos, frames of each, values of a frame, classes
# {name: hyper-parameters}: a video-level model of matrix products, and a frame-level one with a recurrent loop.
_MODELS = {"MoeModel": {}, "LstmModel": dict(lstm_cells=16, lstm_layers=1)}


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
    if config.steps:
        refuse_without_tensorflow("the training steps need", ", or leave out the steps by --nosteps")
    facts, trials = machine(), list(compare_devices()) if config.steps else []
    if config.json:
        steps = [{**dataclasses.asdict(trial), "is_good": trial.is_good} for trial in trials]
        terminal.print_json({**facts, "steps": steps})
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
    """Describes this machine in JSON values, from versions to plug-ins. Does not import TensorFlow."""
    return {
        "versions": {"yt8m": __version__, "python": platform.python_version()}
        | {package: _installed_version(package) for package in _PACKAGES},
        "system": platform.platform(),
        "processor": _describe_processor(),
        "memory_bytes": _memory_bytes(),
        "free_disk_bytes": {folder: free_bytes(folder) for folder in _folders()},
        "nvidia_driver": _nvidia_driver(),
        "huge_page_bytes": huge_pages.size(),
        "missing_packages_of_extras": missing_packages(),
        "plug_ins": _plug_ins(),
    }


def _plug_ins() -> list[dict[str, str]]:
    """What installed packages add: its kind (`models`, ...), name, package with version, and `module:Class`."""
    installed = [plug_ins.PlugIn(point.group.removeprefix("yt8m."), point) for point in plug_ins.installed()]
    return [
        {"kind": added.kind, "name": added.point.name, "package": added.release, "class": added.point.value}
        for added in installed
    ]


def _folders() -> list[str]:
    """The current folder, and that of temporary files if there is one."""
    with contextlib.suppress(RunError):
        return [os.getcwd(), temporary.folder_path()]
    return [os.getcwd()]


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
    reference = _run_steps(CPU)
    expected = {step["model"]: step for step in reference.get("steps", []) if step["precision"] == "float32"}
    yield from _compare_steps("CPU", reference, expected)
    if not expected:  # the steps failed on the CPU: there is nothing to compare other devices with
        return
    yield from _compare_steps(TWO_CPUS, _run_steps(TWO_CPUS), expected)
    gpus = reference.get("gpus", [])
    for index, name in enumerate(gpus):
        outcome = _run_steps(GPU, {"CUDA_VISIBLE_DEVICES": str(index)})
        yield from _compare_steps(f"GPU {index} ({name})", outcome, expected)
    if len(gpus) > 1:
        yield from _compare_steps(TWO_GPUS, _run_steps(TWO_GPUS), expected)


def _run_steps(place: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Runs the training steps in a new process."""
    command = [sys.executable, "-m", __name__, place]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if process.returncode == 0:
        outcome: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
        return outcome
    lines = process.stderr.strip().splitlines()
    return {"error": f"ended with status {process.returncode}: {lines[-1] if lines else 'no message'}"}


def _compare_steps(place: str, outcome: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterable[Trial]:
    """Yields the comparison of each training step with the same step of one tower on the CPU in float32."""
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
        ["huge pages", f"of {facts['huge_page_bytes'] >> 20} MB" if facts["huge_page_bytes"] else "none"],
        *(["free disk", f"{filesize.decimal(size)} in {name}"] for name, size in facts["free_disk_bytes"].items()),
        ["NVIDIA driver", facts["nvidia_driver"] or "none"],
    ]
    for extra, packages in sorted(facts["missing_packages_of_extras"].items()):
        missing = f"lacks {', '.join(packages)}: {install_advice(extra)}"
        rows.append([f"extra {extra}", missing if packages else "installed"])
    for added in facts["plug_ins"]:
        rows.append([f"plug-in {added['name']}", f"{added['kind']}: {added['class']} of {added['package']}"])
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
    if rows:
        has_gpu = any(trial.place.startswith("GPU") for trial in trials)
        print(_ON_A_GPU if has_gpu else "TensorFlow sees no GPU here.")


class _RandomVideos(Inputter):
    """Gives the same random videos in every process, without reading files."""

    def __init__(self, batch_size: int, level: str) -> None:
        self.batch_size, self.level = batch_size, level

    def files(self) -> Sequence[str]:
        return ()

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        draw = np.random.default_rng(11)
        if self.level == "frame":
            features = draw.integers(0, 256, (_VIDEOS, _FRAMES, _SIZE), np.uint8)
        else:
            features = draw.normal(size=(_VIDEOS, _SIZE)).astype(np.float32)
        num_frames = np.full(_VIDEOS, _FRAMES if self.level == "frame" else 1, np.int32)
        labels = draw.random((_VIDEOS, _CLASSES)) < 0.2
        video_ids = np.array([f"video {number}" for number in range(_VIDEOS)])
        arrays = Batch(video_ids, (features,), num_frames, labels)
        return tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)


def run_step(model_name: str, deployment: deploy.DeploymentConfig, precision: str) -> dict[str, Any]:
    """Takes one step of gradient descent from seeded weights.

    Args:
      precision: the dtype of matrix products, float32 or bfloat16.

    Returns:
      {"loss": the label loss, "change": the update of every trained weight, as one list of numbers}.
    """
    model = models.get(model_name)(**_MODELS[model_name])
    inputter = _RandomVideos(_VIDEOS // deployment.num_clones, model.level)
    modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), _CLASSES, feature_sizes=(_SIZE,))
    optimizer = OptimizerConfig(
        optimizer="GradientDescentOptimizer", base_learning_rate=1.0, clip_gradient_norm=0.0, regularization_penalty=0.0
    )
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        ops = graph.build(inputter, modeler, deployment, optimizer, DeviceConfig(precision=precision))
        weights = tf.trainable_variables()
        with forks.new_session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            session.run([tf.assign(variable, _draw(variable, index)) for index, variable in enumerate(weights)])
            session.run(ops.input.initializer, {ops.input.files: []})
            before = session.run(weights)
            loss, _ = session.run([ops.label_loss, ops.train_op])
            change = [after - start for after, start in zip(session.run(weights), before, strict=True)]
    return {"loss": float(loss), "change": np.concatenate([values.ravel() for values in change]).tolist()}


def _draw(variable: tf.Variable, seed: int) -> np.ndarray:
    """Draws initial values, float32 of the variable's shape, by NumPy: TensorFlow's may differ between devices."""
    return np.asarray(np.random.default_rng(seed).normal(0, 0.1, variable.shape.as_list()), np.float32)


def take_steps(place: str) -> None:
    """Takes a training step of each model in each precision, and prints the results as JSON.

    The results are `{"gpus": names, "steps": [...]}`. A step has `model`, `precision`, and `loss` and `change` of
    `run_step`.
    """
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "a GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    steps = [
        dict(run_step(model, _DEPLOYMENTS[place], precision), model=model, precision=precision)
        for model in _MODELS
        for precision in PRECISIONS
    ]
    print(json.dumps({"gpus": gpus, "steps": steps}))


if __name__ == "__main__":
    take_steps(sys.argv[1])
