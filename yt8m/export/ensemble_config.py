"""The options of `yt8m ensemble`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from yt8m import options, terminal
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.errors import UsageError
from yt8m.options import option, path_option
from yt8m.registry import TRUST_HELP


@dataclass(frozen=True)
class EnsembleConfig(options.Checked):
    """The flags of `yt8m ensemble`; on its command line blanks may separate the entries of a list too."""

    lists_have_blanks: ClassVar[bool] = True
    predictions: tuple[str, ...] = option((), "prediction files of the same videos", is_path=True)
    train_dir: tuple[str, ...] = option(
        (),
        "in place of files: folders of runs that become one exported model",
        flag="model",
        aliases=("train_dir", "runs"),
        is_path=True,
    )
    weights: tuple[str, ...] = option((), "one number above 0 for each file or run; by default equal weights")
    mean: str = option("score", "what is averaged: scores, or ranks", choices=("score", "rank"))
    fit_on: str = path_option(
        "records with the videos' labels, to fit the weights on", flag="data", aliases=("fit_on",)
    )
    out: str = path_option(
        "file for the joined predictions (CSV), or folder for the exported model of several runs",
        aliases=("output_file", "export_dir"),
    )
    output_model_tgz: str = path_option(
        "pack the model of several runs into this .tgz, for inference", needs="train_dir"
    )
    output_onnx: str = path_option("write the model of several runs as this ONNX file (NAME.onnx)", needs="train_dir")
    num_classes: int | None = option(
        None, "number of classes [as many as the vocabulary by the records of --data has, else 3862]", minimum=1
    )
    top_k: int = option(20, "predictions listed per video", minimum=1)
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    trust_code: bool = option(False, TRUST_HELP)
    json: bool = option(False, terminal.JSON_HELP, needs="fit_on")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.predictions) == bool(self.train_dir):
            raise UsageError("give either --predictions, to join files, or --model, to join the models of runs.")
        members = len(self.predictions or self.train_dir)
        if members < 2:
            raise UsageError("an ensemble needs at least two members: name two or more files or runs.")
        if self.weights and len(self.weights) != members:
            raise UsageError(f"--weights has {len(self.weights)} numbers for {members} members; give one for each.")
        if self.weights and self.fit_on:
            raise UsageError("--weights and --data both set the weights; give one of them.")
        if self.train_dir and (self.fit_on or self.mean == "rank"):
            raise UsageError("--data and --mean=rank are for prediction files; leave them out, or give --predictions.")
        if not (self.out or self.output_model_tgz or self.output_onnx or self.fit_on):
            other_outputs = (
                "--output_onnx or --output_model_tgz" if self.train_dir else "records with labels, to fit on, as --data"
            )
            raise UsageError(f"no output is named: give --out, or {other_outputs}.")
        if self.output_onnx and not self.output_onnx.endswith(".onnx"):
            raise UsageError(f"--output_onnx={self.output_onnx}: the name of an ONNX file ends in .onnx.")
        self._refuse_a_file_as_folder()
        self.normalised_weights()

    def _refuse_a_file_as_folder(self) -> None:
        for ending, flag in ((".onnx", "output_onnx"), (".tgz", "output_model_tgz"), (".tar.gz", "output_model_tgz")):
            if self.train_dir and self.out.endswith(ending):
                raise UsageError(
                    f"--out={self.out}: with --model, --out names the folder of a SavedModel, whose name cannot end in "
                    f"{ending}. Name another folder, or give --{flag}={self.out}."
                )

    def normalised_weights(self) -> list[float]:
        """The weights of the members, scaled to add up to 1."""
        try:
            numbers = [float(word) for word in self.weights] or [1.0] * len(self.predictions or self.train_dir)
        except ValueError:
            numbers = [0.0]
        if not all(0 < number < float("inf") for number in numbers):
            raise UsageError(f"--weights={','.join(self.weights)}: expected numbers above 0.")
        return [number / sum(numbers) for number in numbers]
