"""Features by networks of transformers: a shard of `yt8m extract` beside the slower one of decoding and network alone.

The networks have random weights and are small, so that the extraction has little time to hide in: ViT-Ti/16, and a
VideoMAE as wide with 16 pictures of 112 x 112. The network alone gets its values from memory, and prepares them by its
processor.
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

_SIDES = {"ViT": 224, "VideoMAE": 112}


class _Opened(NamedTuple):
    """A network's shard extraction, its function, and what that takes."""

    shard: ShardExtractor
    compute: OpenedExtractor
    batch: int


def can_run() -> bool:
    """Whether the extra hf is installed, which `make venv` leaves out."""
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def pictures(repeats: int) -> Measured:
    """Times a network of pictures."""
    return _beside_its_parts("ViT", 32, repeats)


def clips(repeats: int) -> Measured:
    """Times a network of clips."""
    return _beside_its_parts("VideoMAE", 8, repeats)


def _beside_its_parts(family: str, batch: int, repeats: int) -> Measured:
    with extracting.folder_of_videos() as folder, _opened(folder, family, batch) as opened:
        form = opened.compute.form
        values, forms = _values(form, batch), _forms(form)
        floors = extracting.floors_of(
            lambda: extracting.decode(folder, **forms), lambda: extracting.compute_rows(opened.compute, values)
        )
        return take_turns(extracting.ROWS, lambda: extracting.extract_shard(opened.shard, folder), floors, repeats)


@contextlib.contextmanager
def _opened(folder: pathlib.Path, family: str, batch: int) -> Iterator[_Opened]:
    name = f"hf:{_write(folder / family, family)}"
    config = ExtractConfig(str(folder), videos=str(folder / "clips"), extractors=(name,), batch_size=batch)
    chosen = extract.choose(config.extractors, {})
    files = [weights.find(choice.extractor, choice.name) for choice in chosen]
    with (
        chosen[0].extractor.open(files[0].paths) as compute,
        ShardExtractor(config, chosen, files, {"frame": str(folder / "frame")}) as shard,
    ):
        assert isinstance(compute, OpenedExtractor)
        yield _Opened(shard, compute, batch)


def _write(folder: pathlib.Path, family: str) -> str:
    import transformers

    side = _SIDES[family]
    sizes: dict[str, Any] = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3}
    sizes |= {"num_hidden_layers": 12, "image_size": side, "patch_size": 16}
    square = {"height": side, "width": side}
    if family == "ViT":
        parts = [transformers.ViTModel(transformers.ViTConfig(**sizes)), transformers.ViTImageProcessorPil(size=square)]
    else:
        processor = transformers.VideoMAEImageProcessorPil(size={"shortest_edge": side}, crop_size=square)
        parts = [transformers.VideoMAEModel(transformers.VideoMAEConfig(**sizes)), processor]
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
        height, width = _SIDES["VideoMAE"], round(width * _SIDES["VideoMAE"] / height)
    frames = (form.frames,) if isinstance(form, Clips) else ()
    return np.random.default_rng(0).integers(0, 256, (batch, *frames, height, width, 3), np.uint8)


ROWS = {"extract/hf, pictures": Row(pictures, ratio=0.9), "extract/hf, clips": Row(clips, ratio=0.9)}
