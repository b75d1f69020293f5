"""The blocks of the page on Python, one after the other, on a few generated videos."""

from __future__ import annotations

import json
import pathlib
import sys
import types

import numpy as np
import pytest
from docs.command_blocks import ROOT, blocks

from yt8m.lazy import tf
from yt8m.records import shards

PAGE = ROOT / "docs/users/python.md"


def write(path: pathlib.Path, seed: int) -> None:
    """Twenty videos in the format of YouTube-8M."""
    path.parent.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    records = [
        shards.example(
            {
                "id": shards.bytes_feature(b"%d-%d" % (seed, number)),
                "labels": shards.int64_feature([number % 5]),
                "mean_rgb": shards.float_feature(draw.normal(size=1024)),
                "mean_audio": shards.float_feature(draw.normal(size=128)),
            }
        )
        for number in range(20)
    ]
    path.write_bytes(b"".join(map(shards.framed, records)))


class _Torch(types.ModuleType):
    """The little of PyTorch that the page uses; PyTorch itself is not among the tests' packages."""

    utils = types.SimpleNamespace(
        data=types.SimpleNamespace(IterableDataset=object, get_worker_info=lambda: _Torch.worker)
    )
    worker = None
    initial_seed = staticmethod(lambda: 7 + (_Torch.worker.id if _Torch.worker else 0))


@pytest.mark.heavy
def test_every_block_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", _Torch("torch"))
    for seed, split in enumerate(("train", "validate", "test")):
        write(tmp_path / "data/video" / split / "a.tfrecord", seed)
    assert tf.__version__  # the first import of TensorFlow keeps the frames that it happened in
    names: dict[str, object] = {}
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)
    told = capsys.readouterr().out
    assert "out_of_data at step 1" in told
    assert sum(line.startswith("2-") for line in told.splitlines()) == 20
    assert names["figures"] == json.loads(json.dumps(names["figures"]))

    found = []
    for number in range(3):
        monkeypatch.setattr(_Torch, "worker", types.SimpleNamespace(id=number, num_workers=3))
        found += [video for batch in names["Videos"]() for video in batch.ids]
    assert sorted(found) == sorted(f"0-{number}" for number in range(20))
