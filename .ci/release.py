"""Makes a release, and stops before the upload: `make release VERSION=0.1.0`.

Checks that the version, the changelog and CITATION.cff agree and that nothing is uncommitted. Builds the source
distribution and the wheel twice, which must give the same bytes. Checks their metadata (twine) and installs the wheel
in a fresh environment of each Python that is found, with the versions of constraints.txt. Writes into dist/: both
files, a list of all components (CycloneDX), and SHA256SUMS. Prints the command that makes the tag.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib

from packaging.specifiers import SpecifierSet

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"))


def run(*words: object, **options: object) -> str:
    """Runs a program, which must end with status 0; returns what it prints."""
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def refuse_other_versions(version: str) -> None:
    """Ends the program unless every place that names the version names this one, and all is committed."""
    sys.path.insert(0, str(ROOT))
    from yt8m.version import __version__

    wrong = [] if __version__ == version else [f"yt8m/version.py has {__version__}"]
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.M):
        wrong.append(f"CHANGELOG.md lacks the heading '## {version} (YYYY-MM-DD)'")
    if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        wrong.append(f"CITATION.cff lacks 'version: {version}'")
    if run("git", "status", "--porcelain"):
        wrong.append("there are changes that are not committed")
    if wrong:
        sys.exit(f"cannot release {version}: " + "; ".join(wrong))


def build(folder: pathlib.Path, time: str) -> dict[str, bytes]:
    """{name: bytes} of the two distributions of what is committed, built in a fresh clone."""
    run("git", "clone", "--quiet", ROOT, folder / "clone")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": time}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "out", folder / "clone", env=environment)
    files = {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}
    return {name: repacked(data, int(time)) if name.endswith(".tar.gz") else data for name, data in files.items()}


def repacked(archive: bytes, time: int) -> bytes:
    """The same source distribution with sorted members, and without the owners and times that the disk has."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=time) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            content = source.extractfile(member)
            plain = tarfile.TarInfo(member.name)
            plain.size, plain.type, plain.mtime = member.size, member.type, time
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            target.addfile(plain, content)
    return packed.getvalue()


def fitting_pythons() -> list[str]:
    """Those of PYTHONS that are here, can make an environment, and have a version that the package takes.

    Debian 12 has 3.11.2, for one, which it does not take.
    """
    takes = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    fitting = []
    for python in filter(shutil.which, PYTHONS):
        words = [python, "-c", "import ensurepip, platform; print(platform.python_version())"]
        found = subprocess.run(words, capture_output=True, text=True)
        if found.returncode == 0 and takes.contains(found.stdout.strip()):
            fitting.append(python)
    return fitting


def install(wheel: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Installs the wheel in a fresh environment of each Python, and lists the components of the last; returns which."""
    installed = fitting_pythons()
    if not installed:
        sys.exit(f"none of {', '.join(PYTHONS)} is here in a version that fits, so the wheel cannot be tried")
    for python in installed:
        environment = folder / python
        run(python, "-m", "venv", environment)
        run(environment / "bin/python", *PIP, wheel)
        run(environment / "bin/yt8m", "--help")
    run(sys.executable, "-m", "cyclonedx_py", "environment", folder / installed[-1], "-o", DIST / "components.cdx.json")
    return installed


def main() -> None:
    """Makes the release that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    version = parser.parse_args().version
    refuse_other_versions(version)
    time = run("git", "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as temporary:
        first, second = (build(pathlib.Path(temporary, name), time) for name in ("first", "second"))
        if wrong := [name for name in first if not name.startswith(f"yt8m-{version}")]:
            sys.exit(f"built {', '.join(wrong)}, not version {version}")
        if first != second:
            sys.exit(f"two builds differ: {[name for name in first if first[name] != second.get(name)]}")
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for name, data in first.items():
            (DIST / name).write_bytes(data)
        run(sys.executable, "-m", "twine", "check", "--strict", *(DIST / name for name in first))
        (wheel,) = DIST.glob("*.whl")
        pythons = install(wheel, pathlib.Path(temporary))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print(f"installed and started with {', '.join(pythons)}", *sums, sep="\n")
    print("not uploaded. The tag that publishes it:")
    print(f"  git tag -s v{version} -m 'yt8m {version}' && git push origin v{version}")


if __name__ == "__main__":
    main()
