"""`yt8m completion`: what a shell is offered, asked in the shell itself where there is one."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from yt8m import losses, models
from yt8m.command_line import cli
from yt8m.command_line.completion import candidates

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_commands():
    assert candidates("yt8m ") == [f"{name} " for name in cli.COMMANDS]
    assert candidates("yt8m tra") == ["train "]
    assert candidates("yt8m nothing") == []


@pytest.mark.parametrize("command", sorted(cli.COMMANDS.keys() - {"completion", "segment-eval"}))
def test_every_command_has_flags_to_offer(command):
    found = candidates(f"yt8m {command} --")
    assert len(found) >= 1
    assert all(word.startswith("--") for word in found)


def test_flags():
    assert candidates("yt8m train --moe_num") == ["--moe_num_mixtures="]
    assert "--frame_features " in candidates("yt8m train --model=MoeModel --frame")
    assert "--partition=" in candidates("yt8m download --")
    assert candidates("yt8m train data/") == []  # files are the shell's own


def test_values_that_have_names():
    assert candidates("yt8m train --model=") == [f"{name} " for name in models.names()]
    assert candidates("yt8m train --label_loss=Cross") == [
        f"{name} " for name in losses.names() if name.startswith("Cross")
    ]
    assert candidates("yt8m train --precision=b") == ["bfloat16 "]
    assert candidates("yt8m download --mirror=", is_whole=True) == [f"--mirror={name}" for name in ("us", "eu", "asia")]


def in_shell(shell: str, script: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_bash_offers_them():
    script = (
        'yt8m() { python -m yt8m "$@"; }; source <(yt8m completion bash)\n'
        'COMP_LINE="yt8m train --model=Mo more"; COMP_POINT=21; _yt8m; printf "[%s]\\n" "${COMPREPLY[@]}"\n'
        "complete -p yt8m"
    )
    *offered, declared = in_shell("bash", script)
    assert offered == [f"[{name} ]" for name in models.names() if name.startswith("Mo")]
    assert declared == "complete -o default -o nospace -F _yt8m yt8m"


def test_fish_offers_them():
    script = (
        "function yt8m; python -m yt8m $argv; end; yt8m completion fish | source; "
        "complete -C 'yt8m download --mirror=e'"
    )
    assert in_shell("fish", script) == ["--mirror=eu"]


def test_zsh_takes_the_script():
    assert in_shell("zsh", "source <(python -m yt8m completion zsh); whence -w _yt8m") == ["_yt8m: function"]


def test_another_shell_is_refused(capsys):
    assert cli.main(["completion", "tcsh"]) == 2
    assert "expected `yt8m completion bash`, zsh or fish" in capsys.readouterr().err
    assert cli.main(["completion", "--help"]) == 0
    assert "source <(yt8m completion bash)" in capsys.readouterr().out
