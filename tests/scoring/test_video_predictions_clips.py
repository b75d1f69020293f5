"""The timeline of a model that sees motion: its parts are scored by the rows of their clips."""

from __future__ import annotations

import pathlib
import re

import made_videos
import numpy as np
import own_extractors
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.datasets.extract.computing import LocatedExtractor, Settings, describe_extractors
from yt8m.datasets.extract.weights import Weights
from yt8m.records import vocabulary
from yt8m.training.checkpoint_import import write_run

NAMES = ("still", "moving")
MOVES_FROM, SECONDS = 15.0, 30.0

# On a feature of unit length: four means of the pictures of a clip, and three differences between them.
WEIGHTS = np.array([[0, 0]] * 4 + [[-40, 40]] * 3, np.float32)
BIASES = np.array([3, -3], np.float32)


def picture(second: float) -> np.ndarray:
    """It stands still, and later is light and dark in turn."""
    shade = 60 if second < MOVES_FROM or int(second * 5) % 2 else 200
    return np.full((32, 32, 3), shade, np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run on the feature of clips, whose weights are written, not trained."""
    folder = str(tmp_path_factory.mktemp("motion") / "run")
    located = [LocatedExtractor("own_extractors:Motion", own_extractors.Motion(), Weights({}, {}, {}))]
    entries = describe_extractors(located, [None], Settings())
    data = DataConfig(
        feature_names=("mean_motion",), feature_sizes=(7,), num_classes=2, max_frames=300, extractors=tuple(entries)
    )
    values = {"tower/fully_connected/weights": WEIGHTS, "tower/fully_connected/biases": BIASES}
    config = TrainConfig(train_dir=folder, data=data, model=ModelConfig("LogisticModel"))
    write_run(config, values, 0, vocabulary.of_names(list(NAMES)), "written by a test")
    return folder


@pytest.mark.heavy
def test_the_timeline_shows_where_clips_begin_to_move(
    run: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    film = made_videos.write(tmp_path / "film.mp4", picture, None, SECONDS)
    assert cli.main(["predict", f"--model={run}", film, "--timeline", "--trust_code"]) == 0
    page = (tmp_path / "film.mp4.timeline.html").read_text()
    assert re.findall(r'<th scope="col">([\d:]+)</th>', page) == ["0:00", "0:05", "0:10", "0:15", "0:20", "0:25"]
    shown = {
        name: [float(score) for score in re.findall(r"<b>([\d.]+)</b>", cells)]
        for name, cells in re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', page)
    }
    clips = yt8m.extract(film, extractors=["own_extractors:Motion"])["motion"]
    assert clips.shape == (30, 7)
    means = np.array(
        [clips[first : first + 5].mean(axis=0) for first in (0, 5, 10, 15, 20)] + [clips[25:].mean(axis=0)]
    )
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    scores = 1 / (1 + np.exp(-(units @ WEIGHTS + BIASES)))
    for index, name in enumerate(NAMES):
        np.testing.assert_allclose(shown[name], scores[:, index], atol=0.006)
    best = [max(shown, key=lambda name: shown[name][part]) for part in range(6)]
    assert best == ["still"] * 3 + ["moving"] * 3
