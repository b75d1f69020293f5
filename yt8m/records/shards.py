"""TFRecord shards and the Example and SequenceExample records in them, read and written without TensorFlow.

    storage.write("a.tfrecord", framed(example({"id": bytes_feature(b"abcd"), "labels": int64_feature([3])})))
    labels = [parse(payload).values("labels") for payload in read_shard("a.tfrecord")]

A TFRecord file consists of frames: length, masked CRC-32C of the length, payload, masked CRC-32C of the payload. Each
payload is a record, encoded as a protocol buffer (https://protobuf.dev/programming-guides/encoding); its messages are
those of tensorflow/core/example/example.proto and feature.proto. An Example is encoded like a SequenceExample that has
only a context, so one class reads both.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import file_kinds, storage
from yt8m.errors import RunError
from yt8m.records.checksums import mask_crc, masked_crc

Values = list[bytes] | list[int] | list[float]

# {name: NumPy type} of the lists in the context of a record that have one entry for each rating of a segment.
RATING_LISTS = {"segment_start_times": "int64", "segment_labels": "int64", "segment_scores": "float32"}
# {name: NumPy type} of the lists that have one entry for each range of frames in which people have rated every class:
# its first frame, and the frame after its last. In the segments of such a range, a class without a rating is absent.
ANNOTATED_LISTS = {"annotated_start_times": "int64", "annotated_end_times": "int64"}
SEGMENT_LISTS = {**RATING_LISTS, **ANNOTATED_LISTS}
SEGMENT_SIZE = 5  # frames of a rated segment, unless a manifest says otherwise
LATEST_START = (1 << 31) - 1  # seconds; the latest allowed start of a segment, so that (record, start) fits one int64
# Entries of a record's context that are not features.
NOT_FEATURES = {"id", "video_id", "labels", "segment_end_times", *SEGMENT_LISTS}

# The largest absolute value of a feature. The sum of the squares of up to 3.4 million such values fits a float32,
# so the L2 norm of their vector is finite; the square of a single 1e38 overflows.
LARGEST = 1e16
UNFIT = f"NaN, infinite or beyond {LARGEST:.0e}"  # how messages describe the values that no feature may have

# How messages describe a record that cannot be parsed, and a file without records.
NO_PROTO = "it is not an Example or SequenceExample"
EMPTY = "the file is empty: it holds no example"

_MAX_UNCHECKED = 1 << 24  # bytes; before a longer read, `_has_bytes_left` checks that the file has as many
_MIN_RECORDS = 16  # if a block of `_BLOCK` bytes has fewer records, `read_blocks` reads the records one by one
_BLOCK = 1 << 20  # number of bytes that `read_blocks` reads together; they fit into a core's cache

# An id, and ids on lines, that `id_text` does not change: printable ASCII without the backslash.
_ORDINARY_ID = re.compile(rb"[ -\[\]-~]*")
_ORDINARY_IDS = re.compile(rb"[ -\[\]-~\n]*")
# What `id_text` escapes: control characters, line separators, bytes that are not UTF-8 (decoded as surrogates), and
# the backslash of what looks like an escape. Time and memory are proportional to the length: with a call for each byte,
# an id of 10 MB took 22 s and 770 MB.
_ESCAPED_CODES = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xDC80, 0xDD00))
_ESCAPED_IN_IDS = {
    code: "".join(f"\\x{byte:02x}" for byte in chr(code).encode("utf-8", "surrogateescape")) for code in _ESCAPED_CODES
}
_LOOKS_ESCAPED = re.compile(r"\\(?=x[0-9a-f]{2})")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_LONG = 1024  # escapes in longer texts are replaced together
_HEX_DIGITS = np.full(256, 255, np.uint8)  # the value of each character that is a digit; 255 for others
_HEX_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


class DamagedError(RunError):
    """A record of a shard is damaged, or the shard has no record.

    Args:
      path: the path of the shard.
      record: number of the damaged record, from 0; 0 for a shard without records.
      problem: what is wrong with the record, for the message, which adds a remedy unless this text has one.

    Attributes:
      path: the path of the shard.
      record: the argument of this name.
      what: the argument `problem`.
    """

    def __init__(self, path: str, record: int, problem: str) -> None:
        # A text that names a flag, or has a second part, already says what to do.
        remedy = "" if "--" in problem or "; " in problem else "; fetch the file again, or leave it out"
        super().__init__(f"{path}: record {record}: {problem}{remedy}.")
        self.path, self.record, self.what = path, record, problem


class Feature(NamedTuple):
    """One Feature message of a record: a list of values of one type.

    Attributes:
      kind: the type of the values: `bytes`, `float` or `int64`; empty for a Feature without a list.
      value: the values, as bytes, float or int objects.
    """

    kind: str
    value: Sequence[Any]

    def values(self) -> Values:
        """The values as a list."""
        return list(self.value)

    def numbers(self) -> NDArray[Any]:
        """The values as an array [n]: floats as float32, whole numbers as int64, all bytes of all strings as uint8."""
        if self.kind == "bytes":
            return np.frombuffer(b"".join(self.value), np.uint8)
        return np.array(self.value, np.float32 if self.kind == "float" else np.int64)


class Record(NamedTuple):
    """A decoded Example or SequenceExample.

    Attributes:
      context: {name: Feature} of the whole video; an Example has no other Features.
      lists: {name of a feature list: the Feature of each frame}; empty for an Example.
    """

    context: dict[str, Feature]
    lists: dict[str, list[Feature]]

    def values(self, name: str) -> list[Any]:
        """The values of the Feature `name` of the context; empty if there is no such Feature."""
        return list(self.context[name].value) if name in self.context else []

    def encoded(self, names: Iterable[str]) -> dict[str, bytes]:
        """{name: encoded Feature} of those Features of numbers in the context that the record has."""
        kinds = {"int64": int64_feature, "float": float_feature}
        features = {name: self.context[name] for name in names if name in self.context}
        return {name: kinds[feature.kind](feature.value) for name, feature in features.items() if feature.kind}

    def annotated_segments(self, size: int) -> int:
        """The number of segments of `size` frames in the annotated ranges of the video."""
        ranges = zip(*map(self.values, ANNOTATED_LISTS), strict=False)
        return sum(max(0, -(-(end - start) // size)) for start, end in ranges)

    def id(self) -> bytes:
        """The id of the video: the entry `id`, or `video_id` as in files of 2017; empty if the record has neither."""
        for name in ("id", "video_id"):
            ids = self.values(name)
            if ids and isinstance(ids[0], bytes):
                return ids[0]
        return b""

    def features(self) -> dict[str, list[Feature]]:
        """The features that a model reads, {name: the Feature of each frame}; a Feature in the context is one frame."""
        excluded = NOT_FEATURES | self.lists.keys()
        return self.lists | {name: [feature] for name, feature in self.context.items() if name not in excluded}


def id_text(video_id: bytes) -> str:
    """The id of a video as one line of text, as all files and messages show it; `id_bytes` restores the id.

    Each byte of a control character or of a line separator (U+2028, U+2029), and each byte that is not UTF-8, becomes
    an escape `\\xHH`. So does a backslash that would otherwise look like the start of an escape. The rest stays.
    """
    if _ORDINARY_ID.fullmatch(video_id):
        return video_id.decode("ascii")
    text = _LOOKS_ESCAPED.sub(r"\\x5c", video_id.decode("utf-8", "surrogateescape"))
    return text.translate(_ESCAPED_IN_IDS)


def are_ordinary_ids(lines: bytes) -> bool:
    """Whether all of these ids, one per line, are ASCII without a character that `id_text` might escape."""
    return _ORDINARY_IDS.fullmatch(lines) is not None


def id_bytes(text: bytes) -> bytes:
    """Restores an id from the text that `id_text` returned, given in UTF-8.

    Each escape `\\xHH` becomes the byte with the hexadecimal number HH; everything else stays.
    """
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), text) if len(text) < _LONG else _unescape(text)


def _unescape(text: bytes) -> bytes:
    """Like `id_bytes`, but replaces all escapes at once."""
    codes = np.frombuffer(text, np.uint8).copy()
    high, low = _HEX_DIGITS[codes[2:-1]], _HEX_DIGITS[codes[3:]]
    starts = np.flatnonzero((codes[:-3] == ord("\\")) & (codes[1:-2] == ord("x")) & (high < 16) & (low < 16))
    codes[starts] = high[starts] * 16 + low[starts]
    is_kept = np.ones(len(codes), np.bool_)
    for offset in (1, 2, 3):
        is_kept[starts + offset] = False
    return codes[is_kept].tobytes()


def read_shard(path: str) -> Iterator[bytes]:
    """Yields the serialized records of a TFRecord file."""
    is_empty = True
    with storage.open_read(path) as file:
        for payload in read_records(file, path):
            is_empty = False
            yield payload
    if is_empty:
        raise DamagedError(path, 0, EMPTY)


def read_contexts(path: str) -> Iterator[tuple[bytes, Record]]:
    """Yields (serialized record, the record parsed without its feature lists) for each record of a TFRecord file."""
    for number, payload in enumerate(read_shard(path)):
        try:
            yield payload, parse(payload, with_lists=False)
        except ValueError as error:
            raise DamagedError(path, number, f"{NO_PROTO}: {error}") from error


def read_records(file: BinaryIO, path: str, number: int = 0) -> Iterator[bytes]:
    """Yields the serialized records of an open shard, from the current position to the end; raises like `read_shard`.

    Args:
      number: number of the next record in the shard, from 0.
    """
    while header := file.read(12):
        if len(header) < 12 or header[8:] != masked_crc(header[:8]):
            raise DamagedError(path, number, _header_damage(path, header + file.read(file_kinds.SAMPLE_BYTES), number))
        (length,) = struct.unpack("<Q", header[:8])
        body = file.read(length + 4) if _has_bytes_left(file, length) else b""
        if len(body) < length + 4:
            raise DamagedError(path, number, "it is cut short")
        payload = body[:length]
        if body[length:] != masked_crc(payload):
            raise DamagedError(path, number, "its checksum is wrong")
        yield payload
        number += 1


def read_blocks(path: str) -> Iterator[list[bytes]]:
    """Yields the serialized records of a TFRecord file in lists; raises like `read_shard`.

    Short records are read many at a time, which is much faster; a list of long records has one record.
    """
    with storage.open_read(path) as file:
        data, offset, number = b"", 0, 0  # the unparsed bytes, their offset in the file, the number of the next record
        while chunk := file.read(_BLOCK):
            data += chunk
            records, size = _parse_block(data)
            if records:
                yield records
            offset, number, data = offset + size, number + len(records), data[size:]
            if len(data) > 12 and len(records) < _MIN_RECORDS:
                break  # the records are long, and `read_records` makes fewer copies of them; or a record is damaged
        file.seek(offset)
        long_records = read_records(file, path, number)
        while records := list(itertools.islice(long_records, 1)):
            yield records


def _parse_block(data: bytes) -> tuple[list[bytes], int]:
    """(the complete and sound records at the beginning of `data`, the number of bytes of their frames)."""
    records, crcs, ends, offset = [], [], [], 0
    lengths: dict[bytes, int] = {}  # {header: length}; a header that occurs again needs no second checksum
    while True:
        header = data[offset : offset + 12]
        length = lengths.get(header, -1)
        if length < 0:
            if len(header) < 12 or header[8:] != masked_crc(header[:8]):
                break
            lengths[header] = length = int.from_bytes(header[:8], "little")
        end = offset + 12 + length
        if end + 4 > len(data):
            break
        record = data[offset + 12 : end]
        records.append(record)
        crcs.append(google_crc32c.value(record))
        ends.append(end)
        offset = end + 4
    return _sound_records(data, records, crcs, ends)


def _sound_records(data: bytes, records: list[bytes], crcs: list[int], ends: list[int]) -> tuple[list[bytes], int]:
    """The records before the first one with a wrong checksum.

    Returns:
      (the sound records, the number of bytes of their frames).
    """
    if not records:
        return [], 0
    places = np.array(ends)
    stored = np.frombuffer(data, np.uint8)[places[:, np.newaxis] + np.arange(4)].view("<u4")[:, 0]
    wrong = np.flatnonzero(stored != mask_crc(np.array(crcs, np.uint64)))
    count = int(wrong[0]) if len(wrong) else len(records)
    return records[:count], ends[count - 1] + 4 if count else 0


def _header_damage(path: str, start: bytes, number: int) -> str:
    kind = (file_kinds.find_kind(start) or _raw_deflate(start)) if number == 0 else None
    if kind:
        relation = "and read as plain" if kind.is_compressed else "not a TFRecord file"
        return f"the file is {kind.description}, {relation}; {kind.remedy}"
    is_no_shard = number == 0 and file_kinds.ending_of_others(path)
    return is_no_shard or "its length is damaged or cut short"


def _raw_deflate(start: bytes) -> file_kinds.FileKind | None:
    """The kind of a shard that was compressed by zlib without a header, which has no mark; else None."""
    try:
        header = zlib.decompressobj(-zlib.MAX_WBITS).decompress(start, 12)
    except zlib.error:
        return None
    return file_kinds.DEFLATED if len(header) == 12 and header[8:] == masked_crc(header[:8]) else None


def _has_bytes_left(file: BinaryIO, length: int) -> bool:
    """Whether the file has `length` bytes after its position; a length below `_MAX_UNCHECKED` is not checked.

    Without this check, reading a record whose length is damaged would allocate that much memory.
    """
    if length < _MAX_UNCHECKED:
        return True
    position = file.tell()
    end = file.seek(0, 2)
    file.seek(position)
    return length <= end - position


def parse(payload: bytes, with_lists: bool = True) -> Record:
    """Decodes a serialized Example or SequenceExample.

    Args:
      with_lists: whether the frames (the feature lists) are decoded; if False, `lists` of the result is empty.
    """
    from google.protobuf.message import DecodeError

    try:
        message = _proto().FromString(payload)
    except DecodeError:
        list(field_sizes(payload))  # if it finds the damage, it raises an error that names the byte
        raise ValueError("protobuf cannot parse the content of its features") from None
    context = {entry.key: _feature(entry.value) for entry in message.context.feature}
    lists = {entry.key: entry.value.feature for entry in message.feature_lists.feature_list} if with_lists else {}
    return Record(context, {name: [_feature(frame) for frame in frames] for name, frames in lists.items()})


def _feature(message: Any) -> Feature:
    kind = message.WhichOneof("kind") or ""
    return Feature(kind, getattr(message, kind).value if kind else ())


def unfit_values(values: NDArray[Any]) -> int:
    """The number of floats that are NaN, infinite or beyond `LARGEST`; 0 for an array of whole numbers."""
    return int(np.sum(~(np.abs(values) <= LARGEST))) if values.dtype.kind == "f" else 0


# The fields of each message, numbered from 1: label, type and name. The label `kind` marks the fields of the oneof
# `kind`. A map is encoded like a repeated message of a key and a value, and declared as one here.
_MESSAGES = {
    "BytesList": ("repeated bytes value",),
    "FloatList": ("repeated float value",),
    "Int64List": ("repeated int64 value",),
    "Feature": ("kind BytesList bytes", "kind FloatList float", "kind Int64List int64"),
    "FeatureEntry": ("optional string key", "optional Feature value"),
    "Features": ("repeated FeatureEntry feature",),
    "FeatureList": ("repeated Feature feature",),
    "FeatureListEntry": ("optional string key", "optional FeatureList value"),
    "FeatureLists": ("repeated FeatureListEntry feature_list",),
    "SequenceExample": ("optional Features context", "optional FeatureLists feature_lists"),
}


@functools.cache
def _proto() -> Any:
    """The class of SequenceExample, built from `_MESSAGES`."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="yt8m/example.proto", package="yt8m", syntax="proto3")
    for message_name, declarations in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        if message_name == "Feature":
            message.oneof_decl.add(name="kind")
        for number, (label, kind, name) in enumerate(map(str.split, declarations), 1):
            field_proto = message.field.add(name=name, number=number)
            field_proto.label = field.LABEL_REPEATED if label == "repeated" else field.LABEL_OPTIONAL
            if label == "kind":
                field_proto.oneof_index = 0
            if kind in _MESSAGES:
                field_proto.type, field_proto.type_name = field.TYPE_MESSAGE, f".yt8m.{kind}"
            else:
                field_proto.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("yt8m.SequenceExample"))


def field_sizes(content: bytes, message: str = "SequenceExample") -> Iterator[int]:
    """Yields 1 for each field of a serialized message, or for a field of integers their count; builds no objects.

    The sum of these numbers estimates the work of parsing the message. A caller can stop when the sum is too large.
    """
    declarations = dict(enumerate(_MESSAGES.get(message, ()), 1))
    for number, value in _fields(content):
        kind = declarations[number].split()[1] if number in declarations else ""
        yield 1 if kind != "int64" else int(np.sum(np.frombuffer(value, np.uint8) < 0x80)) or 1
        if kind == "string":
            value.decode("utf-8")
        elif kind in _MESSAGES:
            yield from field_sizes(value, kind)


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields (number, content) of each length-delimited field of a message, and (0, b"") for each other field."""
    offset, end = 0, len(content)
    while offset < end:
        key, offset = _varint(content, offset)
        kind, size = key & 7, 0
        if kind in (0, 2):
            size, offset = _varint(content, offset)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {offset} is not allowed")
        if kind == 0:
            size = 0
        if offset + size > end:
            raise ValueError(f"a field of {size} bytes at byte {offset} runs past the end of {end}")
        yield (key >> 3, content[offset : offset + size]) if kind == 2 else (0, b"")
        offset += size


def _varint(content: bytes, offset: int) -> tuple[int, int]:
    """(the varint at `offset`, the offset after it); raises `ValueError` if it does not end within ten bytes."""
    value = shift = 0
    while offset < len(content) and shift < 70:
        byte = content[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value, offset
        shift += 7
    raise ValueError(f"a number at byte {offset} does not end")


def framed(payload: bytes) -> bytes:
    """A serialized record with length and checksums, as a TFRecord file stores it."""
    length = struct.pack("<Q", len(payload))
    return b"".join((length, masked_crc(length), payload, masked_crc(payload)))


def varint(value: int) -> bytes:
    """A whole number, encoded as a varint (wire type 0)."""
    value &= (1 << 64) - 1  # a negative int64 is encoded as its two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def head(number: int, size: int) -> bytes:
    """The bytes before the content of an encoded field of bytes, text or a message (wire type 2).

    Args:
      size: the number of bytes of the content.
    """
    return varint(number << 3 | 2) + varint(size)


def field(number: int, content: bytes) -> bytes:
    """Encodes field `number` of a message, whose content is bytes, text or an encoded message."""
    return head(number, len(content)) + content


def bytes_feature(*values: bytes) -> bytes:
    """An encoded Feature with a BytesList of these strings."""
    return field(1, b"".join(field(1, value) for value in values))


def float_feature(values: Any) -> bytes:
    """An encoded Feature with a packed FloatList of `values`, an array or list [n] that is converted to float32."""
    return field(2, field(1, np.asarray(values, "<f4").tobytes()))


def int64_feature(values: Iterable[int]) -> bytes:
    """An encoded Feature with a packed Int64List of `values`."""
    return field(3, field(1, b"".join(varint(int(value)) for value in values)))


def frame_features(frames: NDArray[np.uint8]) -> list[bytes]:
    """An encoded Feature for each frame of uint8 [T, size]: a BytesList of one string of `size` bytes."""
    value = head(1, frames.shape[1])
    header = head(1, len(value) + frames.shape[1]) + value  # the header is the same for every frame
    return [header + frame.tobytes() for frame in frames]


def entries(values: Mapping[str, bytes]) -> bytes:
    """Encodes a proto map {name: encoded message}: field 1 is repeated for each entry."""
    return b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in values.items())


def example(features: Mapping[str, bytes]) -> bytes:
    """A serialized tf.train.Example with the Features {name: encoded Feature}."""
    return field(1, entries(features))


def sequence_example(context: Mapping[str, bytes], feature_lists: Mapping[str, Sequence[bytes]]) -> bytes:
    """A serialized tf.train.SequenceExample.

    Args:
      context: {name: encoded Feature} of the whole video.
      feature_lists: {name: the encoded Feature of each frame}.
    """
    lists = {name: b"".join(field(1, feature) for feature in features) for name, features in feature_lists.items()}
    return field(1, entries(context)) + field(2, entries(lists))
