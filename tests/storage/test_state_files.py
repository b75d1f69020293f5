"""State that a command reads back: what was written, or an error; no changed byte goes unnoticed."""

from __future__ import annotations

import contextlib
import math
import pathlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import examples

from yt8m.errors import DamagedFileError
from yt8m.storage import NotFoundError, state_files

REUSED = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}  # the fixture is the same for all examples
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=6,
)
STATE = {"step": 12, "rows": [{"loss": 0.25, "name": 'a, "checksum": "b"'}], "best": None, "nan": math.inf}


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=4), VALUES, min_size=1, max_size=3))
@examples(60, **REUSED)
def test_what_is_written_is_read(tmp_path: pathlib.Path, values: dict[str, Any]) -> None:
    state_files.write(str(tmp_path / "state.json"), values)
    assert state_files.read(str(tmp_path / "state.json")) == values


@given(st.integers(0, 200), st.integers(0, 12), st.binary(max_size=6))
@examples(300, **REUSED)
def test_changed_bytes_are_noticed(tmp_path: pathlib.Path, start: int, removed: int, inserted: bytes) -> None:
    path = tmp_path / "state.json"
    state_files.write(str(path), STATE)
    whole = path.read_bytes()
    start %= len(whole)
    path.write_bytes(whole[:start] + inserted + whole[start + removed :])
    with contextlib.suppress(DamagedFileError):
        values = state_files.read(str(path))
        assert {name: values[name] for name in STATE} == STATE  # a damaged name of the checksum is an entry more


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"7", b"\xff", b'{"a": "\\ud800"}', b"[" * 300, b"{}, {}"])
def test_other_contents_are_named(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"state\.json is damaged"):
        state_files.read(str(path))


def test_a_file_of_an_earlier_version_has_no_checksum(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"step": 3}')
    assert state_files.read(str(path)) == {"step": 3}
    with pytest.raises(NotFoundError):
        state_files.read(str(tmp_path / "none.json"))
