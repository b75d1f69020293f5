"""Programs whose output or error stream is closed, full, or no longer read: one line or silence, never a traceback."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import cases
import pytest
from golden_data import golden
from reader_records import video_record, write_shard
from small_run import ROOT

from yt8m.command_line import program
from yt8m.terminal import is_terminal


def run(shell: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs `yt8m` with the words and the redirections `shell`."""
    command = ["bash", "-c", f'"$@" {shell}', "bash", sys.executable, "-m", "yt8m", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("streams")
    return write_shard(folder / "a.tfrecord", [video_record(id=[b"v%d" % k], labels=[k]) for k in range(3)])


_QUICK = [["inspect", "SHARD"], ["--help"]]
_HEAVY = [["verify", "SHARD"], ["train", "--help"], ["runs", "."]]


@pytest.mark.parametrize("words", cases.all_of(_QUICK[1:], heavy=[_QUICK[0], ["train", "-x"], *_HEAVY]), ids=" ".join)
def test_closed_streams_are_silent(shard: str, words: list[str]) -> None:
    words = [shard if word == "SHARD" else word for word in words]
    expected = run("", *words)
    assert expected.returncode in (0, 2), expected.stderr
    closed = run(">&-", *words)
    assert (closed.returncode, closed.stderr) == (expected.returncode, expected.stderr)
    closed = run("2>&- <&-", *words)
    assert (closed.returncode, closed.stdout) == (expected.returncode, expected.stdout)
    assert run(">&- 2>&- <&-", *words).returncode == expected.returncode
    full = run("2>/dev/full", *words)
    assert (full.returncode, full.stdout) == (expected.returncode, expected.stdout)


@pytest.mark.parametrize("words", cases.all_of(_QUICK, heavy=_HEAVY), ids=" ".join)
def test_an_output_on_a_full_disk_is_one_line_and_status_1(shard: str, words: list[str]) -> None:
    full = run(">/dev/full", *(shard if word == "SHARD" else word for word in words))
    lines = [line for line in full.stderr.splitlines() if not line.startswith("20")]
    assert (full.returncode, len(lines)) == (1, 1), full.stderr
    assert lines[0].endswith("error: the output could not be written: No space left on device.")


def test_a_reader_that_has_ended_gives_status_1_without_a_line(shard: str) -> None:
    done = run("| true; exit ${PIPESTATUS[0]}", "inspect", shard)
    assert (done.returncode, done.stderr) == (1, "")


def test_work_goes_on_after_its_output_was_lost(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: list[str]) -> int:
        print("figures", flush=True)
        (tmp_path / "report.json").write_text("{}")
        print("more figures")
        return 0

    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert program.run_main("yt8m eval", work, []) == 1
        assert sys.stdout is full
        monkeypatch.undo()
    assert (tmp_path / "report.json").exists()
    assert capsys.readouterr().err.count("No space left on device") == 1


_FIT = """
import os, sys
import yt8m
kept = os.dup(1)
if sys.argv[3] == "none":
    sys.stdout = sys.stderr = None
elif sys.argv[3] == "closed":
    sys.stdout.close(), sys.stderr.close()
else:
    sys.stdout = sys.stderr = open("/dev/full", "w")
sizes = dict(feature_names="mean_rgb,mean_audio", feature_sizes="16,8", num_classes=10)
result = yt8m.fit(train_data_pattern=sys.argv[1], train_dir=sys.argv[2], batch_size=16, max_steps=2, **sizes)
with yt8m.load(sys.argv[2]) as model:
    videos = list(model.predict(sys.argv[1]))
os.write(kept, f"{result.status} {len(videos)}".encode())
os._exit(0)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("streams", ["none", "closed", "full"])
def test_fit_and_load_need_no_streams(tmp_path: pathlib.Path, streams: str) -> None:
    data = str(golden("checkpoint_logistic/train.tfrecord"))
    words = [sys.executable, "-c", _FIT, data, str(tmp_path / "run"), streams]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout.startswith("finished "), done.stderr


_CLOSED_DESCRIPTORS = """
import os
from yt8m.lazy import tf
tf.constant(1)
os.write(3, str([os.path.realpath(f"/proc/self/fd/{number}") for number in (1, 2)]).encode())
"""


def test_nothing_that_tensorflow_prints_gets_into_a_file() -> None:
    """Without /dev/null in its place, a file of TensorFlow's would be descriptor 2, to which its C++ code prints."""
    command = f'exec 3>&1; exec "{sys.executable}" -c "$1" <&- >&- 2>&-'
    done = subprocess.run(
        ["bash", "-c", command, "bash", _CLOSED_DESCRIPTORS], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == str(["/dev/null"] * 2)


def test_what_is_no_stream_is_no_terminal() -> None:
    assert not is_terminal(None)
    assert not is_terminal(object())
