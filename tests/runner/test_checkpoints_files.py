"""The files of checkpoints: which there are, which are removed, when each was saved. Without TensorFlow."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

from yt8m import storage
from yt8m.errors import RunError
from yt8m.runner import checkpoints

DATA = "data-00000-of-00001"


def put(folder: pathlib.Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"x")


def names(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_paths_and_steps_belong_together() -> None:
    assert checkpoints.path_of("runs/a", 7) == "runs/a/model.ckpt-7"
    assert checkpoints.path_of("gs://bucket/a", 70, "input") == "gs://bucket/a/input-70"
    assert checkpoints.step_of("runs/a-3/model.ckpt-12") == 12
    assert checkpoints.step_of("model.ckpt-0") == 0
    assert [checkpoints.step_of(name) for name in ("model.ckpt", "model.ckpt-", "model.ckpt-1a", "")] == [-1] * 4


def test_files_are_grouped_by_step_and_others_left_out(tmp_path: pathlib.Path) -> None:
    of_ten = {"model.ckpt-10.index", "model.ckpt-10.meta", f"model.ckpt-10.{DATA}", "input-10.json"}
    of_two = {"input-2.index", f"input-2.{DATA}"}
    put(tmp_path, *of_ten, *of_two, "checkpoint", "model.ckpt-x.index", "xmodel.ckpt-3.index", "model.ckpt-3.indexed")
    put(tmp_path, "modelxckpt-4.index", "model.ckpt-5.data-0", "input-6.txt")
    found = checkpoints.files_of(str(tmp_path))
    assert {step: set(files) for step, files in found.items()} == {10: of_ten, 2: of_two}
    assert checkpoints.files_of(str(tmp_path / "nowhere")) == {}


def test_saved_is_what_has_an_index_or_a_graph_newest_first(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "model.ckpt-2.index", "model.ckpt-10.meta", "model.ckpt-9.index", "model.ckpt-9.meta")
    put(tmp_path, f"model.ckpt-11.{DATA}", "input-12.index", "input-2.index")
    assert checkpoints.steps_in(str(tmp_path)) == [10, 9, 2]
    assert checkpoints.steps_in(str(tmp_path / "nowhere")) == []


def test_a_sweep_removes_what_a_killed_save_left_and_nothing_else(
    tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    kept = {"model.ckpt-2.index", "model.ckpt-2.meta", f"model.ckpt-2.{DATA}", "input-2.json", "checkpoint"}
    kept |= {"my.tempstate1", "model.ckpt-5.index.tmp12", "model.ckpt-5.index.tempstate", "config.json"}
    left = {f"model.ckpt-3.{DATA}.tempstate12", "model.ckpt-3.index.tempstate1", f"input-4.json.tmp{'0a' * 16}"}
    left |= {f"model.ckpt-6.{DATA}", "input-6.json", "input-7.index"}
    put(tmp_path, *kept, *left)
    checkpoints.sweep(str(tmp_path))
    assert names(tmp_path) == kept
    assert sorted(lines()) == [f"the save of step {step} was not finished: its files are removed" for step in (6, 7)]
    checkpoints.sweep(str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("has_meta", [True, False])
@pytest.mark.parametrize("removed", range(6))
def test_a_deletion_that_is_killed_after_any_file_is_finished_later(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, removed: int, has_meta: bool
) -> None:
    """Three checkpoints of which the newest stays: the next start and the next save leave nothing of the others."""
    kinds = [f"model.ckpt-{{}}.{DATA}", "input-{}.json", "model.ckpt-{}.index", "input-{}.index"]
    kinds += ["model.ckpt-{}.meta"] * has_meta
    put(tmp_path, *(kind.format(step) for kind in kinds for step in (1, 2)))
    remove, left = storage.remove, [removed]

    def killed(path: str) -> None:
        if not left[0]:
            raise KilledError
        left[0] -= 1
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "remove", killed)
        try:
            checkpoints._delete(str(tmp_path), [kind.format(1) for kind in kinds])
        except KilledError:
            assert len(kinds) > removed
    whole = {kind.format(1) for kind in kinds[:4]} <= names(tmp_path)
    assert checkpoints.steps_in(str(tmp_path)) == ([2, 1] if whole else [2])
    checkpoints.sweep(str(tmp_path))
    put(tmp_path, *(kind.format(3) for kind in kinds))
    checkpoints.write_state(str(tmp_path), 3, keep=1)
    assert names(tmp_path) == {"checkpoint", *(kind.format(3) for kind in kinds)}


def test_what_cannot_be_removed_stays_with_a_warning(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, lines: Callable[[], list[str]]
) -> None:
    def refused(path: str) -> None:
        raise RunError(f"cannot remove {os.path.basename(path)}")

    monkeypatch.setattr(storage, "remove", refused)
    put(tmp_path, "model.ckpt-3.index", "model.ckpt-4.index.tempstate1")
    checkpoints._delete(str(tmp_path), ["model.ckpt-3.index"])
    checkpoints.sweep(str(tmp_path))
    assert lines() == [
        "a file of an old checkpoint remains: cannot remove model.ckpt-3.index",
        "a file of an unfinished save remains: cannot remove model.ckpt-4.index.tempstate1",
    ]


def test_a_checkpoint_is_gone_once_its_index_is(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "model.ckpt-3.index", f"model.ckpt-4.{DATA}")
    assert not checkpoints.is_gone(str(tmp_path / "model.ckpt-3"))
    assert checkpoints.is_gone(str(tmp_path / "model.ckpt-4"))


def test_no_fresh_start_where_a_run_was(tmp_path: pathlib.Path) -> None:
    checkpoints._refuse_a_fresh_start(str(tmp_path), ["cut short"])  # a first save that was cut short is no run
    put(tmp_path, "checkpoint")
    with pytest.raises(RunError, match=rf"{tmp_path} .*'checkpoint' .*missing.*--start_new_model"):
        checkpoints._refuse_a_fresh_start(str(tmp_path), [])
    (tmp_path / "checkpoint").unlink()
    put(tmp_path, "model.ckpt-3.index")
    with pytest.raises(RunError) as refusal:
        checkpoints._refuse_a_fresh_start(str(tmp_path), ["a (no data)", "b (cut)"])
    assert str(refusal.value).startswith(
        f"{tmp_path} holds a run, but none of its checkpoints can be read: a (no data); b"
    )
    assert "--start_new_model" in str(refusal.value)


MINUTE = 60.0


def test_the_newest_stay_and_one_of_each_quarter_of_an_hour() -> None:
    """Saved each minute: by hand, after step 0 at the start those of minutes 15 and 30."""
    times = {step: 1000 + MINUTE * step for step in range(41)}
    doomed, preserved = checkpoints.to_delete(times, 3, 1000.0)
    assert sorted(set(times) - set(doomed)) == [0, 15, 30, 38, 39, 40]
    assert preserved == times[30]
    assert doomed == sorted(doomed)


def test_what_was_decided_before_is_not_decided_again() -> None:
    times = {step: 1000 + MINUTE * step for step in (0, 7, 15, 16, 29, 30, 31, 32)}
    assert checkpoints.to_delete(times, 1, times[15]) == ([16, 29, 31], times[30])
    assert checkpoints.to_delete(times, 1, times[30]) == ([31], times[30])


def test_the_last_preserved_may_be_gone() -> None:
    """The first that is left stands in for it: it stays, and the quarter of an hour counts from it."""
    times = {step: 1000 + MINUTE * step for step in (5, 12, 19, 20, 21)}
    assert checkpoints.to_delete(times, 1, 1000 + MINUTE * 10) == ([12, 19], times[20])
    # A time before all of them is that of the start of the run, and the quarter of an hour counts from it.
    assert checkpoints.to_delete(times, 1, times[5] - 1) == ([5, 12, 19], times[20])


@pytest.mark.parametrize("keep", [0, 5, 6])
def test_nothing_goes_if_all_may_stay(keep: int) -> None:
    times = {step: MINUTE * step for step in range(5)}
    assert checkpoints.to_delete(times, keep, -1.0) == ([], -1.0)
    assert checkpoints.to_delete({}, keep, 3.0) == ([], 3.0)


def test_no_time_passes_where_the_clock_was_put_back() -> None:
    times = {3: 100.0, 5: 40.0, 9: 70.0, 12: 71.0}
    assert checkpoints._monotonic_times(times) == {3: 100.0, 5: 100.0, 9: 130.0, 12: 131.0}
    assert checkpoints._monotonic_times({2: 5.0}) == {2: 5.0}


def test_a_checkpoint_without_a_known_time_has_that_of_its_file(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    put(tmp_path, "model.ckpt-1.index", "model.ckpt-2.index", "model.ckpt-3.meta", "model.ckpt-4.index")
    put(tmp_path, "model.ckpt-9.index")
    os.utime(tmp_path / "model.ckpt-2.index", (500, 500))
    found = checkpoints._complete_times(folder, checkpoints.files_of(folder), 4, {1: 10.0, 4: 40.0})
    assert found == {1: 10.0, 2: 500.0, 4: 40.0}
    saved_times = {1: 1.0, 2: 2.0, 4: 4.0}
    assert checkpoints._complete_times(folder, checkpoints.files_of(folder), 4, saved_times) == saved_times
