"""Losses by name."""

from __future__ import annotations

from yt8m.options import Catalogue

_losses = Catalogue("loss")

register = _losses.register
get = _losses.get
names = _losses.names
create = _losses.create
hyper_parameters = _losses.hyper_parameters
