"""The page on one's own data: its commands and its Python, one after the other, know the user's classes alone."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from docs.command_blocks import ROOT

import yt8m
from docs import command_blocks
from yt8m.records import shards, vocabulary

PAGE = ROOT / "docs" / "users" / "own_data.md"
NAMES = {"cat", "dog", "bird"}
# What the programs would say of classes 0 to 2, and of others, if they took them for YouTube-8M's.
FOREIGN = re.compile(r"\b(" + "|".join(map(re.escape, vocabulary.load().names[:6])) + r")\b|\bclass \d")

pytestmark = [pytest.mark.long, pytest.mark.heavy, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """{heading: what the commands below it printed}; the working directory has what they made."""
    folder, found = tmp_path_factory.mktemp("own_data"), dict[str, str]()
    headings = [(n, line) for n, line in enumerate(PAGE.read_text().splitlines(), 1) if line.startswith("## ")]
    with contextlib.chdir(folder):
        for name, code in command_blocks.files_of(PAGE).items():
            pathlib.Path(name).write_text(code)
        for block in command_blocks.blocks(PAGE):
            heading = [line for number, line in headings if number < block.line][-1].removeprefix("## ")
            if block.language == "sh":
                found[heading] = found.get(heading, "") + command_blocks.run(block.text)
        yield found


def texts(folder: str) -> dict[str, str]:
    """The text files that a run has."""
    endings = {".json", ".jsonl", ".csv", ".html", ".md", ".txt"}
    paths = [path for path in pathlib.Path(folder).rglob("*") if path.suffix in endings and path.is_file()]
    return {str(path): path.read_text() for path in paths}


def test_the_commands_know_these_classes_alone(walked: dict[str, str]) -> None:
    told = walked["Four commands"]
    assert "taken from the data: video level, clip of 16, 3 classes" in told
    assert set(re.findall(r"best: (\w+)", told)) == NAMES  # eval
    videos = re.findall(r"^clip \d+  labels: (.*)$", told, re.MULTILINE)  # predict
    assert videos
    assert {name for names in videos for name in names.split(", ")} <= NAMES
    assert {"cat", "dog", "bird"} <= set(re.findall(r"^\d\.\d+ +\*? +(\w+)", told, re.MULTILINE))
    for place, text in {"output": told, "frames": walked["Frames"], **texts("runs")}.items():
        assert FOREIGN.search(text) is None, (place, FOREIGN.search(text))
    figures = json.loads(pathlib.Path("runs/clips/eval/report.json").read_text())
    assert figures["gap"] > 0.9
    assert "bird" in pathlib.Path("runs/clips/eval/report.html").read_text()


def test_frames_as_bytes_of_their_own_range(walked: dict[str, str]) -> None:
    told = walked["Frames"]
    low, high = map(float, re.findall(r"clip of 16 in (\S+?)\.\.([-.\d]*\d)", told)[0])
    saved = json.loads(pathlib.Path("runs/frames/config.json").read_text())["config"]["data"]
    assert saved["frame_features"]
    assert saved["feature_ranges"][0] == pytest.approx([low, high], rel=1e-4)
    assert json.loads(pathlib.Path("runs/frames/eval/report.json").read_text())["gap"] > 0.9
    assert set(re.findall(r"best: (\w+)", told)) == NAMES


def test_ten_lines_of_python(walked: dict[str, str]) -> None:
    (code,) = [block.text for block in command_blocks.blocks(PAGE) if "yt8m.fit" in block.text]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    names: dict[str, Any] = {}
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(code, str(PAGE), "exec"), names)
    assert names["figures"]["gap"] > 0.9
    assert names["run"].status == "finished"
    assert set(re.findall(r"\('(\w+)', [\d.]+\)", told.getvalue())) == NAMES
    for place, text in {"output": told.getvalue(), **texts("runs/python")}.items():
        assert FOREIGN.search(text) is None, (place, FOREIGN.search(text))
    records = yt8m.read_records("data/video/test/*.tfrecord")
    assert sum(len(batch.ids) for batch in records) == len(told.getvalue().splitlines()) - 1


def test_the_server_answers_with_these_classes(walked: dict[str, str]) -> None:
    record = next(shards.read_shard("data/video/test/test0000.tfrecord"))
    words = [sys.executable, "-m", "yt8m", "serve", "--model=runs/clips", "--port=0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            headers = {"Content-Type": "application/octet-stream"}
            (video,) = requests.post(f"{url}/predict", data=record, headers=headers).json()["videos"]
            assert video["id"] == shards.parse(record).id().decode()
            assert {one["name"] for one in video["classes"]} == NAMES
        finally:
            server.send_signal(signal.SIGTERM)
