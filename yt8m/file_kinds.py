"""What a file is, by its first bytes: one place for the messages about files of another kind than a command takes."""

from __future__ import annotations

import re
from typing import NamedTuple


class FileKind(NamedTuple):
    """A kind of files.

    Attributes:
      description: what such a file is, as in `it is an MP4 video`.
      remedy: which command or flag takes it, or what else to do.
    """

    description: str
    remedy: str

    @property
    def is_video(self) -> bool:
        """Whether it is a container of videos."""
        return self.remedy is _VIDEO_REMEDY

    @property
    def is_compressed(self) -> bool:
        """Whether it is a file that some program has compressed."""
        return self.description.startswith("compressed")

    def __str__(self) -> str:
        return f"it is {self.description}: {self.remedy}"


_VIDEO_REMEDY = (
    "yt8m extract --videos=FILE makes records of videos, and yt8m predict --videos=FILE shows the classes of one if "
    "the model was trained on such records"
)
_TABLE_REMEDY = "yt8m make-records --table=FILE takes tables"
_ARRAY_REMEDY = "yt8m make-records --array=FILE, with a --table of labels, makes records of arrays"
# The kind of the first box of a file of the mp4 family, in its bytes 4 to 7.
_MP4_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp")
_KINDS: tuple[tuple[bytes, FileKind], ...] = (
    (rb"....(" + b"|".join(_MP4_BOXES) + rb")", FileKind("an MP4 or QuickTime video", _VIDEO_REMEDY)),
    (rb"\x1a\x45\xdf\xa3", FileKind("a Matroska or WebM video", _VIDEO_REMEDY)),
    (rb"RIFF....AVI ", FileKind("an AVI video", _VIDEO_REMEDY)),
    (rb"RIFF....WAVE", FileKind("a WAVE sound file", _VIDEO_REMEDY)),
    (rb"FLV\x01", FileKind("an FLV video", _VIDEO_REMEDY)),
    (rb"OggS", FileKind("an Ogg video or sound file", _VIDEO_REMEDY)),
    (rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11", FileKind("a Windows Media video", _VIDEO_REMEDY)),
    (rb"\x00\x00\x01[\xba\xb3]", FileKind("an MPEG video", _VIDEO_REMEDY)),
    (rb"\x47.{187}\x47.{187}\x47", FileKind("an MPEG transport stream", _VIDEO_REMEDY)),
    (rb"\x93NUMPY", FileKind("a NumPy array (.npy)", _ARRAY_REMEDY)),
    (rb"PK\x03\x04.{26}(mimetype|\[Content_Types\]|_rels/|xl/|docProps/)", FileKind(
        "an Office document", _TABLE_REMEDY
    )),
    (rb"PK\x03\x04.{26}[^\x00/]{1,200}\.npy", FileKind("an archive of NumPy arrays (.npz)", _ARRAY_REMEDY)),
    (rb"PK[\x03\x05\x07][\x04\x06\x08]", FileKind("compressed by zip", "unpack it (unzip)")),
    (rb"\x1f\x8b", FileKind("compressed by gzip", "unpack it (gunzip)")),
    (rb"\x28\xb5\x2f\xfd", FileKind("compressed by zstd", "unpack it (unzstd)")),
    (rb"BZh[1-9]", FileKind("compressed by bzip2", "unpack it (bunzip2)")),
    (rb"\xfd7zXZ\x00", FileKind("compressed by xz", "unpack it (unxz)")),
    (rb"\x89HDF\r\n\x1a\n", FileKind("an HDF5 file", "write its arrays as .npy, and its labels as CSV")),
    (rb"PAR1", FileKind("a Parquet table", _TABLE_REMEDY)),
    (rb"ARROW1", FileKind("an Arrow table", _TABLE_REMEDY)),
    (rb"\x80[\x02-\x05][^\x00]", FileKind("a Python pickle", "write its arrays as .npy; a pickle can run code")),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8", FileKind("a picture", "give the video that it is of, or its features")),
    (rb"%PDF-", FileKind("a PDF document", "give the file that it describes")),
    (rb"\xef?\xbb?\xbf?\s*<(!doctype html|html|head|\?xml|body)", FileKind(
        "a page of HTML or XML, which servers send in place of a missing file", "fetch the file again"
    )),
    (rb"version https://git-lfs", FileKind("a pointer of Git LFS", "fetch the file itself by git lfs pull")),
    (rb"[\x08]\x01?.\x12.{0,40}(pytorch|tf2onnx|skl2onnx|onnx|yt8m)", FileKind(
        "an ONNX file of a model", "name it by --model"
    )),
    (rb"\x78[\x01\x5e\x9c\xda][^\x00]", FileKind(
        "compressed by zlib", "write the records again without compression"
    )),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern, re.DOTALL | re.IGNORECASE), kind) for pattern, kind in _KINDS)
SAMPLE_BYTES = 512  # as many first bytes are needed


def find_kind(start: bytes) -> FileKind | None:
    """The kind of a file with these first bytes; None if they say nothing."""
    return next((kind for pattern, kind in _COMPILED if pattern.match(start)), None)
