"""What a job of several processes leaves where a part of it is lost."""

from __future__ import annotations

import json
import pathlib
import types
from typing import Any

import pytest
from clusters import free_addresses

from yt8m import storage
from yt8m.config import InferenceConfig
from yt8m.deploy.cluster import WORKER, ClusterConfig
from yt8m.errors import RunError
from yt8m.jobs import team, team_inference
from yt8m.jobs.input_check import digest


class Others:
    """Stands for the link of a process."""

    def __init__(self, cluster: ClusterConfig, stall_timeout: float) -> None:
        self.cluster = cluster

    def __enter__(self) -> Others:
        return self

    def __exit__(self, *unused: object) -> None:
        pass

    def send(self, order: str) -> None:
        """There is nobody to hear it."""

    def collect(self) -> list[bytes]:
        raise RunError("the part of worker 0 is lost")

    def receive(self) -> str:
        return "predict"

    def reply(self, result: bytes) -> None:
        raise RunError("the chief is gone")


def test_parts_of_other_shards_are_not_joined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """The worker has found its files before one of them was cut, the chief after."""
    cluster = ClusterConfig(tuple(free_addresses(2)), (), "chief", 0)
    shards = [tmp_path / name for name in ("a", "b")]
    for shard in shards:
        shard.write_bytes(b"12345678")
    names = [str(shard) for shard in shards]
    theirs = {"step": -1, "data": digest(names, storage.stamps(names), {}), "path": names[1], "size": 8}
    monkeypatch.setattr(team, "cluster_here", lambda: cluster)
    monkeypatch.setattr(team, "Team", Others)
    monkeypatch.setattr(Others, "collect", lambda _: [json.dumps(theirs).encode()])
    monkeypatch.setattr(team_inference, "inference", types.SimpleNamespace(infer=predicting))
    config = InferenceConfig(output_file=str(tmp_path / "out.csv"), input_data_pattern=f"{tmp_path}/[ab]")
    assert team_inference.infer(config) == 0
    (tmp_path / "out.csv").unlink()
    shards[1].write_bytes(b"1234567")
    theirs["path"] = names[0]
    with pytest.raises(RunError, match=r"worker 0 \(.*\) found other shards than the chief"):
        team_inference.infer(config)
    assert not (tmp_path / "out.csv").exists()


def predicting(config: InferenceConfig, _: Any) -> int:
    """Stands for the inference of one part."""
    pathlib.Path(config.output_file).write_text("VideoId,LabelConfidencePairs\n")
    return 0


@pytest.mark.parametrize(
    ("role", "stays"),
    [
        ("chief", []),
        (WORKER, [".out.csv.part-00000-of-00002.7.0123abcd.tmp", "out.csv.part-00000-of-00002"]),
    ],
)
def test_no_part_of_a_job_that_failed_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, role: str, stays: list[str]
) -> None:
    """A worker sees to its own, the chief to those of the dead too."""
    cluster = ClusterConfig(tuple(free_addresses(2)), (), role, 0)
    monkeypatch.setattr(team, "cluster_here", lambda: cluster)
    monkeypatch.setattr(team, "Team", Others)

    def infer(config: InferenceConfig, _: Any) -> int:
        for part in range(2):
            (tmp_path / f"out.csv.part-0000{part}-of-00002").touch()
            (tmp_path / f".out.csv.part-0000{part}-of-00002.7.0123abcd.tmp").touch()
        return 0

    monkeypatch.setattr(team_inference, "inference", types.SimpleNamespace(infer=infer))
    monkeypatch.setattr(team_inference, "_files", lambda *_: ["a", "b"])
    config = InferenceConfig(output_file=str(tmp_path / "out.csv"), input_data_pattern="x")
    with pytest.raises(RunError):
        team_inference.infer(config)
    assert storage.listdir(tmp_path) == stays
