"""Features out of videos: decoding alone, networks alone, and a shard of `yt8m extract`, which does both.

The networks have the published sizes of Inception-v3 (and the published names of its tensors), of the picture tower of
google/siglip2-base-patch16-224, and of VideoMAE-base; their weights are random. The videos are encoded for the
benchmark. An example is a row of features, of which there is one for each second.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Clock, Measured, Sample, Work, take_turns, timed
from benchmarks.rows import Row
from yt8m.datasets import extract
from yt8m.datasets.extract import ExtractConfig
from yt8m.datasets.extract.computing import Clip, locate
from yt8m.datasets.extract.shard_extraction import FinishedShard, ShardExtractor, TableRow
from yt8m.extractors import Clips, OpenedExtractor, Pictures, Sound
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import Request
from yt8m.extractors.published_features import PICTURES, POOLED, Inception
from yt8m.lazy import tf

HEIGHT, WIDTH, _FPS = 240, 320, 25
_SIDE, _DEPTH = 299, 2048
_BATCH = 32
_HUB_SIDE = 224
_HUB_SQUARE = {"height": _HUB_SIDE, "width": _HUB_SIDE}


class Videos(NamedTuple):
    """How many videos a row extracts, and how many seconds each has."""

    number: int = 8
    seconds: int = 23

    @property
    def rows(self) -> int:
        """The rows of features of all of them: there is a frame near second 0 and near the end of each."""
        return self.number * (self.seconds + 1)


VIDEOS = Videos()


def decoding(repeats: int) -> Measured:
    """Times the decoding of the videos into the pictures that an extractor takes."""
    with folder_of_videos() as folder:
        return take_turns(VIDEOS.rows, lambda: decode(folder, VIDEOS, Inception().form), {}, repeats)


def computing(repeats: int) -> Measured:
    """Times Inception-v3 on as many pictures, which are in memory."""
    with tempfile.TemporaryDirectory() as folder, Inception().open(_weights(pathlib.Path(folder))) as compute:
        values = _draw(Inception().form, _BATCH)
        return take_turns(VIDEOS.rows, lambda: compute_rows(compute, VIDEOS, values), {}, repeats)


def both(repeats: int) -> Measured:
    """Times the extraction of the videos by Inception-v3."""
    with folder_of_videos() as folder:
        return _beside_its_parts(folder, "inception", _weights(folder), VIDEOS, _BATCH, repeats)


def hub(family: str, batch: int, videos: Videos, repeats: int) -> Measured:
    """Times the extraction of videos by a network of transformers: few and short ones, since it takes long."""
    with folder_of_videos(videos) as folder:
        name = f"hf:{_write_hub_network(folder / family, family)}"
        return _beside_its_parts(folder, name, {}, videos, batch, repeats)


def _beside_its_parts(
    folder: pathlib.Path, name: str, paths: Mapping[str, str], videos: Videos, batch: int, repeats: int
) -> Measured:
    """Times the extraction of a shard of videos, of which a network computes `batch` rows at once, and its parts."""
    config = ExtractConfig(str(folder), videos=str(folder / "clips"), extractors=(name,), batch_size=batch)
    (located,) = locate(extract.choose(config.extractors, paths))
    with (
        located.extractor.open(located.weights.paths) as compute,
        ShardExtractor(config, [located], {"frame": str(folder / "frame")}) as extractor,
    ):
        form = compute.form if isinstance(compute, OpenedExtractor) else located.extractor.form
        values = _draw(form, batch)
        floors = floors_of(lambda: decode(folder, videos, form), lambda: compute_rows(compute, videos, values))
        return take_turns(videos.rows, lambda: extract_shard(extractor, folder, videos), floors, repeats)


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
        for number in range(videos.number):
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


def decode(folder: pathlib.Path, videos: Videos, form: Any) -> Sample:
    """Decodes all videos into the pictures or clips that an extractor of this form takes."""
    forms: dict[str, Any] = {"clips": (form,)} if isinstance(form, Clips) else {"pictures": (form.scaling,)}
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


def _draw(form: Pictures | Clips | Sound, batch: int) -> np.ndarray:
    """As many pictures or clips as an extractor computes at once, as large as the decoder gives them."""
    shape: tuple[int, ...] = (batch, HEIGHT, WIDTH, 3)
    if isinstance(form, Clips):
        shape = (batch, form.frames, _HUB_SIDE, round(WIDTH * _HUB_SIDE / HEIGHT), 3)
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def _write_hub_network(folder: pathlib.Path, family: str) -> str:
    """Writes a network of the base size; the defaults of its configuration are the published ones."""
    import transformers

    parts: list[Any]
    if family == "SigLIP":
        texts = {"num_hidden_layers": 1, "vocab_size": 8}  # which pictures do not need
        vision = {"image_size": _HUB_SIDE, "patch_size": 16}
        config = transformers.SiglipConfig(text_config=texts, vision_config=vision)
        parts = [transformers.SiglipModel(config), transformers.SiglipImageProcessorPil(size=_HUB_SQUARE)]
    else:
        processor = transformers.VideoMAEImageProcessorPil(size={"shortest_edge": _HUB_SIDE}, crop_size=_HUB_SQUARE)
        parts = [transformers.VideoMAEModel(transformers.VideoMAEConfig()), processor]
    for part in parts:
        part.save_pretrained(folder)
    return str(folder)


def extract_shard(extractor: ShardExtractor, folder: pathlib.Path, videos: Videos) -> Sample:
    """Extracts the videos as one shard, after the graph was loaded."""
    paths = sorted(map(str, (folder / "clips").iterdir()))
    rows = [TableRow(number, path.encode(), (0,), Clip(path)) for number, path in enumerate(paths, 1)]
    clock = Clock()
    with extractor.pool() as pool:
        entry = extractor.extract("train/train0000.tfrecord", rows, FinishedShard("", ["frame"]), pool, lambda _: None)
    assert entry.frames == videos.rows, entry
    return clock.sample()


ROWS = {
    "extract/decoding": Row(decoding),
    "extract/Inception-v3": Row(computing),
    "extract/both": Row(both, ratio=0.85),
}
if all(importlib.util.find_spec(name) for name in ("torch", "transformers")):  # extra hf, which `make venv` leaves out
    ROWS["extract/hf, pictures"] = Row(partial(hub, "SigLIP", 8, Videos(4, 11)), ratio=0.9)
    ROWS["extract/hf, clips"] = Row(partial(hub, "VideoMAE", 2, Videos(2, 3)), ratio=0.9)
