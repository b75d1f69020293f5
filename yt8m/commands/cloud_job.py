"""What a cloud job is asked for, beside the flags of its training.

The job as Vertex AI wants it: a CustomJobSpec, and the gcloud command that hands it over.

Fields: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec; pools in the order chief,
workers, parameter servers, where an empty one keeps the place of the next.

The command line of `yt8m cloud-job train`: prints the job, or submits it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import string
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yt8m import options, storage
from yt8m.config import flag_parsing, flags
from yt8m.config.flag_parsing import HelpAsked, find_word, parse, usage
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.options import option

_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|\d+")
_IN_A_BUCKET = re.compile(r"gs://[^/]")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
_EXECUTOR = "us-docker.pkg.dev/vertex-ai/training/tf-{}.2-17.py310:latest"


@dataclass(frozen=True)
class CloudJobConfig:
    """Where a job runs, on which machines, and how the code gets there."""

    project: str = option("", "Google Cloud project that pays")
    region: str = option("", "region of the machines, such as us-central1; best that of the data's bucket")
    display_name: str = option("", "the job's name in the console [yt8m-MODEL]")
    machine: str = option("n1-standard-8", "machine type of the chief and the workers")
    accelerator: str = option("", "GPU type of the chief and the workers, such as NVIDIA_TESLA_T4; none")
    accelerator_count: int = option(1, "GPUs a machine; --num_gpu follows it", minimum=1, maximum=16)
    workers: int = option(0, "machines that train beside the chief", minimum=0, maximum=1000)
    ps: int = option(0, "parameter servers; workers need at least one", minimum=0, maximum=1000)
    ps_machine: str = option("n1-standard-8", "machine type of the parameter servers")
    image: str = option("", "container image that has yt8m in it (the Dockerfile makes one)")
    package: str = option("", "source distribution of yt8m on gs://, in place of an image")
    executor_image: str = option(
        "", f"image under a package or under this folder [{_EXECUTOR.format('cpu')}; tf-gpu with GPUs]"
    )
    output_dir: str = option("", "gs:// folder for checkpoints, logs and the model, which the job is told of")
    service_account: str = option("", "account the job runs as; the project's own")
    config_file: str = option("yt8m-job.yaml", "name of the job's configuration file in what is printed")
    submit: bool = option(False, "run the command, rather than print it")

    def __post_init__(self) -> None:
        options.check(self)
        self._check_place()
        self._check_code()
        if self.workers and not self.ps:
            raise UsageError(
                f"--workers={self.workers} --ps=0: workers share the variables through parameter servers; "
                "add --ps=1 or more, or leave out --workers."
            )
        if self.output_dir and not _IN_A_BUCKET.match(self.output_dir):
            raise UsageError(f"--output_dir={self.output_dir}: expected a folder on gs://, with its bucket.")

    def _check_place(self) -> None:
        if not _PROJECT.fullmatch(self.project):
            raise UsageError(f"--project={self.project}: expected the id or number of a Google Cloud project.")
        if not _REGION.fullmatch(self.region):
            raise UsageError(f"--region={self.region}: expected a region such as --region=us-central1.")
        if self.accelerator and not self.accelerator.startswith("NVIDIA_"):
            raise UsageError(
                f"--accelerator={self.accelerator}: expected a GPU as Vertex AI names it, such as "
                "NVIDIA_TESLA_T4, NVIDIA_L4 or NVIDIA_TESLA_A100."
            )

    def _check_code(self) -> None:
        if self.image and (self.package or self.executor_image):
            raise UsageError("--image has the code in it already; leave out --package and --executor_image.")
        if self.package and not self.package.startswith("gs://"):
            raise UsageError(
                f"--package={self.package}: expected a source distribution on gs://; make one by "
                "`python -m build --sdist` and copy it there."
            )

    @property
    def executor(self) -> str:
        """The image that a package or this folder's code is put upon."""
        return self.executor_image or _EXECUTOR.format("gpu" if self.accelerator else "cpu")


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
        words += [f"--worker-pool-spec={_flag_pool(i, pool, config)}" for i, pool in enumerate(_pools(config))]
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


_PURPOSE = (
    "Prints the gcloud command and the configuration of a Vertex AI job that trains with the flags given, or "
    "with --submit starts it. All flags of `yt8m train` are known here too."
)
_IN_THE_CLOUD = ("gs://", "/gcs/")


def main(argv: list[str]) -> int:
    """Prints or submits the job that the flags ask for; returns the exit status (with --submit gcloud's).

    Raises:
      UsageError: the flags of the job or of the training cannot be; nothing was printed or sent.
    """
    if not argv or argv[0] != "train":
        if argv and argv[0].lstrip("-") in ("help", "h"):
            print(_help(), end="")
            return 0
        raise UsageError(f"cloud-job {' '.join(argv[:1])}: expected `yt8m cloud-job train --project=...`.")
    try:
        given = parse([*_job_flags(), *_train_flags(argv[1:])], argv[1:])
    except HelpAsked:
        print(_help(), end="")
        return 0
    names = options.declared(CloudJobConfig)
    try:
        job = CloudJobConfig(**{name: value for name, value in given.items() if name in names})
    except UsageError as error:
        raise UsageError(flags.as_flag(error)) from error
    args = _args(job, {name: value for name, value in given.items() if name not in names})
    run = flags.train_config(args, files_are_here=False)
    _refuse_local_paths(job, run)
    name = job.display_name or f"yt8m-{run.model.model.rpartition(':')[2]}"
    return _submit(job, args, name) if job.submit else _show(job, args, name)


def _help() -> str:
    return usage("yt8m cloud-job train", _PURPOSE, _job_flags(), {})


def _job_flags() -> list[flag_parsing.Flag]:
    return flag_parsing.flags_of(CloudJobConfig, "Cloud job")


def _train_flags(words: Sequence[str]) -> list[flag_parsing.Flag]:
    known = flag_parsing.training_flags()
    model, loss = find_word("model", words), find_word("label_loss", words)
    return known + flag_parsing.hyper_parameters(known, model, loss)


def _args(job: CloudJobConfig, given: Mapping[str, Any]) -> list[str]:
    """The training's flags, those of flagfiles among them: the files stay here."""
    towers = {"num_gpu": job.accelerator_count} if job.accelerator and job.accelerator_count > 1 else {}
    return [f"--{name}={flag_parsing.shown(value)}" for name, value in {**towers, **given}.items()]


def _refuse_local_paths(job: CloudJobConfig, run: TrainConfig) -> None:
    """What lies on this machine is not there in the job; what it writes to its own disk is lost with it."""
    if not job.output_dir and not run.train_dir:
        raise UsageError("the job's machine is gone when it ends: name --output_dir=gs://... or --train_dir=gs://...")
    named = {
        "train_dir": run.train_dir,
        "train_data_pattern": run.data.data_pattern,
        "eval_data_pattern": run.distributed.eval_data_pattern,
        "manifest": run.data.manifest,
        "init_from": run.init_from,
        "export_dir": run.export_dir,
        "log_dir": run.log_dir,
        "distill_from": run.distillation.distill_from,
        "teacher": run.distillation.teacher,
    }
    for name, paths in named.items():
        for path in filter(None, paths.split(",")):
            if not path.strip().startswith(_IN_THE_CLOUD):
                raise UsageError(f"--{name}={paths}: the job cannot see this machine's files; expected gs://...")


def _show(job: CloudJobConfig, args: Sequence[str], name: str) -> int:
    """What can be pasted into a shell: the file, then the command."""
    spec = job_spec(job, args)
    if spec:
        print(f"cat > {shlex.quote(job.config_file)} <<'END'\n{_text(spec)}END")
    words = [shlex.quote(word) for word in command(job, args, name, job.config_file)]
    print(" \\\n  ".join([" ".join(words[:4]), *words[4:]]))
    return 0


def _text(spec: Mapping[str, Any]) -> str:
    """JSON, which is YAML too: no library is needed to write it or to read it."""
    return json.dumps(spec, indent=2) + "\n"


def _submit(job: CloudJobConfig, args: Sequence[str], name: str) -> int:
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise UsageError(
            "--submit needs the gcloud command, which is not on the PATH: install the Google Cloud CLI, or "
            "leave --submit out and run what is printed elsewhere."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.yaml")
        with storage.write_atomic(path, "w") as file:
            file.write(_text(job_spec(job, args)))
        return subprocess.run([gcloud, *command(job, args, name, path)[1:]]).returncode
