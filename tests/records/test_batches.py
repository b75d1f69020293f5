"""Records as NumPy batches: what TensorFlow's readers give of them, in an order that a seed decides."""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from reader_records import Parsed, frame_record, video_record, write_shard

from yt8m import NumpyBatch, UsageError, read_records
from yt8m.readers import YT8MAggregatedFeatureReader, YT8MFrameFeatureReader
from yt8m.records import manifest, shards
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.opened_data import open_data
from yt8m.records.shards import DamagedError

CLASSES, SIZES = 300, {"mean_rgb": 8, "mean_audio": 3}


def videos(count: int, seed: int = 0) -> list[bytes]:
    """Records with 0 to 4 labels of one or two bytes, whose features are in changing order."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        values = {name: draw.normal(size=size).astype("f4") for name, size in SIZES.items()}
        labels = draw.integers(0, CLASSES, draw.integers(0, 5)).tolist() or None
        ids = {"id": [b"v%d-%03d" % (seed, number)]} if number % 5 else {"video_id": ["\u00fc%d".encode() % number]}
        items = list({**values, **ids, "labels": labels, "more": [1.5]}.items())
        draw.shuffle(items)
        found.append(video_record(**dict(items)))
    return found


def frames(count: int, name: str = "rgb") -> list[bytes]:
    draw = np.random.default_rng(7)
    found = []
    for number in range(count):
        rows = draw.integers(0, 256, ((number + 3) % 6, 4), np.uint8)
        audio = draw.integers(0, 256, ((number + 3) % 6, 2), np.uint8)
        lists = {name: rows if name == "rgb" else rows.astype("f4") / 7, "audio": audio}
        found.append(frame_record({"id": [b"v%d" % number], "labels": [number % CLASSES]}, lists))
    return found


def joined(batches) -> NumpyBatch:
    """One batch of many."""
    found = list(batches)
    features = {name: np.concatenate([one.features[name] for one in found]) for name in found[0].features}
    ids = [video for one in found for video in one.ids]
    counts, labels = (np.concatenate([getattr(one, name) for one in found]) for name in ("num_frames", "labels"))
    return NumpyBatch(ids, features, counts, labels)


def test_videos_are_those_of_the_tensorflow_reader(tmp_path: pathlib.Path) -> None:
    records = videos(300)
    for part in range(3):
        write_shard(tmp_path / f"{part}.tfrecord", records[100 * part : 100 * part + 100])
    found = joined(read_records(f"{tmp_path}/*.tfrecord", batch_size=64, num_classes=CLASSES))
    with Parsed(YT8MAggregatedFeatureReader(CLASSES, SIZES.values(), SIZES.keys())) as parse:
        expected = parse(records)
    assert found.ids == [video.decode() for video in expected["video_ids"]]
    for name, values in zip(SIZES, expected["features"], strict=True):
        np.testing.assert_array_equal(found.features[name], values)
        assert found.features[name].flags.writeable
    np.testing.assert_array_equal(found.labels, expected["labels"])
    assert found.num_frames.tolist() == [1] * 300


@pytest.mark.parametrize("name", ["rgb", pytest.param("RGB/feature/floats", marks=pytest.mark.heavy)])
def test_frames_are_those_of_the_tensorflow_reader(tmp_path: pathlib.Path, name: str) -> None:
    records = frames(20, name)
    path = write_shard(tmp_path / "a.tfrecord", records)
    names = sorted([name, "audio"])
    reader = YT8MFrameFeatureReader(CLASSES, [4 if one == name else 2 for one in names], names, max_frames=4)
    (found,) = read_records(path, num_classes=CLASSES, max_frames=4)
    with Parsed(reader) as parse:
        expected = parse(records)
    for one, values in zip(names, expected["features"], strict=True):
        assert found.features[one].dtype == values.dtype
        np.testing.assert_array_equal(found.features[one], values)
    np.testing.assert_array_equal(found.num_frames, expected["num_frames"])
    np.testing.assert_array_equal(found.labels, expected["labels"])
    (floats,) = read_records(path, num_classes=CLASSES, max_frames=4, dequantize=True)
    np.testing.assert_array_equal(
        np.concatenate([floats.features[one] for one in names], axis=2), expected["video_matrix"]
    )


def test_bytes_of_another_range_stand_for_its_values(tmp_path: pathlib.Path) -> None:
    values = np.array([[0, 255, 51]], np.uint8)
    clip = FeatureFormat("clip", 3, (0.0, 10.0))
    for level, record in {
        "frame": frame_record({"id": [b"v"]}, {"clip": values}),
        "video": video_record(id=[b"v"], clip=[values.tobytes()]),
    }.items():
        folder = tmp_path / level
        folder.mkdir()
        path = write_shard(folder / "a.tfrecord", [record])
        held = {path: manifest.Shard(1, pathlib.Path(path).stat().st_size, "0")}
        manifest.write(f"{folder}/manifest.json", held, DataFormat(level, (clip,), num_classes=2))
        (batch,) = read_records(path)
        assert batch.labels.shape == (1, 2)
        expected = values.astype(float) * 10 / 255 + 10 / 512
        np.testing.assert_allclose(batch.dequantize().features["clip"].reshape(1, 3), expected, rtol=1e-6)
        assert batch.features["clip"].dtype == (np.uint8 if level == "frame" else np.float32)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Five shards of 10 to 50 videos."""
    folder = tmp_path_factory.mktemp("five")
    for part in range(5):
        write_shard(folder / f"{part}.tfrecord", videos(10 * part + 10, seed=part))
    return folder


def ids_of(batches) -> list[str]:
    return [video for batch in batches for video in batch.ids]


def test_a_seed_orders_each_epoch_anew(five: pathlib.Path) -> None:
    def read(**more):
        return read_records(f"{five}/*.tfrecord", num_classes=CLASSES, batch_size=16, **more)

    in_order, shuffled = ids_of(read()), read(seed=3, shuffle_buffer=40)
    first, second = ids_of(shuffled), ids_of(shuffled)
    assert sorted(first) == sorted(second) == sorted(in_order)
    assert in_order != first != second
    assert ids_of(shuffled.epoch(0)) == first == ids_of(read(seed=3, shuffle_buffer=40))
    assert ids_of(read(seed=4, shuffle_buffer=40)) != first
    # A video is drawn early or late whatever its place: the mean place of each shard's videos is near the middle.
    places = {video: place for place, video in enumerate(first)}
    assert np.mean([places[video] for video in in_order[-50:]]) < 110


@pytest.mark.parametrize("count", [2, 5, 7])
@pytest.mark.parametrize("seed", [None, 1])
def test_workers_share_the_records(five: pathlib.Path, count: int, seed: int | None) -> None:
    parts = [
        ids_of(read_records(f"{five}/*.tfrecord", num_classes=CLASSES, seed=seed, worker=(part, count)))
        for part in range(count)
    ]
    assert all(parts)
    assert sorted(itertools.chain(*parts)) == sorted(ids_of(read_records(f"{five}/*.tfrecord", num_classes=CLASSES)))


def test_every_size_of_a_block_gives_the_same_records(five: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{five}/4.tfrecord"
    expected = list(shards.read_shard(path))
    for size, few in itertools.product((1, 30, 200, 1000, 1 << 20), (1, 2, 16)):
        monkeypatch.setattr(shards, "_BLOCK", size)
        monkeypatch.setattr(shards, "_MIN_RECORDS", few)
        assert list(itertools.chain(*shards.read_blocks(path))) == expected


def test_damage_at_any_byte_is_found_where_it_is(five: pathlib.Path, tmp_path: pathlib.Path) -> None:
    whole = pathlib.Path(five / "0.tfrecord").read_bytes()
    path = tmp_path / "a.tfrecord"
    for place in range(0, len(whole), 37):
        for content in (whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :], whole[: place or 1]):
            path.write_bytes(content)
            told = [_damage(shards.read_shard(str(path))), _damage(shards.read_blocks(str(path)))]
            assert told[0] == told[1]


def _damage(records) -> str:
    try:
        list(records)
    except DamagedError as error:
        return str(error)
    return ""


GOOD = {"id": [b"x"], "labels": [1], "mean_rgb": np.zeros(8), "mean_audio": np.zeros(3), "more": [1.5]}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"id": None}, "record 3: it has no id: neither 'id' nor 'video_id' is there"),
        ({"mean_rgb": None}, "record 3: video x: feature mean_rgb is missing"),
        ({"mean_rgb": np.zeros(9)}, "record 3: video x: feature mean_rgb has 9 values, expected 8"),
        ({"mean_rgb": [b"12345678"]}, "record 3: video x: feature mean_rgb holds values of type bytes, expected float"),
        (
            {"mean_audio": [0.0, np.nan, np.inf]},
            "record 3: video x: feature mean_audio has 2 values that are NaN, infin",
        ),
        ({"mean_audio": [0.0, 1e17, 0.0]}, "record 3: video x: feature mean_audio has 1 values that are NaN, infin"),
        ({"labels": [2, CLASSES]}, f"record 3: video x: labels has {CLASSES}; expected 0..{CLASSES - 1}"),
        ({"labels": [-1]}, "record 3: video x: labels has -1; expected"),
    ],
)
def test_a_bad_record_is_named(tmp_path: pathlib.Path, changed: dict, problem: str) -> None:
    bad = video_record(**(GOOD | changed))
    path = write_shard(tmp_path / "a.tfrecord", [*videos(3), bad, *videos(2)])
    with pytest.raises(DamagedError) as refusal:
        list(read_records(path, num_classes=CLASSES, seed=1))
    assert problem in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: record 3: ")


def test_uneven_frames_and_records_of_another_level_are_named(tmp_path: pathlib.Path) -> None:
    uneven = frame_record({"id": [b"u"]}, {"rgb": np.zeros((2, 4), np.uint8), "audio": np.zeros((3, 2), np.uint8)})
    video = video_record(id=[b"w"], rgb=np.zeros(4), audio=np.zeros(2))
    for bad, problem in ((uneven, "video u: .*numbers of frames"), (video, "video w: .*video-level .*frame level")):
        path = write_shard(tmp_path / "a.tfrecord", [*frames(2), bad])
        with pytest.raises(DamagedError, match=f"record 2: {problem}"):
            list(read_records(path, num_classes=CLASSES))


def test_what_is_no_record_is_named(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [*videos(2), videos(1)[0][:-3]])
    with pytest.raises(DamagedError, match=r"record 2: .*not an Example or SequenceExample"):
        list(read_records(path, num_classes=CLASSES))
    (tmp_path / "b.tfrecord").write_bytes(b"")
    write_shard(tmp_path / "a.tfrecord", videos(2))
    with pytest.raises(DamagedError, match=r"b\.tfrecord: record 0: .*empty"):
        list(read_records(f"{tmp_path}/*.tfrecord", num_classes=CLASSES))


def test_a_shard_that_lost_its_last_records_is_noticed(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a.tfrecord", videos(4))
    manifest.write(f"{tmp_path}/manifest.json", {path: manifest.Shard(5, 1, "0")})
    with pytest.raises(Exception, match=r"a\.tfrecord .*\b4 records.*\b5\b"):
        list(read_records(path, num_classes=CLASSES))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"batch_size": 0}, r"batch_size is 0; .*at least 1\b"),
        ({"shuffle_buffer": 0}, "shuffle_buffer is 0"),
        ({"worker": 3}, r"worker is 3; expected \(i, n\)"),
        ({"worker": (2, 2)}, r"worker is \(2, 2\); expected \(i, n\) with i from 0 to n - 1"),
    ],
)
def test_wrong_arguments_are_refused(five: pathlib.Path, more: dict, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_records(f"{five}/*.tfrecord", **more)


def test_features_are_chosen_by_name(five: pathlib.Path) -> None:
    (batch,) = read_records(f"{five}/0.tfrecord", num_classes=CLASSES, feature_names=["mean_rgb", "mean_audio"])
    assert {name: value.shape for name, value in batch.features.items()} == {"mean_rgb": (10, 8), "mean_audio": (10, 3)}
    with pytest.raises(UsageError, match="feature_names has 'rgb'; the records have mean_audio, mean_rgb, more"):
        read_records(f"{five}/0.tfrecord", feature_names=["rgb"])


def test_a_manifest_beside_the_records_is_no_shard(tmp_path: pathlib.Path) -> None:
    for name in ("a.tfrecord", manifest.NAME):
        (tmp_path / name).touch()
    assert open_data(f"{tmp_path}/*").files == [f"{tmp_path}/a.tfrecord"]
    with pytest.raises(UsageError, match="no file matches"):
        open_data(f"{tmp_path}/*.json")


def test_missing_files_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"no file matches '.*/nothing-\*'"):
        read_records(f"{tmp_path}/nothing-*")
    with pytest.raises(UsageError, match=rf"{tmp_path} is a folder.*neither.*\*\.tfrecord"):
        read_records(tmp_path)


_READ = """
import json, sys
import yt8m
numpy = "numpy" in sys.modules
count = sum(map(len, yt8m.read_records(sys.argv[1], num_classes=300)))
print(json.dumps([numpy, count, "tensorflow" in sys.modules, dir(yt8m)]))
"""


@pytest.mark.heavy
def test_tensorflow_is_not_imported(five: pathlib.Path) -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", _READ, f"{five}/*.tfrecord"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)
    has_numpy, count, has_tensorflow, names = json.loads(done.stdout)
    assert not has_numpy  # the package alone imports next to nothing
    assert count == 150
    assert not has_tensorflow
    assert {"load", "fit", "read_records"} <= set(names)


def test_rows_of_a_batch_are_taken_in_any_order() -> None:
    batch = NumpyBatch(
        ids=["a", "b", "c"],
        features={"x": np.arange(6, dtype=np.float32).reshape(3, 2)},
        num_frames=np.array([1, 2, 3], np.int32),
        labels=np.eye(3, dtype=bool),
        ranges={"x": (0.0, 1.0)},
    )
    taken = batch.take(np.array([2, 0, 2]))
    assert (taken.ids, taken.ranges) == (["c", "a", "c"], {"x": (0.0, 1.0)})
    np.testing.assert_array_equal(taken.features["x"], [[4, 5], [0, 1], [4, 5]])
    np.testing.assert_array_equal(taken.num_frames, [3, 1, 3])
    np.testing.assert_array_equal(taken.labels, np.eye(3, dtype=bool)[[2, 0, 2]])
