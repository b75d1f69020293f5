"""What a cloud job is asked for, beside the flags of its training."""

from __future__ import annotations

import re
from dataclasses import dataclass

from yt8m import options
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
            raise UsageError(
                f"--project={self.project}: expected the id or number of a Google Cloud project."
            )
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
