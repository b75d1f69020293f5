"""Extractors compute features from the pictures and the sound of videos. `extractors.names()` lists them."""

from yt8m.extractors.base import (
    Clips,
    Extractor,
    OpenedExtractor,
    Pictures,
    PublishedFile,
    Scaling,
    Sound,
    create,
    get,
    hyper_parameters,
    names,
    split_name,
    weights,
)

__all__ = ["Clips", "Extractor", "OpenedExtractor", "Pictures", "PublishedFile", "Scaling", "Sound"]
__all__ += ["create", "get", "hyper_parameters", "names", "split_name", "weights"]
