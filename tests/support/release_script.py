"""`.ci/release.py` as a module, and a small repository that it can release."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".ci"
PAGE = "# yt8m\n\n[Pages](docs/a.md#b), ![curve](docs/curve.png), [here](#yt8m), [there](https://example.org/)\n"
FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "yt8m"
version = "0.2.0"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE", "NOTICE"]
requires-python = ">=3.11.4,<3.15"
classifiers = ["Programming Language :: Python :: 3.11", "Programming Language :: Python :: 3.14"]
[project.urls]
Repository = "https://example.org/owner/yt8m"
[project.scripts]
yt8m = "yt8m.program:main"
[tool.setuptools]
packages = ["yt8m"]
""",
    "yt8m/__init__.py": "",
    "yt8m/version.py": '__version__ = "0.2.0"\n',
    "yt8m/program.py": "def main() -> None: ...\n",
    "README.md": PAGE,
    "CHANGELOG.md": "# Changelog\n\n## 0.2.0 (2026-12-01)\n\n## 0.1.0 (2026-11-30)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 0.2.0\n",
    "SECURITY.md": "# Security\n",
    "MANIFEST.in": (FOLDER.parent / "MANIFEST.in").read_text(),  # so that the tests notice what this file leaves out
    "LICENSE": "L\n",
    "NOTICE": "N\n",
    "constraints.txt": 'numpy==2.0\ntensorflow==99.1.0; python_version < "3.14"\n',
}


def load(name: str) -> Any:
    """The module of a script in `.ci`, anew, so that a test may change its constants."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: pathlib.Path, *words: str) -> None:
    """Runs git as somebody with a name."""
    name = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", folder, *name, *words], check=True, capture_output=True)


def repository(folder: pathlib.Path, **changed: str) -> pathlib.Path:
    """A repository with FILES, of which some have other texts; all is committed."""
    for name, text in (FILES | changed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def commit(folder: pathlib.Path) -> None:
    """Commits all files."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x")
