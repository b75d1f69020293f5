"""JSON from outside: read as ever, or refused, however deep it is."""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m import storage
from yt8m.datasets import download
from yt8m.errors import RunError
from yt8m.export import model_card
from yt8m.records import manifest
from yt8m.runner.cluster import exchange
from yt8m.runs import best_checkpoint
from yt8m.runs.opened_run import RunFiles
from yt8m.storage.base import parse_holder

DEEP = "[" * 100_000 + "]" * 100_000


def nested(depth: int) -> str:
    return '{"a": [' * (depth // 2) + "0" + "]}" * (depth // 2)


@pytest.mark.parametrize(
    "text", ["3", '"[[["', '{"a": [1, {"b": null}]}', b"[]", nested(100), "[[]," * 50 + "0" + "]" * 50]
)
def test_as_json_loads(text: str | bytes) -> None:
    assert storage.parse_json(text) == json.loads(text)


@pytest.mark.parametrize("text", [DEEP, DEEP.encode(), DEEP[:100_000], nested(102), '{"a":' * 100_000])
def test_too_deep(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="nested deeper than 100 levels"):
        storage.parse_json(text)


@pytest.mark.parametrize("text", ["", "{", b"\xff"])
def test_no_json(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|codec"):
        storage.parse_json(text)


@pytest.mark.parametrize("text", ['{"v0": ["a"], "v1": [], "v0": ["b"]}', '[{"a": {"v0": 1, "v0": 1}}]'])
def test_no_value_is_lost_because_another_has_its_key(text: str) -> None:
    with pytest.raises(ValueError, match="the key 'v0' twice"):
        storage.parse_json(text)


def test_every_file_that_others_may_have_written(tmp_path: pathlib.Path) -> None:
    """What has to be right is refused by name; what may be missing counts as missing."""
    for name in ("manifest.json", "cluster.json", "metrics.jsonl", "eval/report.json", "best/best.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(DEEP)
    with pytest.raises(RunError, match=r"manifest\.json is not a .* nested deeper"):
        manifest.read(str(tmp_path / "manifest.json"))
    with pytest.raises(RunError, match=r"http://plan .*download plan"):
        download.parse_plan(DEEP.encode(), "http://plan")
    assert exchange.read_run_marker(str(tmp_path)) is None
    assert RunFiles(str(tmp_path)).lines == []
    assert model_card.report_of(str(tmp_path), 0) == {}
    assert parse_holder(DEEP.encode()) == {}
    (tmp_path / "model.ckpt-3.index").touch()
    assert best_checkpoint.keep_best(str(tmp_path), str(tmp_path / "model.ckpt-3"), 3, 0.5)
