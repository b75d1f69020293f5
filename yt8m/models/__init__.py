"""Models: from one tower's features to predictions. `models.names()` lists them."""

from yt8m.models import (  # noqa: F401 - they register their models
    aggregation_models,
    attention_models,
    dbof,
    frame_level,
    nextvlad,
    recurrent_models,
    video_level,
    video_level_deep,
)
from yt8m.models.base import BaseModel
from yt8m.models.names import create, get, hyper_parameters, names, register

__all__ = ["BaseModel", "create", "get", "hyper_parameters", "names", "register"]
