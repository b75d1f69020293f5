"""The scripts of the page in a browser: NumPy's files, the features in them, and the rows of the timeline."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import av
import browser
import cases
import numpy as np
import pytest

from yt8m.extractors.base import Scaling
from yt8m.extractors.scaled_pictures import ScaledPicture, new_reformatters
from yt8m.records.data_format import dequantized
from yt8m.records.film_windows import FilmWindows, find_cuts
from yt8m.reports.timeline_page import Timeline, classes_of_rows

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "yt8m/data/web"
DRAW = np.random.default_rng(1)
# What a function of a script gives for a file, as [result, what it refused].
CALL = """
const [script, call, name, content, more] = arguments;
const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
return import(`./${script}`).then(async (module) => {
  const { arraysOf } = await import("./arrays.js");
  try {
    const arrays = await arraysOf(new File([bytes], name));
    const plain = Object.entries(arrays).map(([key, one]) => [key, one.shape, [...one.values]]);
    if (call === "arraysOf") return [plain, ""];
    return [[...module[call](arrays, more, name)], ""];
  } catch (error) {
    if (error.constructor.name !== "WrongFile") throw error;
    return [null, error.message];
  }
});
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.driven(tmp_path_factory.mktemp("driven")) as opened, browser.served(SCRIPTS) as (address, _):
        opened.open(f"{address}/onnxruntime-web.license.txt")  # a page of the same origin without a policy
        yield opened


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(arrays: dict[str, np.ndarray], *, is_packed: bool) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if is_packed else np.savez)(file, **arrays)
    return file.getvalue()


def call(page: browser.Page, name: str, content: bytes, function: str = "arraysOf", more: Any = None) -> Any:
    script = "features.js" if function == "joined" else "arrays.js"
    return page.run(CALL, script, function, name, base64.b64encode(content).decode(), more)


def read(page: browser.Page, name: str, content: bytes) -> dict[str, np.ndarray]:
    found, refused = call(page, name, content)
    assert not refused
    return {key: np.array(values, np.float32).reshape(shape) for key, shape, values in found}


def test_arrays_are_those_that_numpy_wrote(page: browser.Page) -> None:
    values = DRAW.normal(size=(3, 5)) * 100
    values[0] = (0, -0.0, 6e-8, 1e-5, 60000)  # of float16: zeros, numbers below its normal ones, a large one
    for kind in ("|u1", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"):
        array = np.abs(values).astype(kind) if kind == "|u1" else values.astype(kind)
        for ordered in (array, np.asfortranarray(array), array[0], np.ascontiguousarray(array[:0])):
            found = read(page, "a.npy", npy(ordered))[""]
            np.testing.assert_array_equal(found, ordered.astype(np.float32), strict=True)
    cube = DRAW.normal(size=(2, 3, 4)).astype("f4")
    np.testing.assert_array_equal(read(page, "a.npy", npy(np.asfortranarray(cube)))[""], cube)


@pytest.mark.parametrize("is_packed", [False, True])
def test_archives_have_all_their_arrays(page: browser.Page, is_packed: bool) -> None:
    arrays = {"rgb": DRAW.normal(size=(40, 6)).astype("f4"), "Ton é": DRAW.integers(0, 256, (40, 2), np.uint8)}
    found = read(page, "a.npz", npz(arrays, is_packed=is_packed))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def of_other_method() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("rgb.npy", npy(np.zeros((2, 6), "f4")) * 9)
    return file.getvalue()


WHOLE = npy(np.zeros((4, 6), "f4"))
PACKED = npz({"rgb": DRAW.normal(size=(40, 6))}, is_packed=True)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.npy", b"", "a.npy is not an .npy file"),
        ("a.npy", b"id,score\n" * 9, "a.npy is not an .npy file"),
        ("a.npy", WHOLE[:-1], "a.npy is cut or damaged: it should have 24 values of 4 bytes."),
        ("a.npy", WHOLE[:20], "a.npy holds values of an unknown type"),
        ("a.npy", npy(np.zeros((2, 6), np.int64)), "a.npy holds i8; expected uint8, float16, float32 or float64"),
        ("a.npy", npy(np.zeros(3, [("x", "f4")])), "a.npy holds [('x', '<f4')]; expected uint8"),
        ("a.npy", npy(np.array(["a"])), "a.npy holds U1; expected uint8"),
        ("a.npz", b"", "a.npz is not an .npz file, or it is damaged."),
        ("a.npz", WHOLE, "a.npz is not an .npz file, or it is damaged."),
        ("a.npz", PACKED[:60] + b"\xff" * 40 + PACKED[100:], "a.npz: rgb.npy is damaged."),
        ("a.npz", of_other_method(), "a.npz: rgb.npy is packed by method 12 of ZIP"),
    ],
)
def test_other_files_are_refused_with_what_is_wrong(page: browser.Page, name: str, content: bytes, told: str) -> None:
    found, refused = call(page, name, content)
    assert found is None
    assert refused.startswith(told)


FEATURES = [{"name": "rgb", "size": 6, "range": [-2, 2]}, {"name": "mean_audio", "size": 2, "range": [-1.5, 3]}]
RGB, AUDIO = DRAW.normal(size=(4, 6)).astype("f4"), DRAW.normal(size=(4, 2)).astype("f4")
JOINED = np.concatenate([RGB, AUDIO], axis=1)
BYTES = DRAW.integers(0, 256, (4, 8), np.uint8)
FROM_BYTES = np.concatenate([dequantized(BYTES[:, :6], (-2, 2)), dequantized(BYTES[:, 6:], (-1.5, 3))], axis=1)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"": JOINED}, JOINED),
        ({"": JOINED[1]}, JOINED[1:2]),
        ({"any": JOINED}, JOINED),
        ({"": BYTES}, FROM_BYTES),
        ({"rgb": RGB, "mean_audio": AUDIO}, JOINED),
        ({"audio": AUDIO, "mean_rgb": RGB, "labels": np.zeros(3)}, JOINED),
        ({"audio": BYTES[:, 6:], "rgb": RGB}, np.concatenate([RGB, FROM_BYTES[:, 6:]], axis=1)),
        ({"rgb": RGB[0], "audio": AUDIO[0]}, JOINED[:1]),
    ],
)
def test_features_are_joined_in_the_order_of_the_model(
    page: browser.Page, arrays: dict[str, np.ndarray], expected: np.ndarray
) -> None:
    name, content = ("a.npy", npy(arrays[""])) if "" in arrays else ("a.npz", npz(arrays, is_packed=True))
    found, refused = call(page, name, content, "joined", FEATURES)
    assert not refused
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"x": RGB, "y": AUDIO}, "a.npz has x [4, 6], y [4, 2].\nExpected an .npy file with an array [frames, 8] or "
         "[8], rgb and mean_audio side by side, or an .npz file with rgb [frames, 6] or [6] and mean_audio [frames, 2] "
         "or [2]."),
        ({"x": JOINED[np.newaxis]}, "a.npz has x [1, 4, 8].\nExpected"),
        ({"rgb": RGB, "audio": AUDIO[:3]}, "a.npz: the features have 4 and 3 frames; expected at least one"),
        ({"x": JOINED[:0]}, "a.npz: the features have 0 and 0 frames"),
        ({"x": np.where(JOINED > 1, np.nan, JOINED)}, "a.npz: a value is not a finite number."),
        ({}, "a.npz has no array.\nExpected"),
    ],
)  # fmt: skip
def test_other_features_are_refused(page: browser.Page, arrays: dict[str, np.ndarray], told: str) -> None:
    found, refused = call(page, "a.npz", npz(arrays, is_packed=False), "joined", FEATURES)
    assert found is None
    assert refused.startswith(told)


@pytest.mark.parametrize("seed", range(3))
def test_the_timeline_has_the_rows_of_yt8m_predict(page: browser.Page, seed: int) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.choice([0.01, 0.04, 0.06, 0.3, 0.9], (1 + 7 * seed, 40)).astype("f4")
    found = page.run(
        "const scores = JSON.parse(arguments[0]);"
        "return import('./timeline.js').then((module) => module.classesOfRows(scores))",
        json.dumps(scores.tolist()),
    )
    assert found == classes_of_rows(Timeline([], 0.0, scores))


FILM = """
const [content, sizes, size] = arguments, bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
const frames = new Float32Array(bytes.buffer), count = frames.length / sizes.reduce((sum, one) => sum + one, 0);
return import("./films.js").then((module) => {
  const cuts = module.findCuts(frames, sizes);
  return [cuts, module.filmWindows(count, size, cuts)];
});
"""


@pytest.mark.parametrize(("lengths", "size"), [([9, 2, 30, 1, 7], 6), ([40], 7), ([3, 3], 10), ([1], 4)])
def test_films_have_the_windows_of_yt8m_predict(page: browser.Page, lengths: list[int], size: int) -> None:
    draw = np.random.default_rng(size)
    levels = np.repeat(draw.normal(0, 9, (len(lengths), 8)), lengths, axis=0)
    film = (levels + draw.normal(0, 1, levels.shape)).astype("f4")
    content = base64.b64encode(film.tobytes()).decode()
    cuts, windows = page.run(FILM, content, [6, 2], size)
    assert cuts == find_cuts([film[:, :6], film[:, 6:]])
    assert len(cuts) == len(lengths) - 1
    assert windows == list(map(list, FilmWindows(size, size).parts(len(film), cuts)))


SQUARE = """
const [content, width, height, how] = arguments, data = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
return import("./scaling.js").then((module) => [...module.square({data, width, height}, how)]);
"""


def noise(height: int, width: int) -> np.ndarray:
    """A picture of smooth and sharp parts, uint8 [height, width, 3]."""
    rows, columns = np.mgrid[:height, :width]
    smooth = np.stack([rows * 255 / height, columns * 255 / width, 127 + 127 * np.sin(rows / 5 + columns / 7)], -1)
    return np.where((rows // 16 + columns // 16)[..., np.newaxis] % 2, smooth, 255 - smooth).astype(np.uint8)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "area", "lanczos"])
@pytest.mark.parametrize(
    ("height", "width", "size", "side"), cases.all_of([(96, 64, 32, 40)], heavy=[(90, 160, 32, 0), (30, 20, 48, 0)])
)
def test_pictures_are_scaled_as_by_ffmpeg(
    page: browser.Page, interpolation: str, height: int, width: int, size: int, side: int
) -> None:
    picture = noise(height, width)
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
    expected = ScaledPicture(frame, 1.0, new_reformatters()).scaled(Scaling(size, side, interpolation))
    alpha = np.full((height, width, 1), 255, np.uint8)
    content = base64.b64encode(np.concatenate([picture, alpha], axis=2).tobytes()).decode()
    how = {"picture_size": size, "shorter_side": side, "interpolation": interpolation}
    found = np.reshape(page.run(SQUARE, content, width, height, how), (size, size, 3))
    difference = np.abs(found - expected.astype(int))
    assert difference.mean() < 0.5
    assert difference.max() <= 3
