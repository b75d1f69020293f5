"""`yt8m cloud-job train`: prints or submits a training job for Vertex AI, as a CustomJobSpec and a gcloud command.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec describes the fields. The worker pools are, in
this order, the chief, the workers and the parameter servers. A pool that is not used is an empty entry.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import string
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yt8m import options, storage
from yt8m.command_line import flag_parsing, flags
from yt8m.command_line.flag_parsing import HelpAsked, Program, find_word, parse, usage
from yt8m.config.train_config import TrainConfig
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import UsageError
from yt8m.options import about_flags, option
from yt8m.storage import copies

_PURPOSE = (
    "Prints the gcloud command and the configuration of a Vertex AI job that trains with the given flags; with "
    "--submit it also starts the job. All flags of `yt8m train` can be given too."
)
_MODULE = "yt8m.train"  # the module that the job runs
_PYTHONS = "Python 3.11.2 to 3.13"  # those of released TensorFlows: pip takes no pre-release in a job
# What --project (id or number), paths in buckets and --region look like.
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|\d+")
_IN_A_BUCKET = re.compile(r"gs://[^/]")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def main(argv: list[str]) -> int:
    """Prints the job that the flags describe, or submits it; returns the exit status (with --submit that of gcloud).

    Args:
      argv: the words after `yt8m cloud-job`: `train`, then the flags of the job and of the training.

    Raises:
      UsageError: the flags of the job or of the training are wrong, or --submit finds no gcloud command; nothing was
        printed or sent.
    """
    words = argv[1:]
    if argv[:1] != ["train"]:
        words = ["--help"]
        if not argv or argv[0].lstrip("-").partition("=")[0] not in flag_parsing.HELP:
            raise UsageError(
                f"`yt8m {' '.join(['cloud-job', *argv[:1]])}` is not complete or not known; expected "
                "`yt8m cloud-job train --project=...`."
            )
    job_flags = flag_parsing.flags_of(CloudJobConfig, "Cloud job")
    try:
        train_flags = flags.training_flags()
        model_flags = flags.hyper_parameters(train_flags, find_word("model", words), find_word("label_loss", words))
        values = parse([*job_flags, *train_flags, *model_flags], words)
    except HelpAsked:
        print(usage(Program("yt8m cloud-job train", _PURPOSE, job_flags), {}), end="")
        return 0
    with about_flags():
        job = CloudJobConfig(**{flag.name: values.pop(flag.name) for flag in job_flags if flag.name in values})
    # `values` also has the flags that flagfiles gave: the job gets them as words, because it cannot read the flagfiles.
    towers = {"num_gpu": job.accelerator_count} if job.accelerator and job.accelerator_count > 1 else {}
    exchange = {"exchange": "all-reduce"} if job.workers and not job.ps else {}
    args = [f"--{name}={options.shown(value)}" for name, value in {**towers, **exchange, **values}.items()]
    run = flags.train_config(args, files_are_here=False)
    _check_exchange(job, run)
    _refuse_local_paths(job, run, values.get("config", ""))
    _check_on_machines(job, run)
    if not run.data.data_pattern:
        raise UsageError(
            "--train_data_pattern is missing: the job would train on generated sample data; give the files, such as "
            "--train_data_pattern='gs://my-bucket/train/*.tfrecord'."
        )
    name = job.display_name or f"yt8m-{run.model.model.rpartition(':')[2]}"
    return _submit(job, args, name) if job.submit else _print_job(job, args, name)


@dataclass(frozen=True)
class CloudJobConfig(options.Checked):
    """The flags of `yt8m cloud-job`: the project, the machines and the code of a job."""

    project: str = option("", "Google Cloud project that pays")
    region: str = option("", "region of the machines, such as us-central1; preferably that of the data's bucket")
    display_name: str = option("", "the job's name in the console [yt8m-MODEL]")
    machine: str = option("n1-standard-8", "machine type of the chief and the workers")
    accelerator: str = option("", "GPU type of the chief and the workers, such as NVIDIA_TESLA_T4 [no GPU]")
    accelerator_count: int = option(
        1, "number of GPUs per machine; also the default of --num_gpu", minimum=1, maximum=16
    )
    workers: int = option(0, "number of machines that train besides the chief", minimum=0, maximum=1000)
    ps: int = option(
        0, "number of parameter servers; workers without any train by --exchange=all-reduce", minimum=0, maximum=1000
    )
    ps_machine: str = option("n1-standard-8", "machine type of the parameter servers")
    image: str = option("", "container image that has yt8m in it (the Dockerfile makes one)")
    package: str = option("", "source distribution of yt8m on gs://, in place of an image")
    executor_image: str = option("", f"image with {_PYTHONS} that --package or this folder is installed in")
    output_dir: str = option("", "gs:// folder of the job: checkpoints, logs and the model go there")
    service_account: str = option("", "account that the job runs as; by default the project's own")
    config_file: str = option("yt8m-job.yaml", "name of the job's configuration file in the printed commands")
    submit: bool = option(False, "run the gcloud command rather than print it")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _PROJECT.fullmatch(self.project):
            raise UsageError(f"--project={self.project}: expected the id or number of a Google Cloud project.")
        if not _REGION.fullmatch(self.region):
            raise UsageError(f"--region={self.region}: expected a region such as --region=us-central1.")
        if self.accelerator and not self.accelerator.startswith("NVIDIA_"):
            raise UsageError(
                f"--accelerator={self.accelerator}: expected a GPU as Vertex AI names it, such as "
                "NVIDIA_TESLA_T4, NVIDIA_L4 or NVIDIA_TESLA_A100."
            )
        if self.image and (self.package or self.executor_image):
            raise UsageError(
                "the image of --image already contains the code; leave out --package and --executor_image."
            )
        if not (self.image or self.executor_image):
            raise UsageError(
                "--image is missing: build an image with the Dockerfile and give its name, or add --executor_image "
                f"with the name of an image that has {_PYTHONS}. Vertex AI's prebuilt TensorFlow images have Python "
                "3.10 only."
            )
        if self.package and not self.package.startswith("gs://"):
            raise UsageError(
                f"--package={self.package}: expected a source distribution on gs://; make one by "
                "`python -m build --sdist` and copy it there."
            )
        if self.output_dir and not _IN_A_BUCKET.match(self.output_dir):
            raise UsageError(f"--output_dir={self.output_dir}: expected a folder on gs://, with its bucket.")

    @property
    def is_packed_here(self) -> bool:
        """Whether gcloud packs the code from the current folder."""
        return not (self.image or self.package)

    def pools(self) -> list[dict[str, Any]]:
        """The worker pools (chief, workers, parameter servers) as a CustomJobSpec has them; `{}` for an unused pool."""
        machine: dict[str, Any] = {"machineType": self.machine}
        if self.accelerator:
            machine |= {"acceleratorType": self.accelerator, "acceleratorCount": self.accelerator_count}
        machine_pools = [{"machineSpec": machine, "replicaCount": 1}]
        if self.workers or self.ps:
            machine_pools.append({"machineSpec": machine, "replicaCount": self.workers} if self.workers else {})
        if self.ps:
            machine_pools.append({"machineSpec": {"machineType": self.ps_machine}, "replicaCount": self.ps})
        return machine_pools


def _check_exchange(job: CloudJobConfig, run: TrainConfig) -> None:
    """Raises `UsageError` if --exchange does not fit the numbers of workers and parameter servers."""
    exchange = run.distributed.exchange
    if job.ps and exchange == "all-reduce":
        raise UsageError(
            f"--ps={job.ps} --exchange=all-reduce: that exchange uses no parameter servers; "
            "leave out one of the two flags."
        )
    if job.workers and not job.ps and exchange == "parameter-servers":
        raise UsageError(
            f"--workers={job.workers} --ps=0 --exchange=parameter-servers: add --ps=1 or more, or leave out "
            "--exchange: without parameter servers the workers sum their gradients (all-reduce)."
        )


def _check_on_machines(job: CloudJobConfig, run: TrainConfig) -> None:
    """Raises `UsageError` if the training would refuse its flags on the machines of the job.

    Validation data are refused for several machines, because only an evaluator would read them, and the jobs have none.
    """
    from yt8m.training.cluster_training import check_flags  # slow to import, and --help does not need it

    replicas = [f"replica{index}:2222" for index in range(1 + job.workers)]  # Vertex AI gives the real addresses
    cluster = ClusterConfig(tuple(replicas), tuple(f"ps{index}:2222" for index in range(job.ps)))
    if cluster.is_distributed and run.validation.eval_data_pattern:
        validation_flags = ", ".join(f"--{name}" for name in options.changed(run.validation))
        raise UsageError(
            f"--workers={job.workers} --ps={job.ps}: in a cluster the evaluator validates, but a job of `yt8m "
            f"cloud-job` has none. Leave out {validation_flags}, and run `yt8m eval --train_dir=...` beside the job: "
            "it evaluates each new checkpoint."
        )
    check_flags(dataclasses.replace(run, train_dir=run.train_dir or job.output_dir), cluster)


def _refuse_local_paths(job: CloudJobConfig, run: TrainConfig, config_path: str) -> None:
    """Raises `UsageError` for paths on this machine, which the job cannot read, or if no folder for the run is given.

    Args:
      config_path: the value of --config; empty if it is not given.
    """
    if not job.output_dir and not run.train_dir:
        raise UsageError(
            "the files of the job's machine are deleted when the job ends: give --output_dir=gs://... or "
            "--train_dir=gs://... for the files of the run."
        )
    paths_by_flag = {
        options.flag_of(field): options.value_at(run, path)
        for path, field in options.fields_of(run)
        if field.metadata["is_path"] and field.metadata["belongs_to"] != "machine"
    }
    for name, paths in {"config": config_path, **paths_by_flag}.items():
        for path in filter(None, paths.split(",")):
            if not path.strip().startswith(("gs://", "/gcs/")):
                raise UsageError(f"--{name}={paths}: the job cannot read files of this machine; expected gs://...")


def _print_job(job: CloudJobConfig, args: Sequence[str], name: str) -> int:
    """Prints commands for a shell: one that writes the configuration file, if the job needs it, then `gcloud`."""
    spec = job_spec(job, args)
    if spec:
        print(f"cat > {shlex.quote(job.config_file)} <<'END'\n{_to_yaml(spec)}END")
    words = [shlex.quote(word) for word in command(job, args, name, job.config_file)]
    print(" \\\n  ".join([" ".join(words[:4]), *words[4:]]))
    return 0


def _to_yaml(spec: dict[str, Any]) -> str:
    """Formats the spec as JSON. JSON is valid YAML, so no YAML library is needed."""
    return json.dumps(spec, indent=2) + "\n"


def _submit(job: CloudJobConfig, args: Sequence[str], name: str) -> int:
    """Runs the gcloud command, with the configuration in a temporary file; returns gcloud's exit status."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise UsageError(
            "--submit needs the gcloud command, which is not on the PATH: install the Google Cloud CLI, or "
            "leave --submit out and run the printed command on another machine."
        )
    with copies.private_folder("yt8m-job-") as folder:
        path = os.path.join(folder, "job.yaml")
        storage.write(path, _to_yaml(job_spec(job, args)))
        return subprocess.run([gcloud, *command(job, args, name, path)[1:]]).returncode


def job_spec(config: CloudJobConfig, args: Sequence[str]) -> dict[str, Any]:
    """Returns the part of the CustomJobSpec that the configuration file holds, as a JSON object.

    If gcloud packs the code from the current folder, the worker pools are left out, because gcloud then accepts them
    only on its command line. So the result may be empty, and the job needs no configuration file.
    """
    spec: dict[str, Any] = {}
    if not config.is_packed_here:
        kind, code = "containerSpec", {"imageUri": config.image, "command": ["python", "-m", _MODULE]}
        if config.package:
            kind, code = (
                "pythonPackageSpec",
                {"executorImageUri": config.executor_image, "packageUris": [config.package]},
            )
            code["pythonModule"] = _MODULE
        spec["workerPoolSpecs"] = [pool and {**pool, kind: {**code, "args": list(args)}} for pool in config.pools()]
    if config.output_dir:
        spec["baseOutputDirectory"] = {"outputUriPrefix": config.output_dir}
    if config.service_account:
        spec["serviceAccount"] = config.service_account
    return spec


def command(config: CloudJobConfig, args: Sequence[str], display_name: str, config_file: str) -> list[str]:
    """Returns the words of the gcloud command.

    Args:
      config_file: the path of the configuration file; not used if `job_spec` is empty, because there is no file then.
    """
    words = ["gcloud", "ai", "custom-jobs", "create", f"--project={config.project}"]
    words += [f"--region={config.region}", f"--display-name={display_name}"]
    if job_spec(config, args):
        words.append(f"--config={config_file}")
    if config.is_packed_here:
        # Only the first pool names the code, because gcloud uses that code for all pools.
        code = [f"executor-image-uri={config.executor_image}", "local-package-path=.", f"python-module={_MODULE}"]
        for number, pool in enumerate(config.pools()):
            fields = [*_machine_fields(pool), *([] if number else code)]
            words.append(f"--worker-pool-spec={','.join(fields)}")
        words += [f"--args={_join_for_gcloud(args)}"] if args else []
    return words


def _machine_fields(pool: dict[str, Any]) -> list[str]:
    """The machine type and the counts of a pool, as `key=value` texts for gcloud's --worker-pool-spec."""
    machine = pool.get("machineSpec", {})
    fields = {
        "machine-type": machine.get("machineType"),
        "replica-count": pool.get("replicaCount"),
        "accelerator-type": machine.get("acceleratorType"),
        "accelerator-count": machine.get("acceleratorCount"),
    }
    return [f"{name}={value}" for name, value in fields.items() if value is not None]


def _join_for_gcloud(args: Sequence[str]) -> str:
    """Joins a list into one argument of gcloud, by commas.

    If an item has a comma, another separator is used and declared in the way that `gcloud topic escaping` describes.
    """
    text = "".join(args)
    if "," not in text:
        return ",".join(args)
    separator = next(mark for mark in ";|~#@!%" + string.ascii_letters if mark not in text)
    return f"^{separator}^{separator.join(args)}"
