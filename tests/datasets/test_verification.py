"""`yt8m verify`: the damage that it reports, and the manifest that it writes and checks."""

from __future__ import annotations

import gzip
import json
import pathlib

import fault_shards
import google_crc32c
import pytest

from yt8m.command_line.cli import main

# The problem of the record `fault_shards.cut_before_labels()`.
CUT = "it is not an Example or SequenceExample: a field of 91 bytes at byte 2 runs past the end of 75"
Captured = pytest.CaptureFixture[str]


def verify(*words: object) -> int:
    return main(["verify", *map(str, words)])


def verify_as_json(capfd: Captured, *words: object) -> dict[str, dict]:
    """Runs `yt8m verify --json`; returns {name of a shard: its entry}."""
    capfd.readouterr()
    verify(*words, "--json")
    rows = json.loads(capfd.readouterr().out)
    return {pathlib.Path(row["path"]).name: row for row in rows}


@pytest.mark.promise("I1")
@pytest.mark.promise("I2")
@pytest.mark.promise("I8")
def test_every_kind_of_damage_is_reported(tmp_path: pathlib.Path, capfd: Captured) -> None:
    whole = fault_shards.shard(fault_shards.sound("frame", 3))
    at = len(whole) // 2
    damaged = {
        "cut": (whole[:-5], "record 2: it is cut short"),
        "torn": (whole + b"\x01" * 7, "record 3: its length is damaged or cut short"),
        "empty": (b"", "the file is empty"),
        "flipped": (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "record 1: its checksum is wrong"),
        "zipped": (gzip.compress(whole), "record 0: the file is compressed by gzip"),
        "length": (b"\xff" * 8 + whole[8:], "record 0: its length is damaged"),
    }
    for name, (content, _) in damaged.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "sound").write_bytes(whole)
    found = verify_as_json(capfd, f"{tmp_path}/*")
    for name, (_, what) in damaged.items():
        assert what in found[name]["problems"][0]
    assert found["sound"] == {
        "path": f"{tmp_path}/sound",
        "records": 3,
        "bytes": len(whole),
        "crc32c": f"{google_crc32c.value(whole):08x}",
        "problems": [],
    }
    assert verify(f"{tmp_path}/*", f"--manifest={tmp_path}/manifest.json") == 1
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.promise("I1")
def test_a_manifest_is_written_then_checked(tmp_path: pathlib.Path, capfd: Captured) -> None:
    known = tmp_path / "manifest.json"
    words = (f"{tmp_path}/*.tfrecord", "--manifest", known)
    for name in "ab":
        fault_shards.write(tmp_path / f"{name}.tfrecord", fault_shards.sound("video", 4, name))
    assert verify(*words) == 0
    assert {name: row["records"] for name, row in json.loads(known.read_text())["shards"].items()} == {
        "a.tfrecord": 4,
        "b.tfrecord": 4,
    }
    assert verify(*words) == 0
    fault_shards.write(tmp_path / "b.tfrecord", fault_shards.sound("video", 3, "b"))  # cut between records
    fault_shards.write(tmp_path / "a.tfrecord", fault_shards.sound("video", 4, "c"))  # as long, but other ids
    fault_shards.write(tmp_path / "c.tfrecord", fault_shards.sound("video", 4, "c"))
    found = verify_as_json(capfd, *words)
    assert "holds 3 records, but" in found["b.tfrecord"]["problems"][0]
    assert "has the checksum" in found["a.tfrecord"]["problems"][0]
    assert "not list this shard" in found["c.tfrecord"]["problems"][0]
    (tmp_path / "a.tfrecord").unlink()
    assert verify_as_json(capfd, *words)["a.tfrecord"]["problems"] == ["the file is gone"]
    data = {"level": "video", "features": [{"name": "clip", "size": 16}], "segment_labels": False}
    known.write_text(json.dumps(json.loads(known.read_text()) | {"data": data}))
    assert verify(*words, "--update") == 0
    assert verify(*words) == 0
    assert json.loads(known.read_text())["data"] == data  # what the records hold is not lost
    known.write_text("{")
    assert verify(*words, "--update") == 0
    assert verify(*words) == 0


@pytest.mark.promise("I4")
@pytest.mark.promise("I5")
@pytest.mark.promise("I6")
def test_deep_checks_the_content_of_each_record(tmp_path: pathlib.Path, capfd: Captured) -> None:
    video, frames = fault_shards.video, fault_shards.frames
    records = [
        video(b"sound"),
        video(b"short", mean_rgb=[1.0]),
        video(b"missing", mean_audio=None),
        video(b"odd", mean_rgb=[1.0, float("nan"), float("inf")]),
        video(b"far", labels=[3, 10]),
        video(b"under", labels=[-1]),
        video(b"sound"),
        b"\x0b",
        video(b""),
        video(b"huge", mean_rgb=[1e38, 0.0, 0.0]),
        fault_shards.cut_before_labels(),
    ]
    fault_shards.write(tmp_path / "a", records)
    fault_shards.write(tmp_path / "b", [frames(b"frames"), frames(b"uneven", 3, 4)])
    found = verify_as_json(capfd, f"{tmp_path}/*", "--deep", "--num_classes=10")
    assert found["a"]["problems"] == [
        "record 1: video short: feature mean_rgb has 1 values, expected 3",
        "record 2: video missing: feature mean_audio is missing",
        "record 3: video odd: feature mean_rgb has 2 values that are NaN, infinite or beyond 1e+16",
        "record 4: video far: labels has 10; expected 0..9",
        "record 5: video under: labels has -1; expected 0..9",
        f"record 6: video sound: its id is that of {tmp_path}/a, record 0 too",
        "record 7: it is not an Example or SequenceExample: wire type 3 at byte 1 is not allowed",
        "record 8: it has no id: neither 'id' nor 'video_id' is there",
        "record 9: video huge: feature mean_rgb has 1 values that are NaN, infinite or beyond 1e+16",
        f"record 10: {CUT}",
    ]
    assert [text.partition(": ")[2] for text in found["b"]["problems"]] == [
        "video uneven: unequal numbers of frames: 3 of rgb, 4 of audio"
    ]


@pytest.mark.promise("I3")
def test_a_record_that_is_no_proto_is_reported(tmp_path: pathlib.Path, capfd: Captured) -> None:
    inside = fault_shards.video().replace(b"\x12\x06\x1a\x04\n\x02\x01\t", b"\x12\x06\x1a\x00\n\x02\x01\t")
    sound = fault_shards.sound("video", 2)
    fault_shards.write(tmp_path / "a", [*sound, fault_shards.cut_before_labels(), *sound, inside, b"\x02\x00"])
    assert verify_as_json(capfd, tmp_path / "a")["a"]["problems"] == [
        f"record 2: {CUT}",
        "record 5: it is not an Example or SequenceExample: a field of 8 bytes at byte 1 runs past the end of 2",
        "record 6: it is not an Example or SequenceExample: protobuf cannot parse the content of its features",
    ]
    assert verify(tmp_path / "a", f"--manifest={tmp_path}/manifest.json") == 1
    assert not (tmp_path / "manifest.json").exists()


def test_wrong_arguments_are_refused(tmp_path: pathlib.Path, capfd: Captured) -> None:
    fault_shards.write(tmp_path / "a", fault_shards.sound("video"))
    for words, said in (
        ([], "no file is named"),
        ([f"{tmp_path}/z*"], "no file matches"),
        ([f"{tmp_path}"], f"{tmp_path} is a folder, and neither it nor"),
        ([f"{tmp_path}/a", "--update"], "--update needs --manifest=FILE"),
        ([f"{tmp_path}/a", "--num_classes=3"], "an effect only with --deep"),
        ([f"{tmp_path}/a", "--manifes=x"], "did you mean --manifest"),
    ):
        assert verify(*words) == 2
        assert said in capfd.readouterr().err
