"""A bar is shown only where it does no harm."""

from __future__ import annotations

import pathlib
import sys
import threading

import numpy as np
import pytest
from reader_records import video_record, write_shard
from terminal import on_a_terminal

from yt8m import terminal


class ZMQInteractiveShell:
    """Stands for the shell of a Jupyter kernel, which rich and yt8m know by its name."""


class _IPython:
    @staticmethod
    def get_ipython() -> ZMQInteractiveShell:
        return ZMQInteractiveShell()


def test_a_bar_is_shown_in_a_notebook_and_in_the_main_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    assert not terminal.shows_bar()
    assert list(terminal.with_bar(iter([1, 2]), "counting")) == [1, 2]
    monkeypatch.setitem(sys.modules, "IPython", _IPython)
    assert terminal.shows_bar()
    shown: list[bool] = []
    thread = threading.Thread(target=lambda: shown.append(terminal.shows_bar()))
    thread.start()
    thread.join()
    assert shown == [False]


def test_counted_work_has_a_line_when_one_is_due(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def words(items: list[str]) -> list[str]:
        return list(terminal.with_progress(items, 10, "letters", len, done=3))

    assert words(["ab", "cde", "fg"]) == ["ab", "cde", "fg"]
    assert capsys.readouterr().err == ""  # short work
    monkeypatch.setattr(terminal, "LINE_SECONDS", -1.0)
    assert words(["ab", "cde", "fg"]) == ["ab", "cde", "fg"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["5 of 10 letters", "8 of 10 letters", "10 of 10 letters"]


def test_long_commands_show_a_bar_on_a_terminal(tmp_path: pathlib.Path) -> None:
    records = [video_record(id=[b"%d" % row], labels=[row % 2], mean_rgb=[0.5, 1.0]) for row in range(4)]
    for name in "ab":
        write_shard(tmp_path / f"{name}.tfrecord", records)
    shown = on_a_terminal([sys.executable, "-m", "yt8m", "verify", *map(str, sorted(tmp_path.glob("*.tfrecord")))])
    assert "2/2 shards" in " ".join(shown.split())
    (tmp_path / "predictions.csv").write_text(
        "VideoId,LabelConfidencePairs\n" + "".join(f"{n},0 0.5\n" for n in range(4))
    )
    score = [
        f"--predictions={tmp_path}/predictions.csv",
        f"--eval_data_pattern={tmp_path}/a.tfrecord",
        "--num_classes=2",
    ]
    shown = on_a_terminal([sys.executable, "-m", "yt8m", "score", *score])
    assert "4/4 videos" in " ".join(shown.split())
    (tmp_path / "table.csv").write_text("id,labels,path\n" + "".join(f"{n},a,v.npy\n" for n in range(4)))
    np.save(tmp_path / "v.npy", np.ones(3, np.float32))
    table = [f"--table={tmp_path}/table.csv", f"--out={tmp_path}/data"]
    shown = on_a_terminal([sys.executable, "-m", "yt8m", "make-records", *table])
    assert "4/4 rows" in " ".join(shown.split())


def test_a_text_that_can_be_printed_is_not_walked_letter_by_letter() -> None:
    """An id has no control characters any more; one of 10 MB took 20 seconds."""
    text = "\\x1b[31m" * 9
    assert terminal.printable(text) is text
    assert terminal.printable("a\x1b[31m\n\u2028") == r"a\x1b[31m\x0a\x2028"
