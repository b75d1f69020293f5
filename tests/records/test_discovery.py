"""What shards hold, found in their manifest or in a first record."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m import storage
from yt8m.errors import RunError
from yt8m.records import discovery, manifest, shards
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.discovery import DiscoveredFormat

VIDEO = video_record(id=[b"a"], labels=[1], zebra=[0.5] * 3, ant=[1.0] * 16, title=[b"a walk"], seconds=[12])
BYTES = np.zeros([4, 8], np.uint8)
CONTEXT = {"id": [b"a"], "labels": [1], "speed": [0.5]}


def found_in(record: bytes) -> DataFormat | None:
    return discovery.of_record(shards.parse(record))


def test_the_features_of_a_video_are_its_lists_of_floats_in_alphabetical_order() -> None:
    assert found_in(VIDEO) == DataFormat("video", (FeatureFormat("ant", 16), FeatureFormat("zebra", 3)))
    assert found_in(video_record(id=[b"a"], labels=[1])) is None
    assert found_in(video_record(id=[b"a"], ant=[1.0], zebra=[])) is None


@pytest.mark.parametrize(
    ("lists", "features"),
    [
        ({"rgb": BYTES, "audio": BYTES[:, :2]}, (("audio", 2, (-2, 2)), ("rgb", 8, (-2, 2)))),
        ({"b": BYTES.astype(np.float32), "a": BYTES}, (("a", 8, (-2, 2)), ("b", 8, None))),
        ({"b": [[0.5] * 3] * 4, "when": [[1], [2], [3, 4], [5]]}, (("b", 3, None),)),
        ({"b": BYTES, "picture": [[b"png"], [b"longer"]]}, None),
        ({"b": [[0.5], [0.5, 1.0]]}, None),
        ({"b": BYTES, "a": []}, None),
    ],
)
def test_the_features_of_frames_are_lists_of_floats_or_bytes_of_one_size(lists: dict, features: tuple | None) -> None:
    expected = features and DataFormat("frame", tuple(FeatureFormat(*one) for one in features))
    assert found_in(frame_record(CONTEXT, lists)) == expected


def test_rated_segments_are_seen() -> None:
    found = found_in(frame_record({**CONTEXT, "segment_labels": [3], "segment_start_times": [0]}, {"b": BYTES}))
    assert found == DataFormat("frame", (FeatureFormat("b", 8, (-2.0, 2.0)),), segment_labels=True)


def test_a_manifest_says_more_than_a_record_and_keeps_its_order(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [VIDEO])
    seen = DiscoveredFormat(DataFormat("video", (FeatureFormat("ant", 16), FeatureFormat("zebra", 3))), path, False)
    assert discovery.find([path]) == seen
    assert str(seen) == f"the first record of {path}"
    assert list(seen.format.sizes().items()) == [("ant", 16), ("zebra", 3)]
    named = str(tmp_path / "elsewhere.json")
    said = DataFormat("video", (FeatureFormat("zebra", 3), FeatureFormat("ant", 16)), num_classes=5)
    manifest.write(named, {}, said)
    assert discovery.find([path]) == seen
    assert discovery.find([path], named) == DiscoveredFormat(said, named, True)
    manifest.write(str(tmp_path / manifest.NAME), {}, said)
    assert discovery.find([path]) == DiscoveredFormat(said, str(tmp_path / manifest.NAME), True)
    assert str(discovery.find([path])) == str(tmp_path / manifest.NAME)
    assert discovery.find([path], str(tmp_path / "none.json")) == seen  # it is refused when the shards are checked
    (tmp_path / manifest.NAME).write_text("{}")
    with pytest.raises(RunError, match="is not a 'yt8m manifest 1'"):
        discovery.find([path])


def test_what_cannot_be_read_is_passed_over(tmp_path: pathlib.Path) -> None:
    whole = write_shard(tmp_path / "z.tfrecord", [VIDEO])
    content = (tmp_path / "z.tfrecord").read_bytes()
    bad = {
        "empty": b"",
        "cut": content[:9],
        "short": content[:-1],
        "flipped": content[:40] + bytes([content[40] ^ 1]) + content[41:],
    }
    for name, damaged in bad.items():
        (tmp_path / name).write_bytes(damaged)
        found = discovery.find([str(tmp_path / name), whole])
        assert found is not None
        assert found.source == whole
        assert discovery.find([str(tmp_path / name)]) is None
    assert discovery.find([str(tmp_path / "gone"), whole]) == discovery.find([whole])
    assert discovery.find([]) is None


def test_a_long_first_record_is_read_to_its_end(tmp_path: pathlib.Path) -> None:
    long = write_shard(tmp_path / "a.tfrecord", [frame_record(CONTEXT, {"b": np.ones([300, 4000], np.uint8)}), VIDEO])
    found = discovery.find([long])
    assert found is not None
    assert found.format == DataFormat("frame", (FeatureFormat("b", 4000, (-2.0, 2.0)),))


def test_of_a_shard_in_a_bucket_the_start_alone_is_fetched(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{bucket}/data/a.tfrecord"
    with storage.write_atomic(path) as file:
        file.write(shards.framed(VIDEO) * 3)
    monkeypatch.setattr(storage, "open_read", None)  # reads whole objects
    found = discovery.find([path])
    assert found is not None
    assert (found.source, list(found.format.sizes())) == (path, ["ant", "zebra"])
    assert storage.read_start(path, 20) == shards.framed(VIDEO)[:20]


def test_no_tensorflow_is_imported(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [VIDEO])
    code = f"import sys; from yt8m.records.discovery import find; print(find([{path!r}]), 'tensorflow' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"the first record of {path} False\n"
