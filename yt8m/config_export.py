"""What `yt8m export` and `yt8m average-checkpoints` are asked for; fields are flags."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.registry import TRUST_HELP


@dataclass(frozen=True)
class ExportConfig:
    """A model out of a run's checkpoint."""

    train_dir: str = option("", "folder of the run; the newest under runs/ where none is given")
    run: str = option("", "the same as --train_dir")
    checkpoint: str = option("last", "which one: last, best (kept by eval.py --keep_best), or its step")
    weights: str = option("float32", "how weights are stored", choices=("float32", "float16", "int8"))
    signature: str = option(
        "records",
        "which input serving_default takes: serialized records, or features as MediaPipe's graph gives them; "
        "the other goes by its own name",
        choices=("records", "mediapipe"),
    )
    out: str = option("", "folder to write, which must not be there yet")
    eval_data_pattern: str = option(
        "", "records with labels: GAP is taken on them before and after, and put into the model card"
    )
    batch_size: int = option(1024, "examples per step of those evaluations", minimum=1)
    num_readers: int = option(8, "files that they read side by side", minimum=1)
    top_k: int = option(20, "best predictions of each video that count and that the model gives", minimum=1)
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        options.check(self)
        if not self.out:
            raise UsageError("--out is missing: name the folder to write the model into.")
        if self.train_dir and self.run:
            raise UsageError("--train_dir and --run both name the run; give one of them.")
        if self.checkpoint not in ("last", "best") and not self.checkpoint.isdigit():
            raise UsageError(f"--checkpoint={self.checkpoint}: expected last, best, or a step such as 1000.")


@dataclass(frozen=True)
class AverageConfig:
    """The mean of several checkpoints of one run."""

    train_dir: str = option("", "folder of the run; the newest under runs/ where none is given")
    last: int | None = option(None, "how many of the newest checkpoints are averaged [5]", minimum=2)
    checkpoints: tuple[str, ...] = option((), "which ones, by step, in place of the newest")
    out: str = option("", "folder to write, which must not be there yet; eval.py takes it as a run")
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        options.check(self)
        if not self.out:
            raise UsageError("--out is missing: name the folder to write the averaged checkpoint into.")
        if self.last is not None and self.checkpoints:
            raise UsageError("--last and --checkpoints both choose checkpoints; give one of them.")
        if self.checkpoints and not (len(set(self.checkpoints)) == len(self.checkpoints) > 1):
            given = ",".join(self.checkpoints)
            raise UsageError(f"--checkpoints={given}: name at least two different steps.")
        for step in self.checkpoints:
            if not step.isdigit():
                raise UsageError(f"--checkpoints: {step!r} is no step; write them as 1000,2000,3000.")
