"""Data are opened once: one module looks for shards, manifests and vocabularies, and a training asks it once."""

from __future__ import annotations

import ast
import collections
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import sources

from yt8m import storage, train
from yt8m.command_line import cli
from yt8m.records import manifest, opened_data, vocabulary

OPENER = "records/opened_data.py"
# Files that list what is no data of a user: their own outputs, a checkpoint's files, an archive's folders.
LISTS_ITS_OWN = {
    *("bulk/jobs.py", "datasets/extract/extract_config.py", "datasets/make_records/classes.py"),
    *("datasets/make_records/output.py", "datasets/sample_data/__init__.py", "labels/folds.py"),
    *("runs/best_checkpoint.py", "runs/trained_model.py"),
    "extractors/video_paths.py",  # looks for hidden files beside the videos
    "records/data_folders.py",  # finds the splits in a folder of records
    "training/splits.py",  # looks for the split beside the training files
}


def calls() -> collections.defaultdict[str, set[str]]:
    """{`module.function` as written: files of the package that call it}."""
    found = collections.defaultdict[str, set[str]](set)
    for path in sources.files():
        for node in sources.nodes(path):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                found[f"{called.value.id}.{called.attr}"].add(str(path.relative_to(sources.PACKAGE)))
    return found


def test_one_module_lists_shards_and_looks_for_manifests() -> None:
    found = calls()
    assert found["manifest.find"] == {OPENER}
    assert found["storage.glob"] | found["storage.glob_in"] <= {OPENER, *LISTS_ITS_OWN}
    assert found["storage.glob"] | found["storage.glob_in"] >= LISTS_ITS_OWN


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """How often a pattern is listed, a file read, the manifest of a folder and a vocabulary looked for."""
    counts = collections.Counter[str]()

    def count(module: object, name: str, key: Callable[[Any], str] = str) -> None:
        call = getattr(module, name)

        def counted(*arguments: object, **named: object) -> object:
            counts[key(arguments[0])] += 1
            return call(*arguments, **named)

        monkeypatch.setattr(module, name, counted)

    count(storage, "named_files")
    count(manifest, "find", lambda files: f"manifest of {pathlib.Path(files[0]).parent}")
    count(storage, "read_bytes")
    count(opened_data, "_find_nearest", lambda _: "looks")
    return counts


def test_a_start_of_a_training_lists_once_and_reads_one_manifest_and_one_vocabulary(
    tmp_path: pathlib.Path, asked: collections.Counter[str]
) -> None:
    sample = ["sample-data", f"--out={tmp_path}/data", "--train=24", "--validate=1", "--test=1", "--shards=2"]
    assert cli.main(sample) == 0
    shards = f"{tmp_path}/data/video/train/*.tfrecord"
    assert cli.main(["verify", shards, f"--manifest={tmp_path}/data/video/train/{manifest.NAME}"]) == 0
    asked.clear()
    words = [f"--train_data_pattern={shards}", f"--train_dir={tmp_path}/run", "--batch_size=8", "--max_steps=1"]
    assert train.main(words) == 0
    files = (f"{tmp_path}/data/video/train/{manifest.NAME}", f"{tmp_path}/data/{vocabulary.NAME}")
    folders = [f"manifest of {tmp_path}/data/video/{split}" for split in ("train", "validate")]
    once = (shards, *folders, "looks", *files)
    assert {name: asked[name] for name in once} == dict.fromkeys(once, 1)
