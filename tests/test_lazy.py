"""What `import tensorflow` brings with it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pathlib
import resource
import subprocess
import sys
import threading
import weakref

import pytest

from yt8m import lazy

# Ends as TensorFlow does: with an import that it can do without.
_ENDS_WITH_KERAS = """
try:
    import keras.src.optimizers
    has_keras = True
except ImportError:
    has_keras = False
"""

_BOTH = """
import sys
from yt8m.lazy import tf
tf.Session
assert "keras" not in sys.modules
assert "scipy" not in sys.modules
assert "h5py" not in sys.modules
import h5py
import scipy.sparse
assert tf.constant(scipy.sparse.eye(2).toarray()).shape == (2, 2)
tf.keras.optimizers.Adam()
assert "keras.src.optimizers" in sys.modules
import tensorflow.keras.layers
"""


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_are_set_aside() -> None:
    """Those of all tests before these: each look through them would take a second, here and in later tests."""
    gc.collect()
    gc.freeze()


def test_keras_is_not_imported_with_the_module_and_can_be_afterwards(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "keras" / "src"
    package.mkdir(parents=True)
    for path in (package.parent / "__init__.py", package / "__init__.py", package / "optimizers.py"):
        path.write_text("")
    (tmp_path / "like_tensorflow.py").write_text(_ENDS_WITH_KERAS)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
        monkeypatch.delitem(sys.modules, name)
    try:
        assert not lazy._LazyModule("like_tensorflow").has_keras
        import keras.src.optimizers as found

        assert found.__file__ == str(package / "optimizers.py")
    finally:
        for name in ("keras.src.optimizers", "keras.src", "keras", "like_tensorflow"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("text", ["here = [[]]", "raise ImportError"])
def test_what_an_import_makes_is_not_looked_through_again_and_the_collector_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(lazy, "_MANY_OBJECTS", sys.maxsize)  # many tests before this one leave many objects
    (tmp_path / "with_lists.py").write_text(f"import gc\nassert not gc.isenabled()\n{text}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with contextlib.suppress(ImportError):
            found = lazy._LazyModule("with_lists").here
            assert not any(one is found for one in gc.get_objects())
        assert gc.isenabled()
    finally:
        sys.modules.pop("with_lists", None)


class _Ring:
    """An object that only the garbage collector removes, because it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


# As modules of TensorFlow do, it keeps the exception of a failed import in a cycle with the frame that caught it.
_FAILS_INSIDE = """
def find():
    try:
        import no_such_module
    except ImportError as error:
        kept = error

find()
here = [[]]
"""


def test_what_is_older_than_an_import_is_still_collected(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_ring.py").write_text(_FAILS_INSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    ring, untracked = _Ring(), (1, "a")
    gc.collect()  # a tuple of such values is not looked at from now on
    noted = weakref.ref(ring)
    try:

        def use(ring: _Ring) -> None:
            assert lazy._LazyModule("with_ring").here == [[]]
            assert gc.is_tracked(ring)

        use(ring)
        assert not gc.is_tracked(untracked)
        del ring
        gc.collect()
        assert noted() is None
    finally:
        sys.modules.pop("with_ring", None)


def test_an_import_beside_a_proxy_of_an_object_that_is_gone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy, "_MANY_OBJECTS", sys.maxsize)
    (tmp_path / "beside_proxy.py").write_text("here = [[]]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ring = _Ring()
    proxy = weakref.proxy(ring, lambda _: None)  # one with a callback is looked at by the collector
    del ring
    gc.collect()
    try:
        assert gc.is_tracked(proxy)
        assert lazy._LazyModule("beside_proxy").here == [[]]
        assert gc.is_tracked(proxy)
    finally:
        sys.modules.pop("beside_proxy", None)


def test_a_process_with_very_many_objects_sets_none_aside(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_more.py").write_text("here = [[]]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(lazy, "_MANY_OBJECTS", 1)
    before = gc.get_freeze_count()
    try:
        found = lazy._LazyModule("with_more").here
        assert any(one is found for one in gc.get_objects())
        assert gc.get_freeze_count() <= before
    finally:
        sys.modules.pop("with_more", None)


@pytest.mark.heavy
def test_tensorflow_itself_does_without_keras_until_it_is_asked_for() -> None:
    root = pathlib.Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", _BOTH], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_threads_print_natively_is_dropped_until_the_last_one_has_left(capfd: pytest.CaptureFixture[str]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with lazy.quiet_native_stderr():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    with lazy.quiet_native_stderr():
        thread.start()
        inside.wait()
    os.write(2, b"dropped\n")
    leave.set()
    thread.join()
    os.write(2, b"shown\n")
    assert capfd.readouterr().err == "shown\n"


@pytest.mark.heavy
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="glibc's allocator")
@pytest.mark.parametrize(
    ("setting", "is_reused"),
    [
        ({}, True),
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
        ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}, False),
        ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"}, True),
        ({"MALLOC_TRIM_THRESHOLD": "131072"}, True),  # glibc reads it with an underscore at its end alone
    ],
)
def test_the_memory_of_a_batch_is_reused(setting: dict[str, str], is_reused: bool) -> None:
    """Three blocks of 16 MB, freed together, are more than glibc keeps by default; and there are few arenas."""
    code = """
import ctypes, resource, threading
from yt8m.lazy import tf
tf.constant
def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    before = faults()
    blocks = [b"x" * (16 << 20) for _ in range(3)]
    del blocks
print(faults() - before)
libc, together = ctypes.CDLL(None), threading.Barrier(99)
def allocate() -> None:
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(99)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.malloc_stats()
"""
    ends = ("_THRESHOLD_", "_TUNABLES", "_ARENA_MAX")
    environment = {name: value for name, value in os.environ.items() if not name.endswith(ends)} | setting
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    pages = 3 * (16 << 20) // resource.getpagesize()
    assert (int(found.stdout) < pages / 10) == is_reused
    assert 1 <= found.stderr.count("Arena ") <= max(2, len(os.sched_getaffinity(0)))


@pytest.mark.heavy
def test_a_process_without_stderr_can_import_it():
    program = "from yt8m.lazy import tf; print(tf.constant(1).dtype.name)"
    command = f"exec {sys.executable} -c '{program}' 2>&-"
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout == "int32\n"


_PROGRAM = """
import gc, sys
from yt8m import lazy
from yt8m.command_line import cli

with lazy.as_program():
    assert not gc.isenabled()
    older = [[]]
    lazy.begin_work()
    assert gc.isenabled()
    assert not any(each is older for each in gc.get_objects())
    before = gc.get_freeze_count()
    lazy.tf.Session
    assert gc.isenabled()
    assert gc.get_freeze_count() > before + 100_000
    assert not any(each is sys.modules["tensorflow"].__dict__ for each in gc.get_objects())
later = [[]]
assert any(each is later for each in gc.get_objects())
assert cli.main(["--version"]) == 0
assert gc.isenabled()
sys.argv = ["yt8m", "--version"]
assert cli.main() == 0
assert gc.isenabled()
"""


@pytest.mark.heavy
def test_the_collector_passes_over_what_a_program_imports_and_goes_on_afterwards() -> None:
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])}
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
