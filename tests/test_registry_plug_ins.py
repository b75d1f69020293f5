"""An installed package adds models, losses, readers, extractors and callbacks by entry points."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from yt8m.errors import UsageError
from yt8m.registry import Catalogue, _find_plug_ins

Installer = Callable[..., None]


@pytest.fixture
def install(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Installs a package as pip does: a module, and its metadata with entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    _find_plug_ins.cache_clear()

    def install(package: str, entry_points: str, code: str = "class Mine: ...\n") -> None:
        (tmp_path / f"{package}.py").write_text(code)
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)

    yield install
    _find_plug_ins.cache_clear()


def tools() -> Catalogue:
    catalogue = Catalogue("tool", group="yt8m.tools")
    catalogue.register(int, "Own")
    return catalogue


def test_its_class_has_a_plain_name_and_is_imported_when_it_is_used(install: Installer) -> None:
    install("acme_tools", "[yt8m.tools]\nSaw = acme_tools:Mine\n")
    catalogue = tools()
    assert catalogue.names() == ["Own", "Saw"]
    assert catalogue.names_and_packages() == ["Own", "Saw (acme_tools)"]
    assert "acme_tools" not in sys.modules
    assert catalogue.get("Saw").__module__ == "acme_tools"
    assert catalogue.get("Own") is int
    with pytest.raises(UsageError, match=r"unknown tool 'Sax'; did you mean Saw\? Known: Own, Saw"):
        catalogue.get("Sax")
    del sys.modules["acme_tools"]


@pytest.mark.parametrize(("name", "owner"), [("Saw", "acme_first"), ("Own", "yt8m itself")])
def test_two_of_one_name_are_refused(install: Installer, name: str, owner: str) -> None:
    install("acme_first", f"[yt8m.tools]\n{'Saw'} = acme_first:Mine\n")
    install("acme_second", f"[yt8m.tools]\n{name} = acme_second:Mine\n")
    with pytest.raises(UsageError, match=rf"tool '{name}' .*package acme_\w+ .*name of one.*uninstall"):
        tools().get("Other")


def test_a_package_that_cannot_be_imported_is_named(install: Installer) -> None:
    install("acme_broken", "[yt8m.tools]\nSaw = acme_broken:Missing\n")
    with pytest.raises(UsageError, match="cannot load tool 'acme_broken:Missing'"):
        tools().get("Saw")
    sys.modules.pop("acme_broken", None)


MODEL = """
from yt8m.models.video_level import LogisticModel

class AcmeModel(LogisticModel):
    pass
"""


@pytest.mark.long
def test_help_lists_the_model_of_a_package(install: Installer, tmp_path: pathlib.Path) -> None:
    install("acme_models", "[yt8m.models]\nAcmeModel = acme_models:AcmeModel\n", MODEL)
    command = [sys.executable, "-c", "from yt8m.command_line.cli import main; main(['train', '--help=all'])"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "AcmeModel (acme_models)" in done.stdout + done.stderr
