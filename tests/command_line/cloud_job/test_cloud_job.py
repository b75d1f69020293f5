"""`yt8m cloud-job train`: what it prints, by the documented fields; what it refuses; what it submits."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
from command_line.cloud_job.vertex_schema import check_command, check_job, check_message, list_of

from yt8m.command_line import cli, flags

JOB = ["--project=my-project", "--region=us-central1"]
TRAIN = [
    "--train_data_pattern=gs://bucket/2/frame/train/*.tfrecord",
    "--frame_features",
    "--feature_names=rgb,audio",
    "--model=DbofModel",
    "--dbof_cluster_size=64",
]
IMAGE = "--image=us-docker.pkg.dev/my-project/yt8m/yt8m:1"
OUTPUT = "--output_dir=gs://bucket/runs/1"
EXECUTOR = "--executor_image=us-docker.pkg.dev/my-project/python/python3.12:1"
PACKAGE = "--package=gs://bucket/yt8m-0.1.0.tar.gz"

CLUSTER = ["--ps=1", "--workers=1"]
NEW_CLASSES = ["--init_from=gs://bucket/run", "--train_only=new"]
VALIDATION = "--eval_data_pattern=gs://bucket/2/video/validate/*.tfrecord"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict, dict[str, list[str]]]:
    """The configuration and the command, each checked by what is documented of it."""
    assert cli.main(["cloud-job", "train", *JOB, *words]) == 0
    shown = capsys.readouterr().out
    spec = {}
    if shown.startswith("cat > "):
        head, text, shown = shown.partition("\n")[0], *shown.partition("\n")[2].split("END\n", 1)
        assert head == "cat > yt8m-job.yaml <<'END'"
        spec = json.loads(text)
    command = check_command(shown)
    assert command.get("config", ["yt8m-job.yaml"]) == ["yt8m-job.yaml"]
    assert ("config" in command) == bool(spec)
    return spec, command


def assert_trains(args: list[str]) -> None:
    """The flags are the training's own, and read back as they were meant."""
    config = flags.train_config(args, files_are_here=False)
    assert config.data.data_pattern == "gs://bucket/2/frame/train/*.tfrecord"
    assert config.data.frame_features
    assert config.data.feature_names == ("rgb", "audio")
    assert config.model.hyper_parameters["dbof_cluster_size"] == 64


def test_an_image_on_one_machine(capsys):
    spec, command = printed(capsys, *TRAIN, IMAGE, OUTPUT)
    check_job(spec)
    (pool,) = spec["workerPoolSpecs"]
    assert pool["machineSpec"] == {"machineType": "n1-standard-8"}
    assert pool["containerSpec"]["command"] == ["python", "-m", "yt8m.train"]
    assert_trains(pool["containerSpec"]["args"])
    assert spec["baseOutputDirectory"] == {"outputUriPrefix": "gs://bucket/runs/1"}
    assert command["display-name"] == ["yt8m-DbofModel"]


@pytest.mark.parametrize(
    ("words", "counts"),
    [([], [1]), (["--workers=3", "--ps=2"], [1, 3, 2]), (["--ps=2"], [1, None, 2]), (["--workers=3"], [1, 3])],
)
@pytest.mark.parametrize("code", [[IMAGE], [PACKAGE, EXECUTOR]])
def test_a_cluster_has_its_pools_in_order(capsys, words, counts, code):
    gpus = ["--accelerator=NVIDIA_TESLA_T4", "--accelerator_count=2", "--ps_machine=n1-highmem-4"]
    spec, _ = printed(capsys, *TRAIN, OUTPUT, *code, *words, *gpus)
    check_job(spec)
    pools = spec["workerPoolSpecs"]
    assert [pool.get("replicaCount") for pool in pools] == counts
    for pool in filter(None, pools[:2]):
        assert pool["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_T4"
        assert pool["machineSpec"]["acceleratorCount"] == 2
        args = (pool.get("containerSpec") or pool["pythonPackageSpec"])["args"]
        assert_trains(args)
        assert "--num_gpu=2" in args
        assert ("--exchange=all-reduce" in args) == (words == ["--workers=3"])
    if len(pools) == 3:
        assert pools[2]["machineSpec"] == {"machineType": "n1-highmem-4"}


@pytest.mark.parametrize(
    "words",
    [[VALIDATION, "--patience=3"], ["--exact_resume"], ["--workers=1", "--exact_resume", "--accumulate_steps=2"]],
)
def test_flags_that_the_training_takes_on_these_machines_are_passed_on(capsys, words):
    spec, _ = printed(capsys, *TRAIN, OUTPUT, IMAGE, *words)
    args = spec["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert {word for word in words if not word.startswith("--workers")} <= {arg.removesuffix("=true") for arg in args}


def test_a_package_names_its_module_and_image(capsys):
    spec, _ = printed(capsys, *TRAIN, OUTPUT, PACKAGE, EXECUTOR, "--accelerator=NVIDIA_L4")
    code = spec["workerPoolSpecs"][0]["pythonPackageSpec"]
    assert code["packageUris"] == ["gs://bucket/yt8m-0.1.0.tar.gz"]
    assert code["pythonModule"] == "yt8m.train"
    assert code["executorImageUri"] == "us-docker.pkg.dev/my-project/python/python3.12:1"


@pytest.mark.parametrize("cluster", [[], ["--workers=2", "--ps=1"], ["--ps=1"]])
def test_code_of_this_folder_goes_by_the_command_line(capsys, cluster):
    spec, command = printed(capsys, *TRAIN, OUTPUT, EXECUTOR, *cluster)
    check_message("GcsDestination", spec.pop("baseOutputDirectory"))
    assert spec == {}
    pools = command["worker-pool-spec"]
    assert len(pools) == (3 if cluster else 1)
    assert "local-package-path=.,python-module=yt8m.train" in pools[0]
    (args,) = command["args"]
    assert_trains(list_of(args))


def test_without_an_output_folder_there_is_no_file(capsys):
    words = ["--train_dir=gs://bucket/run", "--model=MoeModel", "--train_data_pattern=gs://bucket/train*"]
    spec, command = printed(capsys, EXECUTOR, *words)
    assert spec == {}
    assert list_of(command["args"][0]) == words


def test_a_flagfile_goes_along(capsys, tmp_path):
    (tmp_path / "flags").write_text("\n".join(TRAIN))
    spec, _ = printed(capsys, f"--flagfile={tmp_path}/flags", IMAGE, OUTPUT)
    assert_trains(spec["workerPoolSpecs"][0]["containerSpec"]["args"])


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([OUTPUT, "--workers=2", "--exchange=parameter-servers"], "add --ps=1 or more"),
        ([OUTPUT, "--workers=2", "--ps=1", "--exchange=all-reduce"], "leave out one of the two flags"),
        ([OUTPUT, *CLUSTER, "--exact_resume"], "--exact_resume is for one machine or --exchange=all-reduce"),
        ([OUTPUT, *CLUSTER, "--accumulate_steps=2"], "--accumulate_steps=2: with parameter servers"),
        ([OUTPUT, *CLUSTER, "--prefetch_to_device"], "--prefetch_to_device is for one machine"),
        ([OUTPUT, "--workers=2", "--prefetch_to_device"], "--prefetch_to_device is for one machine"),
        ([OUTPUT, "--ps=1", "--exact_resume"], "--exact_resume is for one machine or --exchange=all-reduce"),
        ([OUTPUT, *CLUSTER, *NEW_CLASSES], "--train_only=new is for training on one machine"),
        ([OUTPUT, "--workers=2", VALIDATION], "--workers=2 --ps=0: in a cluster the evaluator validates"),
        ([OUTPUT, *CLUSTER, VALIDATION, "--patience=3"], "Leave out --eval_data_pattern, --patience, and run"),
        ([OUTPUT, "--model=MoeModel"], "--train_data_pattern is missing: the job would train on generated sample data"),
        ([], "the files of the job's machine are deleted"),
        ([OUTPUT, "--train_data_pattern=/data/*.tfrecord"], "cannot read files of this machine"),
        ([OUTPUT, "--train_dir=runs/1"], "cannot read files of this machine"),
        ([OUTPUT, "--manifest=data/manifest.json"], "cannot read files of this machine"),
        ([OUTPUT, "--vocabulary=data/vocabulary.csv"], "cannot read files of this machine"),
        ([OUTPUT, "--eval_data_pattern=/data/*"], "cannot read files of this machine"),
        (["--output_dir=gs://"], "with its bucket"),
        ([OUTPUT, "--workers=-1"], "--workers must be at least 0"),
        (["--output_dir=runs/1"], "expected a folder on gs://"),
        ([OUTPUT, "--region=Mars"], "--region=Mars"),
        ([OUTPUT, "--project=x"], "--project=x"),
        ([OUTPUT, "--accelerator=T4"], "such as NVIDIA_TESLA_T4"),
        ([OUTPUT, IMAGE, "--package=gs://b/x.tar.gz"], "the image of --image already contains the code"),
        ([OUTPUT], "--image is missing"),
        ([OUTPUT, PACKAGE], "--image is missing"),
        ([OUTPUT, "--package=x.tar.gz"], "python -m build --sdist"),
        ([OUTPUT, "--segment_labels"], "needs --frame_features"),
        ([OUTPUT, "--model=DbofModel"], "add --frame_features"),
        ([OUTPUT, "--moe_num_mixture=2"], "did you mean --moe_num_mixtures?"),
        ([OUTPUT, "--moe_num_mixtures=2"], "LogisticModel has no such hyper-parameter"),
    ],
)
def test_what_cannot_be_is_refused_before_it_costs(capsys, words, part):
    given = {word.partition("=")[0] for word in words}
    job = [word for word in JOB if word.partition("=")[0] not in given]
    code = [] if IMAGE in words or part == "--image is missing" else [EXECUTOR]
    assert cli.main(["cloud-job", "train", *job, *code, *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert part in shown.err


def test_another_program_is_refused(capsys):
    assert cli.main(["cloud-job", "eval", *JOB]) == 2
    assert "expected `yt8m cloud-job train" in capsys.readouterr().err


def test_help_names_the_flags_of_the_job(capsys):
    assert cli.main(["cloud-job", "train", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--accelerator=TEXT" in shown
    assert "--[no]submit" in shown


_GCLOUD = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORD/words"
for word; do case $word in --config=*) cp "${word#--config=}" "$RECORD/config";; esac; done
exit 7
"""


def test_submit_runs_what_is_printed(tmp_path, capsys, monkeypatch):
    spec, command = printed(capsys, *TRAIN, IMAGE, OUTPUT)
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(_GCLOUD)
    gcloud.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(tmp_path))
    assert cli.main(["cloud-job", "train", *JOB, *TRAIN, IMAGE, OUTPUT, "--submit"]) == 7
    words = (tmp_path / "words").read_text().splitlines()
    assert words[:3] == ["ai", "custom-jobs", "create"]
    kept = {f"--{name}={value}" for name, (value,) in command.items() if name != "config"}
    assert kept == {word for word in words[3:] if not word.startswith("--config=")}
    assert json.loads((tmp_path / "config").read_text()) == spec


def test_without_gcloud_nothing_is_submitted(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["cloud-job", "train", *JOB, *TRAIN, IMAGE, OUTPUT, "--submit"]) == 2
    assert "install the Google Cloud CLI" in capsys.readouterr().err


def test_what_is_printed_is_one_paste(tmp_path, capsys):
    assert cli.main(["cloud-job", "train", *JOB, *TRAIN, IMAGE, OUTPUT]) == 0
    (tmp_path / "gcloud").write_text(_GCLOUD)
    (tmp_path / "gcloud").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(tmp_path)}
    done = subprocess.run(["sh", "-c", capsys.readouterr().out], cwd=tmp_path, env=environment)
    assert done.returncode == 7
    check_job(json.loads(pathlib.Path(tmp_path / "config").read_text()))
