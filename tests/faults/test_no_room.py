"""What is made of a checkpoint, where the disk has no room for it."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import resource
import tempfile
from collections.abc import Iterator

import cases
import pytest
from golden_data import golden
from small_run import run

from yt8m import eval as evaluation
from yt8m import inference
from yt8m.command_line import cli


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run(folder, "--max_steps=2") == 0
    return folder


@contextlib.contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file may grow over `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def everything_in(folder: pathlib.Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


PROGRAMS = {
    "eval": (evaluation.main, ["--eval_data_pattern={data}", "--run_once"], "/run/inference_model"),
    "inference": (
        inference.main,
        ["--input_data_pattern={data}", "--output_file={out}/p.csv", "--output_model_tgz={out}/m.tgz"],
        "/run/inference_model",
    ),
    "export": (lambda words: cli.main(["export", *words]), ["--out={out}/exported"], "/exported"),
}


@pytest.mark.promise("C4")
@pytest.mark.parametrize("program", cases.only(PROGRAMS, ["eval", "export"]))
def test_one_line_and_nothing_half_written(
    trained: pathlib.Path, tmp_path: pathlib.Path, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    main, words, named = PROGRAMS[program]
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [word.format(out=tmp_path, data=data) for word in words]
    with file_limit(10_000):
        assert main([f"--train_dir={trained}", *words]) == 1
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "error: " in line]
    assert "error: cannot write " in said
    assert named in said
    assert os.strerror(errno.EFBIG) in said
    assert everything_in(tmp_path) == set()
    assert not [name for name in everything_in(trained) if "inference_model" in name]


@pytest.mark.promise("C4")
@pytest.mark.parametrize(
    "output", cases.all_of(["--out={}/both"], heavy=["--output_onnx={}/both.onnx", "--output_model_tgz={}/both.tgz"])
)
def test_an_ensemble_says_where_to_make_room(
    trained: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    output: str,
) -> None:
    """The weights of its members, here twelve times those of one run, are first gathered in a temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with file_limit(10_000):
        assert cli.main(["ensemble", f"--model={','.join([str(trained)] * 12)}", output.format(tmp_path)]) == 1
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "error: " in line]
    assert said.startswith(f"yt8m ensemble: error: cannot write temporary files: {tmp_path}/yt8m-ensemble-")
    advice = f". Make room in {tmp_path}, or set the environment variable TMPDIR to a folder with more room."
    assert said.endswith(os.strerror(errno.EFBIG) + advice)
    assert everything_in(tmp_path) == set()
