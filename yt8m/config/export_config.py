"""The options of `yt8m export`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from yt8m import terminal
from yt8m.config.of_run import OfCheckpoint, OfRun, same_as
from yt8m.config.programs import PassConfig, batch_option
from yt8m.errors import UsageError
from yt8m.options import option, path_option


@dataclass(frozen=True)
class ExportConfig(OfCheckpoint):
    """The options of an export of a model from a run's checkpoint."""

    most_in_batch: ClassVar[int] = PassConfig.most_in_batch

    train_dir: str = same_as(OfRun, "train_dir", flag="model", aliases=("train_dir", "run"))
    format: str = option(
        "saved_model",
        "what is written: a folder with a SavedModel and an inference model, a file that needs no TensorFlow (onnx), "
        "a folder with a page that scores files in the browser (web), or the weights as a file of NumPy (npz)",
        choices=("saved_model", "onnx", "web", "npz"),
    )
    weights: str = option("float32", "how weights are stored", choices=("float32", "float16", "int8"))
    signature: str = option(
        "records",
        "which input the signature serving_default takes: serialized records, or features as MediaPipe's graph gives "
        "them; the model has the other signature too, under its own name",
        choices=("records", "mediapipe"),
    )
    input_type: str = option(
        "float32",
        "what the frames of an ONNX file are: features as float32, or uint8 as the records store them",
        choices=("float32", "uint8"),
    )
    out: str = path_option("folder to write, which must not exist yet, or file (NAME.onnx, NAME.npz)", is_required=True)
    onnxruntime_web: str = option(
        "node_modules/onnxruntime-web",
        "folder of the npm package onnxruntime-web, whose files the page of --format=web needs",
        is_path=True,
    )
    eval_data_pattern: str = path_option(
        "records with labels, on which GAP is measured before and after the export, for the model card",
        flag="data",
        aliases=("eval_data_pattern",),
    )
    batch_size: int | None = batch_option(most_in_batch, " of the evaluations on --data")
    num_readers: int = option(8, "files that these evaluations read in parallel", minimum=1, maximum=10_000)
    top_k: int = option(20, "number of best predictions of each video that the model returns and GAP uses", minimum=1)
    json: bool = option(False, terminal.JSON_HELP, needs="eval_data_pattern")

    def __post_init__(self) -> None:
        super().__post_init__()
        is_onnx, is_saved_model = self.format == "onnx", self.format == "saved_model"
        self._check_name()
        if self.format == "npz" and (self.weights != "float32" or self.eval_data_pattern):
            flag = "--weights" if self.weights != "float32" else "--data"
            raise UsageError(
                f"{flag} is for exports that score; leave it out, because --format=npz writes the weights as they are."
            )
        if not is_saved_model and self.weights == "float16":
            raise UsageError(
                f"--weights=float16 is for a SavedModel; give float32 or int8, which --format={self.format} can store."
            )
        if not is_saved_model and self.signature != "records":
            raise UsageError(
                f"--signature is for a SavedModel; leave it out, because --format={self.format} writes a model that "
                "takes features alone."
            )
        if self.format != "web" and self.onnxruntime_web != ExportConfig.onnxruntime_web:
            raise UsageError(
                "--onnxruntime_web has an effect only with --format=web: add that flag, or leave out --onnxruntime_web."
            )
        if not is_onnx and self.input_type != "float32":
            raise UsageError(
                "--input_type has an effect only with --format=onnx: add that flag, or leave out --input_type."
            )

    def _check_name(self) -> None:
        """Refuses a name of `out` that belongs to another format."""
        endings = {"onnx": ".onnx", "npz": ".npz"}
        ending = endings.get(self.format)
        if ending and not self.out.endswith(ending):
            raise UsageError(
                f"--out={self.out}: with --format={self.format} it must be a file whose name ends in {ending}; name "
                "such a file."
            )
        for other, ending in endings.items():
            if other != self.format and self.out.endswith(ending):
                raise UsageError(
                    f"--out={self.out}: --format={self.format} writes no file whose name ends in {ending}; add "
                    f"--format={other} to write one, or choose another name."
                )
