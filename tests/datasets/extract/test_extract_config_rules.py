"""Records keep the version of the rules of ids, rows and times with which they were made."""

from __future__ import annotations

import json
import pathlib
import shutil

import made_videos
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.extractors import sampling_rules
from yt8m.extractors.published_features import Inception, Vggish
from yt8m.records import manifest, shards

USUAL = ("--labels=folder", "--extractors=own_extractors:Colours", "--splits=train:1", "--shards=1", "--jobs=1")


@pytest.fixture
def clips(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "clips"
    (folder / "disc").mkdir(parents=True)
    made_videos.write(folder / "disc" / "a.mp4", made_videos.shape("disc"), None, 2.0)
    made_videos.write(folder / "disc" / "b.mp4", made_videos.shape("disc", seed=1), None, 3.0)
    return folder


def extract(clips: pathlib.Path, out: pathlib.Path, *words: str) -> None:
    assert cli.call("extract", [f"--videos={clips}", f"--out={out}", *USUAL, *words]) == 0


def rows(out: pathlib.Path, level: str = "frame") -> dict[str, int]:
    """{id of a video: number of its rows}."""
    (path,) = (out / level).glob("train/*.tfrecord")
    records = map(shards.parse, shards.read_shard(str(path)))
    return {one.id().decode(): len(one.lists["colours"]) for one in records}


def sampling(out: pathlib.Path, level: str = "frame") -> str | None:
    (entry,) = manifest.read(str(out / level / "train" / "manifest.json")).extractors
    return entry.get("sampling")


@pytest.mark.heavy
def test_records_keep_their_rules_and_new_ones_have_the_newest(clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    extract(clips, new)
    assert (rows(new), sampling(new)) == ({"disc/a.mp4": 2, "disc/b.mp4": 3}, "whole-3")
    extract(clips, old, "--rules=1", "--level=frame")
    assert (rows(old), sampling(old)) == ({"a.mp4": 3, "b.mp4": 4}, None)  # as earlier versions made them
    before = (old / "frame" / "summary.json").stat().st_mtime_ns
    extract(clips, old)  # adds a level
    assert (old / "frame" / "summary.json").stat().st_mtime_ns == before
    assert sampling(old, "video") is None
    for folder, made, version in ((old, 1, 2), (old, 1, 3), (new, 3, 1), (new, 3, 2)):
        with pytest.raises(UsageError, match=rf"--rules={version}: .* version {made} of"):
            extract(clips, folder, f"--rules={version}")
        with pytest.raises(UsageError, match=rf"--rules={version}"):  # the other level would stay
            extract(clips, folder, f"--rules={version}", "--level=video", "--overwrite")
    extract(clips, old, "--rules=2", "--overwrite")
    assert sampling(old) == sampling(old, "video") == "whole-2"
    shutil.rmtree(old / "video")
    extract(clips, old)  # adds the level by the rule of the other one
    assert sampling(old, "video") == "whole-2"


def test_records_of_two_rules_are_no_training_data(clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for version in (1, 2, 3):
        extract(clips, tmp_path / str(version), f"--rules={version}", "--level=frame")
    pattern = f"{tmp_path}/[12]/frame/train/*.tfrecord"
    with pytest.raises(RunError, match=r"by the rule nearest-1, and .* by the rule whole-2.*--rules=N"):
        yt8m.fit(train_data_pattern=pattern, train_dir=str(tmp_path / "run"), model="FrameLevelLogisticModel")
    with pytest.raises(RunError, match=r"by the rule whole-2, and .* by the rule whole-3"):
        manifest.find([str(path) for path in tmp_path.glob("[23]/frame/train/*.tfrecord")])
    for earlier in ("1", "2"):
        shutil.rmtree(tmp_path / earlier)
    assert manifest.find([str(path) for path in tmp_path.glob("*/frame/train/*.tfrecord")]).extractors


def test_a_rule_of_a_later_version_is_refused(clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    extract(clips, tmp_path / "data")
    for path in (tmp_path / "data").glob("*/train/manifest.json"):
        path.write_text(path.read_text().replace('"whole-3"', '"whole-9"'))
    with pytest.raises(UsageError, match=r"'whole-9'.*newer"):
        extract(clips, tmp_path / "data")


def test_published_features_keep_the_rule_of_mediapipe() -> None:
    assert Inception.sampling == Vggish.sampling == sampling_rules.PUBLISHED
    usual = [sampling_rules.WHOLE, sampling_rules.PUBLISHED]
    assert sampling_rules.rule_of(3, usual) == sampling_rules.PUBLISHED == "published-3"
    assert sampling_rules.rule_of(3, usual[:1]) == sampling_rules.WHOLE == "whole-3"
    assert sampling_rules.rule_of(3, ["whole-2"]) == "whole-3"  # an extractor of one's own that names an earlier rule
    assert [sampling_rules.rule_of(2, usual), sampling_rules.rule_of(2, usual[:1])] == ["published-2", "whole-2"]
    assert sampling_rules.rule_of(1, usual) == sampling_rules.EARLIER
    assert {sampling_rules.version_of(name) for name in sampling_rules.RULES} == {1, 2, 3}


@pytest.mark.heavy
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_run_keeps_the_rule_of_its_data(clips: pathlib.Path, tmp_path: pathlib.Path, version: int) -> None:
    """A film of 2 seconds: its row at second 2 belongs to the features of a run with the earlier rule only."""
    extract(clips, tmp_path / f"data{version}", f"--rules={version}", "--level=video")
    run = str(tmp_path / f"run{version}")
    yt8m.fit(
        train_data_pattern=f"{tmp_path}/data{version}/video/train/*.tfrecord",
        train_dir=run, model="LogisticModel", batch_size=2, max_steps=1,
    )  # fmt: skip
    config = json.loads((pathlib.Path(run) / "config.json").read_text())
    (entry,) = config["config"]["data"]["extractors"]
    assert entry.get("sampling") == (None if version == 1 else f"whole-{version}")
    with yt8m.load(run) as model:
        (expected, _) = model.predict(f"{tmp_path}/data{version}/video/train/*.tfrecord", top_k=1)
        found = model.predict_video(clips / "disc" / "a.mp4", top_k=1)
    assert found.classes[0].score == pytest.approx(expected.classes[0].score, rel=1e-5)


@pytest.mark.heavy
def test_damaged_packets_are_tolerated_if_the_flag_says_so(
    clips: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import av

    path = clips / "disc" / "a.mp4"
    with av.open(str(path)) as container:
        packet = [one for one in container.demux(video=0) if one.size][7]
        place, size = packet.pos, packet.size
    content = bytearray(path.read_bytes())
    content[place : place + size] = b"\xff" * size
    path.write_bytes(content)
    with pytest.raises(RunError, match="1 of 2 videos are bad"):
        extract(clips, tmp_path / "data")
    extract(clips, tmp_path / "data", "--max_bad_packets=1")
    assert "1 video: damaged packets: 1" in capsys.readouterr().out
    assert rows(tmp_path / "data") == {"disc/a.mp4": 2, "disc/b.mp4": 3}
    with pytest.raises(RunError, match="it is damaged"):
        yt8m.extract(path, extractors=["own_extractors:Colours"])
    assert len(yt8m.extract(path, extractors=["own_extractors:Colours"], max_bad_packets=1)["colours"]) == 2
