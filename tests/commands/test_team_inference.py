"""What a job of several processes leaves where a part of it is lost."""

from __future__ import annotations

import json
import pathlib
import types
from typing import Any

import pytest
from clusters import free_addresses

from yt8m import storage
from yt8m.commands import team
from yt8m.commands.input_check import digest
from yt8m.config.programs import InferenceConfig
from yt8m.deploy.cluster import WORKER, ClusterConfig
from yt8m.errors import RunError
from yt8m.runner import checkpoints


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


def test_parts_of_other_shards_are_not_joined(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
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
    monkeypatch.setattr(team, "inference", types.SimpleNamespace(infer=predicting))
    config = InferenceConfig(output_file=str(tmp_path / "out.csv"), input_data_pattern=f"{tmp_path}/[ab]")
    assert team.infer_together(config) == 0
    (tmp_path / "out.csv").unlink()
    shards[1].write_bytes(b"1234567")
    theirs["path"] = names[0]
    with pytest.raises(RunError, match=r"worker 0 \(.*\) found other shards than the chief"):
        team.infer_together(config)
    assert not (tmp_path / "out.csv").exists()


def predicting(config: InferenceConfig, _: Any) -> int:
    """Stands for the inference of one part."""
    pathlib.Path(config.output_file).write_text("VideoId,LabelConfidencePairs\n")
    return 0


@pytest.mark.parametrize(
    ("role", "stays"),
    [("chief", []), (WORKER, [".out.csv.part-00000-of-00002.7.0123abcd.tmp", "out.csv.part-00000-of-00002"])],
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

    monkeypatch.setattr(team, "inference", types.SimpleNamespace(infer=infer))
    monkeypatch.setattr(team, "_files", lambda *_: ["a", "b"])
    config = InferenceConfig(output_file=str(tmp_path / "out.csv"), input_data_pattern="x")
    with pytest.raises(RunError):
        team.infer_together(config)
    assert storage.listdir(tmp_path) == stays


class Shared(Others):
    """The link of a chief whose worker finds the first checkpoint gone, and of that worker."""

    folder: pathlib.Path
    orders: list[str]
    replies: list[bytes]

    def send(self, order: str) -> None:
        self.orders.append(order)

    def collect(self) -> list[bytes]:
        part = self.folder / "out.csv.part-00001-of-00002"
        part.write_text("h\n2\n")
        found = {"path": None} if len(self.orders) == 1 else {"data": "same", "path": str(part), "size": 4}
        save(self.folder, len(self.orders) + 1)
        return [json.dumps(found).encode()]

    def receive(self) -> str:
        return self.orders.pop(0) if self.orders else ""

    def reply(self, result: bytes) -> None:
        self.replies.append(result)


def save(folder: pathlib.Path, step: int) -> None:
    """A checkpoint, the only one there."""
    for path in folder.glob("model.ckpt-*"):
        path.unlink()
    (folder / f"model.ckpt-{step}.index").touch()


@pytest.mark.promise("C7")
@pytest.mark.parametrize("role", ["chief", WORKER])
def test_a_checkpoint_that_is_gone_for_one_process_is_left_by_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, role: str
) -> None:
    cluster = ClusterConfig(tuple(free_addresses(2)), (), role, 0)
    monkeypatch.setattr(team, "cluster_here", lambda: cluster)
    monkeypatch.setattr(team, "Team", Shared)
    monkeypatch.setattr(checkpoints, "problem_of", lambda _: "")
    monkeypatch.setattr(team, "digest", lambda *_: "same")
    paths = [str(tmp_path / f"model.ckpt-{step}") for step in (1, 2)]
    for name, value in {"folder": tmp_path, "orders": [] if role == "chief" else paths.copy(), "replies": []}.items():
        monkeypatch.setattr(Shared, name, value, raising=False)
    used = []

    def infer(config: InferenceConfig, _: Any, checkpoint: str) -> int:
        used.append(checkpoint)
        if checkpoints.is_gone(checkpoint):
            raise RunError("it was deleted")
        pathlib.Path(config.output_file).write_text("h\n1\n")
        return 0

    monkeypatch.setattr(team, "inference", types.SimpleNamespace(infer=infer))
    monkeypatch.setattr(team, "_files", lambda *_: ["a", "b"])
    save(tmp_path, 1 if role == "chief" else 2)
    output = tmp_path / "out.csv"
    config = InferenceConfig(str(tmp_path), input_data_pattern="x", output_file=str(output))
    assert team.infer_together(config) == 0
    assert used == paths
    if role == "chief":
        assert Shared.orders == paths
        assert output.read_text() == "h\n1\n2\n"
    else:
        part = str(tmp_path / "out.csv.part-00001-of-00002")
        assert list(map(json.loads, Shared.replies)) == [{"path": None}, {"data": "same", "path": part, "size": 4}]
