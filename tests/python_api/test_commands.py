"""What the commands do, from Python: values are returned, and DataFrames and arrays are taken."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import yt8m
from yt8m.command_line import cli

NAMES = ["ant", "bee", "cat"]
SPLITS = {"splits": {"train": 0.6, "validate": 0.4}}
FLAGS = dict(
    model="LogisticModel",
    max_steps=30,
    num_epochs=50,
    batch_size=32,
    base_learning_rate=0.5,
    regularization_penalty=0.0,
)


def table(count: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(0)
    labels = draw.random((count, 3)) < 0.4
    labels[~labels.any(1), 0] = True
    names = [[name for name, has in zip(NAMES, row, strict=True) if has] for row in labels]
    x = labels @ draw.normal(size=(3, 6)) + 1.5 * draw.normal(size=(count, 6))
    return pd.DataFrame({"id": [f"v{n:03}" for n in range(count)], "labels": names}), x.astype("f")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("commands")
    frame, x = table()
    summary = yt8m.make_records(frame, folder / "data", x, feature_names="clip", **SPLITS)
    (folder / "summary.json").write_text(json.dumps(summary))
    run = yt8m.fit(train_data_pattern=folder / "data/video/train/*.tfrecord", train_dir=folder / "runs/one", **FLAGS)
    (folder / "run.txt").write_text(f"{run!r}\n{run._repr_html_()}")
    assert run.figures["gap"] == run.figures["GAP"]
    assert len(run.to_frame()) >= 3
    with yt8m.load(run) as model:
        assert model.num_classes == 3
    return folder


def validation(world: pathlib.Path) -> str:
    return f"{world}/data/video/validate/*.tfrecord"


def test_the_same_values_again_keep_the_records_and_others_are_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, x = table()
    first = yt8m.make_records(frame, tmp_path / "data", x, splits={"train": 1.0})
    assert yt8m.make_records(frame, tmp_path / "data", x, splits={"train": 1.0}) == first
    assert "already has all" in capsys.readouterr().err
    other = x.copy()
    other[50, 3] += 1  # as many bytes
    for given in ((frame, other), (frame.assign(labels=frame["labels"].map(lambda names: names[:1])), x)):
        with pytest.raises(yt8m.UsageError, match="overwrite"):
            yt8m.make_records(given[0], tmp_path / "data", given[1], splits={"train": 1.0})


def test_records_of_a_data_frame_and_an_array_are_those_of_the_command(
    world: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, x = table()
    summary = json.loads((world / "summary.json").read_text())
    assert summary["classes"] == 3
    assert sum(split["videos"] for split in summary["splits"].values()) == 120
    assert "120" in summary["understood"]
    frame.assign(labels=frame["labels"].str.join(";")).to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "x.npy", x)
    yt8m.make_records(tmp_path / "t.csv", tmp_path / "data", tmp_path / "x.npy", feature_names="clip", **SPLITS)
    assert capsys.readouterr().out == ""
    for split in SPLITS["splits"]:
        folders = [f"{folder}/data/video/{split}/*.tfrecord" for folder in (world, tmp_path)]
        first, other = (list(yt8m.read_records(folder)) for folder in folders)
        assert [batch.ids for batch in first] == [batch.ids for batch in other]
        assert [batch.labels.tolist() for batch in first] == [batch.labels.tolist() for batch in other]


def test_a_dry_run_writes_nothing(tmp_path: pathlib.Path) -> None:
    frame, x = table(20)
    summary = yt8m.make_records(frame, tmp_path / "data", {"clip": x}, dry_run=True)
    assert list(summary) == ["understood"]
    assert not (tmp_path / "data").exists()


def test_shards(world: pathlib.Path) -> None:
    rows = yt8m.inspect(validation(world))
    assert repr(rows) == f"<{len(rows)} shards>"
    assert sum(row["records"] for row in rows) == len(list(yt8m.read_records(validation(world), batch_size=1)))
    assert rows.to_frame()["records"].sum() == sum(row["records"] for row in rows)


def test_a_report_has_figures_intervals_classes_and_thresholds(world: pathlib.Path) -> None:
    report = yt8m.evaluate(world / "runs/one", validation(world))
    assert list(report.figures) == ["GAP", "mAP", "Hit@1", "PERR", "loss"]
    for name, key in (("GAP", "gap"), ("mAP", "map"), ("Hit@1", "hit_at_one"), ("PERR", "perr")):
        assert report[name] == report[key] == report.figures[name] > 0.6
        assert report.get(name) == report[key]
        low, high = report.intervals[name]
        assert 0 < low < high <= 1
    assert sorted(report.thresholds) == NAMES
    frame = report.to_frame()
    assert sorted(frame["name"]) == NAMES
    assert frame["average_precision"].tolist() == [row["average_precision"] for row in report.classes]
    assert frame["threshold"].tolist() == [report.thresholds[name] for name in frame["name"]]
    assert f"GAP {report['GAP']:.4f}" in repr(report)
    assert "\n" not in repr(report)
    assert "<th style='text-align:left'>Hit@1</th>" in report._repr_html_()
    assert json.loads(json.dumps(report)) == report
    with pytest.raises(KeyError):
        report["gapp"]
    with yt8m.load(world / "runs/one") as model:
        plain = model.evaluate(validation(world))
        assert (plain.figures, plain.intervals) == (report.figures, {})


def test_predictions_as_a_data_frame_and_refusals_at_the_call(world: pathlib.Path) -> None:
    _, x = table(5)
    with yt8m.load(world / "runs/one") as model:
        frame = model.predict({"clip": x}, top_k=2).to_frame()
        assert frame.columns.tolist() == ["id", "index", "name", "score"]
        assert frame["id"].tolist() == [str(n) for n in range(5) for _ in range(2)]
        first = next(model.predict({"clip": x}, top_k=1)).classes[0]
        assert frame.loc[0, ["name", "score"]].tolist() == [first.name, first.score]
        for wrong in (
            {"clip": x[:, :5]},
            {"clap": x},
            {"clip": np.where(x > 0, np.nan, x)},
            {"clip": x[0]},
            [3],
            "none/*",
        ):
            with pytest.raises(yt8m.UsageError):
                model.predict(wrong)
        with pytest.raises(yt8m.UsageError, match="NaN"):
            model.predict({"clip": np.concatenate([np.zeros((300, 6), "f"), np.full((1, 6), np.nan, "f")])})
        text = repr(model)
        assert "LogisticModel" in text
        assert "clip of 6" in text
        assert "\n" not in text
        assert "LogisticModel" in model._repr_html_()


def test_a_run_is_shown_in_one_line(world: pathlib.Path) -> None:
    line, page = (world / "run.txt").read_text().splitlines()
    assert line.startswith(f"<run {world}/runs/one: finished at step 30; GAP 0.")
    assert "<td>finished</td>" in page


def test_runs_are_listed(world: pathlib.Path) -> None:
    (row,) = rows = yt8m.list_runs(world / "runs", sort="GAP")
    assert (row["run"], row["model"], row["step"]) == (f"{world}/runs/one", "LogisticModel", 30)
    assert rows.to_frame()["model"].tolist() == ["LogisticModel"]
    assert "LogisticModel" in rows._repr_html_()
    with pytest.raises(yt8m.UsageError, match="nowhere"):
        yt8m.list_runs(world / "nowhere")


def test_videos_to_label_next(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = yt8m.select(world / "runs/one", validation(world), tmp_path / "next.csv", count=7)
    assert len(rows) == 7
    ids = {video for batch in yt8m.read_records(validation(world)) for video in batch.ids}
    assert {row["video"] for row in rows} <= ids


@pytest.mark.heavy
@pytest.mark.long
def test_an_audit(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    audited = yt8m.audit(f"{world}/data/video/*/*.tfrecord", tmp_path / "audit", folds=2, num_epochs=2)
    assert audited["videos"] == 120
    assert os.path.exists(tmp_path / "audit/issues.csv")
    assert isinstance(audited["issues"], yt8m.ResultRows)


def test_a_page_of_an_evaluated_run(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run, page = shutil.copytree(world / "runs/one", tmp_path / "one"), tmp_path / "page.html"
    with pytest.raises(yt8m.RunError, match="eval"):
        yt8m.report(run, out=page)
    assert cli.main(["eval", f"--model={run}", f"--data={validation(world)}", "--run_once", "--report"]) == 0
    assert yt8m.report(run, out=page) == str(page)
    assert "<title>" in page.read_text()


def test_an_export_is_loaded(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = yt8m.export_model(world / "runs/one", tmp_path / "small.npz", format="npz")
    assert os.path.getsize(path) > 0


def test_options_are_refused_as_on_the_command_line(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    frame, x = table(20)
    with pytest.raises(yt8m.UsageError, match="shardz"):
        yt8m.make_records(frame, tmp_path / "data", x, shardz=3)
    with pytest.raises(yt8m.UsageError, match="count"):
        yt8m.select(world / "runs/one", validation(world), tmp_path / "next.csv", count="many")
    with pytest.raises(yt8m.UsageError, match="not an option"):
        yt8m.inspect(validation(world), help=True)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: yt8m.extract(__file__, extractors=None), "extractors is None"),
        (lambda: yt8m.extract(__file__, extractors=[3]), r"extractors is \[3\]"),
        (lambda: yt8m.extract(__file__, extractors="no_such_one"), "unknown extractor 'no_such_one'"),
        (lambda: yt8m.extract(["a.mp4"]), r"one path; .*\blist\b"),
        (lambda: yt8m.extract(None), "found a NoneType"),
        (lambda: yt8m.load(["runs/a"]), "found a list"),
        (lambda: yt8m.evaluate(None, "a.tfrecord"), "found a NoneType"),
        (lambda: yt8m.inspect(None), "found a NoneType"),
        (lambda: yt8m.inspect([3]), "found a int"),
        (lambda: yt8m.report({"a": 1}), "found a dict"),
        (lambda: yt8m.list_runs(5), "found a int"),
        (lambda: yt8m.read_records(3), r"list of patterns; .*\bint\b"),
        (lambda: yt8m.read_records([b"a"]), r"list of patterns; .*\blist\b"),
        (lambda: yt8m.read_records(None), "no file is named"),
        (lambda: yt8m.fit(), "give train_data_pattern, or data"),
        (lambda: yt8m.fit(data="/no/*.tfrecord"), "^data='/no/\\*.tfrecord': no file matches"),
        (lambda: yt8m.fit(lr=3), r"^unknown option lr; .*base_learning_rate[?]$"),
        (lambda: yt8m.make_records("/no.csv", "o"), r"^table='/no\.csv': .*no such file"),
        (lambda: yt8m.extract("/no.mp4", extractors="inception"), "/no.mp4"),
    ],
)
def test_arguments_of_another_type_are_refused(call: Callable[[], object], problem: str) -> None:
    with pytest.raises(yt8m.UsageError, match=problem):
        call()


def test_a_name_alone_is_a_list_of_one(world: pathlib.Path) -> None:
    with yt8m.load(world / "runs/one") as model:
        with pytest.raises(yt8m.UsageError, match="no_such_module:Metric"):
            model.evaluate(validation(world), metrics="no_such_module:Metric")
        with pytest.raises(yt8m.UsageError, match="unknown extractor 'no_such_one'"):
            model.predict_video(__file__, extractors="no_such_one")


@pytest.mark.parametrize("name", [None, "video_id"])
def test_the_index_of_a_data_frame_has_the_ids(name: str | None, tmp_path: pathlib.Path) -> None:
    frame, x = table(20)
    indexed = frame.set_index("id").rename_axis(name)
    yt8m.make_records(indexed, tmp_path / "data", list(x), splits={"train": 1.0})
    ids = [video for batch in yt8m.read_records(f"{tmp_path}/data/video/train/*.tfrecord") for video in batch.ids]
    assert sorted(ids) == sorted(frame["id"])


def test_messages_name_arguments_in_place_of_files(tmp_path: pathlib.Path) -> None:
    frame, x = table(20)
    for wrong, array, problem in (
        (frame.drop(columns="id"), x, "^table has no column 'id'"),
        (frame.assign(id=["v0"] * 20), x, "table, row 2: row 1"),
        (frame, [x[0], x[1, :2]], r"^array: .*\[2\] and \[6\]"),
        ({"id": ["a"], "labels": ["b"]}, x, "^array has 20 rows and table 1"),
    ):
        with pytest.raises((yt8m.UsageError, yt8m.RunError), match=problem) as caught:
            yt8m.make_records(wrong, tmp_path / "data", array)
        assert "yt8m-tables-" not in str(caught.value)


FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)
LABELS = [["cat"], ["dog", "cat"], ["dog"], ["cat"]]


@pytest.mark.parametrize(
    ("table", "array"),
    [
        ([{"id": name, "labels": labels} for name, labels in zip("abcd", LABELS, strict=True)], FEATURES.tolist()),
        ({"id": list("abcd"), "labels": LABELS}, list(FEATURES)),
        ({"id": np.array(list("abcd")), "labels": LABELS}, FEATURES),
        ({"id": list("abcd"), "labels": LABELS, "features": list(FEATURES)}, None),
    ],
)
def test_rows_and_columns_of_python_are_a_table(tmp_path: pathlib.Path, table: Any, array: Any) -> None:
    yt8m.make_records(table, tmp_path / "out", array, splits={"train": 1.0}, bits=32)
    (batch,) = yt8m.read_records(f"{tmp_path}/out/video/train/*.tfrecord")
    rows = ["abcd".index(name) for name in batch.ids]
    np.testing.assert_array_equal(batch.features["features"], FEATURES[rows])
    np.testing.assert_array_equal(batch.labels, [["cat" in LABELS[row], "dog" in LABELS[row]] for row in rows])


@pytest.mark.parametrize(
    ("table", "array", "problem"),
    [
        ({"id": ["a"], "labels": LABELS}, FEATURES, "id 1, labels 4"),
        ({"id": ["a"], "labels": 3}, FEATURES, "each column"),
        ([{"id": {1}, "labels": "cat"}], FEATURES, r"cell .*\bset\b"),
        ({"id": list("abcd"), "labels": LABELS}, [[[1, 2], [3]]] * 4, "different numbers of values"),
        ({"id": list("abcd"), "labels": LABELS}, [[1, 2], [3]], r"different shapes, such as \[1\] and \[2\]"),
        ({"id": list("abcd"), "labels": LABELS}, np.arange(1e6), "^array=array.{,50}: expected a text"),
    ],
)
def test_rows_and_arrays_that_do_not_fit_are_refused(
    tmp_path: pathlib.Path, table: Any, array: Any, problem: str
) -> None:
    with pytest.raises(yt8m.UsageError, match=problem):
        yt8m.make_records(table, tmp_path / "out", array)


def test_columns_are_named_as_python_has_them(tmp_path: pathlib.Path) -> None:
    frame, x = table(40)
    marks = frame.assign(**{name: [int(name in names) for names in frame["labels"]] for name in NAMES}, fold=0)
    marks.loc[::3, "fold"] = 1
    marks = marks.drop(columns="labels")
    with pytest.raises(yt8m.UsageError, match=r"columns='unused=fold' .*no class.*columns='unused='"):
        yt8m.make_records(marks, tmp_path / "a", x, splits={"train": 1.0})
    for number, columns in enumerate([{"unused": "fold"}, "unused=fold", {"labels": list(NAMES)}]):
        made = yt8m.make_records(marks, tmp_path / f"b{number}", x, splits={"train": 1.0}, columns=columns)
        assert made["classes"] == len(NAMES)
    nameless = frame.assign(id=[f"a b {n % 20}" for n in range(40)]).rename(columns={"id": "which one"})
    with pytest.raises(yt8m.UsageError, match="as in columns='id=COLUMN'"):
        yt8m.make_records(nameless, tmp_path / "c", x)


def test_a_frame_that_names_a_column_twice_is_refused(tmp_path: pathlib.Path) -> None:
    frame, x = table(20)
    frame.columns = ["id", "id"]
    with pytest.raises(yt8m.UsageError, match=r"table .*twice: id,id;"):
        yt8m.make_records(frame, tmp_path, x)
