"""What a file or a folder is, by the first bytes of files: one place for messages about what a command does not take.

`storage.kind_of` and `storage.folder_kind` read these bytes.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterable
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

    @property
    def is_text(self) -> bool:
        """Whether its bytes are letters, in UTF-8 or UTF-16, and no other kind of texts is known."""
        return self.description.startswith("a text file")

    def __str__(self) -> str:
        return f"it is {self.description}; {self.remedy}"


_VIDEO_REMEDY = (
    "yt8m extract --videos=FILE makes records of videos, and yt8m predict --videos=FILE shows the classes of one if "
    "the model was trained on such records"
)
_TABLE_REMEDY = "yt8m make-records --table=FILE takes tables"
_MODEL_REMEDY = "yt8m predict, eval and other commands that use a model take it as --model"
TEXT, UTF16 = FileKind("a text file", _TABLE_REMEDY), FileKind("a text file in UTF-16", _TABLE_REMEDY)
RECORDS = FileKind("a file of records (TFRecord)", "--data takes records")
_ARRAY_REMEDY = (
    "yt8m make-records --array=FILE, with a --table of labels, makes records of arrays, and yt8m predict FILE shows "
    "the classes of new ones"
)
NPY = FileKind("a NumPy array (.npy)", _ARRAY_REMEDY)
NPZ = FileKind("an archive of NumPy arrays (.npz)", _ARRAY_REMEDY)
OFFICE = FileKind("an Office document", _TABLE_REMEDY)
OLD_OFFICE = FileKind("an Office document of a program before 2007", _TABLE_REMEDY)
PARQUET, ARROW = FileKind("a Parquet table", _TABLE_REMEDY), FileKind("an Arrow table", _TABLE_REMEDY)
_NETWORK_REMEDY = (
    "yt8m extract takes networks of features as ONNX files (--extractors=onnx:FILE), SavedModels (saved_model:FOLDER) "
    "and folders or names of Hugging Face (hf:NAME)"
)
ONNX = FileKind(
    "an ONNX file of a model",
    "what yt8m export wrote is taken as --model by commands that use a model, and a network of features by yt8m "
    "extract --extractors=onnx:FILE",
)
_TABLE_AS_CSV = "write the table as CSV or Parquet, which yt8m make-records --table takes"
_ARRAYS_AS_NPY = "write its arrays as .npy, and its labels as CSV"
_NO_PROGRAM = "write the records again without compression"
DEFLATED = FileKind("compressed by zlib (raw deflate)", _NO_PROGRAM)
# The kind of the first box of a file of the mp4 family, in its bytes 4 to 7.
_MP4_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp")
# The first fields of an ONNX file: its version, then the name of the program that wrote it, or the graph or the
# operators' version, each with its length. A record that begins so would have gigabytes.
_ONNX = rb"\x08[\x01-\x14](\x12[\x01-\x40][ -~]{1,64}([\x1a\x22\x32\x3a\x42]|\Z)|[\x3a\x42].[\x00-\x7f]?.?.?[\x0a\x10])"
# The first entry of a zip file that torch.save or torch.jit.save writes, in the folder of the file's name.
_TORCH = rb"PK\x03\x04.{26}[^\x00/]{1,200}/(data\.pkl|constants\.pkl|code/|data/|byteorder|version|\.format_version)"
_PICTURE = FileKind("a picture", "give the video that it is of, or its features")
_KINDS: tuple[tuple[bytes, FileKind], ...] = (
    (rb"....ftyp(hei[cfms]|hev[cmx]|mif1|msf1|avi[fs])|RIFF....WEBP|BM.{4}\x00{4}|II\*\x00|MM\x00\*", _PICTURE),
    (rb"....(" + b"|".join(_MP4_BOXES) + rb")", FileKind("an MP4 or QuickTime video", _VIDEO_REMEDY)),
    (rb"\x1a\x45\xdf\xa3", FileKind("a Matroska or WebM video", _VIDEO_REMEDY)),
    (rb"RIFF....AVI ", FileKind("an AVI video", _VIDEO_REMEDY)),
    (rb"RIFF....WAVE", FileKind("a WAVE sound file", _VIDEO_REMEDY)),
    (rb"fLaC\x00|ID3[\x02-\x04]\x00", FileKind("a FLAC or MP3 sound file", _VIDEO_REMEDY)),
    (rb"FLV\x01", FileKind("an FLV video", _VIDEO_REMEDY)),
    (rb"OggS\x00", FileKind("an Ogg video or sound file", _VIDEO_REMEDY)),
    (rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11", FileKind("a Windows Media video", _VIDEO_REMEDY)),
    (rb"\x00\x00\x01[\xba\xb3]", FileKind("an MPEG video", _VIDEO_REMEDY)),
    (rb"\x47.{187}\x47.{187}\x47", FileKind("an MPEG transport stream", _VIDEO_REMEDY)),
    (rb"\x93NUMPY", NPY),
    (rb"PK\x03\x04.{26}(mimetype|\[Content_Types\]|_rels/|xl/|docProps/)", OFFICE),
    (rb"PK\x03\x04.{26}[^\x00]{1,200}\.npy", NPZ),
    (_TORCH, FileKind("a PyTorch file", _NETWORK_REMEDY)),
    (rb"PK\x03\x04.{26}(metadata\.json|config\.json|model\.weights\.h5)", FileKind("a Keras model", _NETWORK_REMEDY)),
    (rb"PK[\x03\x05\x07][\x04\x06\x08]", FileKind("compressed by zip", "unpack it (unzip)")),
    (rb"\x1f\x8b\x08", FileKind("compressed by gzip", "unpack it (gunzip)")),
    (rb"\x28\xb5\x2f\xfd", FileKind("compressed by zstd", "unpack it (unzstd)")),
    # The byte after the mark tells them from records of a length whose bytes are the mark.
    (rb"\x04\x22\x4d\x18[\x40-\x7f]|\x02\x21\x4c\x18(?!\x00{4})", FileKind("compressed by lz4", "unpack it (unlz4)")),
    (rb"\xff\x06\x00\x00(sNaPpY|S2sTwO)", FileKind("compressed by snappy", "unpack it (snzip -d)")),
    (rb"\x5d\x00\x00.[\x00-\x04]\xff{8}", FileKind("compressed by lzma", "unpack it (unlzma)")),
    (rb"BZh[1-9][\x17\x31]", FileKind("compressed by bzip2", "unpack it (bunzip2)")),
    (rb"\xfd7zXZ\x00", FileKind("compressed by xz", "unpack it (unxz)")),
    (rb"7z\xbc\xaf\x27\x1c", FileKind("compressed by 7-Zip", "unpack it (7z x)")),
    (rb"Rar!\x1a\x07", FileKind("compressed by RAR", "unpack it (unrar x)")),
    (rb".{257}ustar", FileKind("an archive of tar", "unpack it (tar -xf)")),
    (rb".{4}\x00{4}\{ *\"[ -~]{6}", FileKind("a safetensors file", _NETWORK_REMEDY)),
    (rb".{4}TFL3", FileKind("a TensorFlow Lite model", _NETWORK_REMEDY)),
    (rb"GGUF[\x01-\x09]\x00{3}", FileKind("a GGUF file of a language model", _NETWORK_REMEDY)),
    (rb"SQLite format 3\x00", FileKind("an SQLite database", _TABLE_AS_CSV)),
    (rb"Obj\x01", FileKind("an Avro table", _TABLE_AS_CSV)),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLD_OFFICE),
    (rb"PAR1", PARQUET),
    (rb"ARROW1\x00", ARROW),
    (rb"\x80\x02\x8a\x0a", FileKind("a PyTorch file", _NETWORK_REMEDY)),
    (rb"\x80[\x02-\x05][^\x00]", FileKind("a Python pickle", "write its arrays as .npy; a pickle can run code")),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8", _PICTURE),
    (_ONNX, ONNX),
    (rb"\x78[\x01\x5e\x9c\xda][^\x00]", FileKind("compressed by zlib", _NO_PROGRAM)),
    (rb"([\t\n\r -~]\x00){8}|(\x00[\t\n\r -~]){8}", UTF16),
)  # fmt: skip
# Files that begin as text, whatever follows.
_TEXT_KINDS: tuple[tuple[bytes, FileKind], ...] = (
    (rb"%PDF-", FileKind("a PDF document", "give the file that it describes")),
    (rb"\xef?\xbb?\xbf?\s*<(!doctype html|html|head|\?xml|body)", FileKind(
        "a page of HTML or XML, which servers send in place of a missing file", "fetch the file again"
    )),
    # This line alone is what a reader of lines has.
    (rb"\x89HDF\r\n", FileKind("an HDF5 file, or weights of Keras", f"{_ARRAYS_AS_NPY}; {_NETWORK_REMEDY}")),
    (rb"MATLAB [57]\.\d MAT-file", FileKind("a MATLAB file", _ARRAYS_AS_NPY)),
    (rb"\s*\{\s*\"(nbformat\"\s*:\s*\d|cells\"\s*:(?=.*\"(cell_type|nbformat)\"))", FileKind(
        "a Jupyter notebook", "run it, or give a table that it writes"
    )),
    (rb"version https://git-lfs", FileKind("a pointer of Git LFS", "fetch the file itself by git lfs pull")),
)  # fmt: skip
_RECORDS = rb".{4}\x00{4}.{4}\n"  # the length of the first record, its checksum, the first field of an Example


_RECORD_KINDS = ((_RECORDS, RECORDS),)
_LAST_CONTROL = 8  # the last of the control characters that no text has
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SHORT = 8  # bytes; a file that begins with the mark of UTF-16 and has fewer says nothing
SAMPLE_BYTES = 512  # as many first bytes are needed


@functools.cache  # compiled at first use: most programs meet only files of the kinds that they take
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)


def find_kind(start: bytes, may_be_records: bool = False) -> FileKind | None:
    """The kind of a file with these first bytes, such as `TEXT`; None if they say nothing.

    Args:
      may_be_records: whether bytes that look like a record are called `RECORDS`. A reader of records, which asks about
        a damaged file, does not want this.
    """
    kinds = (*_TEXT_KINDS, *(() if may_be_text(start) else _KINDS), *(_RECORD_KINDS if may_be_records else ()))
    kind = next((kind for pattern, kind in kinds if _compiled(pattern).match(start)), None)
    if kind is None and start[:2] in _UTF16_MARKS and len(start) > _SHORT:
        return UTF16
    return TEXT if kind is None and is_text(start) else kind


def may_be_text(start: bytes) -> bool:
    """Whether the first bytes of a file may be text in some code: without control characters, or marked as UTF-16."""
    return start[:2] in _UTF16_MARKS or (bool(start) and min(start) > _LAST_CONTROL)


def is_text(start: bytes) -> bool:
    """Whether the first bytes of a file are UTF-8 text with a line end or a separator of fields."""
    try:
        text = start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(start) - error.start > 3:  # else the last letter is cut
            return False
        text = start[: error.start].decode("utf-8-sig")
    is_readable = all(letter.isprintable() or letter.isspace() for letter in text)
    return is_readable and any(mark in text for mark in "\n\r,;\t{")


EXPORT = FileKind("the folder of an exported model (SavedModel)", _MODEL_REMEDY)
RUN = FileKind("the folder of a run", _MODEL_REMEDY)
# The names of files by which a folder is known.
_SAVED_MODEL, _OF_RUN = "saved_model.pb", frozenset(("config.json", "model_flags.json", "checkpoint"))
_OF_EXPORT = frozenset(("saved_model", "inference_model"))  # the folders in what `yt8m export` writes


def find_folder_kind(names: Collection[str], kinds: Iterable[FileKind | None]) -> FileKind | None:
    """What a folder is, by the names of its files and the kinds of some of these; None if they say nothing."""
    if _SAVED_MODEL in names or set(names) >= _OF_EXPORT:
        return EXPORT
    if not _OF_RUN.isdisjoint(names):
        return RUN
    if any(kind is not None and kind.is_video for kind in kinds):
        return FileKind("a folder of videos", _VIDEO_REMEDY.replace("=FILE", "=FOLDER"))
    return None


def ending_of_others(path: str) -> str:
    """Says that a file whose first bytes are unknown is no shard by its name either; empty if its name may be one's."""
    ending = os.path.splitext(path)[1].lower()
    if not ending[1:].isalnum() or ending[1:].isdigit() or ending.startswith(".tfrecord"):
        return ""
    return f"its first bytes are not those of a TFRecord file, and its name ends in {ending}"
