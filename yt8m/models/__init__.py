"""Models, which map the features of one tower's part of a batch to predictions; `models.names()` lists them."""

from yt8m.models.base import (
    BaseModel,
    built_in_names,
    create,
    get,
    hyper_parameters,
    is_plug_in,
    names,
    names_and_packages,
    register,
)

__all__ = ["BaseModel", "built_in_names", "create", "get", "hyper_parameters", "is_plug_in", "names"]
__all__ += ["names_and_packages", "register"]
