"""Records encoded and decoded here, shards framed and read, and what is damaged. Without TensorFlow."""

from __future__ import annotations

import bz2
import io
import lzma
import pathlib
import re
import tracemalloc
import zlib
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.records import checksums, shards
from yt8m.records.prediction_files import video_name
from yt8m.records.shards import DamagedError, Feature

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)


def context() -> dict[str, bytes]:
    return {
        "id": shards.bytes_feature(b"abcd"),
        "labels": shards.int64_feature([0, 127, 128, 3861, 2**63 - 1, -1, -(2**63)]),
        "mean": shards.float_feature([0.5, -2.0]),
        "none": b"",
    }


def values(features: dict[str, Feature]) -> dict[str, list]:
    return {name: feature.values() for name, feature in features.items()}


@given(st.lists(st.binary(max_size=300), max_size=3), st.lists(INT64, max_size=4), st.lists(FLOATS, max_size=4))
def test_what_is_encoded_is_decoded(texts: list[bytes], numbers: list[int], reals: list[float]) -> None:
    encoded = {"t": shards.bytes_feature(*texts), "n": shards.int64_feature(numbers), "r": shards.float_feature(reals)}
    expected = {"t": texts, "n": numbers, "r": reals}
    for payload in (shards.example(encoded), shards.sequence_example(encoded, {})):
        record = shards.parse(payload)
        assert values(record.context) == expected
        assert {name: one.kind for name, one in record.context.items()} == {"t": "bytes", "n": "int64", "r": "float"}
        assert record.lists == {}


def test_frames_are_lists_and_may_be_left_out() -> None:
    rgb = np.arange(600, dtype=np.int64).reshape(3, 200).astype(np.uint8)
    payload = shards.sequence_example(context(), {"rgb": shards.frame_features(rgb), "audio": []})
    record = shards.parse(payload)
    assert [feature.values() for feature in record.lists["rgb"]] == [[row.tobytes()] for row in rgb]
    assert record.lists["audio"] == []
    assert values(record.context)["labels"] == [0, 127, 128, 3861, 2**63 - 1, -1, -(2**63)]
    assert (record.context["none"].kind, record.context["none"].values()) == ("", [])
    assert shards.parse(payload, with_lists=False).lists == {}
    assert shards.parse(payload, with_lists=False).context == record.context


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"id": [b"a"], "video_id": [b"b"]}, b"a"),
        ({"video_id": [b"b"]}, b"b"),
        ({"id": [], "video_id": [b"b"]}, b"b"),
        ({"labels": [b"c"]}, b""),
    ],
)
def test_the_id_has_two_names(features: dict[str, list[bytes]], expected: bytes) -> None:
    payload = shards.example({name: shards.bytes_feature(*given) for name, given in features.items()})
    assert shards.parse(payload).id() == expected


def test_an_id_that_is_a_number_is_none() -> None:
    payload = shards.example({"id": shards.int64_feature([3]), "video_id": shards.bytes_feature(b"b")})
    assert shards.parse(payload).id() == b"b"


def test_numbers_are_written_seven_bits_a_byte() -> None:
    expected = {0: b"\0", 1: b"\1", 127: b"\x7f", 128: b"\x80\1", 300: b"\xac\2", -1: b"\xff" * 9 + b"\1"}
    assert {number: shards.varint(number) for number in expected} == expected
    assert shards.field(1, b"ab") == b"\x0a\2ab"
    assert shards.field(16, b"") == b"\x82\1\0"


def test_a_frame_has_the_checksums_of_the_format() -> None:
    """Those that TensorFlow writes for the payload b"abc"."""
    framed = shards.framed(b"abc")
    assert framed[:8] == b"\3" + b"\0" * 7
    assert framed[8:12] == checksums.masked_crc(framed[:8])
    assert framed[12:] == b"abc" + checksums.masked_crc(b"abc")


PAYLOADS = [b"", b"abc", b"x" * 1000]


def test_a_shard_is_read_record_by_record(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"".join(map(shards.framed, PAYLOADS)))
    assert list(shards.read_shard(str(path))) == PAYLOADS
    path.write_bytes(b"")
    with pytest.raises(shards.DamagedError, match=r"record 0: .*empty"):
        list(shards.read_shard(str(path)))
    file = io.BytesIO(b"junk" + shards.framed(b"one"))
    file.seek(4)
    assert list(shards.read_records(file, "a", 5)) == [b"one"]


WHOLE = b"".join(map(shards.framed, PAYLOADS))


@pytest.mark.parametrize(
    ("content", "read", "what"),
    [
        (WHOLE[:-1], 2, "it is cut short"),
        (WHOLE[: 16 + 19 + 12], 2, "it is cut short"),
        (WHOLE[: 16 + 5], 1, "its length .*cut short"),
        (WHOLE[:16] + b"\4" + WHOLE[17:], 1, "its length .*cut short"),
        (WHOLE[:28] + b"A" + WHOLE[29:], 1, "its checksum is wrong"),
        (WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]), 2, "its checksum is wrong"),
        (b"\x1f\x8b\x08" + WHOLE, 0, r".*by gzip, .*\(gunzip\)"),
        (WHOLE[:16] + b"\x1f\x8b" + WHOLE[18:], 1, "its length .*cut short"),
        (zlib.compress(WHOLE), 0, ".*by zlib, .*write"),
        (zlib.compress(WHOLE, 1), 0, ".*by zlib, "),
        (bz2.compress(WHOLE), 0, ".*by bzip2, "),
        (lzma.compress(WHOLE), 0, ".*by xz, "),
        (zlib.compress(WHOLE, wbits=-15), 0, r".*by zlib \(raw deflate\), .*write"),
        (zlib.compress(b"x" * 99, wbits=-15), 0, "its length .*cut short"),
        (b"\x04\x22\x4d\x18\x64\x40\xa7" + WHOLE, 0, ".*by lz4, .*unpack"),
        (b"\xff\x06\0\0sNaPpY\x01\x1a\0\0" + WHOLE, 0, ".*by snappy, "),
    ],
)
def test_damage_names_file_record_and_what_is_wrong(
    tmp_path: pathlib.Path, content: bytes, read: int, what: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    found = []
    with pytest.raises(DamagedError, match=rf"^{re.escape(str(path))}: record {read}: {what}.*[;.]") as damaged:
        found.extend(shards.read_shard(str(path)))  # what came before was read
    assert (damaged.value.path, damaged.value.record) == (str(path), read)
    assert re.match(what, damaged.value.what)


@pytest.mark.parametrize(("length", "is_there"), [(0, True), (1 << 40, False), ((1 << 24) + 10, False)])
def test_a_length_beyond_the_usual_is_held_against_the_file(length: int, is_there: bool) -> None:
    file = io.BytesIO(b"x" * 100)
    file.seek(7)
    assert shards._has_bytes_left(file, length) == is_there
    assert file.tell() == 7


def test_a_large_record_is_there_if_the_file_goes_on_so_far(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "large"
    size = (1 << 24) + 20
    with open(path, "wb") as file:
        file.truncate(size)
    with open(path, "rb") as file:
        file.seek(10)
        assert shards._has_bytes_left(file, size - 10)
        assert not shards._has_bytes_left(file, size - 9)


def test_values_that_no_feature_may_have_are_counted() -> None:
    odd = np.array([0, 1e16, -1e16, 1.1e16, -1e17, np.nan, np.inf, -np.inf], np.float64)
    assert shards.unfit_values(odd) == 5
    assert shards.unfit_values(odd[:3].astype(np.float32)) == 0
    assert shards.unfit_values(np.array([2**62])) == 0


@pytest.mark.parametrize(
    "payload",
    [
        b"\x0a",  # a field without its length
        b"\x0a\x05ab",  # longer than the record
        b"\x0b",  # the start of a group
        b"\x09" + b"x" * 7,  # a fixed64 of seven bytes
        b"\xff" * 11,
        shards.example({"a": b"\x0a\x05x"}),
    ],
)
def test_what_is_no_proto_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"Example|past the end|does not end|not allowed|inside its features"):
        shards.parse(payload)


def test_fields_of_other_kinds_are_passed_over() -> None:
    """A number of a field that is not known is skipped by its wire type, as protobuf asks for."""
    known = shards.example({"a": shards.int64_feature([7])})
    for extra in (b"\x18\x96\1", b"\x19" + b"x" * 8, b"\x1d" + b"x" * 4, b"\x1a\2ab"):
        for payload in (extra + known, known + extra):
            record = shards.parse(payload)
            assert values(record.context) == {"a": [7]}
            assert record.lists == {}


IDS = {
    b"abc": "abc",
    b"a\nb": r"a\x0ab",
    b"\xff": r"\xff",
    b"\\x41": r"\x5cx41",
    b"\\n": r"\n",
    "\u2028é".encode(): r"\xe2\x80\xa8é",
}


@pytest.mark.parametrize("video_id", IDS)
def test_ids_are_text_of_one_line_and_back(video_id: bytes) -> None:
    assert shards.id_text(video_id) == IDS[video_id]
    assert shards.id_bytes(IDS[video_id].encode()) == video_id


@given(st.binary(max_size=12))
def test_any_id_comes_back(video_id: bytes) -> None:
    text = shards.id_text(video_id)
    assert shards.id_bytes(text.encode()) == video_id
    assert len(text.splitlines()) <= 1


def read_until_damage(records: Iterable[bytes]) -> tuple[list[bytes], str]:
    """The records, and what the error after them says."""
    found: list[bytes] = []
    try:
        found.extend(records)
    except DamagedError as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize(("block", "few"), [(13, 1), (40, 1), (80, 3)])
def test_blocks_hold_what_reading_record_by_record_gives_whatever_is_damaged(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, block: int, few: int
) -> None:
    monkeypatch.setattr(shards, "_BLOCK", block)
    monkeypatch.setattr(shards, "_MIN_RECORDS", few)
    whole = b"".join(shards.framed(bytes([number]) * size) for number, size in enumerate((0, 3, 30, 0, 1, 7)))
    flipped = (whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :] for at in range(len(whole)))
    path = tmp_path / "x.tfrecord"
    for content in (whole, *flipped, *(whole[:length] for length in range(1, len(whole)))):
        path.write_bytes(content)
        blocks = read_until_damage(record for found in shards.read_blocks(str(path)) for record in found)
        assert blocks == read_until_damage(shards.read_shard(str(path)))
    path.write_bytes(whole)
    assert all(shards.read_blocks(str(path)))


def test_a_number_of_a_field_may_take_several_bytes() -> None:
    content = shards.field(300, b"a" * 1000) + shards.field(2, b"b" * 200_000)
    assert list(shards._fields(content)) == [(300, b"a" * 1000), (2, b"b" * 200_000)]
    for skipped in (b"\x09" + bytes(8), b"\x0d" + bytes(4), b"\x08\xff\x01"):  # of 8 bytes, of 4 bytes, a number
        assert list(shards._fields(skipped + shards.field(2, b"x"))) == [(0, b""), (2, b"x")]
    assert shards.bytes_feature(b"a", b"bc") == b"\x0a\x07\x0a\x01a\x0a\x02bc"
    several = shards.example({"id": shards.bytes_feature(b"a", b"", b"bc")})
    assert shards.parse(several).context["id"].values() == [b"a", b"", b"bc"]
    assert shards._varint(b"\xff\x80\x01", 0) == (127 + (1 << 14), 3)
    with pytest.raises(ValueError, match=r"byte 10\b"):
        shards._varint(b"\x80" * 11, 0)


def test_features_are_the_frames_of_lists_and_what_is_no_label_or_id() -> None:
    context = {"id": shards.bytes_feature(b"a"), "labels": shards.int64_feature([1]), "mean": shards.float_feature([2])}
    record = shards.parse(shards.sequence_example(context, {"rgb": [shards.float_feature([3.0])] * 2}))
    assert {name: len(frames) for name, frames in record.features().items()} == {"rgb": 2, "mean": 1}


def test_the_fields_of_a_name_that_is_no_text_are_refused() -> None:
    named, damaged = (shards.example({name: shards.int64_feature([7])}) for name in ("ab", "xy"))
    assert sum(shards.field_sizes(named)) > 0
    with pytest.raises(ValueError, match="utf-8"):
        list(shards.field_sizes(damaged.replace(b"xy", b"\xff\xfe")))


def test_numbers_of_a_feature_are_an_array_of_its_type() -> None:
    context = {
        "bytes": shards.bytes_feature(b"\x01\xff"),
        "reals": shards.float_feature([0.5, 2.0]),
        "whole": shards.int64_feature([3, 2**40]),
    }
    found = {name: one.numbers() for name, one in shards.parse(shards.example(context)).context.items()}
    assert {name: (one.dtype.name, one.tolist()) for name, one in found.items()} == {
        "bytes": ("uint8", [1, 255]),
        "reals": ("float32", [0.5, 2.0]),
        "whole": ("int64", [3, 2**40]),
    }


def test_the_numbers_of_a_field_are_counted_whatever_bytes_they_take() -> None:
    one, three = (shards.example({"a": shards.int64_feature(given)}) for given in ([16384], [16384, 128, 1]))
    assert sum(shards.field_sizes(three)) - sum(shards.field_sizes(one)) == 2
    with pytest.raises(ValueError, match=r"past the end of \d+$"):
        list(shards.field_sizes(three[:-1]))


@given(
    st.lists(
        st.sampled_from([b"\\", b"x", b"0", b"a", b"G", b"\x00", b"\x85", b"\xc2\x85", "\u2028".encode(), b"\xff"])
    )
)
def test_ids_of_any_length_are_written_and_read_alike(pieces: list[bytes]) -> None:
    """A short id is read piece by piece, a long one at once."""
    video_id = b"".join(pieces)
    text = shards.id_text(video_id)
    assert text.isprintable() or not video_id
    assert shards.id_bytes(text.encode()) == video_id
    repeated = video_id * (2000 // max(1, len(video_id)))
    assert shards.id_bytes(shards.id_text(repeated).encode()) == repeated
    assert shards.id_text(b"a" + b"\n" * 2000).count("\\x0a") == 2000


@pytest.mark.promise("I7")
def test_a_huge_id_takes_memory_in_proportion_to_its_length() -> None:
    video_id = bytes(range(256)) * 256
    tracemalloc.start()
    try:
        assert shards.id_bytes(shards.id_text(video_id).encode()) == video_id
        assert tracemalloc.get_traced_memory()[1] < 40 * len(video_id)
        tracemalloc.reset_peak()
        assert len(video_name(b'," ' * len(video_id))) == 12 * len(video_id)
        assert tracemalloc.get_traced_memory()[1] < 40 * 3 * len(video_id)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "is_named"), [("a.mp4", True), ("a.tfrecord", False), ("a.tfrecord.0", False), ("a-00", False)]
)
def test_a_file_that_never_was_a_shard_is_not_called_a_damaged_one(
    tmp_path: pathlib.Path, name: str, is_named: bool
) -> None:
    (tmp_path / name).write_bytes(bytes(range(128, 255)))
    with pytest.raises(DamagedError) as damaged:
        list(shards.read_shard(f"{tmp_path}/{name}"))
    assert ("its name ends in .mp4" in damaged.value.what) is is_named
