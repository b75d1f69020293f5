"""Loads frozen graphs of TensorFlow (.pb) as functions of arrays, and reads arrays and files from .tgz archives."""

from __future__ import annotations

import contextlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line
from yt8m.extractors.base import Compute
from yt8m.lazy import quiet_native_stderr, tf

ARCHIVES = (".tgz", ".tar.gz")


@contextlib.contextmanager
def opened(content: bytes, path: str, feed: str, fetch: str, shape: Sequence[int | None]) -> Iterator[Compute]:
    """Loads a frozen graph; yields the function from values of `feed` to the values of `fetch`.

    Args:
      content: the serialized GraphDef.
      path: where it comes from, for messages.
      feed, fetch: names of tensors in the graph, such as `pool_3:0`.
      shape: shape of the values; None for a dimension of any size. The published graph declares a batch of 1 for
        `feed`, so a placeholder of this shape takes the place of that tensor.

    Raises:
      UsageError: this is not a frozen graph, or it lacks one of the tensors.
    """

    def build() -> tuple[tf.Tensor, tf.Tensor]:
        definition = tf.GraphDef()
        definition.ParseFromString(content)
        placeholder = tf.placeholder(tf.float32, shape)
        (output,) = tf.import_graph_def(definition, {feed: placeholder}, return_elements=[fetch], name="")
        return placeholder, output

    with computing(build, f"{path} is not a frozen graph with the tensors {feed} and {fetch}") as compute:
        yield compute


@contextlib.contextmanager
def computing(build: Callable[[], tuple[tf.Tensor, tf.Tensor]], problem: str) -> Iterator[Compute]:
    """Builds a graph of its own; yields the function from the first to the second tensor that `build` returns.

    The session uses a GPU if there is one, and takes as much of its memory as it needs.

    Raises:
      UsageError: `build` fails; the message begins with `problem`.
    """
    graph = tf.Graph()
    with graph.as_default():
        try:
            placeholder, output = build()
        except (ValueError, KeyError, tf.errors.OpError) as error:
            raise UsageError(f"{problem}: {first_line(error)[:300]}. Give the right file.") from error
        except Exception as error:  # protobuf's DecodeError has no public base class
            if type(error).__name__ != "DecodeError":
                raise
            raise UsageError(f"{problem}: it is damaged, or of another kind. Give the right file.") from error
    config = tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True))
    with quiet_native_stderr():
        session = tf.Session(graph=graph, config=config)

    def compute(values: NDArray[np.generic]) -> NDArray[np.float32]:
        try:
            return np.asarray(session.run(output, {placeholder: values}), np.float32)
        except tf.errors.OpError as error:
            raise RunError(f"the extractor fails: {first_line(error)}") from error

    with session:
        yield compute


def projected(values_of: Compute, mean: NDArray[np.float64], matrix: NDArray[np.float64], path: str) -> Compute:
    """The function from inputs [N, ...] to (`values_of` - mean) @ matrix, float32 [N, size].

    Args:
      values_of: maps inputs to values [N, D].
      mean: [D].
      matrix: [D, size].
      path: where both come from, for messages.
    """

    def compute(inputs: NDArray[Any]) -> NDArray[np.float32]:
        values = values_of(inputs)
        if values.shape[1] != len(mean):
            raise UsageError(f"{path}: this PCA is of {len(mean)} values, the graph gives {values.shape[1]}")
        return np.asarray((values - mean) @ matrix, np.float32)

    return compute


def member(path: str, name: str) -> bytes:
    """The content of the file `name` in the archive `path`; if `path` is not an archive, the content of that file.

    Raises:
      UsageError: there is no such file, or the archive is damaged.
    """
    if not path.lower().endswith(ARCHIVES):
        return storage.read_bytes(path)
    with storage.open_read(path) as file:
        try:
            with tarfile.open(fileobj=file) as archive:
                entries = {entry.name.rpartition("/")[2]: entry for entry in archive if entry.isfile()}
                if name not in entries:
                    raise UsageError(f"{path} holds {', '.join(entries) or 'no file'}; expected {name}.")
                return archive.extractfile(entries[name]).read()  # type: ignore[union-attr]
        except (tarfile.TarError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise UsageError(f"{path} is not an archive that can be read: {error}. Fetch it again.") from error


def arrays(path: str, wanted: Sequence[str]) -> list[NDArray[np.float64]]:
    """The arrays `wanted` (in this order) out of an archive or a folder of .npy files, or out of an .npz file.

    Raises:
      UsageError: an array is missing or cannot be read.
    """
    try:
        if path.lower().endswith(".npz"):
            with np.load(io.BytesIO(storage.read_bytes(path)), allow_pickle=False) as file:
                return [np.asarray(file[name], np.float64) for name in wanted]
        if path.lower().endswith(ARCHIVES):
            contents = [member(path, f"{name}.npy") for name in wanted]
        else:
            contents = [storage.read_bytes(storage.join(path, f"{name}.npy")) for name in wanted]
        return [np.asarray(np.load(io.BytesIO(content), allow_pickle=False), np.float64) for content in contents]
    except (ValueError, KeyError, EOFError, RunError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} does not hold the arrays {', '.join(wanted)}: {error}.") from error
