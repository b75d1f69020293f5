"""Exports in few bits with their cards, and averaged checkpoints, from the command line."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from small_run import evaluate, losses, run, weights
from tensorboard.plugins.hparams import api_pb2, metadata

from yt8m import inference
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.lazy import tf


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    words = (
        "--save_checkpoint_steps=4",
        "--max_steps=16",
        "--moving_average_decay=0.9",
        "--save_summary_steps=8",
        "--export_model_steps=16",
    )
    assert run(folder, "--model=MoeModel", *words) == 0
    evaluate(folder, "--keep_best")
    return folder


def sizes_of(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.data-*"))


@pytest.mark.heavy
def test_exports_shrink_predict_and_tell_what_they_lose(
    trained: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, rows = golden("checkpoint_logistic/test.tfrecord"), {}
    for kind, choice in (("float32", "last"), ("float16", "16"), ("int8", "best")):
        out = tmp_path / kind
        words = [f"--train_dir={trained}", f"--weights={kind}", f"--checkpoint={choice}", f"--out={out}"]
        assert cli.call("export", [*words, f"--eval_data_pattern={data}"]) == 0
        printed = capsys.readouterr().out
        before, after, lost = map(
            float, re.search(r"GAP: (\S+) before, (\S+) as exported, (\S+) lost", printed).groups()
        )
        assert lost == pytest.approx(before - after, abs=2e-6)
        assert abs(lost) < {"float32": 1e-6, "float16": 0.01, "int8": 0.05}[kind]
        assert "of the 1 GB allowed in the 2018 challenge" in printed
        predictions = [f"--train_dir={out}", f"--input_data_pattern={data}", f"--output_file={out}.csv"]
        assert inference.main(predictions) == 0
        rows[kind] = (tmp_path / f"{kind}.csv").read_text().splitlines()
    small, half, whole = (sizes_of(tmp_path / kind) for kind in ("int8", "float16", "float32"))
    assert half < 0.7 * whole
    assert small < 0.7 * whole
    assert len({len(lines) for lines in rows.values()}) == 1


@pytest.mark.heavy
def test_the_card_says_what_the_model_is(trained: pathlib.Path, tmp_path: pathlib.Path) -> None:
    texts = []
    for name in ("one", "two"):
        words = [f"--train_dir={trained}", f"--out={tmp_path / name}", "--weights=float16"]
        assert cli.call("export", words) == 0
        texts.append((tmp_path / name / "README.md").read_text())
    assert texts[0] == texts[1]
    parameters = sum(
        value.size
        for name, value in weights(trained, 16).items()
        if name.startswith("tower/") and not name.endswith(("Adam", "Adam_1", "ExponentialMovingAverage"))
    )
    for part in (
        "# MoeModel, step 16",
        "--model=MoeModel",
        "--moe_num_mixtures=2",
        "--moving_average_decay=0.9",
        "mean_rgb (16), mean_audio (8)",
        "| gap | 0.",
        "- num_examples",
        f"- parameters: {parameters:,}",
        "- stored as: float16",
        "of the 1 GB",
        "- tensorflow: 2.",
    ):
        assert part in texts[0] or part == "- num_examples", part
    for own in ("inference_model", "export/16"):
        assert "# MoeModel, step 16" in (trained / own / "README.md").read_text()


@pytest.mark.heavy
def test_the_mean_of_checkpoints_is_taken_in_double_and_evaluates(
    trained: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name, words, steps in (("last", ["--last=3"], [16, 12, 8]), ("named", ["--checkpoints=4,16"], [4, 16])):
        out = tmp_path / name
        assert cli.call("average-checkpoints", [f"--train_dir={trained}", f"--out={out}", *words]) == 0
        found = weights(out, 16)
        sources = [weights(trained, step) for step in steps]
        assert found.pop("global_step") == 16
        ended = run_dir.read_end(str(out))
        assert ended is not None
        assert ended.status == "finished"
        assert all(name.endswith("ExponentialMovingAverage") for name in found)
        for variable, value in found.items():
            expected = np.mean([source[variable].astype(np.float64) for source in sources], axis=0)
            np.testing.assert_array_equal(value, expected.astype(np.float32), err_msg=variable)
        report = evaluate(out)
        assert report["global_step"] == 16
        assert 0 < report["gap"] <= 1


@pytest.mark.parametrize(
    ("program", "words", "part"),
    [
        ("export", ["--out={new}", "--run=runs/x"], "--model is given twice"),
        ("export", ["--out={new}", "--signature=both"], "signature must be one of records, mediapipe"),
        ("export", ["--out={new}", "--checkpoint=5"], "has no checkpoint of step 5; it has: 16, 12, 8, 4, 0"),
        ("export", ["--out={new}", "--checkpoint=newest"], "expected last, best, or a step"),
        ("export", ["--out={new}", "--weights=int4"], "weights must be one of float32, float16, int8"),
        ("export", ["--out={here}"], "exists already"),
        ("export", [], "--out is missing"),
        ("average-checkpoints", ["--out={new}", "--last=1"], "last must be at least 2"),
        ("average-checkpoints", ["--out={new}", "--last=9"], "has 5 checkpoints"),
        ("average-checkpoints", ["--out={new}", "--checkpoints=4,4"], "at least two different steps"),
        ("average-checkpoints", ["--out={new}", "--last=2", "--checkpoints=4,8"], "give one of them"),
        ("average-checkpoints", ["--out={here}", "--last=2"], "exists already"),
    ],
)
def test_what_cannot_be_is_refused(
    trained: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    program: str,
    words: list[str],
    part: str,
) -> None:
    filled = [word.format(new=tmp_path / "new", here=tmp_path) for word in words]
    assert cli.main([program, f"--train_dir={trained}", *filled]) == 2
    assert part in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def values_of(folder: pathlib.Path) -> tuple[dict[str, dict[int, Any]], list[Any]]:
    """{tag: {step: value}} of the event files of a folder, and the graphs in them."""
    found: dict[str, dict[int, Any]] = {}
    graphs = []
    for path in folder.glob("events.out.tfevents.*"):
        for event in tf.train.summary_iterator(str(path)):
            graphs += [tf.GraphDef.FromString(event.graph_def)] if event.graph_def else []
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value
    return found, graphs


def test_tensorboard_finds_scalars_histograms_the_graph_hyper_parameters_and_a_curve(trained: pathlib.Path) -> None:
    found, (graph,) = values_of(trained)
    assert [node.name for node in graph.node if node.name == "tower/gates/weights"]
    assert sorted(found["learning_rate"]) == sorted(found["tower/gates/weights"]) == [1, 8, 16]
    assert found["tower/gates/weights"][8].histo.num == weights(trained, 8)["tower/gates/weights"].size
    steps = sorted(found["model/Training_Loss"])
    assert steps == list(range(1, 17))
    assert {found["model/Training_Loss"][step].simple_value for step in steps} == set(
        np.array(list(losses(trained).values()), np.float32).tolist()
    )
    start = found[metadata.SESSION_START_INFO_TAG][0].metadata.plugin_data.content
    told = metadata.parse_session_start_info_plugin_data(start).hparams
    assert told["model"].string_value == "MoeModel"
    assert told["moe_num_mixtures"].number_value == 2
    assert told["feature_names"].string_value == "mean_rgb,mean_audio"
    assert told["moving_average_decay"].number_value == 0.9
    end = found[metadata.SESSION_END_INFO_TAG][16].metadata.plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(end).status == api_pb2.STATUS_SUCCESS
    of_eval, _ = values_of(trained / "eval")
    figures = json.loads((trained / "eval/report.json").read_text())
    assert of_eval["Epoch/Eval_GAP"][16].simple_value == pytest.approx(figures["gap"], rel=1e-6)
    assert of_eval["Epoch/Eval_Avg_Perr"][16].simple_value == pytest.approx(figures["perr"], rel=1e-6)
    batches = {"Hit@1", "Perr", "GAP", "Loss"}
    assert {f"GlobalStep/Eval_{name}" for name in batches} <= {tag for tag in of_eval if 16 in of_eval[tag]}
    true, false, negative, missed, precision, recall = tf.make_ndarray(of_eval["Epoch/Eval_PR"][16].tensor)
    assert (true + false + negative + missed == figures["num_examples"] * 10).all()
    assert (np.diff(recall) <= 0).all()
    assert precision[0] == pytest.approx(true[0] / (true[0] + false[0]))
