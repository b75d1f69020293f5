"""`yt8m doctor`: facts of the machine, extras that are missing, and steps that are compared."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from installed_packages import Packages

from yt8m.command_line import cli, doctor
from yt8m.errors import RunError, missing_tensorflow

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_facts_are_those_of_this_machine() -> None:
    facts = doctor.machine()
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["processor"]["cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_bytes"]["total"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert set(facts["free_disk_bytes"]) >= {os.getcwd()}
    json.dumps(facts)


def test_the_extras_are_those_of_the_project_and_what_they_lack_is_not_installed() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    missing = doctor.missing_packages()
    assert set(missing) == set(declared)
    assert missing["test"] == []
    for package in {name for names in missing.values() for name in names}:
        with pytest.raises(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(package)


def test_an_extra_has_the_packages_of_the_extras_that_it_names() -> None:
    """`gpu` is `tensorflow[and-cuda]`: without CUDA's packages it is not installed."""
    packages = doctor.packages_of("yt8m", "gpu")
    assert packages[0] == "tensorflow"
    assert any(name.startswith("nvidia-cudnn") for name in packages)
    assert doctor.packages_of("no-such-package", "gpu") == []


def test_without_steps_tensorflow_is_not_imported() -> None:
    words = "import sys; from yt8m.command_line import cli; cli.call('doctor', ['--nosteps']); "
    program = words + "sys.exit('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert f"numpy                 {np.__version__}" in done.stdout
    assert "One training step" not in done.stdout


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_steps_without_tensorflow_are_refused_in_one_line(flags: list[str]) -> None:
    words = "import sys; sys.modules['tensorflow'] = None; from yt8m.command_line import cli; sys.exit(cli.main())"
    command = [sys.executable, "-c", words, "doctor", *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"yt8m doctor: error: {missing_tensorflow('the training steps need', ', or leave out the steps by --nosteps')}"
    ]


def test_an_extra_that_is_missing_is_shown_with_its_install(capsys: pytest.CaptureFixture[str]) -> None:
    doctor._print_facts(doctor.machine() | {"missing_packages_of_extras": {"serve": ["fastapi", "h11"], "data": []}})
    rows = dict(re.findall(r"^extra (\w+) +(\S.*)$", capsys.readouterr().out, re.MULTILINE))
    assert rows == {
        "serve": "lacks fastapi, h11: run pip install -e '.[serve]' in the checkout of yt8m",
        "data": "installed",
    }


@pytest.mark.heavy
@pytest.mark.long
def test_the_devices_of_this_machine_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call("doctor", ["--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    differences = {(step["place"], step["model"], step["precision"]): step["difference"] for step in steps}
    assert all(step["is_good"] for step in steps)
    for model in ("MoeModel", "LstmModel"):
        assert differences["CPU", model, "float32"] == 0
        assert 0 < differences[doctor.TWO_CPUS, model, "float32"] < 1e-5
        for place in ("CPU", doctor.TWO_CPUS):
            assert 1e-5 < differences[place, model, "bfloat16"] < 5e-2


REFERENCE = {"steps": [{"model": "MoeModel", "precision": "float32", "change": [1.0, -4.0]}]}


@pytest.mark.parametrize(
    ("change", "difference", "is_good"),
    [([1.0, -4.01], 0.0025, True), ([1.1, -4.0], 0.025, False), ([float("nan"), -4.0], None, False)],
)
def test_a_step_is_compared_relative_to_its_largest_update(
    change: list[float], difference: float | None, is_good: bool
) -> None:
    outcome = {"steps": [{"model": "MoeModel", "precision": "float32", "change": change}]}
    expected = {"MoeModel": REFERENCE["steps"][0]}
    (trial,) = doctor._compare_steps("GPU 0", outcome, expected)
    assert trial.difference == pytest.approx(difference)
    assert trial.is_good is is_good


def test_a_process_that_fails_is_told_and_ends_the_command_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RunError, match=r"1 of 1 .*failed.*: every model in float32 on CPU"):
        cli.call("doctor", [])
    assert capsys.readouterr().out.count("ended with status 1: no message") == 1


@pytest.mark.parametrize(("place", "is_named"), [("GPU 0", True), ("CPU", False)])
def test_where_there_is_a_gpu_the_command_that_measures_it_is_named(
    capsys: pytest.CaptureFixture[str], place: str, is_named: bool
) -> None:
    doctor._print_trials([doctor.Trial(place, "LogisticModel", "float32", 0.0)])
    assert ("make bench-gpu" in capsys.readouterr().out) == is_named


def test_plug_ins_are_named_with_their_package_and_are_not_imported(
    packages: Packages, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install("acme-saws", "[yt8m.models]\nSawModel = acme_saws:Saw\n", "acme_saws")
    (added,) = (plug_in for plug_in in doctor.machine()["plug_ins"] if plug_in["package"].startswith("acme-saws"))
    assert (added["kind"], added["name"], added["class"]) == ("models", "SawModel", "acme_saws:Saw")
    assert cli.call("doctor", ["--nosteps"]) == 0
    assert re.search(r"^plug-in SawModel +models: acme_saws:Saw of acme-saws", capsys.readouterr().out, re.MULTILINE)
    assert "acme_saws" not in sys.modules
