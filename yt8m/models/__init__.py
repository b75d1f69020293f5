"""Models, which map the features of one tower's part of a batch to predictions; `models.names()` lists them."""

from yt8m.models.base import BaseModel, create, get, hyper_parameters, names, names_and_packages, register

__all__ = ["BaseModel", "create", "get", "hyper_parameters", "names", "names_and_packages", "register"]
