"""The folder of records after an interruption, or after bytes of it were lost."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import cases
import pytest
from own_clips import contents

from yt8m.datasets.make_records import output
from yt8m.errors import UsageError

Run = Callable[..., pathlib.Path]


LOSSES: dict[str, Callable[[pathlib.Path], None]] = {
    "missing": lambda shard: shard.unlink(),
    "empty": lambda shard: os.truncate(shard, 0),
    "halved": lambda shard: os.truncate(shard, shard.stat().st_size // 2),
}


def records(folder: pathlib.Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if "progress" not in name}


@pytest.fixture
def making(run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of a run that was interrupted when all of its records were written, before the folder was renamed."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted, contextlib.suppress(KeyboardInterrupt):
        interrupted.setattr(output.Output, "install", interrupt)
        run(level="frame")
    return tmp_path / "out/.frame.making"


@pytest.mark.heavy
@pytest.mark.promise("C11")
def test_records_that_were_all_written_are_only_renamed(
    run: Run, making: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as renaming:
        renaming.delattr(output.Output, "write_records")
        made = run(level="frame")
    assert not making.exists()
    assert records(made) == records(run(level="frame", out=str(tmp_path / "whole")))


@pytest.mark.parametrize("loss", cases.only(LOSSES, ["halved"]))
@pytest.mark.promise("C11")
def test_after_lost_bytes_all_records_are_made_again(
    run: Run, making: pathlib.Path, tmp_path: pathlib.Path, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    shard = max(making.glob("train/*.tfrecord"), key=lambda path: path.stat().st_size)
    LOSSES[loss](shard)
    made = run(level="frame")
    assert f"{making}/train/{shard.name} " in caplog.text
    assert records(made) == records(run(level="frame", out=str(tmp_path / "whole")))


@pytest.mark.heavy
def test_records_of_an_earlier_version_are_complete_or_made_again(
    run: Run, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier version saved the checksums as numbers, further values of each shard, and how many rows were done."""
    made = run(level="frame")
    path, whole = made / output.PROGRESS, records(made)
    progress = json.loads(path.read_text())
    del progress["checksum"]
    shards = {name: [count, size, int(crc, 16), 0, 1] for name, (count, size, crc) in progress["shards"].items()}
    earlier = {**progress, "shards": shards, "rows": 40, "begun": [20, 10, 10]}
    path.write_text(json.dumps(earlier))
    run(level="frame")
    assert "nothing was written" in capsys.readouterr().err
    begun = made.rename(tmp_path / "out/.frame.making")
    (begun / output.PROGRESS).write_text(json.dumps({**earlier, "complete": False}))
    (begun / "train/train0000.tfrecord").write_bytes(b"half of a shard")
    assert records(run(level="frame")) == whole


@pytest.mark.parametrize("loss", cases.only(LOSSES, ["missing"]))
@pytest.mark.promise("C11")
def test_finished_records_that_lack_bytes_are_refused(run: Run, tmp_path: pathlib.Path, loss: str) -> None:
    made = run(level="frame")
    whole = records(made)
    LOSSES[loss](made / "train/train0000.tfrecord")
    with pytest.raises(UsageError, match=r"frame .*this table .*train0000\.tfrecord .*--overwrite"):
        run(level="frame")
    assert records(run(level="frame", overwrite=True)) == whole


@pytest.mark.heavy
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
