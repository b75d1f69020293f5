"""The npm package onnxruntime-web, for tests of the page that scores files in a browser."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from yt8m.export import web_page

ROOT = pathlib.Path(__file__).resolve().parents[2]


def install(folder: pathlib.Path) -> str:
    """The folder of the package in the checkout, or else installed below `folder`; skips the test if npm fails."""
    program = shutil.which("npm")
    if not _package(ROOT).is_dir() and program:
        words = ["install", "--no-save", "--ignore-scripts", "--silent", f"onnxruntime-web@{web_page.VERSION}"]
        subprocess.run([program, *words, f"--prefix={folder}"], capture_output=True, timeout=300)
    for found in map(_package, (ROOT, folder)):
        if found.is_dir():
            return str(found)
    pytest.skip(
        f"npm install onnxruntime-web@{web_page.VERSION} does not work here, and the checkout lacks the package"
    )


def _package(folder: pathlib.Path) -> pathlib.Path:
    return folder / "node_modules" / "onnxruntime-web"
