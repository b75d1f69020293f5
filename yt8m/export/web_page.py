"""Writes a folder with a static web page, which any web server can serve. It scores files in the visitor's browser.

    index.html, style.css, *.js   the page, copied from the package's data
    page.json                     what the page needs to know of the model, see `page_facts`
    model.onnx                    the model, see `onnx_file`
    network-N.onnx                the networks that compute the model's features, if a browser can run them; then the
                                  page accepts videos
    onnxruntime/                  onnxruntime-web, which runs the ONNX files, with its licence

The page loads nothing from other servers, and sends nothing to any server.
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
from yt8m.extractors.sampling_rules import RULES, rule_of_entry
from yt8m.numerics.onnx_session import open_session
from yt8m.records import film_windows, thresholds, vocabulary
from yt8m.records.data_format import PUBLISHED

MODEL = "model.onnx"
VERSION = "1.30.0"  # the version of onnxruntime-web with which the page is tested
# {file in the npm package: (file in the folder `onnxruntime`, sha256)}. The ending .mjs becomes .js, because many web
# servers do not know that .mjs is JavaScript.
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
# Files in the package's data that are joined into the style.css of the page.
_STYLES = ("report.css", "timeline.css", "web/page.css")

Files = Mapping[str, bytes]


def runtime_files(folder: str) -> Files:
    """Reads the files of onnxruntime-web that the page needs: {name in the folder `onnxruntime`: content}."""
    install = f"run npm install onnxruntime-web@{VERSION}, or name the folder of the package by --onnxruntime_web"
    package_json = storage.join(folder, "package.json")
    if not storage.exists(package_json):
        raise UsageError(
            f"--format=web needs the npm package onnxruntime-web, but there is no {package_json}: {install}."
        )
    version = _read_version(package_json)
    if version != VERSION:
        raise UsageError(f"{folder} is onnxruntime-web {version}, but the page needs {VERSION}: {install}.")
    files = {}
    for source, (name, expected) in _RUNTIME.items():
        path = storage.join(folder, source)
        try:
            content = storage.read_bytes(path)
        except storage.NotFoundError as error:
            raise _damage_error(f"{path} is missing") from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != expected:
            raise _damage_error(f"{path} has the sha256 {digest}; that of version {VERSION} is {expected}")
        files[name] = content
    return files


def _read_version(package_json: str) -> str:
    """The version of an npm package, from its package.json."""
    try:
        about = storage.read_json(package_json)
    except ValueError as error:
        raise _damage_error(str(error).rstrip(".")) from error
    version = about.get("version") if isinstance(about, dict) else None
    if not isinstance(version, str):
        raise _damage_error(f"{package_json} names no version of the package")
    return version


def _damage_error(problem: str) -> UsageError:
    """The error about a damaged npm package, whose message is `problem` and how to replace the package."""
    return UsageError(f"{problem}. Remove the package and install it again: npm install onnxruntime-web@{VERSION}.")


def write(folder: str, runtime: Files) -> str:
    """Writes the page into a folder that has the ONNX file of the model, `MODEL`, already.

    Returns:
      The reason why the page cannot accept videos; empty if it can.
    """
    model, networks, why_no_videos = OnnxFile(storage.join(folder, MODEL)), list[PageNetwork](), ""
    try:
        networks = networks_of(model)
    except (UsageError, RunError) as error:
        why_no_videos = str(error).rstrip(".")
    network_files = {f"network-{number}.onnx": network for number, network in enumerate(networks)}
    entries = [{"file": name, **network.facts} for name, network in network_files.items()]
    facts = page_facts(model) | {"networks": entries}
    package = importlib.resources.files("yt8m") / "data"
    page = {
        file.name: file.read_bytes() for file in (package / "web").iterdir() if file.name.endswith((".html", ".js"))
    }
    page["style.css"] = b"".join((package / name).read_bytes() for name in _STYLES)
    page["page.json"] = json.dumps(facts, allow_nan=False).encode()
    page |= {name: network.content for name, network in network_files.items()}
    page |= {f"onnxruntime/{name}": content for name, content in runtime.items()}
    page["onnxruntime/license.txt"] = (package / "web" / _LICENCE).read_bytes()
    for name, content in page.items():
        storage.write(storage.join(folder, name), content)
    return why_no_videos


def page_facts(model: OnnxFile) -> dict[str, Any]:
    """What the page needs to know of the model, without the networks of its extractors.

    This is its name and step, its features, the names of its classes, their thresholds (None if the model has no
    thresholds, and for a class that is never a tag), the frames to take per second of a video (`per_second`),
    whether these are counted by whole rows (`counts_whole`, see `sampling_rules`), and the largest number of frames
    that the model scores at once (`window`). `film` has the number of frames of the windows of a film, and the number
    of frames above which a video is a film; None if all videos are scored as a whole. `few_positives` has for each
    class the number of videos on which its threshold was chosen if it is a small one, else None. If each training
    video has one class, `takes_best` is true: the tag of a video is its best class, and there are no thresholds.
    """
    about, num_classes = model.about, model.format.num_classes or 0
    own_names, tag_text = model.texts.get(vocabulary.NAME), model.texts.get(thresholds.NAME)
    own_vocabulary = vocabulary.parse(own_names.encode(), MODEL) if own_names else vocabulary.of_names(())
    names = own_vocabulary.shown(num_classes)
    tagger = thresholds.parse(tag_text, MODEL, num_classes) if tag_text else None
    takes_best = bool(model.format.one_class) and (tagger is None or tagger.target is None)
    tagger = None if takes_best else tagger
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
        "counts_whole": RULES[rule_of_entry(extractor)].counts_whole if extractor else False,
        "window": extractor.get("max_frames", Settings().max_frames),
        "film": film_windows.windows_for(model.format),
        "takes_best": takes_best,
        "few_positives": tagger and [tagger.few_positives(index) for index in range(num_classes)],
    }


_INTERPOLATIONS = ("bicubic", "bilinear", "area", "lanczos")  # those that data/web/scaling.js can compute


class PageNetwork(NamedTuple):
    """The network of an extractor that the page runs.

    Attributes:
      facts: what the page needs to run the network: names of input and output, and how to convert pictures to the
        input.
    """

    content: bytes
    facts: Mapping[str, Any]


def networks_of(model: OnnxFile) -> list[PageNetwork]:
    """The networks that compute the model's features, one for each feature, in the order of the features."""
    entries = model.about["extractors"]
    if not entries:
        raise UsageError("the records of the training are not from `yt8m extract`")
    return [_network_of_feature(feature, entry_of(feature, entries)) for feature in model.format.sizes()]


def _network_of_feature(feature: str, entry: Mapping[str, Any] | None) -> PageNetwork:
    """The network that computes a feature.

    Args:
      entry: the description of its extractor in the metadata of the model; None if there is none.
    """
    name = str(entry["name"]) if entry else "no extractor"
    if entry is None or not name.startswith("onnx:"):
        raise UsageError(f"the feature {feature} is computed by {name}, but a browser can only run ONNX files")
    extractor = extractors.create(name, entry["settings"])
    assert isinstance(extractor, OnnxModel)
    files = weights.find(extractor, name)
    path = files.paths[extractor.file_field]
    if files.sha256 != dict(entry["weights"]):
        raise UsageError(f"{path} is no longer the file with which the records of the training were made")
    if len(extractor.files_of(path)) > 1:
        raise UsageError(f"{path} keeps weights in other files; a page takes a network in one file")
    if extractor.interpolation not in _INTERPOLATIONS:
        raise UsageError(
            f"{name} scales pictures by {extractor.interpolation}, but a page can scale them only by "
            f"{', '.join(_INTERPOLATIONS)}; extract the features with one of these, and train again"
        )
    content = storage.read_bytes(path)
    settings = {**extractor.settings(), "range": entry["range"]}
    return PageNetwork(content, settings | _describe_inputs(extractor, content, path))


def _describe_inputs(extractor: OnnxModel, content: bytes, path: str) -> dict[str, Any]:
    """What the page needs to know of the input and the output of a network."""
    session = open_session(content, path, "--format=web", cpu_only=True)
    pictures = session.get_inputs()[0]
    output = next(candidate for candidate in session.get_outputs() if extractor.output in ("", candidate.name))
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
