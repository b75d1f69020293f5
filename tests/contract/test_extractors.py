"""What holds for every registered extractor, with small stand-ins for the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stand_ins

from yt8m import extractors
from yt8m.extractors import Extractor
from yt8m.extractors.base import Compute

SIZES = {"inception": 1024, "vggish": 128, "onnx": 6, "saved_model": 6}
NAMES = sorted(SIZES)


@pytest.fixture(scope="module", params=NAMES)
def opened(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Extractor, Compute]]:
    folder, name = tmp_path_factory.mktemp("weights"), request.param
    made: dict[str, Any] = {
        "inception": lambda: ("inception", stand_ins.write_inception(folder)),
        "vggish": lambda: ("vggish", stand_ins.write_vggish(folder)),
        "onnx": lambda: (path := f"onnx:{stand_ins.write_onnx(folder / 'colour.onnx')}", {"onnx_file": path[5:]}),
        "saved_model": lambda: (
            path := f"saved_model:{stand_ins.write_saved_model(folder / 'colour')}",
            {"saved_model_dir": path[12:]},
        ),
    }
    given, weights = made[name]()
    extractor = extractors.create(given)
    assert set(extractor.weight_files()) == set(weights)
    with extractor.open(weights) as compute:
        yield name, extractor, compute


def draw(extractor: Extractor, count: int, height: int = 40, width: int = 52) -> np.ndarray:
    stream = np.random.default_rng(9)
    if extractor.takes == "waveform":
        return stream.uniform(-1, 1, (count, extractor.window)).astype(np.float32)
    side = (extractor.scaling.size,) * 2 if extractor.scaling else (height, width)
    return stream.integers(0, 256, (count, *side, 3), np.uint8)


def test_every_extractor_is_here() -> None:
    assert extractors.built_in_names() == sorted([*NAMES, "hf"])  # the last one needs torch, and has tests of its own


def test_shape_type_and_values(opened: tuple[str, Extractor, Compute]) -> None:
    name, extractor, compute = opened
    found = compute(draw(extractor, 5))
    assert found.shape == (5, SIZES[name])
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert extractor.size in (0, SIZES[name])
    assert np.abs(np.diff(found, axis=0)).max(axis=1).min() > 1e-3  # each row is of its own picture or window


def test_a_batch_of_one_equals_a_batch_of_many(opened: tuple[str, Extractor, Compute]) -> None:
    _, extractor, compute = opened
    given = draw(extractor, 7)
    one_by_one = np.concatenate([compute(given[row : row + 1]) for row in range(7)])
    np.testing.assert_allclose(compute(given), one_by_one, rtol=1e-5, atol=1e-5 * np.abs(one_by_one).max())


def test_twice_the_same(opened: tuple[str, Extractor, Compute]) -> None:
    _, extractor, compute = opened
    np.testing.assert_array_equal(compute(draw(extractor, 3)), compute(draw(extractor, 3)))


@pytest.mark.parametrize("size", [(1, 1), (7, 300), (480, 33)])
def test_pictures_of_any_size(opened: tuple[str, Extractor, Compute], size: tuple[int, int]) -> None:
    name, extractor, compute = opened
    if extractor.takes == "waveform" or extractor.scaling:
        pytest.skip("it takes waveforms, or pictures of one size")
    assert compute(draw(extractor, 2, *size)).shape == (2, SIZES[name])


def test_settings_are_json_and_make_it_again(opened: tuple[str, Extractor, Compute]) -> None:
    _, extractor, _ = opened
    settings = extractor.settings()
    assert not settings.keys() & extractor.weight_files().keys()
    name = next(
        name for name in NAMES if type(extractor) is extractors.get(name + ":x" * (name in ("onnx", "saved_model")))
    )
    again = extractors.create(f"{name}:x" if name in ("onnx", "saved_model") else name, settings)
    assert again.settings() == settings


def test_sizes_of_waveforms_and_pictures_are_declared(opened: tuple[str, Extractor, Compute]) -> None:
    _, extractor, _ = opened
    assert extractor.feature.isprintable()
    if extractor.takes == "waveform":
        assert extractor.hop > 0
        assert extractor.window > 0
        assert extractor.rate == 16000


def test_silence_and_black_are_finite(opened: tuple[str, Extractor, Compute]) -> None:
    _, extractor, compute = opened
    with contextlib.nullcontext(draw(extractor, 2)) as given:
        assert np.isfinite(compute(np.zeros_like(given))).all()
