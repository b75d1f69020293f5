"""A film has the same tags and scores in `predict`, in Python, in the service and on the page in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib

import browser
import numpy as np
import pytest
from export.test_web_page_in_browser import TAGS
from export.web_sites import Site
from scoring.test_film_scores import World

import yt8m
from yt8m import scoring
from yt8m.command_line import cli
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Answer, Service
from yt8m.serving.uploads import Upload

pytestmark = pytest.mark.heavy
_LEAST_POSITIVES = 20  # a threshold from fewer videos says so


def test_the_four_ways_agree(tmp_path: pathlib.Path, onnxruntime_web: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path, clips=60, films=16)
    film, planted = next((path, kinds) for path, kinds in world.films.items() if len(kinds) > 1)

    capsys.readouterr()
    assert cli.call("predict", [f"--model={world.run}", film, "--tags", "--json"]) == 0
    (of_predict,) = json.loads(capsys.readouterr().out)
    tags = {tag["name"]: (tag["score"], tag["few_positives"]) for tag in of_predict["classes"]}
    assert tags.keys() == planted
    assert all(count < _LEAST_POSITIVES for _, count in tags.values())

    with yt8m.load(world.run) as model:
        of_python = model.predict_video(film)
    assert of_python.window_seconds == of_predict["window_seconds"] == 4.0
    assert {tag.name: (pytest.approx(tag.score), tag.few_positives) for tag in of_python.tags} == tags

    upload, config = Upload(film, pathlib.Path(film).read_bytes()), ServeConfig(train_dir=str(world.run))

    async def ask(service: Service) -> list[Answer]:
        return await service.begin_videos([upload])

    with scoring.open(str(world.run)) as scorer, contextlib.closing(Service(scorer, config)) as service:
        answer = service.content_of(asyncio.run(ask(service)), 4)
    (of_service,) = answer["videos"]
    assert of_service["window_frames"] == 4
    assert {
        tag["name"]: (pytest.approx(tag["score"], abs=1e-5), tag["few_positives"]) for tag in of_service["tags"]
    } == tags

    words = ["--format=web", f"--out={tmp_path}/sites/run", f"--onnxruntime_web={onnxruntime_web}"]
    assert cli.call("export", [f"--model={world.run}", *words]) == 0
    np.savez(tmp_path / "film.npz", **yt8m.extract(film, extractors=["own_extractors:Thumbnails"]))
    with browser.driven(tmp_path / "driven") as page, browser.served(tmp_path / "sites") as (address, asked):
        site = Site(tmp_path / "sites", page, address, asked)
        site.open("run")
        assert site.choose(tmp_path / "film.npz") == ""
        shown, scores = site.page.run(TAGS), dict(site.scores())
    assert shown == [f"{name} ({count})" for name, (_, count) in tags.items()]
    assert {name: pytest.approx(scores[name], abs=1e-4) for name in tags} == {
        name: score for name, (score, _) in tags.items()
    }
