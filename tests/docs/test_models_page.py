"""The page on models names all there are."""

from __future__ import annotations

import pathlib

import pytest

from yt8m import losses, models

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "users" / "models.md"


@pytest.mark.parametrize("name", [*models.built_in_names(), *losses.built_in_names()])
def test_every_model_and_loss_is_told(name: str) -> None:
    assert f"**{name}**" in PAGE.read_text()


def test_the_readme_says_how_many_there_are() -> None:
    assert f"There are [{len(models.built_in_names())} models]" in (ROOT / "README.md").read_text()
