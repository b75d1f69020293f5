"""The format numbers of the files that this project writes, by which later versions know how to read them.

A change that an earlier version would read wrongly takes a higher number. Every version reads all numbers up to
its own.
"""

from __future__ import annotations

from typing import Any

from yt8m.errors import RunError

CONFIG = 1  # config.json
GRAPH = 1  # the meta-graph of a checkpoint, of an inference model and of a SavedModel
MANIFEST = 1  # manifest.json
ONNX = 1  # the metadata of an ONNX file of a model


class NewerFormatError(RunError):
    """A later version of this project wrote the file."""


def refuse_newer(path: str, number: Any, newest: int) -> None:
    """Refuses a file with a format number above `newest`.

    Raises:
      NewerFormatError: the number is higher; the message names the file and both numbers.
      RunError: it is not a number.
    """
    if not isinstance(number, int) or number < 1:
        raise RunError(f"{path} is damaged: its format is {number!r}, which must be a whole number from 1 on.")
    if number > newest:
        raise NewerFormatError(
            f"{path} has format {number}, and this version of yt8m reads formats up to {newest}: use the version that "
            "wrote it, or a newer one."
        )
