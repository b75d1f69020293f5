"""The page on models names all there are."""

from __future__ import annotations

import pathlib

import pytest

from yt8m import losses, models

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "users" / "models.md"


@pytest.mark.parametrize("name", [*models.names(), *losses.names()])
def test_every_model_and_loss_is_told(name: str) -> None:
    assert f"**{name}**" in PAGE.read_text()
