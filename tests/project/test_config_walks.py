"""How many functions get the config of a program as a whole before the first step, and on which layers they are."""

from __future__ import annotations

import itertools
import pathlib
import sys
import tomllib
from collections.abc import Callable
from types import FrameType

import pytest
from golden_data import golden
from small_run import train_words

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, train

PACKAGE = pathlib.Path(yt8m.__file__).parent
STAYS, CLIMBS = 36, 8


def floors() -> dict[str, int]:
    """{module or package: number of its layer, 0 for the top one}, from pyproject.toml."""
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    layers = next(each["layers"] for each in settings["tool"]["importlinter"]["contracts"] if "layers" in each)
    names = [layer.replace("|", ":").split(":") for layer in layers]
    return {name.strip().removeprefix("yt8m."): floor for floor, layer in enumerate(names) for name in layer}


def walk(program: Callable[[], int], config: str) -> list[str]:
    """Runs a program; returns the file of each function that gets the config or the RunnerConfig as an argument.

    The functions are in the order of their first calls. Calls after the first `session.run` do not count.
    """
    visits: dict[tuple[str, str], str] = {}
    has_begun = False

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal has_begun
        code = frame.f_code
        if event != "call" or has_begun or not code.co_filename.startswith(str(PACKAGE)):
            return
        if code.co_name == "run_steps":
            has_begun = True
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(type(frame.f_locals.get(name)).__name__ in (config, "RunnerConfig") for name in names):
            file = str(pathlib.Path(code.co_filename).relative_to(PACKAGE))
            visits.setdefault((file, code.co_qualname), file)

    sys.setprofile(note)
    try:
        assert program() == 0
    finally:
        sys.setprofile(None)
    assert has_begun
    return list(visits.values())


def climbs(files: list[str]) -> int:
    """How often a function is on a higher layer than the function before it."""
    floor_of = floors()
    visited = [floor_of[file.split("/")[0].removesuffix(".py")] for file in files]
    return sum(after < before for before, after in itertools.pairwise(visited))


@pytest.mark.heavy
def test_a_config_stays_in_few_functions_and_seldom_climbs(tmp_path: pathlib.Path) -> None:
    """`pytest -s` prints the numbers."""
    run, data = f"--train_dir={tmp_path}", golden("checkpoint_logistic/test.tfrecord")
    programs: dict[str, Callable[[], int]] = {
        "TrainConfig": lambda: train.main(train_words(tmp_path, "--max_steps=1")),
        "EvalConfig": lambda: evaluation.main([run, f"--eval_data_pattern={data}", "--run_once"]),
        "InferenceConfig": lambda: inference.main(
            [run, f"--input_data_pattern={data}", f"--output_file={tmp_path}/predictions.csv"]
        ),
    }
    for config, program in programs.items():
        files = walk(program, config)
        print(f"{config}: {len(files)} functions, {climbs(files)} climbs")
        assert 10 < len(files) <= STAYS
        assert climbs(files) <= CLIMBS
