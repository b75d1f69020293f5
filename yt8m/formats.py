"""The format numbers of the files that this project writes, which tell later versions how to read them.

A file format gets a higher number with each change that earlier versions would read wrongly. A version reads files with
its own numbers and with all lower ones.
"""

from __future__ import annotations

from typing import Any

from yt8m.errors import RunError

CONFIG = 1  # config.json
GRAPH = 1  # the meta-graph of a checkpoint, of an inference model and of a SavedModel
MANIFEST = 1  # manifest.json
ONNX = 1  # the metadata of an ONNX file of a model
WEIGHTS = 1  # the NumPy file of a model's weights


class NewerFormatError(RunError):
    """The file was written by a later version of this project, in a format that this version cannot read."""


def refuse_newer(path: str, number: Any, newest: int) -> None:
    """Refuses a file with a format number above `newest`.

    Args:
      newest: the largest format number that this version can read.
    """
    if type(number) is not int or number < 1:
        raise RunError(
            f"{path} is damaged: its format is {number!r}, which must be a whole number from 1 on. "
            "Restore the file from a copy."
        )
    if number > newest:
        raise NewerFormatError(
            f"{path} has format {number}, and this version of yt8m reads formats up to {newest}: use the version that "
            "wrote it, or a newer one."
        )
