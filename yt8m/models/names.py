"""Models by name."""

from __future__ import annotations

from yt8m.options import Catalogue

_models = Catalogue("model")

register = _models.register
get = _models.get
names = _models.names
create = _models.create
hyper_parameters = _models.hyper_parameters
