"""`yt8m bulk extract` against `yt8m extract`: the same bytes, also after a worker was killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import time
from collections.abc import Iterator
from typing import Any

import made_videos
import pytest
from bulk_jobs import begin, finish, workers_of

from yt8m import storage
from yt8m.bulk.bulk_config import ExtractBulk
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.extractors import sampling_rules

EXTRACTORS = ("own_extractors:Colours", "own_extractors:Bands")


@pytest.fixture(scope="module", autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Sixteen videos in folders of their kinds, of which one is cut and one is empty."""
    folder = tmp_path_factory.mktemp("clips")
    made_videos.write_kinds(folder, 16)
    (folder / "disc/2.mp4").write_bytes((folder / "disc/2.mp4").read_bytes()[:900])
    (folder / "disc/5.mp4").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def expected(clips: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """All that `yt8m extract` makes of `clips`."""
    out = tmp_path_factory.mktemp("data")
    assert cli.call("extract", [*words(clips, str(out)), "--jobs=1"]) == 0
    return contents(str(out))


def words(clips: pathlib.Path, out: str) -> list[str]:
    extractors = f"--extractors={','.join(EXTRACTORS)}"
    return [f"--videos={clips}", "--labels=folder", f"--out={out}", extractors, "--max_bad_videos=2"]


def contents(out: str) -> dict[str, bytes]:
    """{path in the folder: content}, for all files."""
    folders = storage.tree(out) if storage.is_remote(out) else {str(at): names for at, _, names in os.walk(out)}
    paths = [storage.join(folder, name) for folder, names in folders.items() for name in names]
    return {path.removeprefix(out).lstrip("/"): storage.read_bytes(path) for path in paths}


@pytest.mark.heavy
@pytest.mark.promise("O3")
@pytest.mark.parametrize("victims", ["a worker", "the job"])
def test_the_records_are_those_of_extract_after_a_kill(
    clips: pathlib.Path, expected: dict[str, bytes], tmp_path: pathlib.Path, victims: str
) -> None:
    process = begin("extract", *words(clips, str(tmp_path)))
    killed = workers_of(process)[0] if victims == "a worker" else process.pid
    while process.poll() is None and not list(tmp_path.glob(".extract/*.json")):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(killed, signal.SIGKILL)
    if victims == "the job":
        process.communicate()
        assert not (tmp_path / "frame").exists()
        process = begin("extract", *words(clips, str(tmp_path)))
    errors = finish(process)
    assert contents(str(tmp_path)) == expected
    assert "continuing" in errors or victims == "a worker"


@pytest.mark.heavy
def test_records_in_a_bucket_are_the_same(clips: pathlib.Path, expected: dict[str, bytes], bucket: str) -> None:
    finish(begin("extract", *words(clips, f"{bucket}/data")))
    found = contents(f"{bucket}/data")
    assert {path: found[path] for path in expected if not path.endswith(".progress.json")} == {
        path: content for path, content in expected.items() if not path.endswith(".progress.json")
    }


HERE = ["--direct_running_mode=in_memory", "--direct_num_workers=1"]  # Beam's options for a worker in this process


@pytest.fixture
def extraction() -> Iterator[Any]:
    """The module under test, whose extractors are closed at the end."""
    from yt8m.bulk import extraction

    yield extraction
    extraction.close_extractors()


def test_workers_get_the_version_of_the_rules_that_was_chosen(
    tmp_path: pathlib.Path, extraction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They failed on every video of a new folder, for which no flag named the version."""
    (tmp_path / "clips").mkdir()
    made_videos.write_kinds(tmp_path / "clips", 1)
    given = list[ExtractBulk]()
    monkeypatch.setattr(extraction, "_Settings", lambda config, *_: given.append(config) or 1 / 0)
    config = ExtractBulk(
        videos=f"{tmp_path}/clips",
        labels="folder",
        out=f"{tmp_path}/out",
        extractors=EXTRACTORS[:1],
        splits=("train:1",),
    )
    with pytest.raises(ZeroDivisionError):
        extraction.run(config, {}, HERE)
    assert given[0].rules == sampling_rules.NEWEST


@pytest.mark.heavy
def test_either_command_goes_on_with_what_the_other_has_begun(
    clips: pathlib.Path,
    expected: dict[str, bytes],
    tmp_path: pathlib.Path,
    extraction: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = ExtractBulk(videos=str(clips), labels="folder", out=str(tmp_path), extractors=EXTRACTORS, max_bad_videos=0)
    with pytest.raises(RunError, match=r"[12] of 16 videos"):
        extraction.run(config, {}, HERE)
    begun = len(list((tmp_path / ".extract").glob("*.json")))
    assert 1 <= begun < 8  # no worker begins a shard after too many videos were bad
    assert json.loads((tmp_path / "extract.jsonl").read_text().splitlines()[0])["state"] == "left out"
    assert cli.call("extract", words(clips, str(tmp_path))) == 0
    assert contents(str(tmp_path)) == expected
    monkeypatch.setattr(extraction, "run_tasks", None)
    assert extraction.run(dataclasses.replace(config, max_bad_videos=2), {}, HERE) == 0


@pytest.mark.heavy
def test_learned_ranges_are_those_of_extract(clips: pathlib.Path, tmp_path: pathlib.Path, extraction: Any) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert cli.call("extract", [*words(clips, str(one)), "--ranges=learned,floats", "--jobs=1"]) == 0
    config = ExtractBulk(videos=str(clips), labels="folder", out=str(other), extractors=EXTRACTORS, max_bad_videos=2)
    assert extraction.run(dataclasses.replace(config, ranges=("learned", "floats")), {}, HERE) == 0
    assert contents(str(other)) == contents(str(one))


@pytest.mark.heavy
def test_other_weights_on_a_worker_are_refused(
    clips: pathlib.Path, tmp_path: pathlib.Path, extraction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ExtractBulk(videos=str(clips), labels="folder", out=str(tmp_path), extractors=EXTRACTORS, max_bad_videos=2)
    locate, other = extraction.locate, {"weights": "0" * 64}  # the workers alone call `locate` of this module
    monkeypatch.setattr(
        extraction,
        "locate",
        lambda chosen: [one._replace(weights=one.weights._replace(sha256=other)) for one in locate(chosen)],
    )
    with pytest.raises(RunError, match=r"own_extractors:Colours have the sha256 \{'weights': '0+'\} on a worker"):
        extraction.run(config, {}, HERE)


def test_flags_of_one_machine_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--fetch_weights.* yt8m extract"):
        ExtractBulk(fetch_weights=True)
