"""The networks by which a page computes the features of videos: extractors that are ONNX files of pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from yt8m import extractors, storage
from yt8m.datasets.extract import weights
from yt8m.datasets.extract.computing import entry_of
from yt8m.errors import UsageError
from yt8m.export.onnx_file import OnnxFile
from yt8m.extractors.picture_models import OnnxModel, axes_of
from yt8m.numerics.onnx_session import open_session

_INTERPOLATIONS = ("bicubic", "bilinear", "area", "lanczos")  # those of data/web/scaling.js


class PageNetwork(NamedTuple):
    """A network of the page.

    Attributes:
      content: the ONNX file.
      facts: what the page must know: input and output, and how pictures become the input.
    """

    content: bytes
    facts: Mapping[str, Any]


def networks_of(model: OnnxFile) -> list[PageNetwork]:
    """The network of each feature of the model, in the model's order.

    Raises:
      UsageError: a browser cannot compute a feature; the message says why.
      RunError: an extractor's file cannot be read.
    """
    entries = model.about["extractors"]
    if not entries:
        raise UsageError("the records of the training are not from `yt8m extract`")
    return [_network(feature, entry_of(feature, entries)) for feature in model.format.sizes()]


def _network(feature: str, entry: Mapping[str, Any] | None) -> PageNetwork:
    name = str(entry["name"]) if entry else "no extractor"
    if entry is None or not name.startswith("onnx:"):
        raise UsageError(f"the feature {feature} is computed by {name}, and a browser runs ONNX files alone")
    extractor = extractors.create(name, entry["settings"])
    assert isinstance(extractor, OnnxModel)
    files = weights.find(extractor, name)
    path = files.paths[extractor.file_field]
    if files.sha256 != dict(entry["weights"]):
        raise UsageError(f"{path} is no longer the file with which the records of the training were made")
    if len(extractor.files_of(path)) > 1:
        raise UsageError(f"{path} keeps weights in other files; a page takes a network in one file")
    if extractor.interpolation not in _INTERPOLATIONS:
        raise UsageError(f"{name} scales pictures by {extractor.interpolation}, which a page does not")
    content = storage.read_bytes(path)
    declared = {**extractor.settings(), "range": entry["range"]}
    return PageNetwork(content, declared | _facts(extractor, content, path))


def _facts(extractor: OnnxModel, content: bytes, path: str) -> dict[str, Any]:
    session = open_session(content, path, "--format=web", cpu_only=True)
    pictures = session.get_inputs()[0]
    output = next(each for each in session.get_outputs() if extractor.output in ("", each.name))
    if len(pictures.shape) != 4:
        raise UsageError(f"{path} takes clips, and a page takes networks of single pictures")
    if pictures.type not in ("tensor(float)", "tensor(uint8)") or output.type != "tensor(float)":
        raise UsageError(
            f"{path} takes {pictures.type} and gives {output.type}; a page takes float or uint8, and float"
        )
    return {
        "input": pictures.name,
        "output": output.name,
        "colours_first": axes_of(pictures.shape, path)[1] == 3,
        "is_bytes": pictures.type == "tensor(uint8)",
        "batch": pictures.shape[0] if isinstance(pictures.shape[0], int) and pictures.shape[0] > 0 else 0,
    }
