"""Models: functions of one tower's features to predictions. `models.names()` lists them."""

from yt8m.models.base import BaseModel, create, get, hyper_parameters, names, register

__all__ = ["BaseModel", "create", "get", "hyper_parameters", "names", "register"]
