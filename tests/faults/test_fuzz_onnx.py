"""ONNX files with changed bytes: whoever opens one refuses it with a message, or computes what the sound file does."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stand_ins
from golden_data import golden

from yt8m import extractors
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.export.onnx_check import CHECKSUM
from yt8m.export.onnx_file import OnnxFile
from yt8m.numerics.onnx_session import open_session

SEED = 5


def changed(sound: bytes, draw: random.Random) -> bytes:
    """The content with one change."""
    content, place = bytearray(sound), draw.randrange(len(sound))
    kind = draw.choice(["bit", "byte", "cut out", "doubled", "cut off"])
    if kind == "bit":
        content[place] ^= 1 << draw.randrange(8)
    elif kind == "byte":
        content[place] = draw.randrange(128, 256)  # begins a character of several bytes
    elif kind == "cut out":
        del content[place : place + draw.randrange(1, 40)]
    elif kind == "doubled":
        content[place:place] = content[place : place + draw.randrange(1, 40)]
    else:
        del content[place:]
    return bytes(content)


def outcome(compute: Callable[[], Any]) -> Any:
    """What is computed, or None for an error with a message; any other exception fails the test."""
    try:
        return compute()
    except (RunError, UsageError):
        return None


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("exported") / "a.onnx"
    assert cli.main(["export", f"--train_dir={golden('run_format_1')}", "--format=onnx", f"--out={path}"]) == 0
    return path.read_bytes()


def scores(path: pathlib.Path) -> Any:
    file = OnnxFile(str(path))
    width = sum(file.format.sizes().values())
    frames = np.random.default_rng(0).random((4, 3, width)).astype(np.float32)
    return file.scores_of_frames(frames, np.array([1, 2, 3, 3], np.int32))


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=[pytest.mark.heavy, pytest.mark.long])])
def test_a_changed_export_gives_its_scores_or_a_message(tmp_path: pathlib.Path, exported: bytes, count: int) -> None:
    draw, path = random.Random(SEED), tmp_path / "a.onnx"
    path.write_bytes(exported)
    sound, told = scores(path), 0
    for _ in range(count):
        path.write_bytes(changed(exported, draw))
        found = outcome(lambda: scores(path))
        told += found is None
        if found is not None:
            np.testing.assert_allclose(found, sound, atol=1e-6)
    assert told > count / 2


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=[pytest.mark.heavy, pytest.mark.long])])
def test_without_its_checksum_a_changed_export_has_no_traceback(
    tmp_path: pathlib.Path, exported: bytes, count: int
) -> None:
    """Earlier versions wrote no checksum."""
    draw, path = random.Random(SEED), tmp_path / "a.onnx"
    without = exported.replace(CHECKSUM.encode(), b"cheeksum")
    assert without != exported
    path.write_bytes(without)
    assert scores(path) is not None
    for _ in range(count):
        path.write_bytes(changed(without, draw))
        outcome(lambda: scores(path))


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=[pytest.mark.heavy, pytest.mark.long])])
def test_a_changed_network_of_pictures_has_no_traceback(tmp_path: pathlib.Path, count: int) -> None:
    draw, path = random.Random(SEED), tmp_path / "network.onnx"
    network = pathlib.Path(stand_ins.write_onnx(path)).read_bytes()
    pictures = np.zeros((2, 8, 8, 3), np.uint8)

    def features() -> Any:
        extractor = extractors.create(f"onnx:{path}", {"picture_size": 8})
        extractor.files_of(str(path))
        with extractor.open({extractor.file_field: str(path)}) as compute:
            return compute(pictures)

    assert features() is not None
    for _ in range(count):
        path.write_bytes(changed(network, draw))
        outcome(features)


@pytest.mark.parametrize("name", [b"frames", b"scores", b"num_frames"])
def test_a_name_that_is_no_text_is_refused(tmp_path: pathlib.Path, exported: bytes, name: bytes) -> None:
    """onnxruntime loads such a graph, and raises a UnicodeDecodeError when its names are read."""
    path = tmp_path / "a.onnx"
    path.write_bytes(exported.replace(CHECKSUM.encode(), b"cheeksum").replace(name, b"\xff" + name[1:]))
    with pytest.raises(UsageError, match=r"a\.onnx"):
        OnnxFile(str(path))
    with pytest.raises(UsageError, match=r"a\.onnx"):
        open_session(str(path), str(path), "a test")
