"""Extractors compute features from the pictures and the sound of videos. `extractors.names()` lists them."""

from yt8m.extractors.base import (
    Clips,
    Extractor,
    OpenedExtractor,
    Pictures,
    PublishedFile,
    Scaling,
    Sound,
    built_in_names,
    create,
    get,
    hyper_parameters,
    is_plug_in,
    names,
    names_and_packages,
    split_name,
    weights,
)

__all__ = ["Clips", "Extractor", "OpenedExtractor", "Pictures", "PublishedFile", "Scaling", "Sound"]
__all__ += ["built_in_names", "create", "get", "hyper_parameters", "is_plug_in", "names", "names_and_packages"]
__all__ += ["split_name", "weights"]
