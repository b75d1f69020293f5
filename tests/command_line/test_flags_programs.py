"""Help, own workloads and trusted code: what reading a whole command line does besides filling a config."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from yt8m import options, registry, storage
from yt8m.command_line import flags
from yt8m.errors import UsageError
from yt8m.options import Checked, option


@pytest.mark.parametrize(
    ("parse", "program", "purpose"),
    [
        (flags.train_config, "train.py", "Trains a model on TFRecord files."),
        (flags.eval_config, "eval.py", "Evaluates the checkpoints of a run."),
        (flags.inference_config, "inference.py", "Writes predictions for TFRecord files."),
    ],
)
def test_each_program_explains_itself(
    parse: Callable[[list[str]], Any], program: str, purpose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help=all"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: {program} [--flag=value ...]\n")
    assert f"\n\n{purpose}\n\n" in told
    assert not told.endswith("\n\n")
    for name in ("MoeModel", "HingeLoss", "AdamWOptimizer", "--moe_num_mixtures"):
        assert name in told


@pytest.mark.parametrize(
    ("parse", "flag"),
    [
        (flags.train_config, "train_data_pattern"),
        (flags.eval_config, "eval_data_pattern"),
        (flags.inference_config, "input_data_pattern"),
    ],
)
def test_files_that_are_not_there_are_refused_by_the_flag(parse: Callable[[list[str]], Any], flag: str) -> None:
    with pytest.raises(UsageError, match=f"^--{flag}=/nowhere/x: no file matches"):
        parse([f"--{flag}=/nowhere/x"])


@pytest.mark.parametrize(
    ("parse", "data", "cache"),
    [
        (flags.train_config, "train_data_pattern", "cache"),
        (flags.eval_config, "eval_data_pattern", "cache"),
        (flags.inference_config, "input_data_pattern", "cache"),
        (flags.cache_config, "data", "out"),
    ],
)
def test_a_cache_of_a_bucket_is_refused_before_the_bucket_is_asked(
    parse: Callable[[list[str]], Any], data: str, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(storage, "paths_by_pattern")
    with pytest.raises(UsageError, match=rf"^--{cache}=c\b.*\blocal\b.*gs://b/x\b.*; "):
        parse([f"--{data}=gs://b/x", f"--{cache}=c"])
    if parse is not flags.train_config:  # which looks at the local shards before it checks the folder
        with pytest.raises(UsageError, match=rf"^--{cache}=gs://b/c\b.*bucket"):
            parse([f"--{data}=x", f"--{cache}=gs://b/c"])


def test_hyper_parameters_of_losses_are_for_training_and_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    for parse in (flags.train_config, flags.eval_config, flags.inference_config):
        with pytest.raises(SystemExit):
            parse(["--help=all"])
    training, evaluation, inference = capsys.readouterr().out.split("usage: ")[1:]
    assert "--focal_gamma" in training
    assert "--focal_gamma" in evaluation
    assert "--focal_gamma" not in inference


@pytest.fixture
def distrusted() -> Iterator[Callable[[], bool]]:
    """Whether the code `os:sep`, which a run names, is refused."""
    registry.distrust(["os:sep"], "run/config.json")

    def is_refused() -> bool:
        try:
            registry.Registry("tool").get("os:sep")
        except UsageError:
            return True
        return False

    yield is_refused
    registry.trust(["os:sep"])
    registry.set_command_line_names([])


@pytest.mark.parametrize(
    ("parse", "words", "is_refused"),
    [
        (flags.train_config, ["--callbacks=os:sep"], False),
        (flags.train_config, ["--train_dir=os:sep"], True),
        (flags.eval_config, ["--metrics=os:sep"], False),
        (flags.eval_config, ["--callbacks=train_loss,os:sep"], False),
        (flags.eval_config, ["--train_dir=os:sep"], True),
        (flags.eval_config, [], True),
        (flags.inference_config, ["--output_file=os:sep"], True),
    ],
)
def test_only_a_flag_that_names_code_makes_it_trusted(
    distrusted: Callable[[], bool], parse: Callable[[list[str]], Any], words: list[str], is_refused: bool
) -> None:
    assert distrusted()
    parse(words)
    assert distrusted() == is_refused
    flags.read(Fit, "fit.py", "Fits.", [])
    assert distrusted()


@dataclass(frozen=True)
class Fit(Checked):
    rate: float = option(0.5, "how fast", minimum=0)
    names: tuple[str, ...] = option((), "what")


def test_a_workload_of_ones_own_has_the_flags_that_it_declares(capsys: pytest.CaptureFixture[str]) -> None:
    assert flags.read(Fit, "fit.py", "Fits.", []) == Fit()
    assert flags.read(Fit, "fit.py", "Fits.", ["--rate=2", "--names=a,b"]) == Fit(2.0, ("a", "b"))
    files: list[str] = []
    assert flags.read(Fit, "fit.py", "Fits.", ["x", "--rate=2", "y"], files) == Fit(2.0)
    assert files == ["x", "y"]
    for words, message in ((["--rate=-1"], "^--rate must be at least 0; it is -1"), (["--speed=1"], "--speed")):
        with pytest.raises(UsageError, match=message):
            flags.read(Fit, "fit.py", "Fits.", words)
    with pytest.raises(UsageError, match="x"):
        flags.read(Fit, "fit.py", "Fits.", ["x"])
    with pytest.raises(SystemExit):
        flags.read(Fit, "fit.py", "Fits.", ["--help"])
    told = capsys.readouterr().out
    assert told.startswith("usage: fit.py")
    for part in ("\n\nFits.\n\nFlags:\n", "--rate", "how fast"):
        assert part in told


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("DataConfig: batch_size must be at least 1; it is 0", "--batch_size must be at least 1; it is 0"),
        ("--a and --b: give one of them", "--a and --b: give one of them"),
        ("MoeModel has no flag", "MoeModel has no flag"),
    ],
)
def test_an_error_of_a_config_is_told_of_its_flag(told: str, expected: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(expected)}$"), options.about_flags():
        raise UsageError(told)


def test_parts_chosen_by_name_bring_their_settings() -> None:
    from yt8m import extractors
    from yt8m.datasets.extract import ExtractConfig

    def read(*words: str) -> tuple[ExtractConfig, dict[str, Any]]:
        usual = ["--videos=v", "--out=o", "--extractors=onnx:a.onnx, vggish"]
        return flags.read_with(
            ExtractConfig, "yt8m extract", "Makes records.", [*usual, *words], extractors, "extractors"
        )

    config, given = read("--shorter_side=256", "--mean=0,0,0.5", "--shards=3")
    assert (config.extractors, config.shards, config.out) == (("onnx:a.onnx", "vggish"), 3, "o")
    assert given == {"shorter_side": 256, "mean": (0.0, 0.0, 0.5)}
    assert read()[1] == {}
    with pytest.raises(UsageError, match="unknown flag --shorter_sides; did you mean --shorter_side"):
        read("--shorter_sides=256")


def test_the_help_lists_the_names_of_models_losses_and_optimizers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        flags.train_config(["--help=all"])
    told = capsys.readouterr().out
    assert all(f"\n  {kind}: " in told for kind in ("models", "losses", "optimizers"))
