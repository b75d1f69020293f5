"""An hour of video: memory is bounded by the processes that decode, not by the length of the video."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import made_videos
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
_PROGRAM = """\
import json, re, resource, sys
from yt8m.command_line import cli
assert cli.call("extract", sys.argv[1:]) == 0
# ru_maxrss of this process would count the process that started it.
own = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
print(json.dumps({"own": own / 1024, "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}))
"""


def most_megabytes(folder: pathlib.Path, seconds: int) -> dict[str, float]:
    """The largest memory in MB of the extraction of one video, and of its decoder. A picture takes 0.13 MB."""
    picture = made_videos.shape("stripes", 180, 240)
    path = folder / "long" / f"{seconds}.mp4"
    path.parent.mkdir(exist_ok=True)
    made_videos.write(path, picture, made_videos.tone("disc"), seconds, fps=1, rate=8000)
    words = [f"--videos={path}", "--labels=folder", f"--out={folder / str(seconds)}", "--max_frames=5000", "--jobs=1"]
    words.append("--extractors=own_extractors:Colours,own_extractors:Bands")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{ROOT / 'tests/support'}"}
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / str(seconds) / "frame" / "summary.json").read_text())
    assert summary["longest video in frames"] in (seconds, seconds + 1)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.long
@pytest.mark.heavy
def test_an_hour_takes_no_more_memory_than_ten_minutes(tmp_path: pathlib.Path) -> None:
    short, hour = most_megabytes(tmp_path, 600), most_megabytes(tmp_path, 3600)
    assert hour["own"] < short["own"] + 100  # all pictures of the hour are 466 MB
    assert hour["children"] < short["children"] + 50
