"""docs/users/cloud.md and the Dockerfile: commands are read by our own parsers, copied files are there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tomllib
import venv

import pytest

import yt8m
from docs import command_blocks
from yt8m import options
from yt8m.command_line import cli, flags
from yt8m.config.programs import InferenceConfig
from yt8m.config.train_config import TrainConfig
from yt8m.datasets.cache_making import CacheConfig
from yt8m.datasets.download import DownloadConfig
from yt8m.errors import UsageError

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/users/cloud.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    lines = "".join(blocks("console")).replace("\\\n", " ").splitlines()
    return [words for words in map(shlex.split, lines) if words[0] == "yt8m"]


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words)[:60])
def test_our_commands_print_a_job(words, capsys):
    named = [word.replace("PROJECT", "my-project").replace("BUCKET", "bucket") for word in words[1:]]
    assert cli.main(named) == 0
    assert "gcloud ai custom-jobs create" in capsys.readouterr().out


def test_the_page_names_every_variable_that_is_read():
    read = {**flags.TRAIN, **flags.EVALUATION, **flags.INFERENCE}
    told = dict(re.findall(r"^\| `(AIP_\w+)` \| `--(\w+)`", PAGE, re.MULTILINE))
    assert told == read


def test_the_page_names_the_flags_that_take_no_bucket():
    configs = {"cache": CacheConfig, "download": DownloadConfig, "inference": InferenceConfig, "train": TrainConfig}
    local = {
        f"`--{name}`" if name != "out" else f"`--out` of `yt8m {command}`"
        for command, config in configs.items()
        for name in (options.flag_of(field) for _, field in options.fields_of(config) if field.metadata["is_local"])
    }
    (told,) = re.findall(r"The exceptions are (.*?)\.\n", PAGE, re.DOTALL)
    told = told.replace("\n", " ").replace(" and `yt8m download`", ", `--out` of `yt8m download`").replace(", and", ",")
    assert set(told.split(", ")) == local


def test_a_local_folder_is_told_from_a_bucket():
    with pytest.raises(UsageError, match=r"--out=gs://bucket/c\b.*in a bucket"):
        CacheConfig(data="a.tfrecord", out="gs://bucket/c")


DOCKERFILES = ("Dockerfile", "docker/serve.Dockerfile")
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_image_copies_what_there_is_and_nothing_is_hidden_from_it():
    lines = [line for path in DOCKERFILES for line in (ROOT / path).read_text().splitlines()]
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = {name for names in copies for name in names}
    shown = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(shown)
    assert {"pyproject.toml", "yt8m"} <= copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_of_bulk_workers_has_the_beam_and_the_python_of_the_others():
    text, pins = (ROOT / "Dockerfile").read_text(), (ROOT / "constraints.txt").read_text()
    (version,) = re.findall(r"^apache-beam==(.+)$", pins, re.MULTILINE)
    (python,) = re.findall(r"^FROM python:(\d\.\d+)\.\d+-slim-\w+ AS installed$", text, re.MULTILINE)
    assert f"FROM apache/beam_python{python}_sdk:{version} AS beam-sdk" in text
    # What is built unless a target is named, and who runs it.
    assert text.rstrip().endswith('FROM installed\nUSER yt8m\nENTRYPOINT ["yt8m"]')


def test_the_extras_of_the_image_exist_and_the_code_comes_after_the_packages():
    text = (ROOT / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"EXTRA=([\w,]+)", text))
    assert named == {"gpu", "dataflow"}
    assert named <= set(extras)
    assert text.index("--constraint constraints.txt") < text.index("COPY yt8m ./yt8m") < text.index("--no-deps")


def test_the_empty_package_of_the_image_has_the_version() -> None:
    """Setuptools reads it before the code is there."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    module, name = version.rsplit(".", 1)
    (made,) = re.findall(r"^RUN mkdir yt8m (.*?)pip install", DOCKERFILE, re.DOTALL | re.MULTILINE)
    assert re.search(rf"{name} = .* > {module.replace('.', '/')}\.py", made)


def environment_with_pip(folder: pathlib.Path) -> pathlib.Path:
    """Makes an environment whose pip installs no dependencies and builds by our setuptools, so it needs no index."""
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("pip", "setuptools", "_distutils_hack"):
        (packages / name).symlink_to(pathlib.Path(importlib.util.find_spec(name).origin).parent)
    described = pathlib.Path(str(importlib.metadata.distribution("setuptools").locate_file("")))
    for path in described.glob("setuptools-*.dist-info"):
        (packages / path.name).symlink_to(path)
    (folder / "bin/pip").write_text(f'#!/bin/sh\nexec {folder}/bin/python -m pip "$@" --no-deps --no-build-isolation\n')
    (folder / "bin/pip").chmod(0o755)
    return packages


def installing_lines() -> list[list[str]]:
    """The words of the lines of the Dockerfile that copy and install our code, up to the one that adds a user."""
    (stage,) = re.findall(r"^FROM python.* AS installed\n(.*?)^RUN useradd", DOCKERFILE, re.DOTALL | re.MULTILINE)
    lines = stage.replace("\\\n", " ").splitlines()
    return [line.split(maxsplit=1) for line in lines if line.startswith(("COPY ", "RUN "))]


@pytest.mark.heavy
def test_the_lines_of_the_dockerfile_install_the_code_as_it_is(tmp_path: pathlib.Path) -> None:
    folder, packages = tmp_path / "image", environment_with_pip(tmp_path / "installed")
    folder.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    search = {**clean, "PATH": f"{tmp_path}/installed/bin:{os.environ['PATH']}", "EXTRA": "gpu"}
    for instruction, words in installing_lines():
        if instruction == "RUN":
            done = subprocess.run(["sh", "-c", words], cwd=folder, env=search, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            continue
        for name in words.split()[:-1]:  # like COPY, these functions keep the times of files
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
            else:
                shutil.copy2(ROOT / name, folder / name)
    tracked = subprocess.run(["git", "ls-files", "yt8m"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert [name for name in tracked.split() if (packages / name).read_bytes() != (ROOT / name).read_bytes()] == []
    code = "import yt8m; print(yt8m.__version__)"
    command = [tmp_path / "installed/bin/python", "-c", code]
    shown = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert shown.stdout == f"{yt8m.__version__}\n", shown.stderr


def docker_commands(command: str) -> list[list[str]]:
    """The words after `docker build` or `docker run` of all pages for users."""
    pages = [block for page in sorted((ROOT / "docs/users").glob("*.md")) for block in command_blocks.blocks(page)]
    lines = "".join(block.text for block in pages if block.language in command_blocks.COMMANDS).replace("\\\n", " ")
    return [
        shlex.split(words.partition("&&")[0]) for words in re.findall(rf"^docker {command} (.*)$", lines, re.MULTILINE)
    ]


def test_a_tag_on_the_pages_names_one_image_and_is_run_as_that_image_starts():
    built: dict[str, tuple[str, ...]] = {}
    for words in docker_commands("build"):
        tag = words[words.index("-t") + 1]
        options_of_build = tuple(word for word in words if word not in ("-t", tag, "."))
        assert built.setdefault(tag, options_of_build) == options_of_build, tag
    ran = [(words, next(tag for tag in words if tag in built)) for words in docker_commands("run")]
    assert {tag for _, tag in ran} == {"yt8m-serve", "yt8m-tensorflow"}
    for words, tag in ran:
        given = built[tag]
        dockerfile = given[given.index("-f") + 1] if "-f" in given else "Dockerfile"
        entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", (ROOT / dockerfile).read_text(), re.MULTILINE)[-1])
        started = [*entry, *words[words.index(tag) + 1 :]]
        assert started[:2] == ["yt8m", "serve"]
        assert all(word.startswith("--") for word in started[2:])


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed; an image needs it")
def test_the_image_builds_and_runs_without_root(tmp_path):
    def docker(*words):
        return subprocess.run(["docker", *words], capture_output=True, text=True)

    if docker("info").returncode != 0:
        pytest.skip("docker's daemon does not answer; an image needs it")
    built = docker("build", "--quiet", "--build-arg", "EXTRA=", "--iidfile", str(tmp_path / "id"), str(ROOT))
    if built.returncode != 0 and "pulling" in built.stderr + built.stdout:
        pytest.skip("the base image cannot be fetched: no registry of images is reached")
    assert built.returncode == 0, built.stderr
    image = (tmp_path / "id").read_text()
    shown = docker("run", "--rm", "--entrypoint", "sh", image, "-c", "id -u && yt8m --version")
    assert shown.stdout.split()[0] == "1000", shown.stderr
