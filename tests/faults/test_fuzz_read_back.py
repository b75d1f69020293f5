"""Files that the kit wrote and reads back: damage anywhere gives a message with the file's name, or what was written.

Each reader is asked as the programs ask it. A reader that gives None, or an empty result, for a damaged file makes what
the file held anew. `make fuzz` tries many more changes.
"""

from __future__ import annotations

import functools
import json
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults.test_fuzz import CHANGES
from faults.test_fuzz_parsers import ODD, REUSED, places, replaced
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reports import report_runs

from yt8m.config import run_dir
from yt8m.datasets.extract.shard_extraction import FinishedShard
from yt8m.datasets.make_records.saved_progress import FileVersions, RecordsProgress
from yt8m.errors import RunError, UsageError
from yt8m.eval_util import eval_samples
from yt8m.export import model_card
from yt8m.graph import restore
from yt8m.labels import folds, video_copies
from yt8m.labels.folds import AuditedVideos
from yt8m.reports import run_list
from yt8m.runner import checkpoints, failed_input, validation_history
from yt8m.runner.cluster import exchange
from yt8m.runs import best_checkpoint
from yt8m.runs.opened_run import open_run
from yt8m.storage import state_files
from yt8m.training.search import choice

Reader = Callable[[pathlib.Path], object]
HISTORY = {
    "begun": {"step": 9, "epochs": 1},
    "metric": "GAP",
    "data": {"pattern": "v*", "max_videos": None, "fingerprint": "ab"},
    "first_compared": 0,
    "epochs": [0, 1],
    "validations": [{"step": 3, "GAP": 0.5, "loss": 0.25}, {"step": 6, "GAP": None}],
}
ENDED = {"status": "finished", "step": 6, "message": ""}
REPORT = {
    "global_step": 6,
    "num_examples": 40,
    "gap": 0.5,
    "metrics": [{"name": "GAP", "key": "gap"}],
    "classes": [{"class": "0", "positives": 3}],
}
SHARD = {"inputs": "ab", "written": ["video"], "levels": {"video": [3, 300, "1f2e3d4c"]}, "positives": {"1": 2}}
SHARD |= {"frames": 3, "longest": 1, "lengths": {"1": 3}, "videos": [{"id": "a"}], "bad": {"2": "x"}, "versions": ["1"]}
PROGRESS = {"inputs": "ab", "features": [["clip", 16, [-1.5, 3.0]]], "shards": {"train/a": [3, 300, "1f2e3d4c"]}}
PROGRESS |= {"positives": {"train": [1, 2]}, "frames": {"train": 3}, "lengths": {"train": {"1": 3}}, "complete": True}
PROGRESS |= {"bad": {"2": "x"}, "corrected": {"train": [1, 0]}, "files": [3, 1, "ab", "cd"], "longest": 1, "cut": 0}


def read_progress(path: pathlib.Path) -> object:
    found = RecordsProgress.read(str(path))
    if found is None:
        return None
    found.matches("ab", FileVersions(3, 1, "ab", "cd"))
    return found.damage(str(path.parent)), found.formats()


def listed(path: pathlib.Path) -> object:
    folder = path.parent.parent if path.parent.name in ("eval", "best") else path.parent
    (found,) = run_list.find_runs([str(folder)])
    return found.as_json()


# {path in a run's folder, or of a file alone: (what JSON it holds; the functions that read it)}
JSON: dict[str, tuple[Any, list[Reader]]] = {
    "run/config.json": (
        json.loads(golden("run_format_1/config.json").read_text()),
        [lambda path: open_run(str(path.parent)), lambda path: run_dir.written_versions(str(path.parent)), listed],
    ),
    "run/model_flags.json": (
        json.loads(golden("run_format_1/model_flags.json").read_text()),
        [lambda path: run_dir.model_flags_from_json(path.read_text("utf-8", "replace"), str(path))],
    ),
    "run/ended.json": (ENDED, [lambda path: run_dir.read_end(str(path.parent)), listed]),
    "run/validation.json": (
        HISTORY,
        [lambda path: validation_history.History(str(path.parent)).read(sys.maxsize), listed],
    ),
    "run/cluster.json": (
        {"run": "ab", "ended": None, "flags": 7, "failed": ""},
        [lambda path: exchange.read_run_marker(str(path.parent))],
    ),
    "run/input-6.json": (
        {"data": "ab", "first_step": 3, "failed": False},
        [lambda path: failed_input.has_failed(str(path.with_suffix("")), 6)],
    ),
    "run/metrics.jsonl": ({"step": 3, "loss": 0.5, "GAP": 0.25, "mode": "validate"}, [listed]),
    "run/eval/report.json": (REPORT, [lambda path: model_card.report_of(str(path.parent.parent), 6), listed]),
    "run/best/best.json": (
        {"step": 6, "metric": "GAP", "GAP": 0.5},
        [lambda path: best_checkpoint.best_step(str(path.parent), [6, 3]), listed],
    ),
    "train.json": (SHARD, [lambda path: FinishedShard.read(str(path))]),
    ".progress.json": (PROGRESS, [read_progress]),
}


def videos(path: pathlib.Path) -> None:
    folds.write_videos(str(path), AuditedVideos(["a", "b"], np.array([0, 0]), ["train"], np.array([0, 1])))


def pairs(path: pathlib.Path) -> None:
    digests = np.frombuffer(bytes(range(32)), "V16")
    video_copies.write_pairs(str(path), video_copies.exact_copies(digests), digests)


def meta_graph(path: pathlib.Path) -> None:
    shutil.copy(golden("run_format_1/model.ckpt-6.meta"), path)


def state(path: pathlib.Path) -> None:
    shutil.copy(golden("run_format_1/checkpoint"), path)


def trials(path: pathlib.Path) -> None:
    rows = {"a, 3 steps": {"candidate": "a, 3 steps", "steps": 3, "folds": 1, "map": 0.5, "number": 0}}
    state_files.write(str(path), {"fingerprint": "ab", "rows": rows})


def read_trials(path: pathlib.Path) -> None:
    """The trials are those that were written, or none: the search then trains them again."""
    rows = choice._SavedRows(str(path), "ab").rows
    assert rows in ({}, {"a, 3 steps": {"candidate": "a, 3 steps", "steps": 3, "folds": 1, "map": 0.5, "number": 0}})


def evaluated(path: pathlib.Path) -> None:
    report_runs.make_run(path.parent.parent, seed=0, num_classes=12)


# {name of a file: (writes it; reads it)}
BINARY: dict[str, tuple[Callable[[pathlib.Path], None], Reader]] = {
    "videos.npz": (videos, lambda path: folds.read_videos(str(path))),
    "pairs.npz": (pairs, lambda path: video_copies.read_pairs(str(path))),
    "checkpoint": (state, lambda path: checkpoints.read_state(str(path.parent))),
    "search.json": (trials, read_trials),
    "eval/videos.npz": (evaluated, lambda path: eval_samples.read(str(path.parent.parent))),
    "model.ckpt-6.meta": (meta_graph, lambda path: restore.signature_of(str(path))),
}


@pytest.fixture
def place(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a run."""
    shutil.copytree(golden("run_format_1"), tmp_path / "run")
    for name in ("eval", "best"):
        (tmp_path / "run" / name).mkdir()
    return tmp_path


def ask(read: Reader, path: pathlib.Path) -> None:
    """Reads; whatever is raised must be an error with a message that names the file."""
    said = str(path)
    try:
        read(path)
    except (RunError, UsageError) as error:
        said = str(error)
    assert path.name in said or str(path.parent) in said


@functools.cache
def whole(name: str) -> bytes:
    return json.dumps(JSON[name][0]).encode()


@pytest.mark.parametrize("name", JSON)
@given(data=st.data())
@examples(10, **REUSED)
def test_odd_values(place: pathlib.Path, name: str, data: st.DataObject) -> None:
    document, readers = JSON[name]
    where = data.draw(st.sampled_from(places(document)))
    changed = replaced(document, where, data.draw(st.sampled_from(ODD)), data.draw(st.booleans()))
    (place / name).write_text(json.dumps(changed))
    for read in readers:
        ask(read, place / name)


@pytest.mark.parametrize("name", JSON)
@given(change=CHANGES)
@examples(12, **REUSED)
def test_changed_bytes_of_text(place: pathlib.Path, name: str, change: Any) -> None:
    (place / name).write_bytes(change.of(whole(name)))
    for read in JSON[name][1]:
        ask(read, place / name)


@pytest.mark.parametrize("name", BINARY)
@given(change=CHANGES)
@examples(10, **REUSED)
def test_changed_bytes(tmp_path: pathlib.Path, name: str, change: Any) -> None:
    write, read = BINARY[name]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    write(tmp_path / name)
    (tmp_path / name).write_bytes(change.of((tmp_path / name).read_bytes()))
    ask(read, tmp_path / name)
