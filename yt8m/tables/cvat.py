"""Annotations of CVAT in XML: the tags of pictures or files."""

from __future__ import annotations

import xml.etree.ElementTree

from yt8m.errors import RunError, UsageError
from yt8m.tables.encodings import open_bytes
from yt8m.tables.sources import MemorySource


def read_cvat(path: str) -> MemorySource:
    """The rows of a file of CVAT's form for images: the name of each, and the labels of its tags and shapes."""
    with open_bytes(path) as file:
        try:
            root = xml.etree.ElementTree.parse(file).getroot()
        except (xml.etree.ElementTree.ParseError, ValueError, LookupError) as error:
            raise RunError(f"{path} is not XML: {error}.") from error
    images = root.findall("image")
    if root.tag != "annotations" or not images:
        raise UsageError(f"{path}: expected annotations of images as CVAT exports them; the root is <{root.tag}>.")
    names = [image.get("name", "") for image in images]
    labels = [list(dict.fromkeys(child.get("label", "") for child in image if child.get("label"))) for image in images]
    return MemorySource(path, {"id": names, "labels": labels}, "CVAT's XML", {"id": "id", "labels": "labels"})
