"""Features by networks of transformers: a shard of `yt8m extract` beside the slower one of decoding and network alone.

The networks have the published sizes of the picture tower of google/siglip2-base-patch16-224, and of VideoMAE-base, and
random weights. The network alone gets its values from memory, and prepares them by its processor.
"""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks import extracting
from benchmarks.measure import Measured, take_turns
from benchmarks.rows import Row
from yt8m.datasets import extract
from yt8m.datasets.extract import ExtractConfig, weights
from yt8m.datasets.extract.computing import OpenedExtractor
from yt8m.datasets.extract.shard_extraction import ShardExtractor
from yt8m.extractors.forms import Clips, Form

_SIDE = 224
_SQUARE = {"height": _SIDE, "width": _SIDE}


class _Case(NamedTuple):
    """What a row extracts.

    Attributes:
      family: the network's.
      batch: pictures or clips that it computes at once.
      videos: few and short ones, since these networks take long.
    """

    family: str
    batch: int
    videos: extracting.Videos


class _Opened(NamedTuple):
    """A network's shard extraction, and its function."""

    shard: ShardExtractor
    compute: OpenedExtractor


def can_run() -> bool:
    """Whether the extra hf is installed, which `make venv` leaves out."""
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def pictures(repeats: int) -> Measured:
    """Times a network of pictures."""
    return _beside_its_parts(_Case("SigLIP", 8, extracting.Videos(4, 11)), repeats)


def clips(repeats: int) -> Measured:
    """Times a network of clips."""
    return _beside_its_parts(_Case("VideoMAE", 2, extracting.Videos(2, 3)), repeats)


def _beside_its_parts(case: _Case, repeats: int) -> Measured:
    videos = case.videos
    with extracting.folder_of_videos(videos) as folder, _opened(folder, case) as opened:
        form = opened.compute.form
        values, forms = _values(form, case.batch), _forms(form)
        floors = extracting.floors_of(
            lambda: extracting.decode(folder, videos, **forms),
            lambda: extracting.compute_rows(opened.compute, videos, values),
        )
        return take_turns(videos.rows, lambda: extracting.extract_shard(opened.shard, folder, videos), floors, repeats)


@contextlib.contextmanager
def _opened(folder: pathlib.Path, case: _Case) -> Iterator[_Opened]:
    name = f"hf:{_write(folder / case.family, case.family)}"
    config = ExtractConfig(str(folder), videos=str(folder / "clips"), extractors=(name,), batch_size=case.batch)
    chosen = extract.choose(config.extractors, {})
    files = [weights.find(choice.extractor, choice.name) for choice in chosen]
    with (
        chosen[0].extractor.open(files[0].paths) as compute,
        ShardExtractor(config, chosen, files, {"frame": str(folder / "frame")}) as shard,
    ):
        assert isinstance(compute, OpenedExtractor)
        yield _Opened(shard, compute)


def _write(folder: pathlib.Path, family: str) -> str:
    """Writes a network of the base size; the defaults of its configuration are the published ones."""
    import transformers

    parts: list[Any]
    if family == "SigLIP":
        texts = {"num_hidden_layers": 1, "vocab_size": 8}  # which pictures do not need
        config = transformers.SiglipConfig(text_config=texts, vision_config={"image_size": _SIDE, "patch_size": 16})
        parts = [transformers.SiglipModel(config), transformers.SiglipImageProcessorPil(size=_SQUARE)]
    else:
        processor = transformers.VideoMAEImageProcessorPil(size={"shortest_edge": _SIDE}, crop_size=_SQUARE)
        parts = [transformers.VideoMAEModel(transformers.VideoMAEConfig()), processor]
    for part in parts:
        part.save_pretrained(folder)
    return str(folder)


def _forms(form: Form) -> dict[str, Any]:
    """What a decoder is asked for."""
    return {"clips": (form,)} if isinstance(form, Clips) else {"pictures": (None,)}


def _values(form: Form, batch: int) -> np.ndarray:
    """As many pictures or clips as an extractor computes at once, as large as the decoder gives them."""
    height, width = extracting.HEIGHT, extracting.WIDTH
    if isinstance(form, Clips):
        height, width = _SIDE, round(width * _SIDE / height)
    frames = (form.frames,) if isinstance(form, Clips) else ()
    return np.random.default_rng(0).integers(0, 256, (batch, *frames, height, width, 3), np.uint8)


ROWS = {"extract/hf, pictures": Row(pictures, ratio=0.9), "extract/hf, clips": Row(clips, ratio=0.9)}
