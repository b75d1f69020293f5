"""docs/users/deploy.md: its commands run in order, on runs and records of the tutorial's names."""

from __future__ import annotations

import contextlib
import pathlib

import npm
import pytest
from docs.command_blocks import ROOT

import yt8m
from docs import command_blocks
from yt8m.command_line import cli
from yt8m.export import web_page
from yt8m.export.onnx_file import OnnxFile

PAGE = ROOT / "docs/users/deploy.md"
# These need an index of packages, a daemon, or serve for ever; tests/project/test_runtime.py makes the environment that
# they make, and tests/export/test_web_page_in_browser.py serves a page.
_OTHERS = ("pip", "docker", "npm", "python")


@pytest.mark.heavy
@pytest.mark.long
def test_the_commands_of_the_page_run(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [block.text for block in command_blocks.blocks(PAGE) if block.language == "console"]
    package = npm.install(tmp_path)
    with contextlib.chdir(tmp_path):
        if not pathlib.Path("node_modules").exists():
            pathlib.Path("node_modules").symlink_to(pathlib.Path(package).parent)
        assert cli.main(["sample-data", "--out=data", "--train=300", "--validate=60", "--test=20"]) == 0
        for name in ("a", "b"):
            yt8m.fit(
                model="MoeModel",
                train_data_pattern="data/video/train/*.tfrecord",
                train_dir=f"runs/{name}",
                batch_size=50,
                seed=ord(name),
            )
        for words in (words for text in texts for words in command_blocks.commands(text) if words[0] not in _OTHERS):
            assert words[0] == "yt8m"
            assert cli.main(words[1:]) == 0
            if words[1] == "predict":
                shown = capsys.readouterr().out
        assert "labels: " in shown
        sizes = {name: (tmp_path / name).stat().st_size for name in ("a.onnx", "small.onnx", "both.onnx")}
        assert sizes["small.onnx"] < 0.3 * sizes["a.onnx"] < 0.3 * sizes["both.onnx"]
        readable = PAGE.read_text()
        assert f"npm install onnxruntime-web@{web_page.VERSION}\n" in readable
        assert pathlib.Path("site/index.html").is_file()
        for key in OnnxFile("a.onnx").texts:
            assert f"| `{key}` |" in readable
