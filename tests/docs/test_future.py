"""The page on a future without TensorFlow lists the ops that the models use, and says what runs without it.

`tests/project/test_runtime.py` runs the same in an environment without TensorFlow.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import records_and_metrics
from contract.model_cases import FEW
from datasets.download import shard_server
from golden_data import golden
from installed_packages import Packages
from reports import report_runs

from yt8m import eval_util
from yt8m.command_line import cli
from yt8m.records import shards

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/users/future.md"


@pytest.fixture(scope="module")
def ops() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("ops_of_models", ROOT / "docs/ops.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(ops: types.ModuleType) -> str:
    return PAGE.read_text().partition(ops.BEGIN)[2].partition(ops.END)[0]


@pytest.mark.parametrize("name", FEW)
def test_every_op_of_a_model_has_a_row(ops: types.ModuleType, name: str) -> None:
    of_all, _, rows = listed(ops).partition("\n\n")
    for op in ops.ops_of(name):
        who = [row for row in rows.splitlines() if row.startswith(f"| {op} |")]
        assert who or f" {op}," in of_all or f" {op}." in of_all, op
        assert not who or f"all but {name}" not in who[0]


def test_the_list_leaves_classes_of_installed_packages_out(
    ops: types.ModuleType, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.install_all_kinds()
    monkeypatch.setattr(ops, "ops_of", lambda name: {f"OpOf{name}"})
    assert "| OpOfMoeModel | MoeModel |" in ops.table()
    assert "AcmeModel" not in ops.table()


@pytest.mark.heavy
def test_the_list_is_that_of_all_models(ops: types.ModuleType) -> None:
    assert listed(ops) == ops.table(), "run python docs/ops.py"


# Makes TensorFlow an absent package. Then runs the program that the first word names, or the commands of a JSON list.
WITHOUT = """
import json, runpy, sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "tensorflow":
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")

sys.meta_path.insert(0, Absent())
sys.argv[:] = sys.argv[1:]
if sys.argv[0].endswith(".py"):
    runpy.run_path(sys.argv[0], {}, "__main__")
else:
    from yt8m.command_line import cli
    print([cli.main(words) for words in json.loads(sys.argv[0])])
"""


def run_without(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_records_and_all_metrics_need_no_tensorflow() -> None:
    shard = str(golden("checkpoint_logistic/test.tfrecord"))
    assert records_and_metrics.METRICS.keys() == set(eval_util.__all__)
    expected = records_and_metrics.figures([shard])
    assert expected["videos"] == [shards.parse(record).id().decode() for record in shards.read_shard(shard)]
    assert 0 < expected["calculate_gap"] < 1
    assert {"gap", "map", "aps", "avg_hit_at_one", "avg_perr", "avg_loss"} <= expected["EvaluationMetrics"][
        "all"
    ].keys()
    assert json.loads(run_without(records_and_metrics.__file__, shard).stdout) == expected


def write_inputs(folder: pathlib.Path) -> None:
    """What the commands of `not_needing` read, beside what the first of them write."""
    frame = {"RGB/feature/floats": [shards.float_feature([0.5, 0.25])]}
    (folder / "a.pb").write_bytes(shards.sequence_example({"id": shards.bytes_feature(b"a")}, frame))
    (folder / "a.json").write_text('{"video_id": "a", "class_indexes": [3, 1], "predictions": [0.7, 0.2]}\n')
    (folder / "segments.csv").write_text("Class,Segments\n3,abcd:0\n")
    labels = ["cat", "dog"] * 3
    np.savez(folder / "own.npz", id=[f"v{row}" for row in range(6)], labels=labels, clip=np.ones((6, 4), np.float32))
    (folder / "answers.csv").write_text("id,label\nv0,dog\n")
    rows = [f"v{row},0 0.5 1 0.25\n" for row in range(6)]
    (folder / "scores.csv").write_text("".join(["VideoId,LabelConfidencePairs\n", *rows]))
    report_runs.make_run(folder / "run", 1)


def not_needing(folder: pathlib.Path, address: str) -> dict[str, list[str]]:
    """{command of the page: its words}, of those that need neither a model nor a network of features."""
    made, own = f"{folder}/sample/segment/train/*", f"{folder}/own/video/train/*"
    few = ["--num_classes=10", "--shards=1", "--train=4", "--validate=2", "--test=2", "--min_frames=10"]
    job = ["--project=my-project", "--region=us-central1", "--train_data_pattern=gs://b/*"]
    urls = [f"--plan_url={address}", f"--mirror_url={address}"]
    return {
        "download": ["--partition=2/frame/train", *urls, f"--out={folder}/shards"],
        "sample-data": ["--level=segment", *few, "--max_frames=20", f"--out={folder}/sample"],
        "make-records": [f"--table={folder}/own.npz", "--splits=train:1", f"--out={folder}/own"],
        "relabel": [f"--data={own}", f"--labels={folder}/answers.csv", f"--out={folder}/relabelled"],
        "cache": [f"--data={own}", "--jobs=1", f"--out={folder}/cache"],
        "from-mediapipe": [f"--data={folder}/*.pb", f"--out={folder}/a.tfrecord"],
        "inspect": [made],
        "verify": [made],
        "vocabulary": ["search", "guitar"],
        "score": [f"--predictions={folder}/scores.csv", f"--data={own}"],
        "segment-eval": [f"--data={made}", f"--predictions={folder}/segments.csv", f"--label_cache={folder}/r.csv"],
        "json-to-csv": [f"--predictions={folder}/a.json", f"--out={folder}/p.csv"],
        "ensemble": [f"--predictions={folder}/p.csv,{folder}/p.csv", f"--out={folder}/joined.csv"],
        "report": [f"{folder}/run"],
        "runs": [str(folder)],
        "cloud-job": ["train", *job, "--image=us-docker.pkg.dev/my-project/yt8m/yt8m:1", "--output_dir=gs://b/run"],
        "doctor": ["--nosteps"],
        "completion": ["bash"],
    }


def commands_named(text: str) -> list[str]:
    """The commands that a part of the page names, in order."""
    named = (words.partition(" ")[0] for words in re.findall(r"`([^`]+)`", text))
    return [word for word in named if word in cli.COMMANDS]


def test_each_command_is_in_one_of_the_two_lists() -> None:
    listed_commands = commands_named(PAGE.read_text().partition("## What runs without")[2].partition("\n## ")[0])
    assert sorted(listed_commands) == sorted(cli.COMMANDS)


def test_what_needs_no_tensorflow_runs_without_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model in an ONNX file: `tests/scoring/test_onnx_scorer.py`; of `extract`: `test_runtime.py`."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")  # a proxy that this machine may use cannot reach the server
    write_inputs(tmp_path)
    with shard_server.serving({"trainaa.tfrecord": bytes(99)}) as server:
        words = not_needing(tmp_path, server.url)
        ended = run_without(json.dumps([[name, *rest] for name, rest in words.items()]))
    assert ended.stdout.splitlines()[-1] == str([0] * len(words)), ended.stderr
    assert (tmp_path / "shards/train0000.tfrecord").read_bytes() == bytes(99)
    assert len(list(shards.read_shard(str(tmp_path / "a.tfrecord")))) == 1
    with_a_model, _, others = (
        PAGE.read_text().partition("Tests run these")[2].partition("These need")[0].partition("\n- `download")
    )
    assert commands_named(f"`download{others}") == list(words)
    assert "`extract`" in with_a_model


def test_what_needs_tensorflow_says_so_in_a_line_each(tmp_path: pathlib.Path) -> None:
    run, data = tmp_path / "run", f"--data={golden('checkpoint_logistic/train.tfrecord')}"
    shutil.copytree(golden("run_format_1"), run)
    before = sorted(tmp_path.rglob("*"))
    model, out = f"--model={run}", f"--out={tmp_path}/{{}}"
    published = ["--from=google", f"--checkpoint={run}/model.ckpt-6", "--model=LogisticModel"]
    sizes = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    needing = {
        "train": [data, out, *sizes],
        "eval": [model, data, "--run_once"],
        "audit": [data, out],
        "export": [model, out],
        "average-checkpoints": [model, out],
        "add-classes": [model, data, out],
        "import-checkpoint": [*published, *sizes, out],
        "inference": [model, data, out],
        "predict": [model, data],
        "serve": [model, "--port=0"],
        "bulk": ["infer", model, data, out],
    }
    section = PAGE.read_text().partition("These need TensorFlow: ")[2].partition(", and whatever")[0]
    named = re.findall(r"`([^`]+)`", section)
    assert named == list(needing)[: len(named)]
    if importlib.util.find_spec("apache_beam") is None:
        del needing["bulk"]  # which lacks Beam first
    ended = run_without(json.dumps([[name, *(word.format(name) for word in words)] for name, words in needing.items()]))
    errors = [line for line in ended.stderr.splitlines() if ": error: " in line]
    assert [line.partition(":")[0] for line in errors] == [f"yt8m {name}" for name in needing]
    assert all("this needs TensorFlow, which is not installed" in line for line in errors), errors
    assert "Traceback" not in ended.stderr
    assert ended.stdout.splitlines()[-1] == str([2] * len(needing))
    assert sorted(tmp_path.rglob("*")) == before
