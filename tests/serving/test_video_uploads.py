"""`yt8m serve` takes a video file, as a body, in a form or by its name, if the extractors of the run are here."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import made_videos
import pytest
import requests
import stand_ins
from jsonschema import Draft202012Validator
from serving.test_server_attacks import TINY, Service, served
from serving.tiny_service import TinyModel

import yt8m
from yt8m.command_line import cli
from yt8m.errors import UsageError
from yt8m.serving.bodies import BodyLimits
from yt8m.serving.named_videos import NamedVideos
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.video_uploads import VideoScorer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("clips")
    for number in range(6):
        kind = made_videos.KINDS[number % 3]
        (folder / kind).mkdir(exist_ok=True)
        made_videos.write(folder / kind / f"{number}.mp4", made_videos.shape(kind, seed=number), None, 3.0)
    return sorted(folder.rglob("*.mp4"))


@pytest.fixture(scope="module")
def run(clips: list[pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("run")
    colour = stand_ins.write_onnx(folder / "colour.onnx")
    words = [f"--videos={clips[0].parents[1]}", "--labels=folder", f"--out={folder}/data", "--splits=train:1"]
    assert (
        cli.call("extract", [*words, f"--extractors=onnx:{colour}", "--picture_size=16", "--ranges=-9:9", "--jobs=1"])
        == 0
    )
    records = f"{folder}/data/video/train/*.tfrecord"
    yt8m.fit(
        model="LogisticModel",
        train_data_pattern=records,
        train_dir=str(folder / "run"),
        max_steps=5,
        export_model_steps=0,
    )
    return str(folder / "run")


@pytest.fixture(scope="module")
def service(run: str, clips: list[pathlib.Path]) -> Iterator[Service]:
    """It takes videos, and has those of a folder."""
    words = ("--port=0", "--max_videos=3", "--max_frames=4", "--max_megabytes=1", "--timeout=300")
    words += (f"--videos={clips[0].parents[1]}",)
    with served(sys.executable, "-m", "yt8m", "serve", f"--model={run}", *words) as service:
        yield service


def post(service: Service, query: str = "", **request: Any) -> requests.Response:
    return requests.post(f"{service.url}/predict{query}", **request)


def test_a_video_gets_the_scores_of_predict(service: Service, run: str, clips: list[pathlib.Path]) -> None:
    with yt8m.load(run) as model:
        expected = [model.predict_video(clip, top_k=3) for clip in clips[:2]]
    content = clips[0].read_bytes()
    for kind in ("video/mp4", "application/octet-stream"):
        answer = post(service, "?top_k=3&id=mine", data=content, headers={"Content-Type": kind})
        assert answer.status_code == 200
        (video,) = answer.json()["videos"]
        assert video["id"] == "mine"
        assert [(one["name"], one["score"]) for one in video["classes"]] == [
            (one.name, pytest.approx(one.score, rel=1e-5)) for one in expected[0].classes
        ]
    answer = post(service, "?top_k=3", files=[("a", (clip.name, clip.read_bytes())) for clip in clips[:2]])
    assert [video["id"] for video in answer.json()["videos"]] == [clip.name for clip in clips[:2]]
    for video, found in zip(answer.json()["videos"], expected, strict=True):
        assert [one["name"] for one in video["classes"]] == [one.name for one in found.classes]


def test_videos_have_the_limits_of_records(service: Service, clips: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    made_videos.write(tmp_path / "long.mp4", made_videos.shape(made_videos.KINDS[0], seed=1), None, 6.0)
    content = clips[0].read_bytes()
    for files, status, text in (
        ([content] * 4, 413, "--max_videos"),
        ([content, (tmp_path / "long.mp4").read_bytes()], 413, "video 1"),
        ([content, b"#EXTM3U\nfile:///etc/passwd\n"], 415, "video 1"),
        ([content[: len(content) // 2]], 400, "video 0"),
        ([bytes(2_000_000)], 413, "--max_megabytes"),
    ):
        answer = post(service, files=[("a", ("x.mp4", file)) for file in files])
        assert answer.status_code == status, answer.text
        assert text in answer.json()["error"]


def test_the_description_has_videos(service: Service) -> None:
    content = requests.get(f"{service.url}/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert {"video/*", "multipart/form-data"} <= content.keys()
    assert "curl -F video=@clip.mp4" in requests.get(f"{service.url}/docs").text


def test_requests_name_videos_of_a_folder(
    service: Service, run: str, clips: list[pathlib.Path], tmp_path: pathlib.Path
) -> None:
    folder = clips[0].parents[1]
    names = [str(clip.relative_to(folder)) for clip in clips]  # the ids that extract and predict give them
    assert requests.get(f"{service.url}/videos").json() == {"videos": names}
    answer = post(service, "?top_k=3", json={"videos": names[:2]})
    assert [video["id"] for video in answer.json()["videos"]] == names[:2]
    with yt8m.load(run) as model:
        for video, clip in zip(answer.json()["videos"], clips, strict=False):
            expected = model.predict_video(clip, top_k=3).classes
            assert [(one["name"], one["score"]) for one in video["classes"]] == [
                (one.name, pytest.approx(one.score, rel=1e-5)) for one in expected
            ]
    outside = made_videos.write(tmp_path / "outside.mp4", made_videos.shape("disc"), None, 1.0)
    (folder / ".hidden.mp4").write_bytes(clips[0].read_bytes())
    (folder / "bad.mp4").write_bytes(b"nothing")
    try:
        for body, status, text in (
            ({"videos": [names[0], outside]}, 404, "video 1 .*GET /videos"),
            ({"videos": ["../outside.mp4"]}, 404, "video 0"),
            ({"videos": [".hidden.mp4"]}, 404, "video 0"),
            ({"videos": ["bad.mp4"]}, 400, "video 0 'bad.mp4': it is damaged"),  # it was added after the start
            ({"videos": names[:4]}, 413, "--max_videos"),
            ({"videos": [names[0], {"id": "x"}]}, 400, r"videos\[1\]"),
            ({"videos": [names[0]], "more": 1}, 400, "more"),
            ({"videos": ["x" * 40_000]}, 413, "names of videos"),
        ):
            answer = post(service, json=body)
            assert answer.status_code == status, answer.text
            assert re.search(text, answer.json()["error"])
    finally:
        (folder / ".hidden.mp4").unlink()
        (folder / "bad.mp4").unlink()
    described = requests.get(f"{service.url}/openapi.json").json()["paths"]["/predict"]["post"]
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    assert Draft202012Validator(schema).is_valid({"videos": names[:2]})
    assert not Draft202012Validator(schema).is_valid({"videos": names[:4]})


@pytest.mark.heavy
def test_a_service_without_a_folder_has_no_videos_by_name() -> None:
    with served(*TINY, "--timeout=60") as service:
        answer = post(service, json={"videos": ["disc/0.mp4"]})
        assert (answer.status_code, "--videos" in answer.json()["error"]) == (400, True)
        assert requests.get(f"{service.url}/videos").json() == {"videos": []}


def test_a_folder_without_videos_or_extractors_is_refused_at_the_start(run: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="no video file"):
        NamedVideos(str(tmp_path))
    with pytest.raises(UsageError, match=r"--videos=x: m .*extractors"):
        VideoScorer(TinyModel(), ServeConfig(train_dir="m", videos="x"), BodyLimits(1, 1), None, named(tmp_path))


def named(folder: pathlib.Path) -> NamedVideos:
    made_videos.write(folder / "a.mp4", made_videos.shape("disc"), None, 1.0)
    return NamedVideos(str(folder))
