from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import stand_ins

from yt8m import extractors
from yt8m.errors import UsageError
from yt8m.lazy import tf

PICTURES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), np.uint8)


def compute(name: str, path: str, **settings: Any) -> np.ndarray:
    extractor = extractors.create(f"{name}:{path}", settings)
    with extractor.open(dict.fromkeys(extractor.weight_files(), path)) as function:
        return function(PICTURES)


def test_onnx_gets_normalised_pictures(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_onnx(tmp_path / "clip.onnx")
    colours = PICTURES.astype(np.float64).mean(axis=(1, 2)) / 255
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    usual = compute("onnx", path, picture_size=8)
    np.testing.assert_allclose(usual, (colours - mean) / deviation @ stand_ins.PROJECTION, rtol=1e-4, atol=1e-4)
    own = compute("onnx", path, picture_size=8, mean=[0.0, 0.5, 0.0], deviation=(1.0, 2.0, 1.0))
    expected = (colours - [0, 0.5, 0]) / [1, 2, 1] @ stand_ins.PROJECTION
    np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-4)


def test_onnx_of_a_fixed_batch(tmp_path: pathlib.Path) -> None:
    any_batch = compute("onnx", stand_ins.write_onnx(tmp_path / "any.onnx"), picture_size=8)
    for batch in (1, 2, 8):
        path = stand_ins.write_onnx(tmp_path / f"of{batch}.onnx", batch=batch)
        np.testing.assert_allclose(compute("onnx", path, picture_size=8), any_batch, rtol=1e-5)


def test_a_saved_model_gets_pictures_as_they_are(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_saved_model(tmp_path / "colour")
    expected = PICTURES.astype(np.float64).mean(axis=(1, 2)) @ stand_ins.PROJECTION
    np.testing.assert_allclose(compute("saved_model", path), expected, rtol=1e-4, atol=1e-2)
    assert extractors.create(f"saved_model:{path}").scaling is None
    assert extractors.create(f"saved_model:{path}", {"picture_size": 32}).scaling == extractors.Scaling(32)


CLIPS = np.random.default_rng(1).integers(0, 256, (5, 4, 8, 8, 3), np.uint8)
CLIP_FORM = extractors.Clips(4, 2.5, 1.0, extractors.Scaling(8))


@pytest.mark.parametrize(
    "axes", [(3, 4, "H", "W"), (4, 3, "H", "W"), (4, "H", "W", 3), ("T", 3, "H", "W"), (3, "T", 8, 8)], ids=str
)
def test_an_onnx_input_of_five_dimensions_takes_clips(tmp_path: pathlib.Path, axes: tuple[Any, ...]) -> None:
    path = stand_ins.write_onnx(tmp_path / "video.onnx", axes=axes)
    settings: dict[str, Any] = {"picture_size": 8, "clip_rate": 2.5, "mean": [0.0] * 3, "deviation": [1.0] * 3}
    extractor = extractors.create(f"onnx:{path}", {**settings, **({"clip_frames": 4} if "T" in axes else {})})
    with extractor.open({"onnx_file": path}) as network:
        assert isinstance(network, extractors.OpenedExtractor)
        assert network.form == CLIP_FORM
        expected = CLIPS.astype(np.float64).mean(axis=(1, 2, 3)) / 255 @ stand_ins.PROJECTION
        np.testing.assert_allclose(network(CLIPS), expected, rtol=1e-4, atol=1e-4)
    other = extractors.create(f"onnx:{path}", {"clip_frames": 0 if "T" in axes else 5})
    with (
        pytest.raises(UsageError, match=r"--clip_frames=\d: .*video.onnx takes clips of"),
        other.open({"onnx_file": path}),
    ):
        pass


def test_an_onnx_input_of_other_axes_is_refused(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_onnx(tmp_path / "video.onnx", axes=(5, 5, 3, "H", "W"))
    extractor = extractors.create(f"onnx:{path}")
    with pytest.raises(UsageError, match="expected pictures"), extractor.open({"onnx_file": path}):
        pass


def test_a_saved_model_of_five_dimensions_takes_clips(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_saved_model(tmp_path / "video", axes=(4, None, None))
    extractor = extractors.create(f"saved_model:{path}", {"picture_size": 8, "clip_rate": 2.5})
    with extractor.open({"saved_model_dir": path}) as network:
        assert isinstance(network, extractors.OpenedExtractor)
        assert network.form == CLIP_FORM
        expected = CLIPS.astype(np.float64).mean(axis=(1, 2, 3)) @ stand_ins.PROJECTION
        np.testing.assert_allclose(network(CLIPS), expected, rtol=1e-4, atol=1e-2)


def test_names_of_features_and_scaling() -> None:
    clip = extractors.create("onnx:models/clip-vit.onnx", {"shorter_side": 256})
    assert clip.feature == "clip-vit"
    assert clip.scaling == extractors.Scaling(224, 256)
    assert extractors.create("saved_model:models/dino/", {"feature_name": "dino2"}).feature == "dino2"
    assert extractors.create("saved_model:models/dino/").feature == "dino"


def test_pooling_of_patches() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    first = extractors.create("onnx:x")
    mean = extractors.create("onnx:x", {"pooling": "mean"})
    np.testing.assert_array_equal(first.pool(values), values[:, 0])  # type: ignore[attr-defined]
    np.testing.assert_array_equal(mean.pool(values), values.mean(axis=1))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(first.pool(values[..., None, None][:, 0]), values[:, 0])  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"output is \[2, 3, 2, 2\]"):
        first.pool(np.zeros((2, 3, 2, 2)))  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"output is \[2\]"):
        first.pool(np.zeros(2))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"mean": [0.5]}, "expected three numbers"),
        ({"deviation": [0.1, 0.0, 0.1]}, "expected three numbers"),
        ({"shorter_side": 100}, "less than --picture_size=224"),
        ({"pooling": "last"}, r"pooling .*first, mean"),
        ({"colour": 1}, "has no setting 'colour'"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        extractors.create("onnx:clip.onnx", settings)


def test_files_of_another_kind_are_refused(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(b"no model")
    with pytest.raises(UsageError, match=r"other\.onnx is not.*ONNX file"):
        compute("onnx", str(other))
    with pytest.raises(UsageError, match="is not a SavedModel"):
        compute("saved_model", str(tmp_path))
    floats = stand_ins.write_saved_model(tmp_path / "floats", tf.float32)
    with pytest.raises(UsageError, match=r"takes float32 .*; expected uint8 \[N, H, W, 3\]"):
        compute("saved_model", floats)
    with pytest.raises(UsageError, match=r"--output=logits: .*x\.onnx .*\bfeature\.$"):
        compute("onnx", stand_ins.write_onnx(tmp_path / "x.onnx"), picture_size=8, output="logits")
