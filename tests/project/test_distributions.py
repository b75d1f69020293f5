"""The wheel and the source distribution, as users get them: what they hold, and that they work elsewhere."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import release_script

from yt8m import version

ROOT = pathlib.Path(__file__).resolve().parents[2]
release_files = release_script.load("release_files")


def run(*words: object, cwd: pathlib.Path, environment: dict[str, str] | None = None) -> str:
    """Runs a program, which must end with status 0; returns what it prints."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the source distribution, and with the wheel, which was built from it and not from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """The paths of the files that git tracks."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_each_holds_the_package_and_nothing_else(folder: pathlib.Path, tracked: set[str], kind: str) -> None:
    (path,) = folder.glob(f"yt8m-{version.__version__}{kind}")
    members = set(release_files.member_sizes(path.name, path.read_bytes()))
    assert release_files.wrong_members(path.name, members, tracked, version.__version__) == []
    # Without MANIFEST.in setuptools takes some tests, which run only with the others.
    assert not any(name.startswith("tests/") for name in members)


def test_the_wheel_is_described_by_the_readme(folder: pathlib.Path) -> None:
    (wheel,) = folder.glob("yt8m-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert "\n# yt8m\n" in archive.read(metadata).decode()


@pytest.mark.long
@pytest.mark.heavy
def test_a_fresh_environment_trains_evaluates_and_predicts(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (wheel,) = folder.glob("yt8m-*.whl")
    run(sys.executable, "-m", "venv", "fresh", cwd=tmp_path)
    programs = tmp_path / "fresh" / "bin"
    options = ("--disable-pip-version-check", "--no-compile", "-c", ROOT / "constraints.txt")
    installed = [programs / "python", "-m", "pip", "install", "--quiet", *options, wheel]
    # With the checkout on Python's path pip would take yt8m as installed already.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(installed, capture_output=True, text=True, cwd=tmp_path, env=environment)
    if "No matching distribution" in done.stderr or "Failed to establish a new connection" in done.stderr:
        pytest.skip(f"no index of packages is reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr

    def yt8m(*words: str) -> str:
        return run(programs / "yt8m", *words, cwd=tmp_path, environment=environment)

    place = run(programs / "python", "-c", "import yt8m; print(yt8m.__file__)", cwd=tmp_path, environment=environment)
    assert pathlib.Path(place.strip()).is_relative_to(tmp_path / "fresh")
    release_script.load("release").try_package(programs / "yt8m", tmp_path)
    yt8m("eval", "--train_dir=run", "--eval_data_pattern=data/video/validate/*.tfrecord", "--run_once")
    assert json.loads((tmp_path / "run/eval/report.json").read_text())["num_examples"] == 16
