"""A trained model on video files: with its own extractors and no others."""

from __future__ import annotations

import csv
import json
import pathlib
import re
import shutil
from typing import Any

import made_videos
import numpy as np
import pytest
import stand_ins
from installed_packages import Packages

import yt8m
from yt8m.command_line import cli
from yt8m.datasets.extract import choose
from yt8m.datasets.extract.computing import Settings, describe_extractors, locate
from yt8m.errors import RunError, UsageError
from yt8m.records import data_format, manifest
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.scoring import video_features
from yt8m.scoring.model_input import ModelInput

pytestmark = pytest.mark.long


class World:
    """Records at both levels of twelve videos, and a run for each level that is asked for."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.clips, self.data = folder, folder / "clips", folder / "data"
        for number in range(12):
            kind = made_videos.KINDS[number % 3]
            (self.clips / kind).mkdir(parents=True, exist_ok=True)
            picture = made_videos.shape(kind, seed=number)
            made_videos.write(self.clips / kind / f"{number}.mp4", picture, made_videos.tone(kind, number), 3.0)
        self.colour = stand_ins.write_onnx(folder / "colour.onnx")
        words = [f"--videos={self.clips}", "--labels=folder", f"--out={self.data}", "--splits=train:1", "--shards=1"]
        words.append("--jobs=1")
        chosen = [f"--extractors=own_extractors:Bands,onnx:{self.colour}", "--picture_size=16", "--ranges=floats,-9:9"]
        assert cli.call("extract", [*words, *chosen]) == 0

    def run(self, level: str) -> str:
        """The run of a level, which is trained when it is first asked for."""
        model, run = "FrameLevelLogisticModel" if level == "frame" else "LogisticModel", f"{self.folder}/run-{level}"
        if pathlib.Path(run).exists():
            return run
        yt8m.fit(
            model=model, train_data_pattern=f"{self.data}/{level}/train/*.tfrecord", train_dir=run, batch_size=4,
            num_epochs=12, base_learning_rate=0.1,
        )  # fmt: skip
        return run

    def export(self, level: str) -> str:
        (found,) = pathlib.Path(self.run(level), "export").iterdir()
        return str(found)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("level", [pytest.param("frame", marks=pytest.mark.heavy), "video"])
def test_a_video_gets_the_scores_of_its_record(world: World, level: str) -> None:
    with yt8m.load(world.run(level)) as model:
        for video in list(model.predict(f"{world.data}/{level}/train/*.tfrecord", top_k=3))[::6]:
            found = model.predict_video(world.clips / video.id, top_k=3)
            assert [one.name for one in found.classes] == [one.name for one in video.classes]
            scores = [one.score for one in video.classes]
            np.testing.assert_allclose([one.score for one in found.classes], scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", [pytest.param("frame", marks=pytest.mark.heavy), "video"])
def test_an_export_carries_its_extractors_and_one_of_others_needs_trust(
    world: World,
    level: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    video = str(next(world.clips.rglob("*.mp4")))
    assert cli.call("predict", [f"--model={world.run(level)}", video]) == 0
    of_run, program_warning = capsys.readouterr(), "a model is a program"
    assert cli.call("predict", [f"--model={world.export(level)}", video]) == 0  # of a run of one's own
    of_export = capsys.readouterr()
    assert scores_in(of_export.out) == pytest.approx(scores_in(of_run.out), abs=2e-3)
    assert program_warning not in of_run.err + of_export.err
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # as if it were exported elsewhere
    with pytest.raises(UsageError, match=r"'own_extractors:Bands'.*add --trust_code"):
        cli.call("predict", [f"--model={world.export(level)}", video])
    assert program_warning in capsys.readouterr().err
    assert cli.call("predict", [f"--model={world.export(level)}", video, "--trust_code"]) == 0
    with yt8m.load(world.export(level)) as model:
        with pytest.raises(UsageError, match=r"'own_extractors:Bands'.*give trust_code=True"):
            model.predict_video(video)
        expected = model.predict_video(video, trust_code=True)
        with pytest.raises(UsageError, match="give trust_code=True"):
            model.predict_video(video)
    with yt8m.load(world.export(level), trust_code=True) as model:
        assert model.predict_video(video) == expected


@pytest.mark.heavy
def test_a_video_gets_the_vector_of_its_record(
    world: World, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, run, bad = f"{world.data}/video/train/*.tfrecord", str(tmp_path / "run"), tmp_path / "bad.mp4"
    yt8m.fit(
        model="ResidualMlpModel", mlp_hidden_size=4, train_data_pattern=records, train_dir=run, max_steps=2
    )  # fmt: skip
    bad.write_bytes(b"nothing")
    words = [f"--model={run}", str(world.clips / "*/*.mp4"), str(bad), f"--features={tmp_path / 'x.npz'}"]
    assert cli.call("predict", words) == 1
    assert f"{bad}: " in capsys.readouterr().err
    arrays = np.load(tmp_path / "x.npz")
    with yt8m.load(run) as model:
        ids, vectors = model.embeddings(records)
    found = {pathlib.Path(path).stem: vector for path, vector in zip(arrays["id"], arrays["features"], strict=True)}
    assert len(found) == 12
    for video_id, vector in zip(ids, vectors, strict=True):
        np.testing.assert_allclose(found[pathlib.Path(video_id).stem], vector, rtol=1e-3, atol=1e-4)


def scores_in(told: str) -> dict[str, float]:
    return {name: float(score) for score, name in re.findall(r"^(\d\.\d+)  (\w+)", told, re.MULTILINE)}


def test_several_videos_as_a_table_and_a_bad_one(
    world: World, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"nothing")
    words = [f"--model={world.run('video')}", str(world.clips / "disc" / "*.mp4"), str(bad), "--top_k=2"]
    assert cli.call("predict", [*words, f"--csv={tmp_path / 'tags.csv'}"]) == 1
    assert f"{bad}: it is damaged" in capsys.readouterr().err
    with open(tmp_path / "tags.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [pathlib.Path(row["path"]).parent.name for row in rows] == ["disc"] * 8
    with yt8m.load(world.run("video")) as model:
        expected = model.predict_video(rows[0]["path"], top_k=2).classes
        with pytest.raises(RunError, match=r"bad\.mp4: it is damaged"):
            model.predict_video(bad)
    assert [(row["name"], int(row["index"])) for row in rows[:2]] == [(one.name, one.index) for one in expected]
    assert [float(row["score"]) for row in rows[:2]] == pytest.approx([one.score for one in expected], abs=1e-4)


def test_a_folder_of_videos(world: World, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world.clips / "disc" / "._2.mp4").write_bytes(b"Mac OS X")
    words = [f"--model={world.run('video')}", "--top_k=1"]
    assert cli.call("predict", [*words, str(world.clips), f"--out={tmp_path / 'folder.csv'}"]) == 0
    assert "1 hidden file" in capsys.readouterr().err
    assert cli.call("predict", [*words, f"--videos={world.clips}/*/*.mp4", f"--out={tmp_path / 'files.csv'}"]) == 0
    assert (tmp_path / "folder.csv").read_text() == (tmp_path / "files.csv").read_text()
    with open(tmp_path / "folder.csv", newline="") as file:
        paths = {row["id"]: row["path"] for row in csv.DictReader(file)}
    with yt8m.load(world.run("video")) as model:  # the ids of the records that extract made of the folder
        assert set(paths) == {video.id for video in model.predict(f"{world.data}/video/train/*.tfrecord")}
    assert paths == {name: str(world.clips / name) for name in paths}
    capsys.readouterr()
    assert cli.call("predict", [*words, f"{world.clips}/disc", "--json"]) == 0
    files = sorted(str(path) for path in (world.clips / "disc").glob("[0-9]*.mp4"))
    names = [pathlib.Path(path).name for path in files]
    assert [video["id"] for video in json.loads(capsys.readouterr().out)] == names
    assert cli.call("predict", [*words, *files, "--json"]) == 0  # as a shell writes a pattern
    assert [(video["id"], video["path"]) for video in json.loads(capsys.readouterr().out)] == [(x, x) for x in files]
    assert cli.call("predict", [*words, str(world.data / "video" / "train"), "--json"]) == 0  # a folder of records
    assert {video["id"] for video in json.loads(capsys.readouterr().out)} <= set(paths)


@pytest.mark.heavy
@pytest.mark.parametrize("level", ["video", "frame"])
def test_a_long_video_is_scored_in_windows_weighted_by_their_frames(
    world: World, level: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film = made_videos.write(tmp_path / "film.mp4", made_videos.shape("disc", seed=1), made_videos.tone("disc", 1), 7.0)
    run = shutil.copytree(world.run(level), tmp_path / "run", ignore=shutil.ignore_patterns("export"))
    config = (run / "config.json").read_text()
    (run / "config.json").write_text(config.replace('"max_frames": 300', '"max_frames": 3'))
    assert '"max_frames": 3,' in (run / "config.json").read_text()
    extractors = ["own_extractors:Bands", f"onnx:{world.colour}"]
    arrays = yt8m.extract(film, extractors=extractors, picture_size=16)
    (bands, colours), prefix = arrays.values(), "" if level == "frame" else "mean_"
    names = [f"{prefix}{name}" for name in arrays]
    colours = data_format.dequantized(
        data_format.quantized(colours, (-9, 9)), (-9, 9)
    )  # as the frame records hold them
    assert len(bands) == len(colours) == 7
    windows = [(0, 3), (3, 6), (6, 7)]
    with yt8m.load(run) as model:
        scores = []
        for first, last in windows:
            rows = [array[np.newaxis, first:last] for array in (bands, colours)]
            rows = rows if level == "frame" else [array.mean(axis=1) for array in rows]
            (window,) = model.predict(dict(zip(names, rows, strict=True)), top_k=3)
            scores.append({one.name: one.score for one in window.classes})
        expected = {
            name: np.average([one[name] for one in scores], weights=[last - first for first, last in windows])
            for name in scores[0]
        }
        found = model.predict_video(film, top_k=3, trust_code=True, tags_of="whole")
    assert found.seconds == pytest.approx(7.0, abs=0.1)
    assert {one.name: one.score for one in found.classes} == pytest.approx(expected, abs=1e-4)
    words = [f"--model={run}", film, "--trust_code", "--tags_of=whole"]
    assert cli.call("predict", words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{film}: {found.seconds:.1f} seconds scored as a whole\n")
    assert scores_in(printed) == pytest.approx({one.name: one.score for one in found.classes}, abs=6e-4)
    assert cli.call("predict", [*words, f"--csv={tmp_path}/film.csv"]) == 0
    with open(tmp_path / "film.csv", newline="") as file:
        assert [row["seconds"] for row in csv.DictReader(file)] == [f"{found.seconds:.1f}"] * 3


def test_other_weights_are_refused(world: World, tmp_path: pathlib.Path) -> None:
    video, other = str(next(world.clips.rglob("*.mp4"))), tmp_path / "other.onnx"
    content = pathlib.Path(world.colour).read_bytes()
    other.write_bytes(content.replace(stand_ins.PROJECTION.tobytes(), (2 * stand_ins.PROJECTION).tobytes()))
    words = [f"--model={world.run('video')}", video]
    with pytest.raises(UsageError, match=r"whose onnx_file has the sha256 \w{64}; .*other\.onnx has \w{64}"):
        cli.call("predict", [*words, f"--onnx_file={other}"])
    moved = shutil.copy(world.colour, tmp_path / "moved.onnx")
    assert cli.call("predict", [*words, f"--onnx_file={moved}"]) == 0


def test_run_and_archive_name_the_extractors_of_the_manifest(world: World) -> None:
    (path,) = (world.data / "video").glob("*/manifest.json")
    expected = [dict(one) for one in manifest.read(str(path)).extractors]
    kept = json.loads(pathlib.Path(world.run("video"), "config.json").read_text())["config"]["data"]["extractors"]
    assert kept == expected
    assert expected[1]["settings"]["picture_size"] == 16
    assert expected[1]["range"] == [-9.0, 9.0]
    assert len(expected[1]["weights"]["onnx_file"]) == 64


def takes(*extractors: Any) -> ModelInput:
    described = DataFormat("video", (FeatureFormat("mean_rgb", 1024),))
    return ModelInput("runs/theirs", described, extractors, is_own=False, has_own_reader=False)


def test_models_without_extractors_need_names(world: World, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"does not say.* mean_rgb\b.*--extractors"):
        video_features.for_model(takes(), {})
    with pytest.raises(UsageError, match=r"feature mean_rgb\b.* only bands\b.*--extractors"):
        video_features.for_model(takes(), {}, ["own_extractors:Bands"])
    paths = {**stand_ins.write_inception(tmp_path)}
    video = str(next(world.clips.rglob("*.mp4")))
    with video_features.for_model(takes(), paths, ["inception"]) as source:
        ((_, found),) = source.extract_features([video])
        batch = source.batch(takes(), found.arrays, [(0, len(found.arrays[0]))])
    assert batch.features["mean_rgb"].shape == (1, 1024)
    assert np.abs(batch.features["mean_rgb"]).max() <= 2.01  # as the bytes of YouTube-8M


def test_a_saved_model_that_a_foreign_run_names_needs_trust(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_saved_model(tmp_path / "theirs")
    entry = {
        "name": f"saved_model:{path}", "feature": "rgb", "range": None, "frames_per_second": 1.0, "max_frames": 300,
        "settings": {}, "weights": {"saved_model_dir": "0" * 64},
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"SavedModel, saved_model:.*--trust_code"):
        video_features.for_model(takes(entry), {})
    with pytest.raises(UsageError, match="whose saved_model_dir has the sha256 000"):
        video_features.for_model(takes(entry), {}, trust_code=True)


def test_an_extractor_of_a_package_needs_no_trust_but_the_package(packages: Packages) -> None:
    code = "from own_extractors import Bands\n\n\nclass AcmeBands(Bands):\n    feature = 'rgb'\n"
    packages.install("acme-sounds", "[yt8m.extractors]\nAcmeBands = acme_bands:AcmeBands\n", "acme_bands", code)
    located = locate(choose(["AcmeBands", "own_extractors:Colours"], {}))
    entry, other = describe_extractors(located, [None, None], Settings())
    assert (entry["package"], "package" in other) == ("acme-sounds", False)
    with video_features.for_model(takes(entry), {}) as source:
        assert source.entries == [entry]
    packages.uninstall_all()
    with pytest.raises(UsageError) as caught:
        video_features.for_model(takes(entry), {})
    expected = "runs/theirs names the extractor 'AcmeBands' of the package acme-sounds, which is not installed here"
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{video}", "{shard}"], "videos only, .*records only"),
        (["{shard}", "--timeline"], "--timeline is for video files"),
        (["{shard}", "--picture_size=8"], "--picture_size is for video files"),
        (["{shard}", "--extractors=inception"], "--extractors is for video files"),
        (["{video}", "--tags"], "has no thresholds.csv"),
    ],
)
def test_wrong_usage(world: World, words: list[str], told: str) -> None:
    video, (shard,) = next(world.clips.rglob("*.mp4")), (world.data / "video").glob("*/*.tfrecord")
    with pytest.raises(UsageError, match=told):
        cli.call(
            "predict", [f"--model={world.run('video')}", *(word.format(video=video, shard=shard) for word in words)]
        )


def test_features_from_python(world: World) -> None:
    video = next(world.clips.rglob("*.mp4"))
    found = yt8m.extract(video, extractors=["own_extractors:Bands"], frames_per_second=2, max_frames=4)
    assert {name: values.shape for name, values in found.items()} == {"bands": (4, 8)}
    with pytest.raises(UsageError, match=r"missing\.mp4: .*no such file"):
        yt8m.extract("missing.mp4", extractors=["own_extractors:Bands"])
    with pytest.raises(UsageError, match=r"own_extractors:Bands .*such a setting"):
        yt8m.extract(video, extractors=["own_extractors:Bands"], picture_size=3)
