"""What make says of Pythons, in a folder of stand-ins for them."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import packaging.requirements
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ("python3.11", "python3.12", "python3.13", "python3.14", "python3")
ABSENT = "#!/bin/sh\nexit 127\n"
# It says that it has no venv, and is a Python for the rest.
WITHOUT_VENV = f"""#!/bin/sh
case "$2" in *ensurepip*) exit 1;; esac
exec {sys.executable} "$@"
"""
# A Python 3.14, whose environments are its copies; the index has a pre-release of TensorFlow for it.
NEWEST = """#!/bin/sh
case "$*" in
  *ensurepip*) ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"index versions --pre tensorflow"*) ;;
  *"index versions tensorflow"*) echo "ERROR: no matching distribution"; exit 1 ;;
  *) exit 1 ;;
esac
"""

# The same, where the index has a release too.
RELEASED = NEWEST.replace(
    '*"index versions tensorflow"*) echo "ERROR: no matching distribution"; exit 1 ;;', "*index*) ;;"
)


@pytest.fixture
def make(tmp_path: pathlib.Path):
    """Runs make with the one stand-in that is named, for the environment or another target; the others are absent."""

    def run(
        name: str, text: str, *words: str, target: str = f"{tmp_path}/env/bin/python"
    ) -> subprocess.CompletedProcess[str]:
        for each in NAMES:
            (tmp_path / each).write_text(text if each == name else ABSENT)
            (tmp_path / each).chmod(0o755)
        environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        command = ["make", "-C", ROOT, f"VENV={tmp_path}/env", f"NEWEST={tmp_path}/newest", target, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_a_python_that_does_not_fit_is_named_with_its_version(make, tmp_path: pathlib.Path) -> None:
    done = make("python3", WITHOUT_VENV)
    assert done.returncode == 2
    assert f"python3 ({sys.version.split()[0]})" in done.stdout
    assert "PYTHON=" in done.stdout
    assert not (tmp_path / "env").exists()


def test_without_any_python_make_says_so(make) -> None:
    done = make("", "")
    assert done.returncode == 2
    assert re.search(r"3\.11\.2 to 3\.14 .* PYTHON=", done.stdout)


def test_without_a_released_tensorflow_pre_releases_are_for_whoever_asks(make, tmp_path: pathlib.Path) -> None:
    done = make("python3.14", NEWEST)
    assert done.returncode == 2
    assert "no matching distribution" in done.stdout
    assert "make venv PRE=1" in done.stdout
    assert not (tmp_path / "env").exists()
    assert make("python3.14", NEWEST, "PRE=1").returncode == 0
    assert (tmp_path / "env/bin/python").exists()


def test_with_a_released_tensorflow_nobody_has_to_ask_for_pre_releases(make, tmp_path: pathlib.Path) -> None:
    done = make("python3.14", RELEASED)
    assert (done.returncode, "PRE=1" in done.stdout) == (0, False)
    assert (tmp_path / "env/bin/python").exists()


def test_the_newest_versions_too_need_a_tensorflow(make, tmp_path: pathlib.Path) -> None:
    """There make ended with pip's bare error."""
    done = make("python3.14", NEWEST, target="newest")
    assert done.returncode == 2
    assert "no matching distribution" in done.stdout
    assert "make newest PRE=1" in done.stdout
    assert not (tmp_path / "newest").exists()
    assert "no matching distribution" not in make("python3.14", RELEASED, target="newest").stdout
    assert (tmp_path / "newest/bin/python").exists()  # whose stand-in of pip installs nothing


def test_pins_hold_for_every_python_that_has_a_released_tensorflow() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = [packaging.requirements.Requirement(line) for line in lines]
    for version in ("3.11", "3.12", "3.13"):
        assert [pin.name for pin in pins if pin.marker and not pin.marker.evaluate({"python_version": version})] == []
    unpinned = {pin.name for pin in pins if pin.marker and not pin.marker.evaluate({"python_version": "3.14"})}
    assert unpinned == {"tensorflow", "h5py"}


def test_a_gpu_is_measured_with_cuda_where_its_driver_is(tmp_path: pathlib.Path) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    for name in ("env/bin/python", "driver/nvidia-smi"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('#!/bin/sh\necho "$@"\n')
        (tmp_path / name).chmod(0o755)
    for stamp in (".runnable", ".installed"):
        (tmp_path / "env" / stamp).touch()

    def calls(path: str) -> list[str]:
        words = ["make", "--silent", "-C", ROOT, f"VENV={tmp_path}/env", "bench-gpu"]
        done = subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("-m ")]

    installs, measures = calls(f"{tmp_path}/driver{os.pathsep}{os.environ['PATH']}")
    assert ".[gpu]" in installs
    assert "-m benchmarks.gpu_report " in measures
    if not shutil.which("nvidia-smi"):
        assert calls(os.environ["PATH"]) == [measures]
