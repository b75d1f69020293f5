"""The folder of records after a power cut: shards may lack bytes that the saved progress counts as written."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from own_clips import contents

from yt8m import storage
from yt8m.datasets.make_records import output
from yt8m.errors import RunError, UsageError

Run = Callable[..., pathlib.Path]


def zero_the_end(shard: pathlib.Path) -> None:
    data = shard.read_bytes()
    shard.write_bytes(data[:-64] + bytes(64))


LOSSES: dict[str, Callable[[pathlib.Path], None]] = {
    "missing": lambda shard: shard.unlink(),
    "empty": lambda shard: os.truncate(shard, 0),
    "halved": lambda shard: os.truncate(shard, shard.stat().st_size // 2),
    "zeroed": zero_the_end,
}


def records(folder: pathlib.Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if "progress" not in name}


@pytest.fixture
def making(run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of a run that was interrupted after it had saved its progress."""
    append, calls = output.Output.write_records, itertools.count(1)  # several threads count together

    def failing(self: output.Output, shard: str, offset: int, contents_of_chunk: Any) -> list[int]:
        if next(calls) == 60:
            raise KeyboardInterrupt
        return append(self, shard, offset, contents_of_chunk)

    with monkeypatch.context() as interrupted:
        interrupted.setattr("yt8m.datasets.make_records._MOST_ROWS", 20)
        interrupted.setattr(output, "_SAVE_INTERVAL", -1.0)
        interrupted.setattr(output, "_INTERVAL_PER_SAVE", 0)
        interrupted.setattr(output.Output, "write_records", failing)
        with contextlib.suppress(KeyboardInterrupt):
            run(level="frame")
    return tmp_path / "out/.frame.making"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.promise("C11")
def test_after_lost_bytes_all_records_are_made_again(
    run: Run, making: pathlib.Path, tmp_path: pathlib.Path, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    shard = max(making.glob("train/*.tfrecord"), key=lambda path: path.stat().st_size)
    LOSSES[loss](shard)
    made = run(level="frame")
    assert f"{making}/train/{shard.name} " in caplog.text or f"the end of {shard} is not" in caplog.text
    assert "All records are made again." in caplog.text
    assert records(made) == records(run(level="frame", out=str(tmp_path / "whole")))


def test_after_an_interruption_whole_shards_are_continued(
    run: Run, making: pathlib.Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(max(making.glob("train/*.tfrecord")), "ab") as shard:
        shard.write(b"written after the progress was saved")
    run(level="frame")
    assert "continuing after row" in capsys.readouterr().err
    assert "again" not in caplog.text


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.promise("C11")
def test_finished_records_that_lack_bytes_are_refused(run: Run, tmp_path: pathlib.Path, loss: str) -> None:
    made = run(level="frame")
    whole = records(made)
    LOSSES[loss](made / "train/train0000.tfrecord")
    with pytest.raises(UsageError, match=r"frame was made from this table .*train0000\.tfrecord .* Add --overwrite"):
        run(level="frame")
    assert records(run(level="frame", overwrite=True)) == whole


def test_a_lost_manifest_is_damage_and_a_lost_vocabulary_is_written_again(run: Run, tmp_path: pathlib.Path) -> None:
    made, names = run(level="frame", bits=8), tmp_path / "out/vocabulary.csv"
    whole, content = records(made), names.read_bytes()
    names.unlink()
    run(level="frame", bits=8)
    assert names.read_bytes() == content
    (made / "validate/manifest.json").unlink()
    with pytest.raises(UsageError, match=r"but .*/validate/manifest\.json is missing\. Add --overwrite"):
        run(level="frame", bits=8)
    assert records(run(level="frame", bits=8, overwrite=True)) == whole


def test_truncate_shortens_a_file_and_never_extends_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "shard").write_bytes(b"12345")
    with pytest.raises(RunError, match=r"cannot truncate .*: it has fewer than 6 bytes"):
        storage.truncate(tmp_path / "shard", 6)
    storage.truncate(tmp_path / "shard", 4)
    assert (tmp_path / "shard").read_bytes() == b"1234"
