"""Features out of videos: decoding alone, Inception-v3 alone, and a shard of `yt8m extract`, which does both.

The graph has the size of the published Inception-v3 and the published names of its tensors; its weights are random. The
videos are encoded for the benchmark. An example is a row of features, of which there is one for each second.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Clock, Measured, Sample, Work, take_turns, timed
from yt8m.datasets import extract
from yt8m.datasets.extract import ExtractConfig, weights
from yt8m.datasets.extract.computing import Clip
from yt8m.datasets.extract.journal import Finished
from yt8m.datasets.extract.shard_extraction import ShardExtractor, TableRow
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import Request
from yt8m.extractors.inception import PICTURES, POOLED, Inception
from yt8m.lazy import tf

HEIGHT, WIDTH, _FPS = 240, 320, 25
_SIDE, _DEPTH = 299, 2048
_BATCH = 32


class Videos(NamedTuple):
    """How many videos a row extracts, and how many seconds each has."""

    count: int = 8
    seconds: int = 23

    @property
    def rows(self) -> int:
        """The rows of features of all of them: there is a frame near second 0 and near the end of each."""
        return self.count * (self.seconds + 1)


VIDEOS = Videos()


def decoding(repeats: int) -> Measured:
    """Times the decoding of the videos into the pictures that an extractor takes."""
    with folder_of_videos() as folder:
        return take_turns(VIDEOS.rows, lambda: decode(folder, VIDEOS, pictures=(Inception().scaling,)), {}, repeats)


def computing(repeats: int) -> Measured:
    """Times Inception-v3 on as many pictures, which are in memory."""
    with tempfile.TemporaryDirectory() as folder, Inception().open(_weights(pathlib.Path(folder))) as compute:
        return take_turns(VIDEOS.rows, lambda: compute_rows(compute, VIDEOS, _pictures()), {}, repeats)


def both(repeats: int) -> Measured:
    """Times the extraction of the videos; the floor is the slower one of its two parts, alone."""
    with folder_of_videos() as folder, Inception().open(paths := _weights(folder)) as compute:
        config = ExtractConfig(str(folder), videos=str(folder / "clips"), extractors=("inception",), batch_size=_BATCH)
        chosen = extract.choose(config.extractors, paths)
        files = [weights.find(choice.extractor, choice.name) for choice in chosen]
        with ShardExtractor(config, chosen, files, {"frame": str(folder / "frame")}) as extractor:
            taken, values = {"pictures": (Inception().scaling,)}, _pictures()
            floors = floors_of(lambda: decode(folder, VIDEOS, **taken), lambda: compute_rows(compute, VIDEOS, values))
            return take_turns(VIDEOS.rows, lambda: extract_shard(extractor, folder, VIDEOS), floors, repeats)


def floors_of(decoding: Work, computing: Work) -> dict[str, Work]:
    """The slower one of two parts alone, and what both must take if they keep all cores busy, by their CPU time.

    The second floor is made of the samples of the first, which is always taken just before.
    """
    parts: list[Sample] = []

    def slower() -> Sample:
        parts[:] = decoding(), computing()
        return max(parts)

    def shared() -> Sample:
        cpu = sum(part.cpu for part in parts)
        return Sample(max(max(parts).seconds, cpu / (os.cpu_count() or 1)), cpu)

    return {"the slower part": slower, "both parts on all cores": shared}


@contextlib.contextmanager
def folder_of_videos(videos: Videos = VIDEOS) -> Iterator[pathlib.Path]:
    """A folder with the folder `clips` of videos."""
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        (folder / "clips").mkdir()
        for number in range(videos.count):
            _encode(folder / "clips" / f"{number}.mp4", number, _FPS * videos.seconds)
        yield folder


def _encode(path: pathlib.Path, seed: int, length: int) -> None:
    """A video of so many pictures: noisy stripes that move."""
    import av

    waves = np.add.outer(np.arange(HEIGHT), np.arange(WIDTH + length))[..., np.newaxis]
    noise = np.random.default_rng(seed).integers(0, 40, (HEIGHT, WIDTH + length, 3))
    whole = (100 + 60 * np.sin(waves / 20) + noise).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=_FPS, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(length):
            picture = np.ascontiguousarray(whole[:, number : number + WIDTH])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def _weights(folder: pathlib.Path) -> dict[str, str]:
    """The paths of the graph and of its PCA, as the fields of `Inception` name them."""
    (folder / "graph.pb").write_bytes(_graph())
    vectors = np.eye(_DEPTH, dtype=np.float32)
    np.savez(folder / "pca.npz", mean=np.zeros(_DEPTH), eigenvals=np.ones(_DEPTH), eigenvecs=vectors)
    return {"inception_graph": str(folder / "graph.pb"), "inception_pca": str(folder / "pca.npz")}


def _graph() -> bytes:
    """A frozen Inception-v3 with random weights, which takes and gives the tensors of the published graph."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    with tf.init_scope():
        network = tf.keras.applications.InceptionV3(weights=None, include_top=False, pooling="avg")

    def pooled(pictures: tf.Tensor) -> tf.Tensor:
        named_pictures = tf.identity(pictures, name=PICTURES.partition(":")[0])
        scaled = (tf.raw_ops.ResizeBilinear(images=named_pictures, size=[_SIDE, _SIDE]) - 128.0) / 128.0
        return tf.reshape(network(scaled, training=False), [-1, 1, 1, _DEPTH], name=POOLED.partition(":")[0])

    function = tf.function(pooled).get_concrete_function(tf.TensorSpec([None, None, None, 3], tf.float32))
    return bytes(convert_variables_to_constants_v2(function).graph.as_graph_def().SerializeToString())


def decode(folder: pathlib.Path, videos: Videos, **forms: Any) -> Sample:
    """Decodes all videos into what one extractor takes: `pictures` or `clips` of a request."""
    clock = Clock()
    with DecoderPool(os.cpu_count() or 1, Limits()) as pool:
        requests = (Request(str(path), **forms) for path in sorted((folder / "clips").iterdir()))
        count = sum(
            message.kind in ("picture", "clip") for video in pool.decode(requests) for message in video.messages()
        )
    assert count == videos.rows, count
    return clock.sample()


def compute_rows(compute: Any, videos: Videos, values: np.ndarray) -> Sample:
    """Computes as many rows as the videos have, out of the same pictures or clips again and again."""
    return timed(lambda: [compute(values) for _ in range(videos.rows // len(values))])()


def _pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (_BATCH, HEIGHT, WIDTH, 3), np.uint8)


def extract_shard(extractor: ShardExtractor, folder: pathlib.Path, videos: Videos) -> Sample:
    """Extracts the videos as one shard, after the graph was loaded."""
    paths = sorted(map(str, (folder / "clips").iterdir()))
    rows = [TableRow(number, path.encode(), (0,), Clip(path)) for number, path in enumerate(paths, 1)]
    clock = Clock()
    with extractor.pool() as pool:
        entry = extractor.extract("train/train0000.tfrecord", rows, Finished("", ["frame"]), pool, lambda _: None)
    assert entry.frames == videos.rows, entry
    return clock.sample()
