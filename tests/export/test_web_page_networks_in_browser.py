"""Videos on the page in a real browser, which decodes them: scores, the timeline, and what is refused."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import browser
import made_videos
import numpy as np
import pytest
import small_exports
import stand_ins
from export.web_sites import Site
from extractors.test_decoding_times import with_pixels

import yt8m
from yt8m import extractors
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig
from yt8m.datasets.extract.computing import ChosenExtractor, Settings, describe_extractors, locate
from yt8m.export import web_page
from yt8m.export.onnx_export import export_onnx

pytestmark = pytest.mark.heavy

# A network of [N, 3, H, W] of any N, with its features stored as bytes; and one of [2, H, W, 3], stored as floats.
NETWORKS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[float, float] | None]] = {
    "first": ({}, {"picture_size": 16}, (-9.0, 9.0)),
    "second": (
        {"batch": 2, "axes": ("H", "W", 3)},
        {"picture_size": 24, "shorter_side": 30, "interpolation": "area", "mean": (0.5,) * 3, "deviation": (0.2,) * 3},
        None,
    ),
}
TIMELINE = "return [...document.querySelectorAll('#timeline tbody tr')].map((row) => row.cells.length)"
# The mean colour of each thumbnail.
THUMBNAILS = """
return [...document.querySelectorAll("#timeline canvas")].map((canvas) => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((_, place) => place % 4 !== 3).reduce((sum, one) => sum + one) / (data.length * 3 / 4);
});
"""
# The width and height of each thumbnail on the screen, and in pixels.
SHAPES = """
return [...document.querySelectorAll("#timeline canvas")].map(
  (canvas) => [canvas.clientWidth, canvas.clientHeight, canvas.width, canvas.height]);
"""


def entries(folder: pathlib.Path) -> tuple[dict[str, Any], ...]:
    """The networks, as a manifest names them."""
    chosen = []
    for name, (form, settings, _) in NETWORKS.items():
        full_name = f"onnx:{stand_ins.write_onnx(folder / f'{name}.onnx', **form)}"
        chosen.append(ChosenExtractor(full_name, extractors.create(full_name, settings)))
    ranges = [bounds for *_, bounds in NETWORKS.values()]
    return tuple(describe_extractors(locate(chosen), ranges, Settings(max_frames=20)))


def export(folder: pathlib.Path, described: tuple[dict[str, Any], ...], level: str) -> str:
    """A small model of these features, with random weights; returns the path of its ONNX file."""
    prefix = "" if level == "frame" else "mean_"
    data = DataConfig(
        feature_names=tuple(f"{prefix}{name}" for name in NETWORKS),
        feature_sizes=(6, 6),
        feature_ranges=((-9.0, 9.0), ()) if level == "frame" else ((), ()),
        frame_features=level == "frame",
        num_classes=small_exports.CLASSES,
        extractors=described,
    )
    model = ModelConfig("FrameLevelLogisticModel") if level == "frame" else ModelConfig("MoeModel")
    parts, checkpoint = small_exports.random_weights(folder, data, model)
    export_onnx(str(folder / web_page.MODEL), checkpoint, data, parts.modeler)
    return str(folder / web_page.MODEL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, onnxruntime_web: str) -> pathlib.Path:
    """Pages: frame/ and video/."""
    made = tmp_path_factory.mktemp("sites")
    described = entries(made)
    for level in ("frame", "video"):
        (made / level).mkdir()
        export(made / level, described, level)
        assert web_page.write(str(made / level), web_page.runtime_files(onnxruntime_web)) == ""
    return made


@pytest.fixture(scope="module")
def site(folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with browser.driven(tmp_path_factory.mktemp("driven")) as page, browser.served(folder) as (address, asked):
        yield Site(folder, page, address, asked)


@pytest.mark.parametrize("level", ["frame", "video"])
@pytest.mark.parametrize(("kind", "seconds"), [("webm", 12.0), ("mp4", 3.0), ("webm", 31.0)])
def test_videos_get_the_scores_of_yt8m_predict(
    site: Site, tmp_path: pathlib.Path, level: str, kind: str, seconds: float
) -> None:
    """To 0.005, since a browser and FFmpeg make colours of YUV that differ by up to two of 255 levels."""
    site.open(level)
    video = tmp_path / f"clip.{kind}"
    made_videos.write(video, made_videos.shape("disc", 144, 256, 3), made_videos.tone("disc"), seconds)
    assert site.choose(video) == ""
    with yt8m.load(str(site.folder / level / web_page.MODEL)) as model:
        expected = {one.name: one.score for one in model.predict_video(video, top_k=30).classes}
    found = dict(site.scores())
    assert len(found) == 20
    assert max(abs(score - expected[name]) for name, score in found.items()) < 0.005
    assert np.ptp(list(expected.values())) > 0.1


def test_pixels_that_are_not_square_are_scaled_and_noted_as_by_predict(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("frame")
    notes = {}
    for name, ratio in (("wide", Fraction(2, 1)), ("square", Fraction(1, 1))):
        video = pathlib.Path(with_pixels(tmp_path / f"{name}.mp4", ratio))
        assert site.choose(video) == ""
        found = dict(site.scores())
        notes[name] = site.page.run("return document.getElementById('notes').textContent")
        with yt8m.load(str(site.folder / "frame" / web_page.MODEL)) as model:
            predicted = model.predict_video(video, top_k=30)
        assert max(abs(found[one.name] - one.score) for one in predicted.classes if one.name in found) < 0.005
    assert notes == {"wide": "Notes: non-square pixels (2:1).", "square": ""}


def brightness(second: float) -> np.ndarray:
    return np.full((48, 64, 3), round(20 + 10 * second), np.uint8)


def test_the_timeline_has_pictures_of_its_parts(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("frame")
    assert site.choose(pathlib.Path(made_videos.write(tmp_path / "clip.webm", brightness, None, 20.0))) == ""
    assert site.page.run(TIMELINE)[0] == 5  # the name and four parts
    # Frames 0 to 4 are the first part, whose middle is second 2; the last one has the frames 15 to 19.
    np.testing.assert_allclose(site.page.run(THUMBNAILS), [40, 90, 140, 190], atol=4)
    assert site.page.run(SHAPES) == [[64, 48, 128, 96]] * 4  # pictures of 64 x 48 keep their shape
    assert site.page.run("return document.getElementById('progress').checkVisibility()") is False


def test_the_file_chosen_last_is_scored_even_if_another_is_being_read(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("frame")
    long = made_videos.write(tmp_path / "long.webm", brightness, None, 23.0)
    short = pathlib.Path(made_videos.write(tmp_path / "short.webm", brightness, None, 2.0))
    site.page.choose("#file", pathlib.Path(long))
    site.page.wait_for("return document.getElementById('progress').value > 0")
    site.page.choose("#file", short)
    assert site.ended("short.webm is scored.") == ""
    assert site.page.run("return document.getElementById('name').textContent") == "short.webm"


def test_files_without_pictures_get_a_clear_line(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("frame")
    damaged, silent = tmp_path / "damaged.mp4", tmp_path / "clip.mp4"
    damaged.write_bytes(b"nothing" * 99)
    sound = pathlib.Path(made_videos.write(tmp_path / "sound.m4a", None, made_videos.tone("disc"), 2.0))
    for path in (damaged, sound):
        told = site.choose(path)
        assert told.startswith(f"{path.name} has no pictures that this browser can decode: it is damaged, no video, or")
    assert site.choose(pathlib.Path(made_videos.write(silent, brightness, None, 2.0))) == ""
    np.save(tmp_path / "wide.npy", np.zeros((3, 9)))
    assert "Expected an .npy file with an array [frames, 12] or [12], first and second" in site.choose(
        tmp_path / "wide.npy"
    )
    shown = site.page.run("return document.getElementById('takes').textContent")
    assert shown.startswith("Choose a file, or drop it here: a video, or an .npy file")
