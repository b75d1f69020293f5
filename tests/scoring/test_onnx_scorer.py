"""Models in ONNX files: every program takes them, also where TensorFlow is not installed."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from types import ModuleType

import cases
import numpy as np
import pytest
import small_exports
from golden_data import golden
from reader_records import write_shard
from small_run import ROOT, evaluate, run

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, scoring
from yt8m.command_line import cli, program
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig
from yt8m.errors import RunError, UsageError, missing_tensorflow
from yt8m.export.onnx_export import export_onnx
from yt8m.export.saved_model import export_saved_model
from yt8m.records.batches import read_records


def exported(folder: pathlib.Path, model: str) -> tuple[str, str]:
    """A SavedModel and an ONNX file of the same weights."""
    return small_exports.export(folder, model), small_exports.export_file(folder, model)


@pytest.mark.parametrize("model", cases.all_of(["FrameLevelLogisticModel"], heavy=["MoeModel"]))
def test_an_onnx_file_predicts_and_is_evaluated_like_the_saved_model(tmp_path: pathlib.Path, model: str) -> None:
    made = small_exports.frame_records(9) if model.startswith("Frame") else small_exports.video_records(9)
    shard = write_shard(tmp_path / "some.tfrecord", made)
    found = []
    for path in exported(tmp_path, model):
        with scoring.open(path) as scorer:
            (videos,) = scorer.batches(shard)
            ids, scores = scorer.scores(videos, 16)
            reports = scorer.evaluated(videos).reports
            of_records = scorer.scores([(record, "", 0) for record in made])  # as a service gets them
        assert of_records[0] == ids
        np.testing.assert_allclose(of_records[1], scores, rtol=0, atol=1e-6)
        assert ids == [f"v{row:02}" for row in range(9)]
        found.append((scores, reports))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=0, atol=1e-6)
    assert found[1][1].keys() == found[0][1].keys()


@pytest.mark.heavy
@pytest.mark.parametrize("most", [3, 320])
def test_an_export_uses_as_many_frames_of_a_record_as_its_run(tmp_path: pathlib.Path, most: int) -> None:
    names, sizes = ("rgb", "audio"), small_exports.SIZES
    data = DataConfig(feature_names=names, feature_sizes=sizes, frame_features=True, num_classes=30, max_frames=most)
    parts, weights = small_exports.random_weights(tmp_path, data, ModelConfig("FrameLevelLogisticModel"))
    saved_model, onnx_file = str(tmp_path / "saved_model"), str(tmp_path / "model.onnx")
    export_saved_model(saved_model, weights, parts.reader, parts.modeler)
    export_onnx(onnx_file, weights, data, parts.modeler)
    made = small_exports.frame_records(1) + small_exports.frame_records(most + 5, most + 5)[-1:]
    shard = write_shard(tmp_path / "some.tfrecord", made)
    for path in (saved_model, onnx_file):
        with scoring.open(path) as scorer:
            (cut,) = scorer.batches(read_records(shard, num_classes=30, max_frames=most))
            assert cut.num_frames.tolist() == [1, most]
            expected = scorer.scores(cut)[1]
            (videos,) = scorer.batches(shard)
            for found in (videos, [(record, "", 0) for record in made]):  # files, and records as a service gets them
                np.testing.assert_allclose(scorer.scores(found)[1], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("program", cases.all_of([evaluation], heavy=[inference]))
def test_evaluation_and_inference_take_an_onnx_file_as_an_export(
    tmp_path: pathlib.Path, program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    shard = write_shard(tmp_path / "some.tfrecord", small_exports.video_records(9))
    saved_model, path = exported(tmp_path, "MoeModel")
    results = []
    for number, model in enumerate((saved_model, path)):
        out = tmp_path / f"results{number}"
        if program is evaluation:
            assert program.main([f"--train_dir={model}", f"--eval_data_pattern={shard}", f"--eval_dir={out}"]) == 0
            report = json.loads((out / "eval/report.json").read_text())
            results.append([report[key] for key in ("gap", "map", "perr", "hit_at_one")])
        else:
            assert program.main([f"--train_dir={model}", f"--input_data_pattern={shard}", f"--output_file={out}"]) == 0
            results.append([float(word) for word in re.findall(r" ([01]\.\d+)", out.read_text())])
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=2e-6)
    if program is evaluation:
        capsys.readouterr()
        assert program.main([f"--train_dir={path}", f"--eval_data_pattern={shard}"]) == 2
        assert "--eval_dir is missing" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "none.onnx")
    with pytest.raises(UsageError, match=rf"^{re.escape(path)}: .*no such file"):
        scoring.open(path)
    (tmp_path / "model.onnx").symlink_to("/proc/self/mem")  # which nobody can read at its start
    with pytest.raises(RunError, match=r"^cannot read .*model\.onnx: Input/output error"):
        scoring.open(str(tmp_path / "model.onnx"))
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(UsageError, match=r"folder\.onnx: .*is a folder"):
        scoring.open(str(tmp_path / "folder.onnx"))
    (tmp_path / "folder.onnx").rmdir()
    with pytest.raises(UsageError, match=r"holds no saved_model.pb: name its ONNX file \(model.onnx\)\.$"):
        scoring.open(str(tmp_path))


# Programs that use an ONNX file start without these: they take longer to import than the file to load.
_SLOW = ("tensorflow", "yt8m.extractors.picture_models", "yt8m.graph", "yt8m.losses", "yt8m.readers", "yt8m.video")
_PREDICT = """
import sys
from yt8m.command_line import cli
status = cli.main(["predict", *sys.argv[2:]])
print(status, *(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


@pytest.mark.heavy
def test_a_prediction_imports_nothing_that_only_trainings_need(tmp_path: pathlib.Path) -> None:
    shard = write_shard(tmp_path / "some.tfrecord", small_exports.video_records(1))
    _, path = exported(tmp_path, "MoeModel")
    words = [sys.executable, "-c", _PREDICT, ",".join(_SLOW), f"--model={path}", shard]
    ended = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ended.stdout.splitlines()[-1] == "0", ended.stderr


# Fails like an environment without TensorFlow, wherever this folder comes first on the path.
_NO_TENSORFLOW = "raise ModuleNotFoundError(\"No module named 'tensorflow'\", name='tensorflow')\n"
_LOAD = """
import json, sys, yt8m
with yt8m.load(sys.argv[1]) as model:
    print(json.dumps([[video.id, video.classes[0].index] for video in model.predict(sys.argv[2], top_k=1)]))
"""
_COMMANDS = """
import json, sys
from yt8m.command_line import cli
print([cli.main(words) for words in json.loads(sys.argv[1])])
"""


@pytest.mark.long
def test_a_model_is_used_where_tensorflow_cannot_be_imported(tmp_path: pathlib.Path) -> None:
    shard = write_shard(tmp_path / "some.tfrecord", small_exports.video_records(9))
    _, path = exported(tmp_path, "MoeModel")
    with yt8m.load(path) as model:
        expected = [[video.id, video.classes[0].index] for video in model.predict(shard, top_k=1)]
    (tmp_path / "none" / "tensorflow").mkdir(parents=True)
    (tmp_path / "none/tensorflow/__init__.py").write_text(_NO_TENSORFLOW)

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'none'}{os.pathsep}{ROOT}"}
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, cwd=tmp_path)

    loaded = python("-c", _LOAD, path, shard)
    assert json.loads(loaded.stdout) == expected, loaded.stderr
    predicted = python("-m", "yt8m", "predict", f"--model={path}", "--count=9", "--top_k=1", shard)
    assert [line.split()[-1] for line in predicted.stdout.split("\n") if line.startswith("0.")] == [
        str(index) for _, index in expected
    ], predicted.stderr
    usual = [f"--model={path}", f"--data={shard}"]
    labelled = write_shard(tmp_path / "labelled.tfrecord", small_exports.video_records(18)[9:])
    commands = [
        ["inference", *usual, "--out=p.csv"],
        ["select", *usual, f"--labelled={labelled}", "--count=2", "--out=s.csv"],
        ["count", *usual, f"--labelled={labelled}", "--out=c.csv"],
    ]
    ended = python("-c", _COMMANDS, json.dumps(commands))
    assert ended.stdout.splitlines()[-1] == "[0, 0, 0]", ended.stderr
    assert {line.partition(",")[0] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]} == {
        video for video, _ in expected
    }


def test_what_needs_tensorflow_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def without_tensorflow(words: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")

    assert program.run_main("yt8m train", without_tensorflow, []) == 2
    assert capsys.readouterr().err == f"yt8m train: error: {missing_tensorflow('this needs')}\n"


@pytest.mark.heavy
def test_the_tags_of_a_run_come_with_its_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, test = tmp_path / "run", str(golden("checkpoint_logistic/test.tfrecord"))
    assert run(folder, "--model=MoeModel") == 0
    evaluate(folder, "--report")
    assert cli.main(["export", f"--model={folder}", "--format=onnx", f"--out={tmp_path / 'model.onnx'}"]) == 0
    capsys.readouterr()
    shown = []
    for model in (folder, tmp_path / "model.onnx"):
        assert cli.main(["predict", f"--model={model}", "--tags", "--count=20", test]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
