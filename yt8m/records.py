"""TFRecord shards and the two protos in them, written without TensorFlow.

The wire format is protocol buffers' (https://protobuf.dev/programming-guides/encoding) for the messages of
tensorflow/core/example/example.proto and feature.proto; the framing is TFRecord's: length, masked CRC-32C of
the length, payload, masked CRC-32C of the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

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
    lists = {
        name: b"".join(field(1, feature) for feature in features) for name, features in feature_lists.items()
    }
    return field(1, _map(context)) + field(2, _map(lists))
