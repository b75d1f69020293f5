"""Checks an ONNX file against its own description and checksum, so that a damaged file gives no scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import google_crc32c

from yt8m.errors import UsageError
from yt8m.records.data_format import DataFormat

CHECKSUM = "checksum"  # the entry of the metadata with the checksum of everything else that this project wrote
FRAMES, NUM_FRAMES, SCORES = "frames", "num_frames", "scores"
_FRAME_TYPES, _COUNT_TYPES, _SCORE_TYPES = ("tensor(float)", "tensor(uint8)"), ("tensor(int32)",), ("tensor(float)",)
_METADATA = 14  # number of the field of an ONNX file that holds one entry of the metadata
_STRING = 2  # the wire type of strings, bytes and messages
_FIXED_SIZES = {1: 8, 5: 4}  # {wire type: number of bytes}
_LONGEST_VARINT = 10  # bytes


class _Field(NamedTuple):
    """One field of a serialized protobuf message: its number, its bytes, and its content without key and length."""

    number: int
    whole: memoryview
    content: memoryview


def compute_checksum(content: bytes, names: Sequence[str]) -> str:
    """The CRC-32C of an ONNX file without `CHECKSUM` and the entries that other programs added to the metadata."""
    crc = google_crc32c.Checksum()
    for field in _fields(memoryview(content)):
        if field.number != _METADATA or _entry(field.content)[0] in names:
            crc.update(bytes(field.whole))
    return "crc32c:" + crc.digest().hex()


def differs_from_checksum(content: bytes, names: Sequence[str]) -> bool:
    """Whether a file differs from its checksum.

    A file without one does not: earlier versions wrote none. Nor does what is no ONNX file: onnxruntime says so.
    """
    try:
        fields = [field for field in _fields(memoryview(content)) if field.number == _METADATA]
        checksum = dict(_entry(field.content) for field in fields).get(CHECKSUM)
        return checksum is not None and compute_checksum(content, names) != checksum
    except ValueError:
        return False


def refuse_damaged(path: str) -> NoReturn:
    """Raises the `UsageError` of a file for which `differs_from_checksum` is True."""
    raise UsageError(
        f"{path} is damaged, or another program changed it: its content does not fit the checksum in its metadata. "
        "Export the model again; if you changed the file on purpose, delete the entry `checksum` of its metadata."
    )


def _fields(message: memoryview) -> Iterator[_Field]:
    """Yields the fields of a serialized message; raises `ValueError` if it ends within one or is no message."""
    offset = 0
    while offset < len(message):
        key, content = _varint(message, offset)
        wire_type = key & 7
        if wire_type == 0:
            end = _varint(message, content)[1]
        elif wire_type == _STRING:
            size, content = _varint(message, content)
            end = content + size
        elif wire_type in _FIXED_SIZES:
            end = content + _FIXED_SIZES[wire_type]
        else:
            raise ValueError(f"unknown wire type {wire_type}")
        if end > len(message):
            raise ValueError("the message is cut off")
        yield _Field(key >> 3, message[offset:end], message[content:end])
        offset = end


def _varint(message: memoryview, offset: int) -> tuple[int, int]:
    """(the number at `offset`, the offset after it); raises `ValueError` if there is none."""
    number = 0
    for shift, byte in enumerate(message[offset : offset + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, offset + shift + 1
    raise ValueError("there is no number")


def _entry(serialized: memoryview) -> tuple[str, str]:
    """(name, text) of an entry of the metadata; both are empty if the entry is damaged."""
    try:
        texts = {field.number: bytes(field.content).decode() for field in _fields(serialized)}
    except ValueError:
        return "", ""
    return texts.get(1, ""), texts.get(2, "")


def refuse_other_graph(path: str, session: Any, data: DataFormat) -> None:
    """Raises `UsageError` if inputs and outputs of the graph differ from what the file's description says."""
    width = sum(data.sizes().values())
    inputs, outputs = ({node.name: node for node in nodes} for nodes in (session.get_inputs(), session.get_outputs()))
    expected = (
        (inputs, FRAMES, _FRAME_TYPES, [None, None, width]),
        (inputs, NUM_FRAMES, _COUNT_TYPES, [None]),
        (outputs, SCORES, _SCORE_TYPES, [None, data.num_classes]),
    )
    for nodes, name, types, shape in expected:
        node = nodes.get(name)
        if node is None:
            raise _contradiction(path, f"it has no {name}, only {', '.join(nodes) or 'nothing else'}")
        if node.type not in types or not _may_have_shape(node.shape, shape):
            dimensions = ", ".join("any" if size is None else str(size) for size in shape)
            signature = f"{name} is {node.type} of {node.shape}"
            raise _contradiction(path, f"{signature}, expected {' or '.join(types)} of [{dimensions}]")
    if len(inputs) > 2:
        raise _contradiction(path, f"it takes {', '.join(inputs)}, expected {FRAMES} and {NUM_FRAMES}")


def _may_have_shape(declared: Sequence[Any], expected: Sequence[int | None]) -> bool:
    """Whether a declared shape allows the expected one. A dimension that is no number is not known before a run."""
    sizes = [size if isinstance(size, int) else None for size in declared]
    return len(sizes) == len(expected) and all(
        size is None or size == wanted for size, wanted in zip(sizes, expected, strict=True)
    )


def _contradiction(path: str, problem: str) -> UsageError:
    return UsageError(
        f"{path}: the graph contradicts the description in the file's metadata: {problem}. Another program changed "
        "the file, or it is damaged: export the model again."
    )
