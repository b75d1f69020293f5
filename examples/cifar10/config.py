"""What the example's programs are asked for; each field is a flag."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.config.train_config import OptimizerConfig
from yt8m.deploy import CHIEF, WORKER, ClusterConfig
from yt8m.errors import UsageError
from yt8m.options import option

EXAMPLES = 50_000  # in the training files of CIFAR-10


@dataclass(frozen=True)
class DataConfig:
    """Where the run and the set are, and how fast the set is read."""

    train_dir: str = option("runs/cifar10", "folder of the run: checkpoints, event files, metrics.jsonl")
    data_dir: str = option("cifar10_data", "folder of the set: cifar-10-batches-bin/ or generated/")
    generated: bool = option(False, "use the generated set; also used where data_dir holds no other")
    download: bool = option(False, "fetch CIFAR-10 into data_dir, unless it is there")
    batch_size: int = option(128, "examples per tower and step", minimum=1)
    log_every_n_steps: int = option(10, "steps between two lines in the log", minimum=1)

    def __post_init__(self) -> None:
        options.check(self)
        if self.generated and self.download:
            raise UsageError("--generated and --download both name a set; give one of them.")


@dataclass(frozen=True)
class TowersConfig(DataConfig):
    """What is done on several towers; inference is not."""

    num_gpus: int = option(
        1, "towers: one on each GPU, at most as many as there are; without a GPU on the CPU", minimum=1
    )


@dataclass(frozen=True)
class TrainConfig(TowersConfig):
    """A training run. The learning rate falls in steps of `epochs_per_decay` passes over 50,000 examples."""

    max_steps: int | None = option(None, "last step [100000; 250 on the generated set]", minimum=1)
    base_learning_rate: float = option(0.1, "learning rate of the first step", minimum=1e-12, maximum=1e6)
    learning_rate_decay: float = option(0.1, "factor of the learning rate at each decay", minimum=1e-6, maximum=1)
    epochs_per_decay: float = option(350.0, "passes over 50,000 examples between decays", minimum=0.001)
    moving_average_decay: float = option(
        0.9999, "decay of the weights' moving averages, which eval uses; 0: none", minimum=0, maximum=0.999999
    )
    save_checkpoint_steps: int = option(1000, "steps between checkpoints", minimum=1)
    save_summary_steps: int = option(100, "steps between summaries for TensorBoard", minimum=1)
    log_device_placement: bool = option(False, "log which device each op runs on")
    exact_resume: bool = option(False, "save the position in the data too, for a resume without repeats")
    seed: int = option(0, "seed of weights, order and distortions", minimum=0, maximum=2**31 - 1)

    def optimizer(self) -> OptimizerConfig:
        """Plain gradient descent on the mean of the towers' gradients."""
        return OptimizerConfig(
            optimizer="GradientDescentOptimizer",
            base_learning_rate=self.base_learning_rate,
            learning_rate_decay=self.learning_rate_decay,
            learning_rate_decay_examples=self.epochs_per_decay * EXAMPLES,
            clip_gradient_norm=0,
            combine_gradients="mean",
            moving_average_decay=self.moving_average_decay,
        )


@dataclass(frozen=True)
class EvalConfig(TowersConfig):
    """One evaluation of the newest checkpoint."""

    batch_size: int = option(500, "examples per tower and step", minimum=1)


@dataclass(frozen=True)
class InferenceConfig(DataConfig):
    """Probabilities for the test file."""

    batch_size: int = option(500, "examples per step", minimum=1)
    output_file: str = option("predictions.csv", "where the probabilities go (CSV)")


@dataclass(frozen=True)
class DeployConfig(TrainConfig):
    """A training run through `yt8m.deploy.deploy`: on one machine, or as one process of a cluster."""

    job_name: str = option("", "in a cluster: what this process is, ps or worker")
    task_index: int = option(0, "which of its kind it is; worker 0 saves the checkpoints", minimum=0)
    ps_hosts: tuple[str, ...] = option((), "host:port of each parameter server, commas between")
    worker_hosts: tuple[str, ...] = option((), "host:port of each worker, commas between")

    def __post_init__(self) -> None:
        super().__post_init__()
        hosts = {"": ("",), "ps": self.ps_hosts, "worker": self.worker_hosts}.get(self.job_name)
        if hosts is None:
            raise UsageError(f"--job_name={self.job_name}: expected ps or worker; leave it out on one machine.")
        if bool(self.job_name) != bool(self.ps_hosts and self.worker_hosts):
            raise UsageError("a cluster needs --job_name, --ps_hosts and --worker_hosts; give all or none.")
        if self.task_index >= len(hosts):
            raise UsageError(
                f"--task_index={self.task_index}: expected less than {len(hosts)}, the number of {self.job_name} hosts."
            )

    def cluster(self) -> ClusterConfig | None:
        """All processes (worker 0 is the chief) and the role of this one; None on one machine."""
        if not self.job_name:
            return None
        is_chief = self.job_name == "worker" and self.task_index == 0
        role = CHIEF if is_chief else self.job_name
        index = self.task_index - (role == WORKER)
        return ClusterConfig(self.worker_hosts, self.ps_hosts, role, index)
