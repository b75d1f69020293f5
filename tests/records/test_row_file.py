"""Rows are read from files without a memory map, which would end the process by SIGBUS if the file became shorter."""

from __future__ import annotations

import pathlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from yt8m.errors import RunError
from yt8m.records.row_file import ArrayFile, RowFile, ShortFileError


@hypothesis.given(
    shape=st.lists(st.integers(0, 5), min_size=2, max_size=4),
    dtype=st.sampled_from(["u1", "<f2", "<f4", ">f4", "<i8", ">f8", "?"]),
    is_transposed=st.booleans(),
    data=st.data(),
)
def test_slices_of_an_array_are_those_that_numpy_reads(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: str, is_transposed: bool, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "array.npy"
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    np.save(path, np.asfortranarray(array) if is_transposed else array)
    start, stop = (data.draw(st.integers(-7, 7)) for _ in range(2))
    file = ArrayFile(str(path))
    assert (len(file), file.shape, file.dtype) == (len(array), array.shape, array.dtype)
    read = file[start:stop]
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array[start:stop])


@hypothesis.given(numbers=st.lists(st.integers(0, 6)), offset=st.integers(0, 9))
def test_rows_come_in_the_order_of_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], offset: int
) -> None:
    path, rows = tmp_path_factory.getbasetemp() / "rows", np.arange(21, dtype=np.uint8).reshape(7, 3)
    path.write_bytes(bytes(offset) + rows.tobytes())
    with path.open("rb") as file:
        read = RowFile(file, str(path), 3, offset).read_rows(np.array(numbers, np.int64))
    np.testing.assert_array_equal(read, rows[numbers])


@pytest.mark.parametrize("is_transposed", [False, True])
def test_an_array_that_becomes_shorter_is_an_error(tmp_path: pathlib.Path, is_transposed: bool) -> None:
    """Reading from a memory map ended the process by SIGBUS."""
    path, array = tmp_path / "array.npy", np.ones((3000, 40), np.float32)
    np.save(path, np.asfortranarray(array) if is_transposed else array)
    file = ArrayFile(str(path))
    assert file[2990:3000].sum() == 400
    with path.open("r+b") as stream:
        stream.truncate(5000)
    with pytest.raises(ShortFileError, match=r"array\.npy became shorter"):
        file[2990:3000]


def test_rows_beyond_the_end_and_what_no_system_reads_are_errors(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(10))
    with path.open("rb") as file, pytest.raises(ShortFileError):
        RowFile(file, str(path), 4).read_rows(np.array([0, 2]))
    with path.open("wb") as file, pytest.raises(RunError, match=f"cannot read {path}: Bad file descriptor"):
        RowFile(file, str(path), 4).read_rows(np.array([0]))
