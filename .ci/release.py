"""Makes a release, and stops before the upload: `make release VERSION=0.1.0`.

Checks that the version, the changelog and CITATION.cff agree, and that nothing is uncommitted. Builds the source
distribution and the wheel twice, under other permissions and paths, which must give the same bytes. Checks their
members, their metadata (twine), CITATION.cff (cffconvert) and the forge's workflow (zizmor). With each Python that the
package takes and constraints.txt names a TensorFlow for, in a fresh environment with the versions of constraints.txt,
the wheel is installed, trains on sample data, and predicts. The other Pythons are named as not tried.

Writes into dist/: both packages, a list of all components (CycloneDX), MEMBERS, SHA256SUMS, and TAG, the message of
the tag, which holds the checksums. Says what has to be done before the version can have its tag, or how to make it.

With --strict, as the forge runs it at the tag, it ends if anything is still to be done, if a Python to try, or its
TensorFlow, is missing, or if the packages have other checksums than the tag's message. The same bytes need the same
zlib, which compresses them, so TAG names its version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import release_files as files

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
# Not in constraints.txt: it takes no jsonschema of the last five years, and so has an environment of its own.
CFFCONVERT = "cffconvert==2.0.0"
IN_A_CHECKOUT = re.compile(r"pip install [^`\n]*'\.\[")
UNPINNED = "has no TensorFlow in constraints.txt"


def run(*words: object, cwd: pathlib.Path | None = None) -> str:
    """Runs a program without Python's settings of this shell, which name a checkout for one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return files.run(*words, cwd=cwd or ROOT, env=environment)


def end(version: str, wrong: list[str]) -> None:
    """Ends the program if anything is wrong."""
    if wrong:
        sys.exit(f"cannot release {version}: " + "; ".join(wrong))


def wrong_places(version: str) -> list[str]:
    """The places that name another version, and what makes these files another commit's, in words."""
    named = runpy.run_path(str(ROOT / "yt8m/version.py"))["__version__"]
    wrong = [] if named == version else [f"yt8m/version.py has {named}"]
    if not re.search(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d|not released)\)$", read("CHANGELOG.md"), re.M):
        wrong.append(f"CHANGELOG.md lacks the heading '## {version} (YYYY-MM-DD)', or (not released)")
    if not re.search(rf"^version: {re.escape(version)}$", read("CITATION.cff"), re.M):
        wrong.append(f"CITATION.cff lacks 'version: {version}'")
    if run("git", "status", "--porcelain"):
        wrong.append("there are changes that are not committed")
    tagged = run("git", "for-each-ref", "--format=%(objectname) %(*objectname)", f"refs/tags/v{version}")
    if tagged and run("git", "rev-parse", "HEAD").strip() not in tagged.split():
        wrong.append(f"the tag v{version} is on another commit: a released version stays as it is, so take the next")
    return wrong


def read(name: str) -> str:
    """The text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def not_ready(version: str) -> list[str]:
    """What has to be done before the version can have its tag, in words."""
    notes = []
    if f"## {version} (not released)" in read("CHANGELOG.md"):
        notes.append(f"CHANGELOG.md says '{version} (not released)': write the date, YYYY-MM-DD")
    if files.repository_address(ROOT) is None:
        notes.append(
            "pyproject.toml lacks 'Repository' in [project.urls]: the links of README.md lead nowhere on the index"
        )
    if "`pip install yt8m` does not work yet" in read("README.md"):
        notes.append("README.md says that `pip install yt8m` does not work yet: say that it does")
    if pages := naming_a_checkout():
        notes.append(
            f"users of the package have no checkout, in which these install an extra: {', '.join(pages)}; "
            "say pip install 'yt8m[EXTRA]'"
        )
    return notes


def naming_a_checkout() -> list[str]:
    """The files for users that say how to install an extra in a checkout."""
    paths = run("git", "ls-files", "README.md", "docs/users", "examples", "yt8m").splitlines()
    texts = {path: (ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths}
    return [path for path, text in texts.items() if IN_A_CHECKOUT.search(text)]


def reasons_against() -> dict[str, str]:
    """{program: why the wheel is not tried with it, or nothing}, of the Pythons that pyproject.toml names."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    takes = SpecifierSet(project["requires-python"])
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    return {
        f"python{version}": why_no_tensorflow(version) or why_not(f"python{version}", takes) for version in versions
    }


def why_no_tensorflow(python: str) -> str:
    """Why pip cannot install the TensorFlow of constraints.txt for this version of Python, or nothing.

    It is UNPINNED alone that lets a release go on: an index that fails for one Python must not leave this one untried.
    """
    pins = [Requirement(line) for line in read("constraints.txt").splitlines() if line.startswith("tensorflow==")]
    pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    if not pins:
        return UNPINNED
    options = ("--pre", "--only-binary=:all:", f"--python-version={python}")
    words = [sys.executable, "-m", "pip", "index", "versions", "tensorflow", *options]
    done = subprocess.run(words, capture_output=True, text=True)
    available = re.search(r"^Available versions: (.*)", done.stdout, re.M)
    versions = available[1].split(", ") if available and not done.returncode else []
    if any(pin.specifier.contains(version, prereleases=True) for pin in pins for version in versions):
        return ""
    names = " or ".join(f"tensorflow{pin.specifier}" for pin in pins)
    words_of_pip = done.stderr if done.returncode else done.stdout
    return f"has no wheel of {names} that pip finds: {' '.join(words_of_pip.split())}"


def why_not(python: str, takes: SpecifierSet) -> str:
    """Why the wheel cannot be tried with this Python, or nothing."""
    if not shutil.which(python):
        return "is not on this machine"
    words = [python, "-c", "import ensurepip, platform; print(platform.python_version())"]
    found = subprocess.run(words, capture_output=True, text=True)
    if found.returncode:
        return f"cannot make a virtual environment: {' '.join(found.stderr.split())}"
    return "" if takes.contains(found.stdout.strip()) else f"is {found.stdout.strip()}, not {takes}"


def write_packages(folder: pathlib.Path, version: str) -> dict[str, str]:
    """Builds and checks both packages, and writes them and their MEMBERS; returns {name: checksum}."""
    packages = files.build_twice(ROOT, folder, version)
    tracked = set(run("git", "ls-files").splitlines())
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    lines, wrong = [], []
    for name, data in packages.items():
        (DIST / name).write_bytes(data)
        sizes = files.member_sizes(name, data)
        wrong += files.wrong_members(name, set(sizes), tracked, version)
        lines += [f"{name}: {len(data)} bytes, {len(sizes)} files of {sum(sizes.values())} bytes"]
        lines += [f"{size:9} {path}" for path, size in sorted(sizes.items())]
    end(version, wrong)
    (DIST / "MEMBERS").write_text("\n".join(lines) + "\n")
    run(sys.executable, "-m", "twine", "check", "--strict", *(DIST / name for name in packages))
    return {name: hashlib.sha256(data).hexdigest() for name, data in packages.items()}


def check_citation_and_workflow(folder: pathlib.Path) -> None:
    """Ends the program unless CITATION.cff is as its format demands and the workflow has no known weakness."""
    run(pathlib.Path(sys.executable).with_name("zizmor"), "--offline", "--quiet", ".github/workflows")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", *PIP, CFFCONVERT)
    run(folder / "bin/cffconvert", "--validate", "--infile", ROOT / "CITATION.cff")


def other_checksums(version: str, sums: dict[str, str]) -> list[str]:
    """The packages whose checksums the message of the tag does not have, in words."""
    message = run("git", "tag", "--list", "--format=%(contents)", f"v{version}")
    tagged = {name: checksum for checksum, name in re.findall(r"^([0-9a-f]{64})  (.+)$", message, re.M)}
    wrong = [
        f"{name} is {checksum} here and {tagged.get(name, 'not named')} in the message of the tag v{version}"
        for name, checksum in sums.items()
        if tagged.get(name) != checksum
    ]
    return [*wrong, why_other_bytes(message)] if wrong else []


def why_other_bytes(message: str) -> str:
    """What may have changed the packages since the tag with this message was made, and what to do."""
    named = re.search(r"^zlib (\S+)$", message, re.M)
    if named and named[1] == zlib.ZLIB_RUNTIME_VERSION:
        return "the zlib is the same, so something else differs: compare dist/MEMBERS with that of the tag's maker"
    return (
        f"another zlib compresses to other bytes: it is {zlib.ZLIB_RUNTIME_VERSION} here, and "
        f"{named[1] if named else 'not named'} in the tag. Run make release with a Python of the forge's kind "
        "(.github/workflows/release.yml has the system and what installs it), and make the tag anew of dist/TAG"
    )


def install(python: str, version: str, folder: pathlib.Path) -> pathlib.Path:
    """Installs the wheel in a fresh environment; returns the folder of its programs.

    The wheel is found in DIST by its name: installed by its path, this path would be in the list of the components.
    """
    run(python, "-m", "venv", folder / "environment", cwd=folder)
    programs = folder / "environment/bin"
    pip = (programs / "python", *PIP, "-c", ROOT / "constraints.txt", f"yt8m=={version}")
    run(*pip, "--no-index", "--no-deps", f"--find-links={DIST}", cwd=folder)
    run(*pip, cwd=folder)
    return programs


def try_package(yt8m: pathlib.Path, folder: pathlib.Path) -> None:
    """Trains on generated videos and predicts; ends the program unless each video has classes."""
    videos = ("--train=64", "--validate=16", "--test=8", "--shards=1")
    run(yt8m, "sample-data", "--out=data", "--level=video", *videos, cwd=folder)
    data = "--train_data_pattern=data/video/train/*.tfrecord"
    run(yt8m, "train", data, "--batch_size=16", "--max_steps=3", "--train_dir=run", cwd=folder)
    printed = run(
        yt8m, "predict", "--model=run", "--json", "--count=8", "data/video/test/test0000.tfrecord", cwd=folder
    )
    if [bool(video["classes"]) for video in json.loads(printed)] != [True] * 8:
        sys.exit(f"yt8m predict --json printed this for 8 videos:\n{printed}")


def list_components(environment: pathlib.Path, version: str, path: pathlib.Path) -> None:
    """Writes what the package brings along, without the installer and without paths of this machine."""
    run(environment / "bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "pip")
    options = ("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--output-file", path)
    run(sys.executable, "-m", "cyclonedx_py", "environment", *options, environment)
    components = json.loads(path.read_text())
    components["metadata"]["component"]["version"] = version  # pyproject.toml leaves it to yt8m/version.py
    path.write_text(json.dumps(components, indent=2) + "\n")
    if paths := re.findall(r"file:/[^\"]*", path.read_text()):
        sys.exit(f"{path.name} names files of this machine: {', '.join(paths)}")


def write_sums(version: str, sums: dict[str, str]) -> None:
    """Writes SHA256SUMS of all files, and TAG with those of the packages: components may differ with the platform."""
    lines = [f"yt8m {version}", "", *(f"{checksum}  {name}" for name, checksum in sums.items())]
    (DIST / "TAG").write_text("\n".join([*lines, f"zlib {zlib.ZLIB_RUNTIME_VERSION}"]) + "\n")
    paths = sorted(path for path in DIST.iterdir() if path.name != "TAG")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (DIST / "SHA256SUMS").write_text("".join(lines))


def report(version: str, notes: list[str], reasons: dict[str, str]) -> None:
    """Says what was made and tried, and what comes next."""
    print("in dist/:", (DIST / "SHA256SUMS").read_text().rstrip(), sep="\n")
    print(*(line for line in (DIST / "MEMBERS").read_text().splitlines() if not line.startswith(" ")), sep="\n")
    print("built twice, the same to the byte; the files in the packages are those of dist/MEMBERS, as they should be")
    for python, reason in reasons.items():
        print(f"not tried with {python}, which {reason}" if reason else f"{python} installed it, trained and predicted")
    if notes:
        print(f"a dry run: nothing is uploaded, and {version} is not ready for its tag:", *notes, sep="\n- ")
    else:
        print("nothing is uploaded. The tag that publishes it:")
        print(f"  git tag --sign v{version} --file=dist/TAG && git push origin v{version}")


def main() -> None:
    """Makes the release that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--strict", action="store_true", help="refuse what a dry run only notes")
    arguments = parser.parse_args()
    version = arguments.version
    end(version, wrong_places(version))
    notes, reasons = not_ready(version), reasons_against()
    missing = [f"{python} {reason}" for python, reason in reasons.items() if reason not in ("", UNPINNED)]
    tried = [python for python, reason in reasons.items() if not reason]
    if arguments.strict:
        end(version, notes + missing)
    if not tried:
        end(version, [f"{python} {reason}" for python, reason in reasons.items()])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        sums = write_packages(folder / "packages", version)
        if arguments.strict:
            end(version, other_checksums(version, sums))
        check_citation_and_workflow(folder / "citation")
    for python in tried:
        with tempfile.TemporaryDirectory() as temporary:
            programs = install(python, version, pathlib.Path(temporary))
            try_package(programs / "yt8m", pathlib.Path(temporary))
            list_components(programs.parent, version, DIST / "components.cdx.json")
    write_sums(version, sums)
    report(version, notes, reasons)


if __name__ == "__main__":
    main()
