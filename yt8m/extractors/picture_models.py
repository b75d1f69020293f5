"""Extractors that are the user's files: ONNX files (CLIP, SigLIP, DINO and others), and SavedModels.

If a model's input has four dimensions, the model takes pictures. If it has five, it takes clips: several pictures for
each row of the feature.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from yt8m import forks, storage
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.extractors.base import (
    INTERPOLATIONS,
    Clips,
    Compute,
    Extractor,
    OpenedExtractor,
    Pictures,
    Scaling,
    form_option,
    named,
    weights,
)
from yt8m.lazy import tf
from yt8m.numerics.onnx_session import open_session
from yt8m.options import option
from yt8m.registry import warn_of_program
from yt8m.storage import copies

# The start of an entry of TensorProto.external_data with the key "location"; the value, the name of a file, follows.
_LOCATION = re.compile(rb"\n\x08location\x12")


@dataclass(frozen=True)
class PictureModel(Extractor):
    """An extractor that runs a model of the user, which takes pictures or clips.

    The path of the model's file or folder is part of the extractor's name, as in `onnx:clip.onnx`.
    """

    file_field: ClassVar[str]

    feature_name: str = option("", "name of the feature of an ONNX file or a SavedModel [the name of the file]")
    picture_size: int = option(
        0,
        "pixels of the square that the model takes [224 for ONNX files; SavedModels get unscaled pictures]",
        minimum=0,
    )
    shorter_side: int = option(
        0,
        "scale pictures until their shorter side has this many pixels, then cut the square out of the middle; "
        "0 scales whole pictures to the square",
        minimum=0,
    )
    interpolation: str = option(
        "bicubic", "how FFmpeg scales pictures to --picture_size or --shorter_side", choices=INTERPOLATIONS
    )
    output: str = option("", "name of the model's output that is the feature [the first output]")
    pooling: str = option(
        "first",
        "how an output with a vector for each patch is reduced: to the first vector, or to the mean",
        choices=("first", "mean"),
    )
    clip_frames: int = form_option(Clips, 0, "number of pictures of a clip, if the model takes any number", minimum=0)
    clip_rate: float = form_option(Clips, 8.0, "pictures per second of a clip", minimum=0.01, maximum=1000)
    clip_hop: float = form_option(Clips, 1.0, "seconds from one clip to the next", minimum=0.001)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shorter_side and self.shorter_side < self.picture_size:
            raise UsageError(
                f"--shorter_side={self.shorter_side} is less than --picture_size={self.picture_size}, so a square of "
                f"that size cannot be cut out; give at least --shorter_side={self.picture_size}, or leave it out."
            )

    @property
    def feature(self) -> str:  # type: ignore[override]
        """The user's name for the feature, or else the name of the file without its folder and ending."""
        path = str(getattr(self, self.file_field)).rstrip("/")
        return self.feature_name or os.path.splitext(os.path.basename(path))[0]

    @property
    def scaling(self) -> Scaling | None:
        """See `Extractor`."""
        return Scaling(self.picture_size, self.shorter_side, self.interpolation) if self.picture_size else None

    def clip_form(self, frames: Any) -> Clips:
        """The form of the clips that a model takes."""
        fixed_frames = frames if isinstance(frames, int) and frames > 0 else 0
        message_start = f"--clip_frames={self.clip_frames}: {getattr(self, self.file_field)} takes clips of"
        if not (fixed_frames or self.clip_frames):
            raise UsageError(f"{message_start} any number of pictures; give their number.")
        if fixed_frames and self.clip_frames not in (0, fixed_frames):
            raise UsageError(f"{message_start} {fixed_frames} pictures; leave the flag out.")
        return Clips(fixed_frames or self.clip_frames, self.clip_rate, self.clip_hop, self.scaling)

    def pool(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Reduces an output [N, size], [N, patches, size] or [N, size, 1, 1] to float32 [N, size]."""
        if values.ndim == 3:
            values = values[:, 0] if self.pooling == "first" else values.mean(axis=1, dtype=np.float32)
        if values.ndim < 2 or values.size != values.shape[0] * values.shape[1]:
            raise UsageError(
                f"the model's output is {list(values.shape)}; expected [N, size] or [N, patches, size]. "
                "Name another output by --output."
            )
        return np.asarray(values.reshape(values.shape[:2]), np.float32)


@named("onnx")
@dataclass(frozen=True)
class OnnxModel(PictureModel):
    """A model in an ONNX file, run by onnxruntime; pictures are scaled, divided by 255, and normalised."""

    file_field: ClassVar[str] = "onnx_file"

    onnx_file: str = weights("path of the ONNX file, if FILE of the extractor onnx:FILE is out of date")
    picture_size: int = option(224, "pixels of the square that the model takes", minimum=1)
    mean: tuple[float, ...] = option(
        (0.485, 0.456, 0.406), "mean of red, green and blue, from 0 to 1, which is subtracted from pictures"
    )
    deviation: tuple[float, ...] = option(
        (0.229, 0.224, 0.225), "standard deviation of red, green and blue, by which pictures are divided"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mean) != 3 or len(self.deviation) != 3 or 0 in self.deviation:
            raise UsageError(
                f"--mean={self.mean} --deviation={self.deviation}: expected three numbers each, and no deviation of 0."
            )

    def files_of(self, path: str) -> list[str]:
        """See `Extractor`.

        An ONNX file may keep tensors in other files ("external data"). Then each tensor names its file, relative to the
        folder of the ONNX file.
        """
        folder, content = os.path.dirname(path), storage.read_bytes(path)
        names = {_read_text(content, match.end()) for match in _LOCATION.finditer(content)}
        return [path, *(storage.join(folder, name) for name in sorted(names))]

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`. The model's first input gets the pictures; float and uint8 are possible.

        For pictures, its shape may be [N, 3, H, W] or [N, H, W, 3]; for clips [N, 3, frames, H, W],
        [N, frames, 3, H, W] or [N, frames, H, W, 3].
        """
        path = weights[self.file_field]
        session = open_session(copies.file_copy(path), path, f"the extractor onnx:{path}")
        model_input, output = session.get_inputs()[0], self._output_name(session, path)
        shape = model_input.shape
        batch = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else 0
        order = axes_of(shape, path)
        form = self.clip_form(shape[order.index(1)]) if len(shape) == 5 else Pictures(self.scaling)

        def run(pictures: NDArray[Any]) -> NDArray[np.float32]:
            values = np.ascontiguousarray(self._normalise(pictures, model_input.type).transpose(order))
            try:
                return self.pool(session.run([output], {model_input.name: values})[0])
            except Exception as error:  # see `open_session`
                if isinstance(error, UsageError):
                    raise
                raise RunError(f"{path}: {first_line(error)}") from error

        yield OpenedExtractor(_in_fixed_batches(run, batch) if batch else run, form)

    def _output_name(self, session: Any, path: str) -> str:
        """The name of the model's output that is the feature; raises `UsageError` if there is no such output."""
        names = [output.name for output in session.get_outputs()]
        if self.output and self.output not in names:
            raise UsageError(f"--output={self.output}: {path} has the outputs {', '.join(names)}.")
        return self.output or str(names[0])

    def _normalise(self, pictures: NDArray[Any], input_type: str) -> NDArray[Any]:
        """Converts uint8 pictures to onnxruntime's type `input_type`.

        For a type of floats they are divided by 255 and normalised by `mean` and `deviation`; for uint8 they stay.
        """
        if input_type == "tensor(uint8)":
            return pictures
        scale = np.float32(255) * np.asarray(self.deviation, np.float32)
        shift = np.asarray(self.mean, np.float32) / np.asarray(self.deviation, np.float32)
        return (pictures / scale - shift).astype(np.float16 if input_type == "tensor(float16)" else np.float32)


def axes_of(shape: Sequence[Any], path: str) -> tuple[int, ...]:
    """The order of axes by which `transpose` turns [N, H, W, 3] or [N, frames, H, W, 3] into a model's input.

    Args:
      shape: the shape that the input declares; None or a text stands for a dimension of any size.
    """
    orders = [(0, 3, 1, 2), (0, 1, 2, 3)] if len(shape) == 4 else [(0, 4, 1, 2, 3), (0, 1, 4, 2, 3), (0, 1, 2, 3, 4)]
    colour_orders = [order for order in orders if len(shape) in (4, 5) and shape[order.index(len(shape) - 1)] == 3]
    if len(shape) not in (4, 5) or (len(shape) == 5 and not colour_orders):
        raise UsageError(f"{path} takes {list(shape)}; expected pictures [N, 3, H, W] or clips [N, frames, 3, H, W].")
    return colour_orders[0] if colour_orders else orders[-1]


def _read_text(content: bytes, offset: int) -> str:
    """Reads the text of a protobuf field from `content`; the varint with the text's length begins at `offset`."""
    length = shift = 0
    for byte in content[offset : offset + 5]:
        length, shift, offset = length | (byte & 0x7F) << shift, shift + 7, offset + 1
        if byte < 0x80:
            break
    return content[offset : offset + length].decode("utf-8", "replace")


def _in_fixed_batches(run: Compute, batch: int) -> Compute:
    """A function for any number of pictures or clips, from a function that takes exactly `batch` of them at a time.

    The last batch is padded with copies of the first picture, whose results are dropped.
    """

    def compute(pictures: NDArray[Any]) -> NDArray[np.float32]:
        missing = -len(pictures) % batch
        padded = np.concatenate([pictures, np.repeat(pictures[:1], missing, axis=0)])
        results = [run(padded[start : start + batch]) for start in range(0, len(padded), batch)]
        return np.concatenate(results)[: len(pictures)]

    return compute


@named("saved_model")
@dataclass(frozen=True)
class SavedModelOfPictures(PictureModel):
    """A SavedModel whose signature serving_default takes uint8 [N, H, W, 3] or [N, frames, H, W, 3]."""

    file_field: ClassVar[str] = "saved_model_dir"

    saved_model_dir: str = weights("folder of the SavedModel, if DIR of the extractor saved_model:DIR is out of date")

    def locate_weights(self, path: str) -> tuple[str, dict[str, Any]]:
        """See `Extractor`."""
        if not storage.is_dir(path):
            raise UsageError(f"{storage.why_no_folder(path)}; name the folder of a SavedModel.")
        return super().locate_weights(path)

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`. A SavedModel can execute operations of any kind, so a warning is logged."""
        path = weights[self.file_field]
        warn_of_program(path)
        config = tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True))
        with forks.new_session(graph=tf.Graph(), config=config) as session:
            pictures, feature = self._tensors(session, path)
            shape = pictures.shape.as_list() if pictures.shape.rank else [None]
            form = self.clip_form(shape[1]) if len(shape) == 5 else Pictures(self.scaling)

            def run(values: NDArray[Any]) -> NDArray[np.float32]:
                try:
                    return self.pool(session.run(feature, {pictures: values}))
                except tf.errors.OpError as error:
                    raise RunError(f"{path}: {first_line(error)}") from error

            yield OpenedExtractor(_in_fixed_batches(run, shape[0]) if shape[0] else run, form)

    def _tensors(self, session: tf.Session, path: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Loads the model into the session; returns its input and the output that is the feature."""
        key = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        wanted = f"one input{f' and the output {self.output}' if self.output else ''}"

        def refusal(error: Exception) -> UsageError:
            problem = f"{path} is not a SavedModel whose signature {key} has {wanted}"
            return UsageError(f"{problem}: {first_line(error)[:300]}.")

        with session.graph.as_default(), refusing(refusal):
            tags = [tf.saved_model.tag_constants.SERVING]
            loaded = tf.saved_model.loader.load(session, tags, copies.folder_copy(path))
            signature = loaded.signature_def[key]
            (info,) = signature.inputs.values()
            outputs = {name: output.name for name, output in sorted(signature.outputs.items())}
            name = outputs[self.output] if self.output else next(iter(outputs.values()))
            pictures, feature = (session.graph.get_tensor_by_name(each) for each in (info.name, name))
        if pictures.dtype != tf.uint8 or pictures.shape.rank not in (None, 4, 5):
            raise UsageError(
                f"{path} takes {pictures.dtype.name} {pictures.shape}; expected uint8 [N, H, W, 3] or "
                "[N, frames, H, W, 3]."
            )
        return pictures, feature
