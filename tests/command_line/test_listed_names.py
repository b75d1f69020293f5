"""Helps list the classes of installed packages, import none of them, and no package breaks a command or its help."""

from __future__ import annotations

import pathlib
import sys

import pytest
from installed_packages import GROUPS, Packages, Warnings

from yt8m.command_line import completion, flags
from yt8m.command_line.cli import COMMANDS, main
from yt8m.command_line.flag_parsing import CHOOSE
from yt8m.datasets.sample_data import SampleConfig, generate
from yt8m.errors import UsageError

# {command: the kinds of classes that its flags name}
NAMED = {
    "train": ["model", "loss", "reader", "callback"],
    "audit": ["model", "loss", "callback", "extractor"],
    "import-checkpoint": ["model"],
    "eval": ["model", "loss", "reader", "callback"],
    "inference": ["model", "loss", "reader", "callback"],
    "extract": ["extractor"],
    "predict": ["extractor"],
    "bulk extract": ["extractor"],
}
BROKEN = "raise RuntimeError('bad driver')\n"


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help=all"])
    assert not end.value.code
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", NAMED)
def test_a_help_lists_names_with_their_package_and_imports_none(
    command: str, packages: Packages, warnings_of_packages: Warnings, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install_all_kinds(code=BROKEN)
    text = help_of(command, capsys)
    listed = [kind for kind in GROUPS if f" Acme{kind.title()} (acme-video)" in text]
    assert sorted(listed) == sorted(NAMED[command])
    assert "acme_kinds" not in sys.modules
    assert warnings_of_packages() == []


def test_the_commands_that_name_classes_are_those(packages: Packages) -> None:
    packages.install_all_kinds(code=BROKEN)
    naming = [command for command in COMMANDS if "(acme-video)" in completion._help_text(command)]
    assert sorted(naming) == sorted({command.split()[0] for command in NAMED})


def test_the_text_of_each_flag_says_that_names_of_packages_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {command: help_of(command, capsys) for command in ("train", "extract", "predict")}
    for flag in ("model", "label_loss", "reader", "callbacks", "extractors"):
        found = [text.partition(f" --{flag}=")[2].partition(" --")[0] for text in texts.values()]
        assert all(
            "package" in text.replace("package.module", "") for text in found if text and "folder of" not in text
        )
        assert any(found)


def test_a_class_with_a_built_in_name_does_not_break_a_help(
    packages: Packages, warnings_of_packages: Warnings, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install("acme-video", "[yt8m.models]\nMoeModel = acme_kinds:AcmeModel\n", "acme_kinds", BROKEN)
    assert "acme-video" not in help_of("train", capsys)
    (warning,) = warnings_of_packages()
    assert "'MoeModel' of the installed package acme-video (acme_kinds:AcmeModel) is refused" in warning
    assert (
        flags.train_config(["--model=MoeModel", "--moe_num_mixtures=3"]).model.hyper_parameters["moe_num_mixtures"] == 3
    )


def test_the_shell_completes_the_bare_name(packages: Packages) -> None:
    packages.install_all_kinds()
    completion._flags_of_command.cache_clear()
    try:
        for words, kind in {
            "train --model": "model",
            "train --label_loss": "loss",
            "train --reader": "reader",
            "train --callbacks": "callback",
            "extract --extractors": "extractor",
        }.items():
            assert completion.candidates(f"yt8m {words}=Acme") == [f"Acme{kind.title()} "]
    finally:
        completion._flags_of_command.cache_clear()


def test_the_fields_of_a_class_that_is_named_are_flags(packages: Packages, capsys: pytest.CaptureFixture[str]) -> None:
    packages.install_all_kinds()
    config = flags.train_config(["--model=AcmeModel", "--acme_width=5", "--label_loss=AcmeLoss"])
    assert config.model.hyper_parameters["acme_width"] == 5
    assert "--acme_width=N" not in help_of("train", capsys)
    assert "--acme_width=N width of the acme" in help_of("train --model=AcmeModel", capsys)
    with pytest.raises(UsageError) as caught:
        flags.train_config(["--model=LogisticModel", "--acme_width=5"])
    assert "only AcmeModel has" in str(caught.value)


def test_a_broken_package_breaks_no_command_that_does_not_name_it(
    packages: Packages, warnings_of_packages: Warnings
) -> None:
    packages.install_all_kinds(code=BROKEN)
    assert flags.train_config(["--model=MoeModel", "--moe_num_mixtures=3"]).model.model == "MoeModel"
    assert warnings_of_packages() == []
    with pytest.raises(UsageError) as caught:
        flags.train_config(["--model=LogisticModel", "--moe_num_mixtures=4"])
    assert "MoeModel" in str(caught.value)
    assert "acme" not in str(caught.value)
    for kind, warning in zip(("loss", "model"), warnings_of_packages(), strict=True):
        name = f"Acme{kind.title()}"
        assert f"the {kind} '{name}' of the installed package acme-video (acme_kinds:{name}): RuntimeError" in warning


# {kind: a command that names a class of this kind}
COMMAND = {
    "model": "train --model=AcmeModel --acme_width=5",
    "loss": "train --label_loss=AcmeLoss",
    "reader": "train --reader=AcmeReader --feature_names=rgb --feature_sizes=4 --num_classes=2",
    "callback": "train --callbacks=AcmeCallback --model=LogisticModel --train_data_pattern={data}/video/train/*",
    "extractor": "extract --extractors=AcmeExtractor --videos={folder} --out={folder}/out",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("data")
    generate(SampleConfig(str(folder), "video", 4, 0, 0, num_classes=4, shards=1))
    return folder


def error_of(kind: str, folder: pathlib.Path, data: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that names the plug-in of this kind prints as its error; it ends with status 2."""
    words = COMMAND[kind].format(folder=folder, data=data).split()
    if words[0] == "train":
        words.append(f"--train_dir={folder}/run")
    assert main(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("kind", COMMAND)
def test_a_command_that_names_a_broken_one_says_which_package_it_is(
    kind: str, packages: Packages, tmp_path: pathlib.Path, data: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install_all_kinds(code=BROKEN)
    name = f"Acme{kind.title()}"
    error = error_of(kind, tmp_path, data, capsys)
    assert (
        f"the {kind} '{name}' of the installed package acme-video (acme_kinds:{name}): RuntimeError: bad driver"
        in error
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", COMMAND)
def test_a_command_that_names_one_of_two_packages_names_both(
    kind: str, packages: Packages, tmp_path: pathlib.Path, data: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install_all_kinds("acme-first")
    packages.install_all_kinds("acme-second")
    name = f"Acme{kind.title()}"
    error = error_of(kind, tmp_path, data, capsys)
    assert f"acme-first (acme_kinds:{name}) and acme-second (acme_kinds:{name})" in error
    assert list(tmp_path.iterdir()) == []


def test_each_kind_of_names_belongs_to_a_flag_that_may_name_code() -> None:
    assert CHOOSE.keys() == {"models", "losses", "optimizers", "readers", "callbacks", "extractors"}
    code = {flag.name for flag in flags.training_flags() if flag.is_code}
    assert {flag for flag in CHOOSE.values() if flag != "extractors"} <= code
