"""Spans from records to records: made, learned, evaluated, predicted in each format, and read again."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import pathlib
import shutil

import numpy as np
import pytest
import span_runs
from reader_records import read_shard, write_shard
from span_runs import CELL, NAMES

import yt8m
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.records.record_parser import NumpyBatch
from yt8m.tables.understood import TableFlags, understand

pytestmark = pytest.mark.long


@pytest.fixture
def evaluated(span_run: pathlib.Path) -> pathlib.Path:
    """The folder of the run, after an evaluation of spans."""
    return span_run


def onnx_of(folder: pathlib.Path) -> pathlib.Path:
    """The run as an ONNX file."""
    pytest.importorskip("onnx")
    path = folder / "model.onnx"
    if not path.exists():  # another test may have made it
        assert cli.call("export", [f"--train_dir={folder}/run", "--format=onnx", f"--out={path}"]) == 0
    return path


def predict(folder: pathlib.Path, name: str, *words: str) -> pathlib.Path:
    """Predicts spans of the validation videos."""
    data = f"{folder}/data/frame/validate/*.tfrecord"
    assert cli.call("predict", [f"--model={folder}/run", f"--spans={folder / name}", *words, data]) == 0
    return folder / name


def test_planted_spans_are_found_and_the_figures_are_saved(evaluated: pathlib.Path) -> None:
    written = json.loads((evaluated / "run" / "eval" / "spans.json").read_text())
    assert len(written["thresholds"]) == 3
    value, low, high = written["figures"]["mAP@0.5"]
    assert 0.8 <= value <= 1
    assert low <= value <= high
    assert set(written["figures"]["AP of classes"]) == set(NAMES)


def test_the_table_of_spans_is_one_that_make_records_reads(evaluated: pathlib.Path) -> None:
    path = predict(evaluated, "found.csv")
    table = understand("--table", str(path), TableFlags(rows="spans"))
    found = {
        video: spans
        for rows in table.batches(99)
        for video, spans in zip(rows.cells["id"], rows.cells["spans"], strict=True)
    }
    assert set(found) == {f"v{number}" for number in range(16, 24)}
    truth = understand("--table", str(evaluated / "spans.csv"), TableFlags(rows="spans"))
    close = total = 0
    for rows in truth.batches(99):
        for video, spans in zip(rows.cells["id"], rows.cells["spans"], strict=True):
            for span in spans if video in found else ():
                alike = [other for other in found[video] if other.labels == span.labels]
                close += any(abs(span.start - o.start) <= CELL and abs(span.end - o.end) <= CELL for o in alike)
                total += 1
    assert close >= 0.8 * total > 0


def test_other_programs_get_the_same_spans(evaluated: pathlib.Path) -> None:
    rows = list(csv.DictReader(predict(evaluated, "found.csv").open()))
    table = sorted((row["video"], row["class"], float(row["start"]), float(row["end"])) for row in rows if row["class"])
    results = json.loads(predict(evaluated, "net.json", "--spans_format=activitynet").read_text())["results"]
    assert table == sorted(
        (video, span["label"], *span["segment"]) for video, spans in results.items() for span in spans
    )
    tasks = json.loads(predict(evaluated, "ls.json", "--spans_format=label-studio", "--frame_rate=25").read_text())
    found = []
    for task in tasks:
        for result in task["predictions"][0]["result"]:
            ((start, end),) = ((part["start"], part["end"]) for part in result["value"]["ranges"])
            (name,) = result["value"]["timelinelabels"]
            found.append((task["data"]["video"], name, (start - 1) / 25, end / 25))
    assert table == sorted(found)
    # Accepted as they are, the pre-annotations are read back as the same spans.
    for task in tasks:
        task["annotations"] = [{"completed_by": 1, "result": task.pop("predictions")[0]["result"]}]
    (evaluated / "answers.json").write_text(json.dumps(tasks))
    read = understand("--table", str(evaluated / "answers.json"), TableFlags(rows="spans", frame_rate=25.0))
    spans = [
        (video, span.labels[0], span.start, span.end)
        for batch in read.batches(99)
        for video, spans in zip(batch.cells["id"], batch.cells["spans"], strict=True)
        for span in spans
    ]
    assert sorted(spans) == table


def test_from_python_records_and_arrays_give_the_spans_of_the_table(evaluated: pathlib.Path) -> None:
    rows = [row for row in csv.DictReader(predict(evaluated, "found.csv").open()) if row["class"]]
    table = [(row["video"], row["class"], float(row["start"]), float(row["end"])) for row in rows]
    pattern = f"{evaluated}/data/frame/validate/*.tfrecord"
    arrays = {f"v{number}": np.load(evaluated / f"v{number}.npy") for number in range(16, 24)}
    with yt8m.load(evaluated / "run") as model:
        (feature,) = model._scorer.takes.format.sizes()
        found = {"records": model.spans(pattern), "read": model.spans(yt8m.read_records(pattern))}
        lengths = np.full(8, 60, np.int32)
        batch = NumpyBatch(list(arrays), {feature: np.stack(list(arrays.values()))}, lengths, np.zeros((8, 0), bool))
        found["batch"] = model.spans([batch])
        by_name = model.spans({feature: batch.features[feature]})
        assert model.spans(batch.features[feature]) == by_name  # the run has one feature
        assert model.spans(batch.features[feature], frames_per_second=1) == by_name
        with pytest.raises(UsageError, match=r"frames_per_second=4: .*\b1 frames per second"):
            model.spans(batch.features[feature], frames_per_second=4)
        with pytest.raises(UsageError, match=r"max_frames: .*video files"):
            model.spans(pattern, max_frames=20)
        with pytest.raises(UsageError, match=r"video v16 \(row 0\) holds NaN"):
            model.spans(dataclasses.replace(batch, features={feature: np.full((8, 60, 6), np.nan, np.float32)}))
    with yt8m.load(onnx_of(evaluated)) as onnx:
        found["onnx"] = onnx.spans(pattern)
    for rows in found.values():
        assert sorted((row["video"], row["class"], row["start"], row["end"]) for row in rows) == sorted(table)
    names = list(arrays)
    assert [(names[int(row["video"])], row["class"], row["start"]) for row in by_name] == [
        (row["video"], row["class"], row["start"]) for row in found["batch"]
    ]
    assert list(found["records"].to_frame().columns) == ["video", "start", "end", "class", "index", "score"]


def test_files_of_arrays_give_the_spans_of_records(
    evaluated: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = list(csv.DictReader(predict(evaluated, "found.csv").open()))
    names = [f"v{number}" for number in range(16, 24)]
    arrays = np.stack([np.load(evaluated / f"{name}.npy") for name in names])
    np.savez(tmp_path / "films.npz", ids=names, features=arrays)
    np.save(tmp_path / "films.npy", arrays)
    for name in ("films.npz", "films.npy"):
        words = [f"--model={evaluated}/run", f"--spans={tmp_path}/found.csv", str(tmp_path / name)]
        assert cli.call("predict", words) == 0
        rows = list(csv.DictReader((tmp_path / "found.csv").open()))
        of_rows = {str(number): name for number, name in enumerate(names)} if name.endswith("y") else {}
        found = [(of_rows.get(row["video"], row["video"]), row["class"], row["start"], row["end"]) for row in rows]
        assert sorted(found) == sorted((row["video"], row["class"], row["start"], row["end"]) for row in expected)
    assert "says no rate" in caplog.text
    with pytest.raises(UsageError, match="--timeline"):
        cli.call("predict", [f"--model={evaluated}/run", "--timeline", str(tmp_path / "films.npy")])


def test_other_videos_are_evaluated_by_what_was_chosen(
    evaluated: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = evaluated / "run" / "eval" / "spans.json"
    before = chosen.read_bytes()
    words = [f"--train_dir={evaluated}/run", f"--eval_data_pattern={evaluated}/data/frame/train/*.tfrecord", "--spans"]
    assert cli.call("eval", [*words, "--json"]) == 0
    printed = capsys.readouterr()
    assert "which was chosen on" in printed.err
    assert len(json.loads(printed.out)["mAP@0.5"]) == 3
    assert chosen.read_bytes() == before
    copy = evaluated / "copy.json"
    copy.write_text(json.dumps({**json.loads(before), "rule": {"hysteresis": 0.5, "gap": 1, "least": 1}}))
    validate = f"--eval_data_pattern={evaluated}/data/frame/validate/*.tfrecord"
    assert cli.call("eval", [words[0], validate, "--spans", f"--spans_from={copy}"]) == 0
    out = capsys.readouterr().out
    assert "chosen on" not in out
    assert "spans: hysteresis 0.5, gaps up to 1 cell, at least 1 cell of 2 s" in out
    assert chosen.read_bytes() == before
    # The run has been trained further: what was chosen for another step is chosen again, for its export too.
    held = {path: path.read_bytes() for path in (evaluated / "run").rglob("spans.json")}
    chosen.write_text(json.dumps({**json.loads(before), "step": 1}))
    assert cli.call("eval", words) == 0
    assert {json.loads(path.read_text())["chosen_on"]["videos"] for path in held} == {16}
    assert len(held) == 2
    for path, content in held.items():
        path.write_bytes(content)


def test_what_cannot_be_done_is_said(evaluated: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"--spans\b.*leave out --tags"):
        predict(evaluated, "x.csv", "--tags")
    for word in ("--video_id=a", "--count=3", "--top_k=2"):
        with pytest.raises(UsageError, match=f"leave out {word.partition('=')[0]}"):
            predict(evaluated, "x.csv", word)
    with pytest.raises(UsageError, match=r"--spans=.*x\.json: .* \.csv, or --spans_format"):
        predict(evaluated, "x.json")
    assert cli.call("eval", [f"--train_dir={evaluated}/run", "--spans"]) == 2
    (evaluated / "bad.json").write_text('{"rule": {}}')
    with pytest.raises(RunError, match=r"bad.json is damaged.*yt8m eval --spans"):
        predict(evaluated, "x.csv", f"--spans_from={evaluated}/bad.json")


@pytest.mark.heavy
def test_an_export_joins_as_the_run_does(evaluated: pathlib.Path) -> None:
    export, data = evaluated / "exported", f"{evaluated}/data/frame/validate/*.tfrecord"
    assert cli.call("export", [f"--train_dir={evaluated}/run", f"--out={export}"]) == 0
    columns = ("video", "start", "end", "class")
    rows = list(csv.DictReader(predict(evaluated, "run.csv").open()))
    expected = [[row[name] for name in columns] for row in rows]
    assert len(expected) >= 8
    archive = evaluated / "model.tgz"
    words = [f"--train_dir={evaluated}/run", f"--input_data_pattern={data}", f"--output_file={evaluated}/whole.csv"]
    assert cli.call("inference", [*words, f"--output_model_tgz={archive}"]) == 0
    for model in (export, export / "saved_model", archive):
        path = evaluated / "export.csv"
        assert cli.call("predict", [f"--model={model}", f"--spans={path}", data]) == 0
        assert [[row[name] for name in columns] for row in csv.DictReader(path.open())] == expected
    # The export at the end of the training, before spans were evaluated, has got what the evaluation chose.
    (first,) = (evaluated / "run" / "export").iterdir()
    assert (first / "spans.json").read_bytes() == (evaluated / "run" / "eval" / "spans.json").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment_size": 5}, "cells of 5 frames.*cells of 2 frames"),
        ({"segment_context": 3}, "cells with 3 frames before and after"),
        ({"frames_per_second": 2.0}, "features of 2 frames per second.*features of 1 frames per second"),
        ({"thresholds": [0.5]}, r"\b1 class\b.*\b3\b"),
    ],
)
def test_a_file_for_another_grid_is_refused(changes: dict[str, object], message: str, evaluated: pathlib.Path) -> None:
    other = evaluated / "other.json"
    other.write_text(json.dumps({**json.loads((evaluated / "run" / "eval" / "spans.json").read_text()), **changes}))
    with pytest.raises(UsageError, match=message):
        predict(evaluated, "x.csv", f"--spans_from={other}")
    assert span_runs.evaluate(evaluated, f"--spans_from={other}") == 2


def test_a_choice_at_another_step_is_said(evaluated: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    other = evaluated / "other.json"
    other.write_text(json.dumps({**json.loads((evaluated / "run" / "eval" / "spans.json").read_text()), "step": 1}))
    predict(evaluated, "x.csv", f"--spans_from={other}")
    assert "chosen at step 1, " in caplog.text


@pytest.mark.heavy
def test_an_export_of_before_the_choice_is_said(
    evaluated: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An export elsewhere has the grid of the training, and 0.5."""
    shutil.copytree(evaluated / "run", tmp_path / "run", ignore=shutil.ignore_patterns("eval", "export"))
    assert cli.call("export", [f"--train_dir={tmp_path}/run", f"--out={tmp_path}/e"]) == 0
    written = json.loads((tmp_path / "e/spans.json").read_text())
    assert (written["segment_size"], written["frames_per_second"], set(written["thresholds"])) == (CELL, 1.0, {0.5})
    data = f"{evaluated}/data/frame/validate/*.tfrecord"
    assert cli.call("predict", [f"--model={tmp_path}/e", f"--spans={tmp_path}/found.csv", data]) == 0
    assert "how spans are joined" in caplog.text


def test_one_video_has_figures_and_no_interval(
    evaluated: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = evaluated.glob("data/frame/validate/*.tfrecord")
    write_shard(tmp_path / "validate.tfrecord", list(read_shard(path))[:1])
    shutil.copy(path.with_name("manifest.json"), tmp_path)
    shutil.copytree(evaluated / "run", tmp_path / "run", ignore=shutil.ignore_patterns("eval"))
    words = [f"--train_dir={tmp_path}/run", f"--eval_data_pattern={tmp_path}/*.tfrecord", "--spans", "--report"]
    assert cli.call("eval", [*words, "--json"]) == 0
    out, err = capsys.readouterr()
    value, low, high = json.loads(out)["mAP@0.5"]
    assert (0 <= value <= 1, low, high) == (True, None, None)
    assert "without an interval" in err
    assert " to " not in next(line for line in err.splitlines() if "mAP@0.5" in line)
    page = (tmp_path / "run/eval/spans.html").read_text()
    assert "nan" not in page


@pytest.mark.heavy
def test_unfit_values_count_as_0_if_the_policy_of_the_run_or_the_evaluation_says_so(
    evaluated: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(evaluated / "run", tmp_path / "run")
    (path,) = evaluated.glob("data/frame/validate/*.tfrecord")
    shards = {}
    for name, value in (("nan", math.nan), ("zero", 0.0)):
        shutil.copytree(path.parent, tmp_path / name)
        shards[name] = str(tmp_path / name / path.name)
        records = [tf.train.SequenceExample.FromString(record) for record in read_shard(path)]
        for frame in records[0].feature_lists.feature_list["features"].feature[10:14]:
            frame.float_list.value[1] = value
        write_shard(pathlib.Path(shards[name]), [record.SerializeToString() for record in records])
    evaluation = ["--spans", f"--train_dir={tmp_path}/run", f"--eval_data_pattern={shards['nan']}"]
    prediction = [f"--model={tmp_path}/run", f"--spans={tmp_path}/found.csv"]
    assert cli.call("eval", evaluation) == 1
    with pytest.raises(RunError, match="NaN"):
        cli.call("predict", [*prediction, shards["nan"]])
    assert cli.call("eval", [*evaluation, "--nan_policy=zero"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["config"]["data"]["nan_policy"] = "zero"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    found = []
    for shard in shards.values():
        assert cli.call("predict", [*prediction, shard]) == 0
        found.append((tmp_path / "found.csv").read_text())
        (tmp_path / "found.csv").unlink()
    assert found[0] == found[1]
    assert cli.call("eval", evaluation) == 0


def test_records_of_another_rate_are_refused(
    evaluated: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span_runs.make_records(evaluated, "twice", "--frames_per_second=2", cell=1)
    data, run = f"{evaluated}/twice/frame/validate/*.tfrecord", f"{evaluated}/run"
    message = r"the records have 2 frames per second, as .*manifest.json says, but the model .*of 1 frames per second"
    words = [f"--spans={tmp_path}/found.csv", data]
    for model in (run, onnx_of(evaluated)):
        with pytest.raises(UsageError, match=message):
            cli.call("predict", [f"--model={model}", *words])
        with yt8m.load(model) as loaded:
            for source in (data, yt8m.read_records(data)):
                with pytest.raises(UsageError, match=message):
                    loaded.spans(source)
    assert cli.call("eval", [f"--train_dir={run}", f"--eval_data_pattern={data}", "--spans"]) == 2
    assert "the records have 2 frames per second" in capsys.readouterr().err
    chosen = [f"--model={run}", f"--data={data}", f"--out={tmp_path}/next.csv"]
    with pytest.raises(UsageError, match=message):
        cli.call("select", chosen)
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    infer = ["infer", f"--model={run}", f"--data={data}", "--spans", f"--out={tmp_path}/bulk"]
    with pytest.raises(UsageError, match=message):
        cli.call("bulk", infer)
    assert not (tmp_path / "bulk").exists(), "nothing has begun"


def test_no_span_is_a_table_with_columns(evaluated: pathlib.Path) -> None:
    with yt8m.load(evaluated / "run") as model:
        frame = model.spans([]).to_frame()
        assert list(frame.columns) == ["video", "start", "end", "class", "index", "score"]
        assert len(frame) == 0
        assert list(model.predict([]).to_frame().columns) == ["id", "index", "name", "score"]
