"""Extractors compute features from the pictures and the sound of videos. `extractors.names()` lists them."""

from yt8m.extractors import inception, picture_models, vggish  # noqa: F401 - they register their extractors
from yt8m.extractors.base import (
    Extractor,
    PublishedFile,
    Scaling,
    create,
    get,
    hyper_parameters,
    kind_of,
    names,
    weights,
)

__all__ = ["Extractor", "PublishedFile", "Scaling", "create", "get", "hyper_parameters", "kind_of", "names", "weights"]
