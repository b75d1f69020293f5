"""Bytes changed anywhere, in any format: the named error or the very records, never less without a word."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import fault_shards
import pytest
from fault_shards import LEVELS
from faults import mutations
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import examples

from yt8m.datasets.verification import DeepCheck
from yt8m.readers.damage import RecordCheck

PLACES = st.integers(0, 1 << 20)
CHANGES = st.builds(
    mutations.Change, st.sampled_from(mutations.KINDS), PLACES, PLACES, st.binary(min_size=1, max_size=20)
)
SHARDS = {level: fault_shards.sound(level, mutations.COUNT) for level in LEVELS}
REUSED = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}  # the fixture is the same for all examples


@pytest.fixture(scope="module")
def parsers() -> Iterator[dict[str, RecordCheck]]:
    found = {level: mutations.parser(level) for level in LEVELS}
    for level, parser in found.items():
        assert parser.first_bad(SHARDS[level]) is None  # opens its session
    yield found
    for parser in found.values():
        parser.close()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[mutations.GraphReader, pathlib.Path]]:
    path = tmp_path_factory.mktemp("fuzz") / "x.tfrecord"
    reader = mutations.GraphReader("video", path)
    yield reader, path
    reader.close()


@pytest.mark.promise("I1")
@pytest.mark.promise("I2")
@given(st.sampled_from(LEVELS), st.lists(CHANGES, min_size=1, max_size=2))
@examples(150, **REUSED)
def test_shards(tmp_path: pathlib.Path, level: str, changes: list[mutations.Change]) -> None:
    changed = fault_shards.shard(SHARDS[level])
    for change in changes:
        changed = change.of(changed)
    mutations.check_shard(tmp_path / "x.tfrecord", changed, SHARDS[level])


@pytest.mark.promise("I3")
@given(st.sampled_from(LEVELS), st.lists(CHANGES, min_size=1, max_size=3))
@examples(30, **REUSED)
def test_records(parsers: dict[str, RecordCheck], level: str, changes: list[mutations.Change]) -> None:
    payload = SHARDS[level][0]
    for change in changes:
        payload = change.of(payload)
    mutations.check_record(payload, DeepCheck({}))
    parsers[level].first_bad([payload])


@pytest.mark.promise("I1")
@pytest.mark.promise("I2")
@given(st.lists(CHANGES, min_size=1, max_size=2))
@examples(25, **REUSED)
def test_shards_in_the_graph(
    graph: tuple[mutations.GraphReader, pathlib.Path], changes: list[mutations.Change]
) -> None:
    reader, path = graph
    changed = fault_shards.shard(SHARDS["video"])
    for change in changes:
        changed = change.of(changed)
    path.write_bytes(changed)
    mutations.check_graph(reader, path, 1)
