"""Sample data read back by TensorFlow: formats, statistics, repeatability."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from datasets.sample_data.sample_shards import dequantized, read_frames, read_split

from yt8m import storage
from yt8m.command_line import cli
from yt8m.datasets.sample_data import SampleConfig, generate, synthetic_videos
from yt8m.errors import UsageError
from yt8m.records import manifest, vocabulary

SMALL = {"train": 20, "validate": 7, "test": 5, "shards": 3}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sample")
    generate(SampleConfig(str(folder), "all", **SMALL))
    return folder


def test_files_have_the_documented_names(written: pathlib.Path) -> None:
    names = sorted(str(path.relative_to(written)) for path in written.rglob("*") if path.is_file())
    splits = ("test", "train", "validate")
    shards = [
        f"{level}/{split}/{name}"
        for level in ("frame", "segment", "video")
        for split in splits
        for name in ("manifest.json", *(f"{split}{shard:04d}.tfrecord" for shard in range(3)))
    ]
    assert names == sorted([*shards, "vocabulary.csv"])


def test_the_manifests_say_what_the_shards_hold(written: pathlib.Path) -> None:
    """`yt8m verify` confirms the numbers of records and bytes; the format is compared with the generated records."""
    for folder in (path.parent for path in written.rglob("manifest.json")):
        shards = sorted(map(str, folder.glob("*.tfrecord")))
        assert cli.call("verify", [*shards, f"--manifest={folder}/manifest.json"]) == 0
        found = manifest.read(f"{folder}/manifest.json")
        assert len(found.shards) == 3
        assert found.data is not None
        level, split = folder.parts[-2:]
        is_video = level == "video"
        sizes = {one.name: (one.size, one.range) for one in found.data.features}
        bounds = None if is_video else (-2.0, 2.0)
        names = ("mean_rgb", "mean_audio") if is_video else ("rgb", "audio")
        assert sizes == {names[0]: (1024, bounds), names[1]: (128, bounds)}
        assert found.data.level == ("video" if is_video else "frame")
        assert found.data.segment_labels == (level == "segment" and split != "test")
        assert (found.data.num_classes, found.data.max_frames) == (3862, None if is_video else 300)


def test_video_level_format(written: pathlib.Path) -> None:
    examples = read_split(written, "video", "train")
    assert len(examples) == 20
    for example in examples:
        features = example.features.feature
        assert set(features) == {"id", "labels", "mean_rgb", "mean_audio"}
        assert len(features["id"].bytes_list.value[0]) == 4
        assert len(features["mean_rgb"].float_list.value) == 1024
        assert len(features["mean_audio"].float_list.value) == 128
        labels = list(features["labels"].int64_list.value)
        assert labels == sorted(set(labels))
        assert 0 <= labels[0] <= labels[-1] < 3862


def test_frame_level_format(written: pathlib.Path) -> None:
    for example in read_split(written, "frame", "validate"):
        assert set(example.context.feature) == {"id", "labels"}
        lists = example.feature_lists.feature_list
        assert set(lists) == {"rgb", "audio"}
        assert 120 <= len(lists["rgb"].feature) == len(lists["audio"].feature) <= 300
        assert {len(frame.bytes_list.value[0]) for frame in lists["rgb"].feature} == {1024}
        assert {len(frame.bytes_list.value[0]) for frame in lists["audio"].feature} == {128}


def test_the_test_split_has_no_labels(written: pathlib.Path) -> None:
    for example in read_split(written, "video", "test"):
        assert set(example.features.feature) == {"id", "mean_rgb", "mean_audio"}
    for level in ("frame", "segment"):
        assert all(set(e.context.feature) == {"id"} for e in read_split(written, level, "test"))


def test_ids_are_unique(written: pathlib.Path) -> None:
    ids = [
        example.features.feature["id"].bytes_list.value[0]
        for split in ("train", "validate", "test")
        for example in read_split(written, "video", split)
    ]
    assert len(set(ids)) == len(ids) == 32
    many = {video.id for split in range(3) for video in synthetic_videos.videos(0, split, 5000, 10)}
    assert len(many) == 15_000


def test_video_level_is_the_mean_of_the_frames(written: pathlib.Path) -> None:
    """Both levels have the same videos. The mean differs a little by noise, and because extreme values are clipped."""
    pairs = zip(read_split(written, "video", "train"), read_split(written, "frame", "train"), strict=True)
    for video, frame in pairs:
        features, context = video.features.feature, frame.context.feature
        assert features["id"] == context["id"]
        assert features["labels"] == context["labels"]
        mean = dequantized(read_frames(frame)).mean(axis=0)
        given = np.array([*features["mean_rgb"].float_list.value, *features["mean_audio"].float_list.value])
        inner = np.abs(given) < 1
        assert np.abs(mean - given)[inner].mean() < 0.05
        assert np.corrcoef(mean, given)[0, 1] > 0.99


def test_segments_are_rated_for_what_they_show(written: pathlib.Path) -> None:
    looks, _ = synthetic_videos.prototypes()
    shown, absent = [], []
    for example in read_split(written, "segment", "train"):
        context = dict(example.context.feature)
        starts = context["segment_start_times"].int64_list.value
        ends = context["segment_end_times"].int64_list.value
        classes = context["segment_labels"].int64_list.value
        scores = context["segment_scores"].float_list.value
        frames = dequantized(read_frames(example))
        assert 5 <= len(starts) == len(ends) == len(classes) == len(scores) <= 7
        assert set(scores) == {0.0, 1.0}
        assert set(classes) <= set(context["labels"].int64_list.value)
        assert np.isin(list(classes), vocabulary.segment_classes()).all()
        for start, end, label, score in zip(starts, ends, classes, scores, strict=True):
            assert end == start + 5 <= len(frames)
            look = looks[label] / np.linalg.norm(looks[label])
            difference = (frames[start:end].mean(axis=0) - frames.mean(axis=0)) @ look
            (shown if score else absent).append(difference)
    assert min(shown) > max(absent)


def all_bytes(folder: pathlib.Path) -> dict[str, bytes]:
    """{level/split: the bytes of all its shards, one after another}."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*.tfrecord")):
        key = str(path.parent.relative_to(folder))
        found[key] = found.get(key, b"") + path.read_bytes()
    return found


@pytest.mark.parametrize("level", ["video", "frame", "segment"])
def test_videos_depend_on_the_seed_and_not_on_the_number_of_videos(
    written: pathlib.Path, tmp_path: pathlib.Path, level: str
) -> None:
    sizes: dict[str, Any] = {**SMALL, "shards": 1, "train": 12}
    generate(SampleConfig(str(tmp_path / "again"), level, **sizes))
    generate(SampleConfig(str(tmp_path / "other"), level, **sizes, seed=1))
    before, again, other = all_bytes(written), all_bytes(tmp_path / "again"), all_bytes(tmp_path / "other")
    assert again[f"{level}/validate"] == before[f"{level}/validate"]
    assert before[f"{level}/train"].startswith(again[f"{level}/train"])
    assert other[f"{level}/validate"] != before[f"{level}/validate"]


def test_classes_have_the_frequencies_of_youtube8m() -> None:
    count = 30_000
    labels = np.concatenate([video.labels for video in synthetic_videos.videos(0, 0, count, 3862)])
    assert 2.9 < len(labels) / count < 3.1
    expected = vocabulary.load().counts / vocabulary.load().counts.sum()
    found = np.bincount(labels, minlength=3862) / len(labels)
    # A class drawn twice for a video counts once, which takes a little from the most frequent ones.
    np.testing.assert_allclose(found[:20], expected[:20], rtol=0.15)
    assert np.corrcoef(found, expected)[0, 1] > 0.999


def test_labels_and_ratings_with_few_classes() -> None:
    for number in (1, 2, 3, 25):
        for video in synthetic_videos.videos(0, 0, 50, number, segments=True):
            assert 1 <= len(video.labels) <= number
            assert video.labels.max() < number
            for event_frames in (0, 3, 7):
                shown = synthetic_videos.shown_in_segments(synthetic_videos.activity(video, event_frames))
                assert len(synthetic_videos.ratings(video, shown, number)) >= 5


def test_videos_of_few_frames_show_as_many_decoys_as_they_have_segments() -> None:
    lengths = set()
    for video in synthetic_videos.videos(0, 0, 40, 40, True, (10, 20)):
        shown = synthetic_videos.decoys(video, 40)
        lengths.add(video.num_frames)
        segments = video.num_frames // synthetic_videos.SEGMENT * synthetic_videos.SEGMENT
        assert shown[:segments].any(axis=1).all()
        assert not shown[segments:].any()
    assert min(lengths) < 12 < 18 < max(lengths)


def test_temporal_classes_differ_only_in_the_order_of_frames_or_in_single_frames() -> None:
    """Classes 0 and 1 have the same mean, but their halves in opposite order; class 2 shows in four of 200 frames."""
    looks, _ = synthetic_videos.prototypes()
    label = synthetic_videos.Video(
        (0, 0, 0), np.array([0]), np.float32([1]), 200, np.zeros(synthetic_videos.SIZE, np.float32)
    )
    first = dequantized(synthetic_videos.frames(label, temporal=True))
    pair = synthetic_videos.Video((0, 0, 0), np.array([1]), np.float32([1]), 200, label.offset)
    second = dequantized(synthetic_videos.frames(pair, temporal=True))
    assert np.corrcoef(first.mean(axis=0), second.mean(axis=0))[0, 1] > 0.99
    assert np.corrcoef(first[:100].mean(axis=0), second[:100].mean(axis=0))[0, 1] < 0.5
    flash = synthetic_videos.Video((0, 0, 0), np.array([2]), np.float32([1]), 200, label.offset)
    along = dequantized(synthetic_videos.frames(flash, temporal=True)) @ looks[2]
    assert (np.sort(along)[-4:] > 3 * np.sort(along)[-5]).all()


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "--out is missing"),
        (["--out_dir=x", "--train=-1"], r"train .*at least 0\b"),
        (["--out_dir=x", "--train=1e3"], "--train"),
        (["--out_dir=x", "--num_classes=3863"], "at most 3862"),
        (["--out_dir=x", "--shards=0"], "^--shards must be at least 1; it is 0"),
        (["--out_dir=x", "--seed=-2"], "^--seed must be"),
        (["--out_dir=x", "--level=vidoe"], "did you mean video"),
        (["--out_dir=x", "--trian=3"], "did you mean --train"),
        (["--out_dir=x", "--seed=1", "--seed=2"], "twice"),
        (["--out_dir=x", "stray"], "stray"),
        (["--out_dir=s3://b/x"], "s3://"),
    ],
)
def test_wrong_flags_are_refused(
    argv: list[str], text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=text):
        cli.call("sample-data", argv)
    assert list(tmp_path.iterdir()) == []


def test_shards_of_another_run_are_not_mixed_in(tmp_path: pathlib.Path) -> None:
    generate(SampleConfig(str(tmp_path), train=4, validate=0, test=0, shards=4))
    with pytest.raises(UsageError, match=r"train0002.tfrecord already exists"):
        generate(SampleConfig(str(tmp_path), train=4, validate=0, test=0, shards=2))
    generate(SampleConfig(str(tmp_path), train=4, validate=0, test=0, shards=4, seed=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["video", "vocabulary.csv"]


@pytest.mark.heavy
def test_the_command_does_not_import_tensorflow(tmp_path: pathlib.Path) -> None:
    code = (
        "import sys; from yt8m.command_line import cli; status = cli.call('sample-data', sys.argv[1:]);"
        "print('tensorflow' in sys.modules); sys.exit(status)"
    )
    words = [f"--out_dir={tmp_path}", "--train=3", "--validate=1", "--test=1"]
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert "generated sample data (no YouTube-8M videos)" in ended.stdout
    assert f"--train_data_pattern='{tmp_path}/video/train/*.tfrecord'" in ended.stdout
    assert ended.stdout.endswith("False\n")
    assert "video train: 3 sample videos" in ended.stderr


def test_no_command_to_train_is_printed_without_training_videos(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.call("sample-data", [f"--out={tmp_path}", "--train=0", "--validate=1", "--test=0"]) == 0
    assert capsys.readouterr().out == f"Wrote generated sample data (no YouTube-8M videos) into {tmp_path}.\n"


def test_the_printed_command_finds_the_records_whatever_the_folder_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "Ann's data [1]"
    assert cli.call("sample-data", [f"--out={folder}", "--train=3", "--validate=0", "--test=0", "--shards=1"]) == 0
    (word,) = [
        word for word in shlex.split(capsys.readouterr().out.partition("Train on it by")[2]) if "pattern" in word
    ]
    assert storage.glob(word.partition("=")[2]) == [f"{folder}/video/train/train0000.tfrecord"]


def test_help_lists_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.call("sample-data", ["--help"])
    assert "--num_classes" in capsys.readouterr().out
