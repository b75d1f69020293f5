"""Data that are opened once: their files, manifest, vocabulary, format and counts."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, opened_data, shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.opened_data import DiscoveredFormat, OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary

VIDEO = video_record(id=[b"a"], labels=[1], zebra=[0.5] * 3, ant=[1.0] * 16, title=[b"a walk"], seconds=[12])
BYTES = np.zeros([4, 8], np.uint8)
CONTEXT = {"id": [b"a"], "labels": [1], "speed": [0.5]}


def of_files(*files: str) -> OpenedData:
    """Data of these files, whether they exist or not."""
    return open_data(None).of_files(files)


def found_in(record: bytes) -> DataFormat | None:
    return opened_data.of_record(shards.parse(record))


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
    assert open_data(path).format == seen
    assert str(seen) == f"the first record of {path}"
    assert list(seen.format.sizes().items()) == [("ant", 16), ("zebra", 3)]
    named = str(tmp_path / "elsewhere.json")
    said = DataFormat("video", (FeatureFormat("zebra", 3), FeatureFormat("ant", 16)), num_classes=5)
    manifest.write(named, {}, said)
    assert open_data(path).format == seen
    assert open_data(path, manifest=named).format == DiscoveredFormat(said, named, True)
    manifest.write(str(tmp_path / manifest.NAME), {}, said)
    assert open_data(path).format == DiscoveredFormat(said, str(tmp_path / manifest.NAME), True)
    assert str(open_data(path).format) == str(tmp_path / manifest.NAME)
    with pytest.raises(UsageError, match=r"^--manifest=.*none\.json: .*no such file"):
        _ = open_data(path, manifest=str(tmp_path / "none.json")).format
    (tmp_path / manifest.NAME).write_text("{}")
    with pytest.raises(RunError, match="is not a 'yt8m manifest 1'"):
        _ = open_data(path).format


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
        found = of_files(str(tmp_path / name), whole).format
        assert found is not None
        assert found.source == whole
        assert open_data(str(tmp_path / name)).format is None
    assert of_files(str(tmp_path / "gone"), whole).format == open_data(whole).format
    assert open_data(None).format is None


def test_a_long_first_record_is_read_to_its_end(tmp_path: pathlib.Path) -> None:
    long = write_shard(tmp_path / "a.tfrecord", [frame_record(CONTEXT, {"b": np.ones([300, 4000], np.uint8)}), VIDEO])
    found = open_data(long).format
    assert found is not None
    assert found.format == DataFormat("frame", (FeatureFormat("b", 4000, (-2.0, 2.0)),))


def test_of_a_shard_in_a_bucket_the_start_alone_is_fetched(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{bucket}/data/a.tfrecord"
    with storage.write_atomic(path) as file:
        file.write(shards.framed(VIDEO) * 3)
    monkeypatch.setattr(storage, "open_read", None)  # reads whole objects
    found = open_data(path).format
    assert found is not None
    assert (found.source, list(found.format.sizes())) == (path, ["ant", "zebra"])
    assert storage.read_start(path, 20) == shards.framed(VIDEO)[:20]


def test_no_tensorflow_is_imported(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [VIDEO])
    code = "import sys; from yt8m.records import opened_data as o; "
    code += f"print(o.open_data({path!r}).format, 'tensorflow' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"the first record of {path} False\n"


def test_the_nearest_file_belongs_to_the_shards(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = tmp_path / "data" / "video" / "train"
    train.mkdir(parents=True)
    shard = str(train / "a.tfrecord")
    for folder in (tmp_path, tmp_path / "data", train):  # three above are too far; the nearest counts
        vocabulary.write(str(folder / "vocabulary.csv"), vocabulary.of_names([folder.name]))
        assert of_files(shard, shard).vocabulary.path == ("" if folder == tmp_path else str(folder / "vocabulary.csv"))
    monkeypatch.chdir(train)
    assert of_files("a.tfrecord").vocabulary.path == "vocabulary.csv"
    (train / "vocabulary.csv").unlink()
    assert of_files("a.tfrecord").vocabulary.path == "../../vocabulary.csv"
    assert not open_data(None).vocabulary


def test_folders_whose_vocabularies_differ_are_refused(tmp_path: pathlib.Path) -> None:
    files = []
    for folder, names in (("a", ["cat", "dog"]), ("b", ["cat", "dog"]), ("c", ["cat", "bird", "dog"])):
        (tmp_path / folder).mkdir()
        vocabulary.write(str(tmp_path / folder / "vocabulary.csv"), vocabulary.of_names(names))
        files.append(str(tmp_path / folder / "x.tfrecord"))
    assert of_files(*files[:2]).vocabulary.path == str(tmp_path / "a" / "vocabulary.csv")
    told = f"class 1 is 'dog' in {tmp_path}/a/vocabulary.csv, and 'bird' in {tmp_path}/c/vocabulary.csv"
    with pytest.raises(UsageError, match=re.escape(told)):
        _ = of_files(*files).vocabulary


def test_a_named_file_renames_classes_but_does_not_renumber_them(tmp_path: pathlib.Path) -> None:
    by_data, named = tmp_path / "data" / "vocabulary.csv", tmp_path / "named.csv"
    by_data.parent.mkdir()
    vocabulary.write(str(by_data), vocabulary.of_names(["cat", "dog", "bird"]))
    files = [str(by_data.parent / "x.tfrecord")]
    for names in (["cat", "dog", "bird"], ["Katze", "dog", "Vogel", "Fisch"], ["cat", "cat", "cat"]):
        vocabulary.write(str(named), vocabulary.of_names(names))
        found = open_data(None, vocabulary=str(named)).of_files(files).vocabulary
        assert found.names == tuple(names)
        assert found.path == str(named)
    for names in (["bird", "Hund", "cat"], ["emu", "ant", "fly", "cat"]):
        vocabulary.write(str(named), vocabulary.of_names(names))
        told = f"--vocabulary={named}: 'cat' is class {names.index('cat')} there, but class 0 in {by_data}"
        with pytest.raises(UsageError, match=re.escape(told)):
            _ = open_data(None, vocabulary=str(named)).of_files(files).vocabulary
        assert open_data(None, vocabulary=str(named)).vocabulary


def test_the_number_of_classes_is_that_of_the_flag_or_of_the_vocabulary(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "vocabulary.csv"
    vocabulary.write(str(path), vocabulary.of_names(["cat", "dog"]))
    found, none = of_files(str(tmp_path / "x.tfrecord")), open_data(None)
    assert [none.num_classes(), none.num_classes(5), found.num_classes(), found.num_classes(2)] == [None, 5, 2, 2]
    with pytest.raises(UsageError, match=f"^--num_classes=3, but {re.escape(str(path))} names 2 classes"):
        found.num_classes(3)
    path.unlink()
    assert found.num_classes() == 2  # the file was read once; `again` would read it anew
    manifest.write(str(tmp_path / manifest.NAME), {}, DataFormat("video", (FeatureFormat("a", 2),), num_classes=4))
    declared = of_files(str(tmp_path / "x.tfrecord"))
    assert [declared.num_classes(), declared.num_classes(4)] == [4, 4]
    with pytest.raises(UsageError, match=r"^--num_classes=3 .*manifest\.json it is 4\. Give --num_classes=4"):
        declared.num_classes(3)
    with caplog.at_level("INFO", logger="absl"):
        found.log_names()
    assert caplog.messages == [f"the names of the 2 classes come from {path}"]


def test_a_model_and_its_data_number_the_classes_alike(tmp_path: pathlib.Path) -> None:
    def data(*words: str) -> OpenedData:
        vocabulary.write(str(tmp_path / "data.csv"), vocabulary.of_names(words))
        return open_data(None, vocabulary=str(tmp_path / "data.csv"))

    nothing, own = vocabulary.of_names(()), vocabulary.of_names(("cat", "dog"))
    assert open_data(None).names_for(own, 2, "run") is own
    assert data("cat", "dog").names_for(own, 2, "run") is own
    assert data("cat", "dog").names_for(nothing, 2, "run").names == ("cat", "dog")
    with pytest.raises(UsageError, match=r"class 1 .*'dog'.* run.*'emu'.*data\.csv"):
        data("cat", "emu").names_for(own, 2, "run")
    with pytest.raises(UsageError, match=r"data\.csv .*\b2 classes.* run .*\b3\. Buy more"):
        data("cat", "dog").names_for(nothing, 3, "run", "Buy more")


def test_the_counts_of_the_classes_are_those_of_the_vocabulary_or_of_the_manifest(tmp_path: pathlib.Path) -> None:
    path, features = str(tmp_path / "x.tfrecord"), (FeatureFormat("a", 2),)
    assert of_files(path).class_counts(2) is None
    manifest.write(str(tmp_path / manifest.NAME), {}, DataFormat("video", features, num_classes=2, positives=(7, 0)))
    assert np.array_equal(of_files(path).class_counts(2), [7, 0])
    assert of_files(path).class_counts(3) is None
    named = Vocabulary(("cat", "dog", "emu"), np.array([3, 2, 1]), ("", "", ""))
    vocabulary.write(str(tmp_path / "vocabulary.csv"), named)
    assert np.array_equal(of_files(path).class_counts(3), [3, 2, 1])
    assert np.array_equal(of_files(path).class_counts(2), [3, 2])  # classes may have been appended since
    assert of_files(path).class_counts(4) is None
    assert np.array_equal(of_files(path).class_counts(2, vocabulary.of_names(("cat", "dog"))), [7, 0])


def test_files_are_listed_in_two_orders_each_once_and_a_pattern_without_files_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b1", "b2", "a1"):
        write_shard(tmp_path / name, [VIDEO])
    manifest.write("manifest.json", {}, None)
    data = open_data("b*,a1,b2,*")
    assert data.as_named == ("b1", "b2", "a1")
    assert data.files == ["a1", "b1", "b2"]
    assert open_data(["b*", pathlib.Path("a1")]).pattern == "b*,a1"
    with pytest.raises(UsageError, match=r"^no file matches 'c\*'"):
        open_data("b*,c*")
    with pytest.raises(UsageError, match=r"^--data=c\*: no film matches 'c\*'"):
        open_data("c*", kind="film", flag="data")
    with pytest.raises(UsageError, match="is a folder"):
        open_data(str(tmp_path))


def test_new_files_are_seen_by_opening_again_alone(tmp_path: pathlib.Path) -> None:
    first = write_shard(tmp_path / "a.tfrecord", [VIDEO])
    data = open_data(f"{tmp_path}/*.tfrecord")
    assert data.counts == {first: 1}
    second = write_shard(tmp_path / "b.tfrecord", [VIDEO] * 2)
    (tmp_path / "c.tfrecord").write_bytes(b"cut")
    assert (data.files, data.counts) == ([first], {first: 1})
    again = data.again()
    assert again.files == [first, second, str(tmp_path / "c.tfrecord")]
    assert [type(count) for count in again.counts.values()] == [int, int, shards.DamagedError]


def test_no_file_is_read_before_it_is_asked_for_and_none_twice(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [VIDEO])
    vocabulary.write(str(tmp_path / "vocabulary.csv"), vocabulary.of_names(["cat"]))
    manifest.write(str(tmp_path / manifest.NAME), {}, DataFormat("video", (FeatureFormat("ant", 16),)))
    reads: list[str] = []
    for name in ("read_bytes", "read_start"):
        call = getattr(storage, name)
        monkeypatch.setattr(storage, name, lambda path, *rest, call=call: (reads.append(path), call(path, *rest))[1])
    data = open_data(path)
    assert reads == []
    for _ in range(3):
        assert data.num_classes(1) == 1
        assert data.format is not None
        assert data.class_counts(1) is None
        assert data.names_for(vocabulary.of_names(())) is data.vocabulary
    assert sorted(map(os.path.basename, reads)) == [manifest.NAME, "vocabulary.csv"]


def test_a_pipe_is_no_shard(tmp_path: pathlib.Path) -> None:
    manifest.write_shard(str(tmp_path / "a.tfrecord"), [b"one"])
    os.mkfifo(tmp_path / "b.tfrecord")
    with pytest.raises(UsageError, match=r"b\.tfrecord .*pipe"):
        open_data(f"{tmp_path}/*.tfrecord")
