"""Unpacks request bodies before they are parsed: bodies in gzip, and the files of a form.

The sizes of what comes out are limited like those of bodies, so a small body cannot fill the memory.
"""

from __future__ import annotations

import email.message
import email.utils
import re
import zlib
from typing import Any, NamedTuple

from yt8m.serving.bodies import RefusedError

FORM = "multipart/form-data"
_GZIP_WINDOW = 31  # of zlib: the largest window, and the header of gzip
_MOST_HEADER_BYTES = 4096  # of a file in a form
_PIECE = 1 << 16  # bytes that are unpacked at a time, so that a body of many empty members takes no quadratic time


class Upload(NamedTuple):
    """A video of a request.

    Attributes:
      name: the name that the client gives it; empty for none.
      content: the bytes of the file; None if the name is that of a video on this machine (see `named_videos`).
    """

    name: str
    content: bytes | None


def unpack_gzip(body: bytes | bytearray, most: int) -> bytearray:
    """The content of a body in gzip, of at most `most` bytes; a longer one is returned with a byte too many."""
    unpacked = bytearray()
    member: Any = None  # what unpacks the part of the body that has begun; None between two of them
    try:
        for start in range(0, len(body), _PIECE):
            packed = bytes(body[start : start + _PIECE])
            while packed and len(unpacked) <= most:
                member = member or zlib.decompressobj(_GZIP_WINDOW)
                unpacked += member.decompress(packed, most + 1 - len(unpacked))
                packed, member = member.unused_data, None if member.eof else member
    except zlib.error as error:
        raise RefusedError(400, f"the body is not gzip, as its Content-Encoding says ({error}).") from error
    if member is not None and len(unpacked) <= most:
        raise RefusedError(400, "the body is damaged: its gzip ends early.")
    return unpacked


def files_of_form(body: bytes, content_type: str, most: int) -> list[Upload]:
    """The files of a form; its other fields are left out. `content_type` is the whole header."""
    boundary = _parameters(content_type).get("boundary", "")
    if not boundary:
        raise RefusedError(400, f"Content-Type {FORM}: the header names no boundary.")
    sections = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"), most + 64)
    if len(sections) < 2 or not re.match(rb"--\s*$", sections[-1][:64].split(b"\r\n")[0] + b"\n"):
        raise RefusedError(400, "the form is damaged: its last boundary is missing, or it has too many sections.")
    files = list[Upload]()
    for part in sections[1:-1]:
        header, end, content = part.partition(b"\r\n\r\n")
        if not end or len(header) > _MOST_HEADER_BYTES:
            raise RefusedError(400, "the form is damaged: a part has no header.")
        name = _name_of_file(header)
        if name is not None:
            files.append(Upload(name, content))
    if not files:
        raise RefusedError(400, "the form has no file: send each video as a file, as curl -F video=@clip.mp4 does.")
    return files


def _name_of_file(header: bytes) -> str | None:
    """The name of the file that a part holds, without folders; None for a part that is another field."""
    for line in header.decode("utf-8", "replace").splitlines():
        field, _, value = line.partition(":")
        if field.strip().lower() == "content-disposition":
            name = _parameters(value.strip()).get("filename")
            return None if name is None else re.split(r"[/\\]", name)[-1]
    return None


def _parameters(header: str) -> dict[str, str]:
    """The parameters of a header such as `form-data; name="video"; filename="clip.mp4"`."""
    message = email.message.Message()
    message["content-type"] = re.sub(r"[\r\n\0]", " ", header)
    # A value that is not ASCII comes as a tuple (RFC 2231).
    return {
        name.lower(): email.utils.collapse_rfc2231_value(value) for name, value in message.get_params(failobj=[])[1:]
    }
