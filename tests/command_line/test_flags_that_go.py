"""A flag that goes away works as before, warns once with the version and what to use, and says so in `--help`."""

from __future__ import annotations

import logging
import pathlib
import re
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

import yt8m
from yt8m import losses, models
from yt8m.command_line import cli, flag_parsing, flags
from yt8m.command_line.config_flags import read
from yt8m.config.of_run import same_as
from yt8m.errors import UsageError
from yt8m.options import Checked, option, path_option


@dataclass(frozen=True)
class ClipConfig(Checked):
    videos: str = path_option("files to read")
    clips: str = path_option("files to cut", aliases=("parts",), removed_in="9.1.0", instead="--videos")
    length: float = option(2.0, "length of a clip in seconds [that of the video]", removed_in="9.2.0")
    pad: bool = option(True, "whether short clips are padded", flag="padding", removed_in="9.2.0", instead="--fill")


@dataclass(frozen=True)
class OtherConfig(Checked):
    clips: str = same_as(ClipConfig, "clips")


@dataclass(frozen=True)
class CutModel(models.BaseModel):
    cut_rate: float = option(0.5, "share that is cut", shapes="nothing", removed_in="9.3.0", instead="--drop_rate")


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    flag_parsing._warn_once.cache_clear()


@pytest.fixture
def own_model(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("cutting")
    module.CutModel = CutModel
    monkeypatch.setitem(sys.modules, "cutting", module)
    return "cutting:CutModel"


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("words", "config", "notices"),
    [
        (["--videos=a"], ClipConfig(videos="a"), []),
        (["--clips=a"], ClipConfig(clips="a"), ["--clips goes in yt8m 9.1.0; use --videos."]),
        (["--parts=a"], ClipConfig(clips="a"), ["--clips goes in yt8m 9.1.0; use --videos."]),
        (["--length=3"], ClipConfig(length=3.0), ["--length goes in yt8m 9.2.0."]),
        (["--nopadding"], ClipConfig(pad=False), ["--padding goes in yt8m 9.2.0; use --fill."]),
        (
            ["--length=2", "--flagfile={folder}/flags"],
            ClipConfig(clips="b"),
            ["--clips goes in yt8m 9.1.0; use --videos.", "--length goes in yt8m 9.2.0."],
        ),
    ],
)
def test_a_flag_that_goes_works_and_warns(
    words: Sequence[str],
    config: ClipConfig,
    notices: list[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "flags").write_text("--clips=b\n")
    words = [word.format(folder=tmp_path) for word in words]
    assert read(ClipConfig, "yt8m cut", "Cuts.", words) == config
    assert sorted(warned(caplog)) == notices


def test_another_config_with_the_option_warns_too(caplog: pytest.LogCaptureFixture) -> None:
    read(OtherConfig, "yt8m other", "Cuts.", ["--clips=a"])
    assert warned(caplog) == ["--clips goes in yt8m 9.1.0; use --videos."]


def test_a_command_line_that_is_refused_says_its_error_alone(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match="--unknown"):
        read(ClipConfig, "yt8m cut", "Cuts.", ["--clips=a", "--unknown=3"])
    assert warned(caplog) == []


HELP = """\
  --clips=TEXT                files to cut (goes in yt8m 9.1.0; use --videos)
  --length=X                  length of a clip in seconds [that of the video] (goes in yt8m 9.2.0)
  --[no]padding               whether short clips are padded [true] (goes in yt8m 9.2.0; use --fill)
"""


def test_help_says_what_goes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(ClipConfig, "yt8m cut", "Cuts.", ["--help"])
    assert f"  --videos=TEXT               files to read\n{HELP}" in capsys.readouterr().out


def test_a_hyper_parameter_that_goes_is_said_once_in_a_training(
    own_model: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line of a training is parsed several times."""
    words = [f"--model={own_model}", "--cut_rate=0.25"]
    config = flags.train_config([*words, "--train_data_pattern=gs://b/x"], files_are_here=False)
    assert config.model.hyper_parameters["cut_rate"] == 0.25
    assert warned(caplog) == ["--cut_rate goes in yt8m 9.3.0; use --drop_rate."]
    with pytest.raises(SystemExit):
        flags.train_config([*words, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"share that is cut ({own_model}: 0.5) (goes in yt8m 9.3.0; use --drop_rate)" in text


def test_fit_in_python_says_it_too(own_model: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match="/nowhere"):
        yt8m.fit(model=own_model, cut_rate=0.25, train_data_pattern="/nowhere/*.tfrecord")  # type: ignore[call-arg]
    assert warned(caplog) == ["--cut_rate goes in yt8m 9.3.0; use --drop_rate."]


def test_a_job_in_the_cloud_says_it_before_it_is_sent(
    own_model: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["--project=my-project", "--region=us-central1", "--image=i", "--output_dir=gs://b/r"]
    words = [f"--model={own_model}", "--cut_rate=0.25", "--train_data_pattern=gs://b/*.tfrecord"]
    assert cli.main(["cloud-job", "train", *job, *words]) == 0
    assert warned(caplog) == ["--cut_rate goes in yt8m 9.3.0; use --drop_rate."]
    printed, logged = capsys.readouterr()
    assert "goes in" not in printed
    assert re.fullmatch(r"[-\d]+ [:\d]+ WARNING --cut_rate goes in yt8m 9\.3\.0; use --drop_rate\.\n", logged)


@dataclass(frozen=True)
class CutLoss:
    cut_rate: float = option(0.5, "share that is cut", removed_in="9.3.0", instead="--drop_rate")


@dataclass(frozen=True)
class KeepingLoss:
    cut_rate: float = option(0.5, "share that is cut")


def test_a_field_of_several_classes_stays_as_long_as_one_of_them_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("cutting")
    module.CutLoss, module.KeepingLoss = CutLoss, KeepingLoss
    monkeypatch.setitem(sys.modules, "cutting", module)
    names = ["cutting:CutLoss", "cutting:KeepingLoss"]

    def goes(*chosen: str) -> str:
        (flag,) = flag_parsing.flags_of_parts(losses, chosen, "Losses", (), others="none")
        return flag.goes()

    assert (goes(names[0]), goes(names[1])) == ("goes in yt8m 9.3.0; use --drop_rate", "")
