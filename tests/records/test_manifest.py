"""manifest.json: written and read back, found beside shards, refused; and the count of records by their headers."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import struct
from typing import Any

import pytest
from reader_records import video_record, write_shard

from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, shards
from yt8m.records.manifest import DataFormat, FeatureFormat, Manifest, Shard
from yt8m.records.opened_data import open_data

A, B = Shard(3, 120, "00c0ffee"), Shard(1, 40, "12345678")


def test_what_is_written_is_read_back(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    manifest.write("manifest.json", {"é.tfrecord": A, f"{tmp_path}/sub/b.tfrecord": B})
    text = (tmp_path / "manifest.json").read_text()
    assert json.loads(text) == {
        "format": "yt8m manifest 1",
        "shards": {
            "é.tfrecord": {"records": 3, "bytes": 120, "crc32c": "00c0ffee"},
            "sub/b.tfrecord": {"records": 1, "bytes": 40, "crc32c": "12345678"},
        },
    }
    assert text.startswith('{\n "format"')
    assert text.endswith("}\n")
    assert "é" in text
    for path in ("manifest.json", f"{tmp_path}/manifest.json"):
        found = manifest.read(path)
        assert found.sources == (path,)
        assert found.shards == {f"{tmp_path}/é.tfrecord": A, f"{tmp_path}/sub/b.tfrecord": B}
        assert found.expected("é.tfrecord") == found.expected("sub/../é.tfrecord") == A
        assert found.expected(f"{tmp_path}/sub/b.tfrecord") == B
        assert found.expected("c.tfrecord") is None


def test_a_shard_elsewhere_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"--manifest=.*/m.json: gs://bucket/a is elsewhere"):
        manifest.write(str(tmp_path / "m.json"), {"gs://bucket/a": A})
    assert list(tmp_path.iterdir()) == []


def test_those_beside_the_files_are_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two", "none"):
        (tmp_path / folder).mkdir()
    manifest.write("one/manifest.json", {"one/a.tfrecord": A})
    manifest.write("two/manifest.json", {"two/b.tfrecord": B})
    found = manifest.find(["two/b.tfrecord", "one/a.tfrecord", "one/c.tfrecord", "none/d.tfrecord"])
    assert found.sources == ("one/manifest.json", "two/manifest.json")
    assert found.shards == {f"{tmp_path}/one/a.tfrecord": A, f"{tmp_path}/two/b.tfrecord": B}
    assert manifest.find(["none/d.tfrecord", "d.tfrecord"]) == Manifest((), {})
    manifest.write("manifest.json", {"d.tfrecord": B})
    assert manifest.find(["d.tfrecord"]).expected("d.tfrecord") == B


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", ""),
        ("[]", "TypeError"),
        ("{}", "KeyError: 'format'"),
        ('{"format": "yt8m list 1", "shards": {}}', "ValueError: its format is 'yt8m list 1'"),
        ('{"format": "yt8m manifest x", "shards": {}}', "ValueError"),
        ('{"format": "yt8m manifest 1"}', "KeyError: 'shards'"),
        ('{"format": "yt8m manifest 1", "shards": []}', "AttributeError"),
        ('{"format": "yt8m manifest 1", "shards": {}, "data": {"level": "frame"}}', "KeyError: 'features'"),
        ('{"format": "yt8m manifest 1", "shards": {"a": {"records": 1, "bytes": 2}}}', "KeyError: 'crc32c'"),
        ('{"format": "yt8m manifest 1", "shards": {"a": {"records": "x", "bytes": 2, "crc32c": ""}}}', "ValueError"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path: pathlib.Path, content: str, problem: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(RunError) as refusal:
        manifest.read(str(path))
    assert str(refusal.value).startswith(f"{path} is not a 'yt8m manifest 1' (")
    assert problem in str(refusal.value)


def test_extractors_are_kept_if_all_folders_name_the_same(tmp_path: pathlib.Path) -> None:
    first, other = [{"name": "inception", "weights": {"graph": "ab"}}], [{"name": "vggish"}]
    for folder, extractors in (("a", first), ("b", first), ("c", other), ("d", [])):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "x.tfrecord"
        shard = manifest.write_shard(str(path), [b"1"])
        manifest.write(str(tmp_path / folder / manifest.NAME), {str(path): shard}, extractors=extractors)

    def found(*folders: str) -> list[Any]:
        return list(manifest.find([str(tmp_path / folder / "x.tfrecord") for folder in folders]).extractors)

    assert found("a") == found("a", "b") == first
    assert found("d") == found("a", "c") == found("a", "d") == []


def test_what_the_records_hold_is_kept(tmp_path: pathlib.Path) -> None:
    clip = FeatureFormat("clip", 16, (-1.5, 3.0))
    told = {"train": DataFormat("frame", (clip,), max_frames=30, positives=(2, 0)), "none": None}
    told["validate"] = DataFormat("frame", (clip,), num_classes=3, positives=(1, 1, 4))
    told["other"] = DataFormat("frame", (FeatureFormat("clip", 16, (-1.5, 2.0)),), num_classes=3)
    files = {name: str(tmp_path / name / "a.tfrecord") for name in told}
    for name, data in told.items():
        (tmp_path / name).mkdir()
        manifest.write(str(tmp_path / name / "manifest.json"), {files[name]: A}, data)
        assert manifest.read(str(tmp_path / name / "manifest.json")).data == data
    found = manifest.find([files["train"], files["none"], files["validate"]])
    assert found.data == DataFormat("frame", (clip,), False, 3, 30, (3, 1, 4))
    assert manifest.find([files["none"]]).data is None
    with pytest.raises(RunError, match=r"other/manifest\.json and .*train/manifest\.json .*features"):
        manifest.find(list(files.values()))


def shard(path: pathlib.Path, sizes: list[int]) -> str:
    path.write_bytes(b"".join(shards.framed(b"x" * size) for size in sizes))
    return str(path)


@pytest.mark.parametrize(
    "sizes",
    [
        [0],
        [1, 2, 3],
        [70_000] * 5,  # after each of these only the header of the next is read
        [65_536, 65_537, 65_535, 1, 300_000, 2],
        [37] * 8_000,  # more than is read at once
        [(1 << 18) - 16, 5],  # the next header begins where the first part ends
        [(1 << 18) - 16 - 12, 5],
        [(1 << 18) - 20, 5],
    ],
)
def test_records_are_counted_by_their_headers(tmp_path: pathlib.Path, sizes: list[int]) -> None:
    assert manifest.count_records(shard(tmp_path / "a", sizes)) == len(sizes)


def test_what_cannot_be_counted_says_where_it_is_damaged(tmp_path: pathlib.Path) -> None:
    whole = pathlib.Path(shard(tmp_path / "whole", [5, 100, 7])).read_bytes()
    cases = {
        "empty": (b"", "record 0: the file is empty: it holds no example"),
        "header": (whole[:5], "record 0: its length is damaged or cut short"),
        "cut": (whole[:-1], "record 2: it is cut short"),
        "between": (whole[: 21 + 116 + 4], "record 2: its length is damaged or cut short"),
        "length": (struct.pack("<Q", 6) + whole[8:], "record 0: its length is damaged or cut short"),
    }
    paths = [tmp_path / name for name in cases]
    for path, (content, _) in zip(paths, cases.values(), strict=True):
        path.write_bytes(content)
    found = manifest.count_all([str(tmp_path / "whole"), *map(str, paths), str(tmp_path / "nowhere")])
    assert found[0] == 3
    for path, one, (_, what) in zip(paths, found[1:-1], cases.values(), strict=True):
        assert isinstance(one, shards.DamagedError)
        assert str(one).startswith(f"{path}: {what}")
        with pytest.raises(shards.DamagedError, match=re.escape(what)):
            manifest.count_records(str(path))
    assert isinstance(found[-1], RunError)


def test_a_file_that_is_sound_by_now_says_so(tmp_path: pathlib.Path) -> None:
    path = shard(tmp_path / "a", [5, 6])
    told = manifest._find_damage(path)
    assert (told.path, told.record, told.what) == (path, 2, "the file changed while it was read")


def test_a_pattern_for_everything_in_a_folder_leaves_its_manifest_out(tmp_path: pathlib.Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord")]
    held = {path: manifest.write_shard(path, [b"one", b"two"]) for path in paths}
    manifest.write(str(tmp_path / manifest.NAME), held)
    assert open_data(f"{tmp_path}/*").files == paths
    assert [shard.records for shard in held.values()] == list(map(manifest.count_records, paths)) == [2, 2]


def _shards_of(folder: pathlib.Path, last: int) -> list[str]:
    """A shard of 40 records, the last of which has the label `last`."""
    folder.mkdir(exist_ok=True)
    rows = [video_record(id=[b"v%d" % row], labels=[last if row == 39 else 1], mean_rgb=[0.5]) for row in range(40)]
    path = str(write_shard(folder / "a.tfrecord", rows))
    os.utime(path, (1, 1))
    return [path]


@pytest.mark.parametrize("are_large", [False, True])
def test_a_shard_of_the_same_size_and_time_with_another_label_at_its_end_is_another(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, are_large: bool
) -> None:
    if are_large:
        monkeypatch.setattr(manifest, "_MOST_FINGERPRINTED", 0)
    files, others = _shards_of(tmp_path / "a", 2), _shards_of(tmp_path / "b", 3)
    assert os.stat(files[0]).st_size == os.stat(others[0]).st_size
    before = manifest.versions(files)
    assert manifest.versions(files) == before
    shutil.copy2(others[0], files[0])
    assert manifest.versions(files) != before
    if not are_large:  # large ones are known by their inode
        assert manifest.versions(_shards_of(tmp_path / "a", 2)) == before


def test_a_wrong_length_ends_a_fingerprint(tmp_path: pathlib.Path) -> None:
    files = _shards_of(tmp_path / "a", 2)
    content = bytearray(pathlib.Path(files[0]).read_bytes())
    content[:8] = b"\xff" * 8
    pathlib.Path(files[0]).write_bytes(content)
    assert isinstance(manifest.fingerprints(files)[files[0]], int)
