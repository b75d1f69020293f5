"""TFRecord shards and the two protos in them, written without TensorFlow.

The wire format is protocol buffers' (https://protobuf.dev/programming-guides/encoding) for the messages of
tensorflow/core/example/example.proto and feature.proto; the framing is TFRecord's: length, masked CRC-32C of
the length, payload, masked CRC-32C of the payload.

TFRecord shards and the two protos in them, read without TensorFlow; `records` writes the same.

For tools that look at a few fields of each record. An Example is, on the wire, a SequenceExample with a
context alone, so one decoder serves both.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError

_MASK_DELTA = 0xA282EAD8
_WORD = 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """A CRC-32C rotated and shifted, so that a CRC over data holding CRCs stays sound."""
    crc = google_crc32c.value(data)
    rotated = ((crc >> 15) | (crc << 17)) & _WORD
    return struct.pack("<I", (rotated + _MASK_DELTA) & _WORD)


def framed(payload: bytes) -> bytes:
    """One record as it stands in a TFRecord file."""
    length = struct.pack("<Q", len(payload))
    return b"".join((length, masked_crc(length), payload, masked_crc(payload)))


def varint(value: int) -> bytes:
    """A whole number (wire type 0)."""
    value &= (1 << 64) - 1  # a negative int64 travels as its two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message (wire type 2), for any message that is written by hand."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def bytes_feature(*values: bytes) -> bytes:
    """A Feature with a BytesList."""
    return field(1, b"".join(field(1, value) for value in values))


def float_feature(values: Any) -> bytes:
    """A Feature with a FloatList of the float32 of `values` (packed)."""
    return field(2, field(1, np.asarray(values, "<f4").tobytes()))


def int64_feature(values: Iterable[int]) -> bytes:
    """A Feature with an Int64List of `values` (packed)."""
    return field(3, field(1, b"".join(varint(int(value)) for value in values)))


def frame_features(frames: NDArray[np.uint8]) -> list[bytes]:
    """A Feature for each frame.

    Args:
      frames: uint8 [T, size]; the feature of a frame holds one bytes value of its `size` numbers.
    """
    size = frames.shape[1]
    value = varint(1 << 3 | 2) + varint(size)
    header = varint(1 << 3 | 2) + varint(len(value) + size) + value  # the same for every frame
    return [header + frame.tobytes() for frame in frames]


def _map(entries: Mapping[str, bytes]) -> bytes:
    """A proto map from names to messages, as repeated entries in field 1."""
    return b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in entries.items())


def example(features: Mapping[str, bytes]) -> bytes:
    """A tf.train.Example of encoded Features."""
    return field(1, _map(features))


def sequence_example(context: Mapping[str, bytes], feature_lists: Mapping[str, Sequence[bytes]]) -> bytes:
    """A tf.train.SequenceExample: encoded Features of the whole, and of each frame under each name."""
    lists = {name: b"".join(field(1, feature) for feature in features) for name, features in feature_lists.items()}
    return field(1, _map(context)) + field(2, _map(lists))


Values = list[bytes] | list[int] | list[float]

# The largest value of a feature, by size. The squares of up to 3.4 million such values add up to a float32,
# so that the L2 norm of a vector of them is finite; that of a single 1e38 is not.
LARGEST = 1e16
UNFIT = f"NaN, infinite or beyond {LARGEST:.0e}"  # what no value may be, as messages say it

NO_PROTO = "it is no Example or SequenceExample"

_USUAL = 1 << 24  # a read of more bytes than there are would set aside memory for all of them
_UINT64 = (1 << 64) - 1
_GZIP = b"\x1f\x8b"

_ORDINARY_ID = re.compile(rb"[ -\[\]-~]*")  # printable ASCII without the backslash
# Control characters, line separators, bytes that are no UTF-8, and a backslash that looks like an escape.
_ESCAPED_IN_IDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]|\\(?=x[0-9a-f]{2})")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class DamagedError(RunError):
    """A shard that cannot be read on; what came before is sound.

    Attributes:
      path: of the shard.
      record: number of the damaged record, from 0.
      what: what is wrong with it.
    """

    def __init__(self, path: str, record: int, what: str) -> None:
        super().__init__(f"{path}: record {record}: {what}; fetch the file again, or leave it out.")
        self.path, self.record, self.what = path, record, what


class Feature(NamedTuple):
    """One Feature, decoded when it is asked for.

    Attributes:
      kind: bytes, float, int64, or empty for one without a value.
      content: the list as it stands in the record.
    """

    kind: str
    content: bytes

    def values(self) -> Values:
        """The values; none for an empty feature."""
        return _DECODERS[self.kind](self.content) if self.kind else []


class Record(NamedTuple):
    """A decoded Example or SequenceExample.

    Attributes:
      context: of the whole; in an Example, all there is.
      lists: for each feature list its frames.
    """

    context: dict[str, Feature]
    lists: dict[str, list[Feature]]

    def id(self) -> bytes:
        """`id`, or `video_id` as files of 2017 have it; empty where there is neither."""
        for name in ("id", "video_id"):
            values = self.context[name].values() if name in self.context else []
            if values and isinstance(values[0], bytes):
                return values[0]
        return b""


def id_text(video_id: bytes) -> str:
    """A video's id as text of one line, as all files and messages show it; `id_bytes` undoes it.

    Each byte of a control character, of the line separators U+2028 and U+2029, and each byte that is no UTF-8
    becomes `\\xHH`. So does a backslash that would otherwise read as such an escape. All else stays as it is.
    """
    if _ORDINARY_ID.fullmatch(video_id):
        return video_id.decode("ascii")
    return _ESCAPED_IN_IDS.sub(_escape, video_id.decode("utf-8", "surrogateescape"))


def _escape(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))


def id_bytes(text: bytes) -> bytes:
    """The id that a text in UTF-8 stands for; a text without escapes stands for itself."""
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), text)


def read_shard(path: str) -> Iterator[bytes]:
    """The records of a TFRecord file, one after the other.

    Raises:
      DamagedError: names the file and the number of the record (from 0) that is damaged or cut short.
    """
    with storage.open_read(path) as file:
        yield from read_records(file, path)


def read_records(file: BinaryIO, path: str, number: int = 0) -> Iterator[bytes]:
    """The records of an open shard from its present place on.

    Args:
      file: at the beginning of a record.
      path: for what is raised, which is as in `read_shard`.
      number: of the record that comes first.
    """
    while header := file.read(12):
        if len(header) < 12 or header[8:] != masked_crc(header[:8]):
            raise DamagedError(path, number, _about_header(header, number))
        (length,) = struct.unpack("<Q", header[:8])
        body = file.read(length + 4) if _is_there(file, length) else b""
        if len(body) < length + 4:
            raise DamagedError(path, number, "it is cut short")
        payload = body[:length]
        if body[length:] != masked_crc(payload):
            raise DamagedError(path, number, "its checksum is wrong")
        yield payload
        number += 1


def _about_header(header: bytes, number: int) -> str:
    if number == 0 and header.startswith(_GZIP):
        return "the file is compressed by gzip, and read as plain; unpack it (gunzip)"
    return "its length is damaged or cut short"


def _is_there(file: BinaryIO, length: int) -> bool:
    """Whether so many bytes can follow; for a length beyond the usual the file's end is looked up."""
    if length < _USUAL:
        return True
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return length <= end - here


def unfit_values(values: NDArray[Any]) -> int:
    """How many values no feature may have, by `UNFIT`."""
    return int(np.sum(~(np.abs(values) <= LARGEST))) if values.dtype.kind == "f" else 0


def check(payload: bytes) -> None:
    """Passes what protobuf itself parses as an Example or SequenceExample, and nothing else.

    Args:
      payload: one record.

    Raises:
      ValueError: it is no such proto.
    """
    from google.protobuf.message import DecodeError

    try:
        _proto().FromString(payload)
    except DecodeError:
        for features in _decoded(payload, True).lists.values():  # says what is wrong, if it finds that too
            for feature in features:
                feature.values()
        raise ValueError("protobuf refuses what is inside its features") from None


def parse(payload: bytes, with_lists: bool = True) -> Record:
    """Decodes a serialised Example or SequenceExample.

    Args:
      payload: one record.
      with_lists: whether feature lists (the frames) are decoded too.

    Raises:
      ValueError: it is no such proto.
    """
    check(payload)
    return _decoded(payload, with_lists)


@functools.cache
def _proto() -> Any:
    """The class of SequenceExample, made from the messages of example.proto and feature.proto.

    A map is, on the wire, a repeated message of a key and a value.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    types = {"bytes": field.TYPE_BYTES, "float": field.TYPE_FLOAT, "int64": field.TYPE_INT64}
    types["string"] = field.TYPE_STRING
    file = descriptor_pb2.FileDescriptorProto(name="yt8m/example.proto", package="yt8m", syntax="proto3")
    for name, parts in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, part in enumerate(parts, 1):
            label, _, kind = part.rpartition(" ")
            one = message.field.add(name=f"field{number}", number=number)
            one.label = field.LABEL_REPEATED if label else field.LABEL_OPTIONAL
            if kind in types:
                one.type = types[kind]
            else:
                one.type, one.type_name = field.TYPE_MESSAGE, f".yt8m.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("yt8m.SequenceExample"))


_MESSAGES = {  # the fields of each, numbered from 1
    "BytesList": ("repeated bytes",),
    "FloatList": ("repeated float",),
    "Int64List": ("repeated int64",),
    "Feature": ("BytesList", "FloatList", "Int64List"),
    "FeatureEntry": ("string", "Feature"),
    "Features": ("repeated FeatureEntry",),
    "FeatureList": ("repeated Feature",),
    "FeatureListEntry": ("string", "FeatureList"),
    "FeatureLists": ("repeated FeatureListEntry",),
    "SequenceExample": ("Features", "FeatureLists"),
}


def _decoded(payload: bytes, with_lists: bool) -> Record:
    context: dict[str, Feature] = {}
    lists: dict[str, list[Feature]] = {}
    for number, content in _messages(payload):
        if number == 1:
            context.update((name, _feature(value)) for name, value in _entries(content))
        elif number == 2 and with_lists:
            lists.update((name, [_feature(one) for _, one in _messages(v)]) for name, v in _entries(content))
    return Record(context, lists)


def _entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The entries of a proto map in field 1: names and encoded values."""
    for _, entry in _messages(content):
        parts = dict(_messages(entry))
        yield parts.get(1, b"").decode("utf-8"), parts.get(2, b"")


_KINDS = {1: "bytes", 2: "float", 3: "int64"}


def _feature(content: bytes) -> Feature:
    for number, value in _messages(content):
        if number in _KINDS:
            return Feature(_KINDS[number], value)
    return Feature("", b"")


def _messages(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of the length-delimited fields; others are passed over."""
    for number, kind, value in _fields(content):
        if kind == 2:
            assert isinstance(value, bytes)
            yield number, value


def _fields(content: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """(number, wire type, value) of every field; varints as int, the rest as bytes."""
    place, end = 0, len(content)
    while place < end:
        key, place = _varint(content, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(content, place)
            yield key >> 3, kind, value
            continue
        if kind == 2:
            size, place = _varint(content, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {place}: this is no Example or SequenceExample")
        if place + size > end:
            raise ValueError(f"a field of {size} bytes at byte {place} runs past the end of {end}")
        yield key >> 3, kind, content[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(content) and shift < 70:
        byte = content[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError(f"a number at byte {place} does not end")


def _bytes_list(content: bytes) -> list[bytes]:
    return [value for _, value in _messages(content)]


def _float_list(content: bytes) -> list[float]:
    parts = b"".join(value for _, _, value in _fields(content) if isinstance(value, bytes))
    found: list[float] = np.frombuffer(parts, "<f4").tolist()
    return found


def _int64_list(content: bytes) -> list[int]:
    found: list[int] = []
    for _, _, value in _fields(content):
        found += [value] if isinstance(value, int) else _packed(value)
    found = [value & _UINT64 for value in found]  # a damaged one may have more bits
    return [value - (1 << 64) if value >> 63 else value for value in found]


def _packed(content: bytes) -> list[int]:
    place, found = 0, []
    while place < len(content):
        value, place = _varint(content, place)
        found.append(value)
    return found


_DECODERS: dict[str, Callable[[bytes], Values]] = {"bytes": _bytes_list, "float": _float_list, "int64": _int64_list}
