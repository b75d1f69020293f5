"""Features that are computed from clips, together with those from pictures and sound; a video is decoded once."""

from __future__ import annotations

import pathlib
from typing import Any

import made_videos
import numpy as np
import own_extractors
import pytest
import stand_ins

import yt8m
from yt8m import storage
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.extractors import decoder_pool
from yt8m.extractors.decoding import Request, decode
from yt8m.records import shards

AXES: dict[str, tuple[Any, ...]] = {"pictures": (3, 8, 8), "clips": (4, 3, 8, 8)}
NAMES = [f"own_extractors:{name}" for name in ("Colours", "Motion", "Bands")]


def motion(path: pathlib.Path, per_second: float = 1.0) -> np.ndarray:
    """The expected feature `motion` of each row, computed from the pictures of the whole video at 10 per second."""
    messages = [one for one in decode(Request(str(path), 10.0, 3000, pictures=(None,))) if one.values is not None]
    pictures = np.stack([one.values for one in messages])  # type: ignore[misc]
    rows = [one for one in decode(Request(str(path), per_second, pictures=(None,))) if one.values is not None]
    middles = [10 * int(np.ceil(one.row / per_second - 0.5)) for one in rows]
    places = [np.clip([middle - 3, middle - 1, middle + 1, middle + 3], 0, len(pictures) - 1) for middle in middles]
    return own_extractors.compute(own_extractors.Motion(), pictures[np.array(places)])


def test_a_record_has_features_of_clips_pictures_and_sound(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, requests = decoder_pool._Child.begin, list[Request]()
    monkeypatch.setattr(decoder_pool._Child, "begin", lambda *words: (requests.append(words[1]), begin(*words))[1])
    made_videos.write_kinds(tmp_path, 3)
    words = [f"--videos={tmp_path}", "--labels=folder", f"--out={tmp_path}/data", f"--extractors={','.join(NAMES)}"]
    assert cli.call("extract", [*words, "--splits=train:1", "--jobs=1"]) == 0
    assert len(requests) == 3
    paths = storage.glob(f"{tmp_path}/data/frame/train/*.tfrecord")
    records = [shards.parse(record) for shard in paths for record in shards.read_shard(shard)]
    assert len(records) == 3
    for record in records:
        lists: dict[str, Any] = {
            name: np.array([list(one.values()) for one in record.lists[name]], np.float32) for name in record.lists
        }
        expected = motion(tmp_path / record.id().decode())
        np.testing.assert_allclose(lists["motion"], expected, rtol=1e-5, atol=1e-6)
        assert len(lists["colours"]) == len(lists["bands"]) == len(expected) >= 2


def test_each_frame_gets_the_nearest_clip_at_other_rates(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.shape("disc"), None, 3.4)
    values = yt8m.extract(path, extractors=NAMES[1:2], frames_per_second=2.5)["motion"]
    np.testing.assert_allclose(values, motion(pathlib.Path(path), 2.5), rtol=1e-5, atol=1e-6)


def test_a_video_without_pictures_has_zeros(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mkv", None, made_videos.tone("disc"), 2.4)
    features = yt8m.extract(path, extractors=NAMES[1:])
    assert features["motion"].shape == (2, 7)
    assert not features["motion"].any()


def test_an_onnx_model_that_takes_clips(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, None, 4.0)
    model = stand_ins.write_onnx(tmp_path / "video.onnx", axes=(4, 3, 8, 8))
    settings = {"picture_size": 8, "clip_rate": 5.0, "mean": (0.0,) * 3, "deviation": (1.0,) * 3}
    values = yt8m.extract(path, extractors=[f"onnx:{model}"], **settings)["video"]
    grey = motion(pathlib.Path(path))[:, :4].mean(axis=1, keepdims=True) * np.ones((1, 3)) @ stand_ins.PROJECTION
    np.testing.assert_allclose(values, grey, atol=0.02)


def test_settings_of_clips_are_refused_if_no_extractor_takes_clips(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, None, 1.0)
    names = [f"onnx:{stand_ins.write_onnx(tmp_path / f'{name}.onnx', axes=axes)}" for name, axes in AXES.items()]
    with pytest.raises(UsageError, match=r"clip_hop=2\.0 .*no effect: pictures .*from pictures, not"):
        yt8m.extract(path, extractors=names[:1], picture_size=8, clip_hop=2.0)
    assert set(yt8m.extract(path, extractors=names, picture_size=8, clip_hop=2.0)) == set(AXES)


@pytest.mark.heavy
def test_where_no_video_can_be_decoded_the_first_one_ends_the_work(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--max_bad_videos would let each video be left out, with a reason that is none."""
    (tmp_path / "clips").mkdir()
    made_videos.write_kinds(tmp_path / "clips", 1)
    (tmp_path / "av.py").write_text(made_videos.FAILING_AV)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [f"--videos={tmp_path}/clips", "--labels=folder", f"--out={tmp_path}/data", f"--extractors={NAMES[0]}"]
    with pytest.raises(RunError, match=r"no video .*decoded here: .*TypeError: open\(\)"):
        cli.call("extract", [*words, "--jobs=1", "--max_bad_videos=1000"])
    (video, *_) = (str(path) for path in (tmp_path / "clips").rglob("*.mp4"))
    with pytest.raises(RunError, match=r"no video .*decoded here: .*TypeError: open\(\)"):
        yt8m.extract(video, extractors=NAMES[:1])
