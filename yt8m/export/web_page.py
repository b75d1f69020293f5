"""A folder with a static web page that scores files in the browser with onnxruntime-web; any web server can serve it.

    index.html, style.css, *.js   the page, copied from the package's data
    page.json                     the facts that the page needs, from the metadata of the ONNX file
    model.onnx                    the model (format: `onnx_file`)
    network-N.onnx                the extractors of the model, if a browser can run them; then the page accepts videos
    onnxruntime/                  onnxruntime-web, with its licence

The page loads nothing from other servers, and sends nothing.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from yt8m import extractors, storage
from yt8m.datasets.extract import weights
from yt8m.datasets.extract.computing import Settings, entry_of
from yt8m.errors import RunError, UsageError
from yt8m.export.onnx_file import OnnxFile
from yt8m.extractors.picture_models import OnnxModel, axes_of
from yt8m.numerics.onnx_session import open_session
from yt8m.records import thresholds, vocabulary
from yt8m.records.data_format import PUBLISHED

MODEL = "model.onnx"
VERSION = "1.30.0"  # the version of onnxruntime-web with which the page is tested
# {file in the npm package: (name on the page, sha256)}. Many web servers do not know that .mjs is JavaScript.
_RUNTIME = {
    "dist/ort.wasm.bundle.min.mjs": (
        "onnxruntime-web.js",
        "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    ),
    "dist/ort-wasm-simd-threaded.wasm": (
        "onnxruntime-web.wasm",
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    ),
}
_LICENCE = "onnxruntime-web.license.txt"
_STYLES = ("report.css", "timeline.css", "web/page.css")

Files = Mapping[str, bytes]


def runtime_files(folder: str) -> Files:
    """The files of onnxruntime-web that the page needs, by their names on the page.

    Args:
      folder: the folder of the npm package, as npm unpacks it.

    Raises:
      UsageError: there is no such package, its version is another, or a file differs from the published one.
    """
    install = f"run npm install onnxruntime-web@{VERSION}, or name the folder of the package by --onnxruntime_web"
    described = storage.join(folder, "package.json")
    if not storage.exists(described):
        raise UsageError(f"--format=web needs the npm package onnxruntime-web, but there is no {described}: {install}.")
    version = storage.read_json(described).get("version")
    if version != VERSION:
        raise UsageError(f"{folder} is onnxruntime-web {version}, but the page needs {VERSION}: {install}.")
    files = {}
    for source, (name, expected) in _RUNTIME.items():
        content = storage.read_bytes(storage.join(folder, source))
        digest = hashlib.sha256(content).hexdigest()
        if digest != expected:
            raise UsageError(
                f"{storage.join(folder, source)} has the sha256 {digest}; that of version {VERSION} is {expected}. "
                "Remove the package and install it again."
            )
        files[name] = content
    return files


def write(folder: str, runtime: Files) -> str:
    """Writes the page into a folder that has `MODEL`.

    Args:
      folder: the folder.
      runtime: see `runtime_files`.

    Returns:
      Why the page cannot accept videos; empty if it can.

    Raises:
      UsageError: the ONNX file was not written by this project.
      RunError: a file cannot be written.
    """
    model, networks, no_videos = OnnxFile(storage.join(folder, MODEL)), list[PageNetwork](), ""
    try:
        networks = networks_of(model)
    except (UsageError, RunError) as error:
        no_videos = str(error).rstrip(".")
    of_networks = {f"network-{number}.onnx": network for number, network in enumerate(networks)}
    facts = page_facts(model) | {"networks": [{"file": name, **each.facts} for name, each in of_networks.items()]}
    package = importlib.resources.files("yt8m") / "data"
    page = {
        file.name: file.read_bytes() for file in (package / "web").iterdir() if file.name.endswith((".html", ".js"))
    }
    page["style.css"] = b"".join((package / name).read_bytes() for name in _STYLES)
    page["page.json"] = json.dumps(facts, allow_nan=False).encode()
    page |= {name: network.content for name, network in of_networks.items()}
    of_runtime = {**runtime, "license.txt": (package / "web" / _LICENCE).read_bytes()}
    for name, content in (page | {f"onnxruntime/{name}": content for name, content in of_runtime.items()}).items():
        storage.write(storage.join(folder, name), content)
    return no_videos


def page_facts(model: OnnxFile) -> dict[str, Any]:
    """The facts that the page needs: features, names and thresholds of the classes, frames a second and per window."""
    about, num_classes = model.about, model.format.num_classes or 0
    own_names, tag_text = model.texts.get(vocabulary.NAME), model.texts.get(thresholds.NAME)
    names = vocabulary.shown_for(num_classes, vocabulary.parse(own_names.encode(), MODEL) if own_names else None)
    tagger = thresholds.parse(tag_text, MODEL, num_classes) if tag_text else None
    extractor: Mapping[str, Any] = next(iter(about["extractors"]), {})
    return {
        "model": about["model"],
        "step": about["step"],
        "features": [
            {"name": feature.name, "size": feature.size, "range": feature.range or PUBLISHED}
            for feature in model.format.features
        ],
        "classes": [names.name(index) for index in range(num_classes)],
        "thresholds": tagger and [value if math.isfinite(value) else None for value in tagger.thresholds.tolist()],
        "per_second": extractor.get("frames_per_second", Settings().per_second),
        "window": extractor.get("max_frames", Settings().max_frames),
    }


_INTERPOLATIONS = ("bicubic", "bilinear", "area", "lanczos")  # those of data/web/scaling.js


class PageNetwork(NamedTuple):
    """The network of an extractor that the page runs.

    Attributes:
      content: the content of the ONNX file.
      facts: what the page needs to run it: names of input and output, and how pictures are converted to the input.
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
