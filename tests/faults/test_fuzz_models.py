"""Weights of extractors and SavedModels with changed bytes: whoever opens one says what is wrong, or can use it."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import small_exports
import stand_ins
from faults.test_fuzz_onnx import changed, outcome

from yt8m import extractors, scoring
from yt8m.errors import RunError, UsageError
from yt8m.extractors.hub_networks import explain_processor_errors
from yt8m.extractors.hugging_face import explain_errors
from yt8m.extractors.published_features import open_graph, read_arrays

SEED = 7


def counts(many: int) -> list[Any]:
    """A few changes, and many in a heavy test."""
    return [20, pytest.param(many, marks=[pytest.mark.heavy, pytest.mark.long])]


COUNTS = counts(2_000)
ARRAYS = {"mean": np.arange(40.0), "values": np.arange(40.0), "vectors": np.eye(40)[:, ::-1] + 0.5}


def compressed(path: pathlib.Path) -> tuple[str, pathlib.Path]:
    np.savez_compressed(path / "pca.npz", **ARRAYS)
    return str(path / "pca.npz"), path / "pca.npz"


def plain(path: pathlib.Path) -> tuple[str, pathlib.Path]:
    np.savez(path / "pca.npz", **ARRAYS)
    return str(path / "pca.npz"), path / "pca.npz"


def archive(path: pathlib.Path) -> tuple[str, pathlib.Path]:
    files = {f"pca/{name}.npy": stand_ins.as_npy(values) for name, values in ARRAYS.items()}
    return stand_ins.write_archive(path / "pca.tgz", files), path / "pca.tgz"


def folder(path: pathlib.Path) -> tuple[str, pathlib.Path]:
    for name, values in ARRAYS.items():
        np.save(path / f"{name}.npy", values)
    return str(path), path / "mean.npy"


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("write", [compressed, plain, archive, folder])
def test_arrays_of_weights(tmp_path: pathlib.Path, write: Callable[[pathlib.Path], Any], count: int) -> None:
    """zlib and the parser of NumPy's headers raise errors of their own."""
    draw, (path, file) = random.Random(SEED), write(tmp_path)
    content, told = file.read_bytes(), 0
    assert len(read_arrays(path, list(ARRAYS))) == 3
    for _ in range(count):
        file.write_bytes(changed(content, draw))
        told += outcome(lambda: read_arrays(path, list(ARRAYS))) is None
    assert told > count / 10


def features(path: str) -> Any:
    extractor = extractors.create(f"saved_model:{path}")
    with extractor.open(dict.fromkeys(extractor.weight_files(), path)) as compute:
        return compute(np.zeros((2, 8, 8, 3), np.uint8))


@pytest.mark.parametrize("count", COUNTS)
def test_networks_of_pictures(tmp_path: pathlib.Path, count: int) -> None:
    draw, path = random.Random(SEED), stand_ins.write_saved_model(tmp_path / "network")
    file = tmp_path / "network/saved_model.pb"
    content = file.read_bytes()
    assert features(path) is not None
    for _ in range(count):
        file.write_bytes(changed(content, draw))
        outcome(lambda: features(path))
    file.write_bytes(content.replace(b"MatMul:0", b"MatMux:0"))
    with pytest.raises(UsageError, match=r"network is not.*serving_default .*MatMux:0"):
        features(path)


@pytest.mark.parametrize("raised", [TypeError("x"), RuntimeError("x"), IndexError("x"), OverflowError("x")])
def test_whatever_a_damaged_graph_raises_becomes_a_message(raised: Exception) -> None:
    def build() -> Any:
        raise raised

    told = r"a\.pb is no graph: x\. Give the right file"
    with pytest.raises(UsageError, match=told), open_graph(build, "a.pb is no graph"):
        pass


ODD = [IndexError("x"), OverflowError("x"), ZeroDivisionError("x"), AssertionError("x"), KeyError("x")]


@pytest.mark.parametrize("raised", ODD, ids=repr)
def test_whatever_the_files_of_a_network_make_transformers_raise_becomes_a_message(raised: Exception) -> None:
    with pytest.raises(UsageError, match=r"extractor hf:n: '?x"), explain_errors("hf:n"):
        raise raised
    told = r"^f has .*processor: .*from processor_config.json: '?x"
    with pytest.raises(UsageError, match=told), explain_processor_errors("f", ["f/processor_config.json"]):
        raise raised
    for error in (MemoryError("x"), RuntimeError("x")):
        with (
            pytest.raises(RunError, match=r"hf:n: torch.*\bx\b.*--hf_device"),
            explain_errors("hf:n"),
            explain_processor_errors("f", ["f/processor_config.json"]),
        ):
            raise error


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An export without its checksum, as earlier versions wrote them."""
    folder = pathlib.Path(small_exports.export(tmp_path_factory.mktemp("exported"), "LogisticModel"))
    (folder / "assets.extra/checksum").unlink()
    return folder


@pytest.mark.parametrize("count", COUNTS)
def test_each_change_of_a_graph_is_found_by_its_checksum(tmp_path: pathlib.Path, count: int) -> None:
    """Before TensorFlow reads the graph, because some changes make it abort the process."""
    path = pathlib.Path(small_exports.export(tmp_path, "LogisticModel"))
    draw, file = random.Random(SEED), path / "saved_model.pb"
    content = file.read_bytes()
    assert open_export(path) == small_exports.CLASSES
    told = r"saved_model\.pb is damaged.*checksum.* copy"
    for damaged in {changed(content, draw) for _ in range(count)} - {content}:
        file.write_bytes(damaged)
        with pytest.raises(RunError, match=told):
            open_export(path)
    file.write_bytes(content)
    weights = path / "variables/variables.data-00000-of-00001"
    weights.write_bytes(weights.read_bytes()[:-8] + bytes(8))
    with pytest.raises(RunError, match=r"SavedModel cannot.*Restore .*copy"):
        open_export(path)


def open_export(path: pathlib.Path) -> int:
    with scoring.open(str(path)) as scorer:
        return scorer.num_classes


@pytest.mark.parametrize("count", counts(500))
def test_descriptions_of_exports(exported: pathlib.Path, count: int) -> None:
    draw, file = random.Random(SEED), exported / "saved_model.pb"
    content = file.read_bytes()
    start = content.index(b'{"model"')
    end = content.index(b'"extractors": []', start)
    try:
        assert open_export(exported) == small_exports.CLASSES
        for _ in range(count):
            file.write_bytes(content[:start] + changed(content[start:end], draw) + content[end:])
            outcome(lambda: open_export(exported))
    finally:
        file.write_bytes(content)


@pytest.mark.promise("X3")
@pytest.mark.parametrize(
    ("written", "replacement"),
    [
        (b'"num_classes": 30', b'"num_classes": 1e'),
        (b'"num_classes": 30', b'"num_classes": -5'),
        (b'"num_classes": 30', b'"num_classes": 29'),
        (b'"num_classes": 30', b'"num_classes": 31'),
        (b'"size": 6', b'"size": 5'),
        (b'"num_classes": 30', b'"num_classes": []'),
        (b'"level": "video"', b'"level": "radio"'),
        (b'"extractors"', b'"extractor_"'),
        (b'"extractors": []', b'"extractors": {}'),
        (b'"model": "LogisticModel"', b'"model": ["gisticModel"]'),
        (b'"step"', b'"s4ep"'),
        (b'"is_averaged": false', b'"is_averaged": 12345'),
        (b'"has_own_reader"', b'"has_own_re_der"'),
        (b'"format"', b'"form\xdft"'),
        (b"example_bytes", b"example_bytez"),
        (b"num_frames", b"num_framez"),
    ],
)
def test_a_description_of_an_export_that_means_nothing_is_named(
    exported: pathlib.Path, written: bytes, replacement: bytes
) -> None:
    file = exported / "saved_model.pb"
    content = file.read_bytes()
    assert written in content
    assert len(replacement) == len(written)
    try:
        file.write_bytes(content.replace(written, replacement))
        with pytest.raises(RunError, match=r"SavedModel cannot.*Restore .*copy"):
            open_export(exported)
    finally:
        file.write_bytes(content)
