"""Installs small packages with entry points, as pip does, for one test."""

from __future__ import annotations

import importlib
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest

from yt8m import plug_ins

GROUPS = {
    "model": "yt8m.models",
    "loss": "yt8m.losses",
    "reader": "yt8m.readers",
    "extractor": "yt8m.extractors",
    "callback": "yt8m.callbacks",
}

# A class of each kind.
CODE = """
from dataclasses import dataclass
from typing import ClassVar

from yt8m.extractors import Extractor
from yt8m.losses.label_losses import CrossEntropyLoss
from yt8m.models.video_level import LogisticModel
from yt8m.options import option
from yt8m.readers import YT8MAggregatedFeatureReader
from yt8m.runner import Callback


@dataclass(frozen=True)
class AcmeModel(LogisticModel):
    acme_width: int = option(3, "width of the acme")


class AcmeLoss(CrossEntropyLoss): ...


class AcmeReader(YT8MAggregatedFeatureReader): ...


class AcmeExtractor(Extractor):
    feature: ClassVar[str] = "acme"

    def open(self, weights): ...


class AcmeCallback(Callback): ...
"""


class Packages:
    """The packages that a test has installed into a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._modules: set[str] = set()

    def install(self, package: str, entry_points: str, module: str, code: str = "class Mine: ...\n") -> None:
        """Installs a package with one module.

        Args:
          entry_points: the text of entry_points.txt.
        """
        (self.folder / f"{module}.py").write_text(code)
        metadata = self.folder / f"{package.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)
        self._modules.add(module)
        self._forget()

    def install_all_kinds(self, package: str = "acme-video", module: str = "acme_kinds", code: str = CODE) -> None:
        """Installs a package with a class of each kind: AcmeModel, AcmeLoss, ..."""
        points = (f"[{group}]\nAcme{kind.title()} = {module}:Acme{kind.title()}\n" for kind, group in GROUPS.items())
        self.install(package, "".join(points), module, code)

    def uninstall_all(self) -> None:
        """Removes the files and the modules of all these packages."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for module in self._modules:
            sys.modules.pop(module, None)
        self._forget()

    def _forget(self) -> None:
        importlib.invalidate_caches()
        plug_ins.installed.cache_clear()


@pytest.fixture
def packages(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    folder = tmp_path_factory.mktemp("packages")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(plug_ins, "_chosen", {})
    monkeypatch.setattr(plug_ins, "_warnings", set())
    installed = Packages(folder)
    with plug_ins.local_expectations():
        yield installed
    installed.uninstall_all()


Warnings = Callable[[], list[str]]


@pytest.fixture
def warnings_of_packages(caplog: pytest.LogCaptureFixture) -> Warnings:
    """A function that returns the warnings so far that tell of an installed package."""
    return lambda: [text for record in caplog.records if "installed package" in (text := record.getMessage())]
