"""The page on one's own videos, executed: from sixty videos to a model, tags, and a timeline that shows a change."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from docs.command_blocks import ROOT

from docs import command_blocks

PAGE = ROOT / "docs" / "users" / "own_videos.md"

pytestmark = [pytest.mark.long, pytest.mark.heavy, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the commands of the page print; the working directory has what they made."""
    folder = tmp_path_factory.mktemp("own_videos")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        command_blocks.put(command_blocks.files_of(PAGE), folder, patch)
        yield "".join(command_blocks.run(block.text) for block in command_blocks.blocks(PAGE) if block.language == "sh")


def test_names_of_classes_are_enough(tmp_path: pathlib.Path) -> None:
    """The first commands of the page, with the tiny network that it makes."""
    files = command_blocks.files_of(PAGE)
    with contextlib.chdir(tmp_path), pytest.MonkeyPatch.context() as patch:
        command_blocks.put(files, tmp_path, patch)
        pathlib.Path("classes.csv").write_text("name\ndisc\nsquare\nstripes\n")
        for script in ("make_clips.py", "tiny_siglip.py"):
            subprocess.run([sys.executable, script], check=True, capture_output=True)
        first, then = [block for block in command_blocks.blocks(PAGE) if "runs/zero" in block.text][:2]
        for block in (first, then):
            command_blocks.run(block.text.replace("google/siglip2-base-patch16-224", "tiny_siglip"))
        rows = pathlib.Path("tags.csv").read_text().splitlines()
        assert len(rows) > 60
        assert json.loads(pathlib.Path("runs/zero/eval/report.json").read_text())["num_examples"] == 60
        assert pathlib.Path("runs/few/config.json").exists()


def test_a_model_of_sixty_videos_knows_held_out_ones(walked: str) -> None:
    figures = json.loads(pathlib.Path("runs/clips/eval/report.json").read_text())
    assert figures["hit_at_one"] >= 0.95
    assert figures["num_examples"] >= 12
    videos = re.findall(r"^  (train|test): (\d+) videos", walked, re.MULTILINE)
    assert sum(int(count) for _, count in videos) == 2 * 60  # of both levels
    assert pathlib.Path("data/extract.jsonl").read_text() == ""


def test_a_film_is_tagged_and_its_timeline_shows_the_change(walked: str) -> None:
    told = walked[walked.index("\nfilm.mp4: 30.0 seconds scored in windows of 2 seconds\n") :]
    assert {name for _, name in re.findall(r"^(\d\.\d+)  (\w+)", told, re.MULTILINE)[:2]} == {"disc", "stripes"}
    page = pathlib.Path("film.mp4.timeline.html").read_text()
    rows = {
        name: [float(score) for score in re.findall(r"<b>([\d.]+)</b>", cells)]
        for name, cells in re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', page)
    }
    assert re.findall(r'<th scope="col">([\d:]+)</th>', page) == ["0:00", "0:05", "0:10", "0:15", "0:20", "0:25"]
    best = [max(rows, key=lambda name: rows[name][part]) for part in range(6)]
    assert best == ["disc"] * 3 + ["stripes"] * 3
    assert page.count("data:image/jpeg;base64,") == 6


def test_the_run_carries_its_extractors(walked: str) -> None:
    kept = json.loads(pathlib.Path("runs/clips/config.json").read_text())["config"]["data"]["extractors"]
    assert [one["name"] for one in kept] == ["my_extractors:Colours", "my_extractors:Bands"]


def test_python(walked: str) -> None:
    (code,) = [block.text for block in command_blocks.blocks(PAGE) if "yt8m.load" in block.text]
    names: dict[str, Any] = {}
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(code, str(PAGE), "exec"), names)
    assert told.getvalue().startswith("{'colours': (30, 6), 'bands': (30, 8)}\n")
    assert {one.name for one in names["video"].classes} == {"disc", "stripes"}
