"""What a training takes from its data, what it leaves at the published defaults, and which flags it refuses."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m.command_line import flags
from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.config.data_fit import Takes
from yt8m.errors import UsageError
from yt8m.records import manifest, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.opened_data import open_data
from yt8m.records.vocabulary import Vocabulary

CLIP, SOUND = FeatureFormat("clip", 16), FeatureFormat("a_sound", 4)
NAMES = {"id": [b"a"], "labels": [1]}
CLIPS = video_record(**NAMES, clip=np.zeros(16), a_sound=np.zeros(4))
FRAMES = frame_record(NAMES, {"clip": np.zeros([3, 16], np.uint8), "a_sound": np.zeros([3, 4], np.uint8)})
PUBLISHED = video_record(**NAMES, mean_rgb=np.zeros(1024), mean_audio=np.zeros(128), extra=np.zeros(3))
PUBLISHED_FRAMES = frame_record(NAMES, {"rgb": np.zeros([3, 1024], np.uint8), "audio": np.zeros([3, 128], np.uint8)})

Make = Callable[..., str]


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="absl")


@pytest.fixture
def shard(tmp_path: pathlib.Path) -> Make:
    """Writes a shard of one record, and a manifest if there is a format; returns the flag that names it."""

    def make(record: bytes, said: DataFormat | None = None) -> str:
        path = write_shard(tmp_path / "a.tfrecord", [record])
        if said is not None:
            manifest.write(str(tmp_path / manifest.NAME), {path: manifest.Shard(1, 1, "")}, said)
        return f"--train_data_pattern={path}"

    return make


def data_of(*words: str) -> DataConfig:
    return flags.train_config(list(words)).data


def expected(pattern: str, **values: Any) -> DataConfig:
    return DataConfig(pattern.partition("=")[2], **values)


def test_without_a_flag_that_describes_them_the_records_describe_themselves(
    shard: Make, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    seen = shard(CLIPS)
    values = {"feature_names": ("a_sound", "clip"), "feature_sizes": (4, 16)}
    assert data_of(seen, "--num_classes=3") == expected(seen, **values, num_classes=3)
    line = f"taken from the data: video level, a_sound of 4, clip of 16 (the first record of {tmp_path}/a.tfrecord)"
    assert caplog.messages == [line]
    assert data_of(seen) == expected(seen, **values)
    assert re.fullmatch(rf"{re.escape(line)}; .* 3862 .*", caplog.messages[-1])
    said = shard(CLIPS, DataFormat("video", (CLIP, SOUND), num_classes=3))
    ordered = {"feature_names": ("clip", "a_sound"), "feature_sizes": (16, 4), "num_classes": 3}
    assert data_of(said) == expected(said, **ordered)
    assert caplog.messages[2:] == [
        f"taken from the data: video level, clip of 16, a_sound of 4, 3 classes ({tmp_path}/manifest.json)"
    ]
    (tmp_path / "other.json").write_text((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").unlink()
    named = f"--manifest={tmp_path}/other.json"
    assert data_of(said, named) == expected(said, **ordered, manifest=f"{tmp_path}/other.json")


def test_frames_segments_limits_and_the_ranges_of_bytes(shard: Make) -> None:
    model = "--model=FrameLevelLogisticModel"
    seen = shard(FRAMES)
    values: dict[str, Any] = {"feature_names": ("a_sound", "clip"), "feature_sizes": (4, 16), "frame_features": True}
    assert data_of(seen, model) == expected(seen, **values)
    own = DataFormat("frame", (SOUND, CLIP._replace(range=(-1.5, 3.0))), True, 3, 600)
    said = shard(FRAMES, own)
    values |= {"segment_labels": True, "num_classes": 3, "max_frames": 600, "feature_ranges": ((), (-1.5, 3.0))}
    assert data_of(said, model) == expected(said, **values)
    assert data_of(shard(FRAMES, own._replace(max_frames=3)), model).max_frames == 300
    said = shard(FRAMES, own)
    given = {"segment_labels": False, "max_frames": 50}
    words = ("--nosegment_labels", "--max_frames=50")
    assert data_of(said, model, *words) == expected(said, **{**values, **given})
    said = shard(FRAMES, own._replace(features=(SOUND._replace(range=(-2.0, 2.0)), CLIP._replace(range=(-2.0, 2.0)))))
    assert data_of(said, model).feature_ranges == ()  # as YouTube-8M's
    # A flag that describes the records does not change how their bytes are read.
    said = shard(FRAMES, own)
    words = ("--frame_features", "--feature_names=clip", "--feature_sizes=16")
    found = data_of(said, model, *words)
    assert (found.feature_ranges, found.segment_labels, found.max_frames) == (((-1.5, 3.0),), False, 300)


def test_own_features_of_a_video_in_bytes_keep_their_range(shard: Make) -> None:
    said = shard(CLIPS, DataFormat("video", (CLIP._replace(range=(0.0, 6.0)), SOUND)))
    assert data_of(said).feature_ranges == ((0.0, 6.0), ())


def test_the_published_defaults_hold_for_features_of_youtube8m(
    shard: Make, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    seen = shard(PUBLISHED)
    rgb = {"feature_names": ("mean_rgb",), "feature_sizes": (1024,)}
    both = {"feature_names": ("mean_rgb", "mean_audio"), "feature_sizes": (1024, 128)}
    assert data_of(seen) == expected(seen, **rgb)
    assert data_of(seen, "--feature_names=mean_rgb,mean_audio") == expected(seen, **both)
    said = shard(PUBLISHED, DataFormat("video", (FeatureFormat("mean_rgb", 1024), SOUND), False, 9, 8))
    assert data_of(said) == expected(said, **rgb)
    first = f"the first record of {tmp_path}/a.tfrecord"
    assert caplog.messages == [
        f"the data also have the features extra,mean_audio ({first}), which are not used; "
        "--feature_names=mean_rgb,extra,mean_audio uses all",
        f"the data also have the features extra ({first}), which are not used; "
        "--feature_names=mean_rgb,mean_audio,extra uses all",
        f"the data also have the features a_sound ({tmp_path}/manifest.json), which are not used; "
        "--feature_names=mean_rgb,a_sound uses all",
    ]


def test_the_sample_data_are_read_by_the_published_defaults() -> None:
    assert data_of() == DataConfig()


RGB_AUDIO, OF_VIDEOS = "--feature_names=rgb,audio", "--feature_names=mean_rgb,mean_audio,extra"
SIZES, ALL_SIZES = "--feature_sizes=1024,128", "--feature_sizes=1024,128,3"
ARE_FRAMES = "the records are frame-level ones with the features rgb,audio. Give"
ARE_VIDEOS = "the records are video-level ones with the features mean_rgb,mean_audio,extra. Give"
NO_FRAMES, NO_VIDEOS = (
    "a video-level --model, or name frame-level data.",
    "a frame-level --model, or name video-level data.",
)


@pytest.mark.parametrize(
    ("record", "words", "message"),
    [
        (PUBLISHED_FRAMES, "", f"{ARE_FRAMES} --frame_features {RGB_AUDIO} {SIZES} and {NO_VIDEOS}"),
        (PUBLISHED_FRAMES, f"--feature_names=mean_rgb,mean_audio {SIZES}",
         f"{ARE_FRAMES} --frame_features {RGB_AUDIO} and {NO_VIDEOS}"),
        (PUBLISHED_FRAMES, f"--feature_names=audio,rgb {SIZES}",
         f"{ARE_FRAMES} --frame_features --feature_sizes=128,1024 and {NO_VIDEOS}"),
        (PUBLISHED_FRAMES, "--frame_features --feature_names=mean_rgb", f"{ARE_FRAMES} {RGB_AUDIO} {SIZES}."),
        (PUBLISHED, "--frame_features", f"{ARE_VIDEOS} --noframe_features {OF_VIDEOS} {ALL_SIZES} and {NO_FRAMES}"),
        (PUBLISHED, f"--frame_features --feature_names=rgb,audio {SIZES}",
         f"{ARE_VIDEOS} --noframe_features {OF_VIDEOS} {ALL_SIZES} and {NO_FRAMES}"),
        (PUBLISHED, f"--feature_names=rgb,audio {SIZES}", f"{ARE_VIDEOS} {OF_VIDEOS} {ALL_SIZES}."),
    ],
)  # fmt: skip
def test_records_of_the_other_level_are_refused_with_all_the_flags_to_give(
    shard: Make, record: bytes, words: str, message: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        data_of(shard(record), *words.split())
    assert str(refusal.value).endswith(f"a.tfrecord {message}")


@pytest.mark.parametrize(
    ("record", "said", "words", "message"),
    [
        (CLIPS, False, "--frame_features", "--frame_features=true contradicts the data: according to the first record"),
        (CLIPS, True, "--frame_features", "Give --noframe_features --feature_names=clip,a_sound --feature_sizes=16,4"),
        (FRAMES, True, "--noframe_features", "name video-level data, or none of --feature_names, --feature_sizes"),
        (FRAMES, True, "--feature_names=clip --feature_sizes=16",
         "--frame_features=false (the default) contradicts the data"),
        (CLIPS, True, "--feature_names=clap", "--feature_names=clap contradicts the data: according to"),
        (CLIPS, True, "--feature_names=clap,clip", "Give --feature_names=clip,a_sound --feature_sizes=16,4, or"),
        (CLIPS, True, "--feature_names=clip", "--feature_names=clip needs --feature_sizes=16 too"),
        (CLIPS, False, "--feature_names=clip,a_sound", "--feature_names=clip,a_sound needs --feature_sizes=16,4 too"),
        (CLIPS, True, "--feature_sizes=8", "--feature_sizes=8 contradicts the data: according to"),
        (CLIPS, True, "--feature_sizes=16,4", "--feature_names=mean_rgb (the default) contradicts the data"),
        (CLIPS, True, "--feature_names=a_sound --feature_sizes=16", "it is 4. Give --feature_sizes=4, or none of"),
        (CLIPS, True, "--segment_labels", "--segment_labels=true contradicts the data"),
        (CLIPS, True, "--num_classes=4", "it is 3. Give --num_classes=3."),
        (PUBLISHED, False, "--feature_names=mean_rgb --feature_sizes=8", "it is 1024. Give --feature_sizes=1024."),
        (PUBLISHED_FRAMES, False, "--noframe_features", "--frame_features=false contradicts the data"),
        (FRAMES, True, "--model=LogisticModel", "takes one vector per video, but the data hold frames. Name data of"),
        (CLIPS, True, "--model=DbofModel", "takes frames, but the data hold one vector per video. Name frame"),
    ],
)  # fmt: skip
def test_what_contradicts_the_data_is_refused_with_the_flag_to_give(
    shard: Make, record: bytes, said: bool, words: str, message: str
) -> None:
    level = "frame" if record is FRAMES else "video"
    pattern = shard(record, DataFormat(level, (CLIP, SOUND), num_classes=3) if said else None)
    with pytest.raises(UsageError) as refusal:
        data_of(pattern, *words.split())
    assert message in str(refusal.value)


def test_classes_that_were_appended_to_the_vocabulary_are_no_contradiction(shard: Make, tmp_path: pathlib.Path) -> None:
    pattern = shard(CLIPS, DataFormat("video", (CLIP, SOUND), num_classes=3))
    names = tmp_path / vocabulary.NAME
    vocabulary.write(str(names), vocabulary.of_names(["a", "b", "c", "d"]))
    assert data_of(pattern, "--num_classes=4").num_classes == 4
    with pytest.raises(UsageError, match=r"--num_classes=3, but .*vocabulary.csv names 4 classes"):
        data_of(pattern, "--num_classes=3")
    vocabulary.write(str(names), vocabulary.of_names(["a", "b"]))
    with pytest.raises(UsageError, match=r"\b2 classes.*manifest\.json.*\b3\b.*--vocabulary"):
        data_of(pattern, "--num_classes=2")


def test_one_bad_record_is_not_the_whole_data(shard: Make) -> None:
    words = ("--feature_names=clip", "--feature_sizes=8")
    bad = shard(CLIPS)
    assert data_of(bad, *words, "--max_bad_records=1").feature_sizes == (8,)
    with pytest.raises(UsageError, match="it is 16"):
        data_of(bad, *words)
    with pytest.raises(UsageError, match="it is 16"):
        data_of(shard(CLIPS, DataFormat("video", (CLIP,))), *words, "--max_bad_records=1")


def test_a_reader_of_ones_own_reads_what_it_likes(shard: Make) -> None:
    words = (shard(CLIPS), "--reader=yt8m.readers:YT8MAggregatedFeatureReader", "--feature_names=clap")
    assert data_of(*words, "--feature_sizes=8").feature_names == ("clap",)


RUN = DataConfig(feature_names=("clip",), feature_sizes=(16,), num_classes=3)


@pytest.mark.parametrize(
    ("run", "said", "message"),
    [
        ({"frame_features": True}, {}, "takes frame-level records, but these are video-level ones"),
        ({"feature_names": ("clap",)}, {}, "takes the feature clap, but these records have clip,a_sound"),
        ({"feature_sizes": (8,)}, {}, "takes 8 values of clip, but these records have 16"),
        ({"num_classes": 2}, {"num_classes": 3}, "has 2 classes, but these records have 3"),
        ({}, {"is_rated": True}, "is to be evaluated on rated segments, but these records have none"),
    ],
)
def test_data_that_do_not_fit_a_run_are_refused(
    shard: Make, run: dict[str, Any], said: dict[str, Any], message: str
) -> None:
    own = dataclasses.replace(RUN, **run)
    is_rated = said.pop("is_rated", False)
    path = shard(CLIPS, DataFormat("video", (CLIP, SOUND), **said)).partition("=")[2]
    data = dataclasses.replace(own, data_pattern=path)
    with pytest.raises(UsageError) as refusal:
        data_fit.fit(Takes(data), open_data(path), {}, flag="eval_data_pattern", is_rated=is_rated)
    where = path.replace("a.tfrecord", "manifest.json")
    assert str(refusal.value) == (
        f"--eval_data_pattern={path}: the data do not fit the model, which {message} ({where}). "
        "Name data with the same format as the training data, or another run."
    )
    foreign = dataclasses.replace(data, reader="my:Reader")
    assert data_fit.fit(Takes(foreign), open_data(path), {}, flag="eval_data_pattern") == foreign


def test_data_are_read_by_their_own_ranges(shard: Make) -> None:
    """A byte's meaning belongs to the shards, also if the training's had another range, or floats."""
    path = shard(FRAMES, DataFormat("frame", (CLIP._replace(range=(0.0, 6.0)),))).partition("=")[2]
    run = dataclasses.replace(RUN, frame_features=True, feature_ranges=((),))
    assert data_fit.fit(Takes(run), open_data(path), {}, flag="f").feature_ranges == ((0.0, 6.0),)
    (pathlib.Path(path).parent / "manifest.json").unlink()
    with pytest.raises(UsageError, match="learned from floats"):  # a record says no range
        data_fit.fit(Takes(run), open_data(path), {}, flag="f")
    usual = dataclasses.replace(run, feature_ranges=())
    assert data_fit.fit(Takes(usual), open_data(path), {}, flag="f") == usual
    assert data_fit.fit(Takes(run), open_data(None), {}, flag="f") == run


def test_training_counts_come_from_the_vocabulary_or_else_from_the_manifest(
    shard: Make, tmp_path: pathlib.Path
) -> None:
    counted = Vocabulary(("a", "b", "c"), np.array([5, 0, 2]), ("",) * 3)
    nothing = vocabulary.of_names(())
    pattern = shard(CLIPS, DataFormat("video", (CLIP,), num_classes=3, positives=(7, 1, 1))).partition("=")[2]
    data = DataConfig(pattern, num_classes=3)

    def counts(names: Vocabulary, data: DataConfig) -> list[int] | None:
        found = data_fit.training_counts(names, data)
        return None if found is None else found.tolist()

    assert counts(counted, data) == [5, 0, 2]
    assert counts(counted, dataclasses.replace(data, num_classes=2)) == [5, 0]
    assert counts(counted, dataclasses.replace(data, num_classes=4)) is None
    assert counts(vocabulary.of_names(["a", "b", "c"]), data) == counts(nothing, data) == [7, 1, 1]
    assert counts(nothing, dataclasses.replace(data, num_classes=4)) is None  # the manifest counts three classes
    assert counts(nothing, DataConfig(num_classes=3)) is None
    named = str((tmp_path / manifest.NAME).rename(tmp_path / "named.json"))
    assert counts(nothing, data) is None
    assert counts(nothing, dataclasses.replace(data, manifest=named)) == [7, 1, 1]
    pathlib.Path(named).write_text("{")
    assert counts(nothing, dataclasses.replace(data, manifest=named)) is None
