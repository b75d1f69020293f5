"""A vocabulary of one's own travels with the run: from the data into all that is made of it, and none other gets in."""

from __future__ import annotations

import csv
import dataclasses
import json
import pathlib
import re
import shutil
import tarfile

import numpy as np
import pytest
from reader_records import video_record, write_shard

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, scoring, storage, train
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.records.opened_data import open_data
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Service

NAMES = ["cat [b]", "dog", "bird"]
MODEL = ["--model=LogisticModel", "--feature_names=clip", "--feature_sizes=4", "--batch_size=8"]


def write_data(folder: str, names: list[str] | None = None) -> str:
    """Videos whose features tell their class, with their names; returns the pattern of the shards."""
    draw = np.random.default_rng(1)
    records = []
    for row in range(24):
        clip = draw.normal(scale=0.1, size=4)
        clip[row % 3] += 1
        records.append(video_record(id=[b"v%02d" % row], labels=[row % 3], clip=clip.astype("f4")))
    here = pathlib.Path("shard.tfrecord")
    with storage.write_atomic(f"{folder}/video/train/a.tfrecord") as file:
        file.write(pathlib.Path(write_shard(here, records)).read_bytes())
    here.unlink()
    if names:
        counted = dataclasses.replace(vocabulary.of_names(names), counts=np.arange(len(names), 0, -1))
        vocabulary.write(f"{folder}/vocabulary.csv", counted)
    return f"{folder}/video/train/*.tfrecord"


def train_on(pattern: str, folder: str, *more: str, steps: int = 40) -> int:
    words = [*MODEL, f"--train_data_pattern={pattern}", f"--train_dir={folder}", "--base_learning_rate=0.5"]
    return train.main([*words, "--num_epochs=30", f"--max_steps={steps}", *more])


def evaluate(folder: str, pattern: str, *more: str) -> int:
    return evaluation.main([f"--train_dir={folder}", f"--eval_data_pattern={pattern}", "--run_once", *more])


def names_in(path: pathlib.Path) -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        return [row["name"] for row in csv.DictReader(file)]


def unpack_names(archive: tarfile.TarFile, folder: pathlib.Path) -> None:
    content = archive.extractfile("vocabulary.csv")
    assert content is not None
    folder.mkdir(exist_ok=True)
    (folder / "vocabulary.csv").write_bytes(content.read())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with `run`, trained on `data` and evaluated; `other` has the same data with two names exchanged."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_data("other", ["cat [b]", "bird", "dog"])
        write_data("nameless")
        pattern = write_data("data", NAMES)
        assert train_on(pattern, "run") == 0
        assert evaluate("run", pattern, "--report") == 0
        words = ["--train_dir=run", f"--input_data_pattern={pattern}", "--output_model_tgz=model.tgz"]
        assert inference.main(words) == 0
        assert cli.main(["export", "--run=run", "--out=exported"]) == 0
    return folder


@pytest.fixture
def here(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(place)
    return place


@pytest.mark.promise("X2")
def test_it_is_copied_into_all_that_is_made_of_the_run(here: pathlib.Path) -> None:
    assert run_dir.read("run").config.data.num_classes == 3
    assert run_dir.read("run").config.data.vocabulary == "data/vocabulary.csv"
    with tarfile.open("model.tgz") as archive:
        unpack_names(archive, here / "unpacked")
    folders = ["run", "run/export/40/assets", "run/inference_model", "exported", "exported/saved_model/assets"]
    for folder in [*folders, "exported/inference_model", "unpacked"]:
        assert names_in(here / folder / "vocabulary.csv") == NAMES
    for folder in ("run/export/40", "run/inference_model", "exported"):
        assert "## Classes\n\n```\n0: cat [b]\n1: dog\n2: bird\n```\n" in (here / folder / "README.md").read_text()


def test_the_asset_is_known_to_tensorflow_and_names_no_folder(here: pathlib.Path) -> None:
    content = (here / "run/export/40/saved_model.pb").read_bytes()
    assert str(here).encode() not in content
    with tf.Session(graph=tf.Graph()) as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], str(here / "run/export/40"))
    (packed,) = loaded.collection_def["saved_model_assets"].any_list.value
    asset = tf.MetaGraphDef().asset_file_def.add()
    assert packed.Unpack(asset)
    assert (asset.filename, asset.tensor_info.name) == ("vocabulary.csv", "vocabulary:0")


def test_figures_and_pages_have_its_names(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads((here / "run/eval/report.json").read_text())
    assert [row["name"] for row in report["classes"]] == NAMES
    page = (here / "run/eval/report.html").read_text()
    assert sum(name in page for name in NAMES) >= 2  # the best two; none with an AP of 1.0 is among the worst
    assert "Vehicle" not in page
    assert evaluate("run", "data/video/train/*.tfrecord") == 0
    table = capsys.readouterr().out
    assert all(f"best: {name} ({index})" in table for index, name in enumerate(NAMES))


@pytest.mark.heavy
def test_its_counts_divide_the_classes_into_head_middle_and_tail(
    here: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pattern = "data/video/train/*.tfrecord"
    assert evaluate("run", pattern, "--eval_dir=apart") == 0
    shown = capfd.readouterr()
    report = json.loads(pathlib.Path("apart/eval/report.json").read_text())
    with yt8m.load("run") as model:
        paths = {"checkpoint": str(pathlib.Path(report["checkpoint"]).absolute())}  # absolute from `load` on
        assert model.evaluate(pattern) == report | paths
    (line,) = pathlib.Path("apart/eval/metrics.jsonl").read_text().splitlines()
    (events,) = pathlib.Path("apart/eval").glob("events.*")
    told = {v.tag: v.simple_value for e in tf.train.summary_iterator(str(events)) for v in e.summary.value}
    for row, part in zip(report["classes"], ("head", "middle", "tail"), strict=True):  # a class each
        assert report[f"map_{part}"] == row["average_precision"]
        assert report[f"gap_{part}"] == pytest.approx(row["average_precision"])
        assert json.loads(line)[f"GAP {part}"] == report[f"gap_{part}"]
        assert told[f"Epoch/Eval_MAP_{part}"] == pytest.approx(report[f"map_{part}"])
        assert f"mAP {part}" in shown.out
    assert "GAP:" in shown.err
    assert "tail" not in shown.err  # the line in the log stays short
    assert cli.main(["runs", "."]) == 0
    assert "mAP tail" not in capfd.readouterr().out
    assert cli.main(["runs", ".", "--sort=map_tail"]) == 0
    assert "mAP tail" in capfd.readouterr().out


@pytest.mark.heavy
def test_a_run_may_be_chosen_by_its_tail(here: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="absl")
    pattern = "data/video/train/*.tfrecord"
    words = [f"--eval_data_pattern={pattern}", "--best_metric=map_tail", "--label_loss=LogitAdjustmentLoss"]
    assert train_on(pattern, "by_tail", *words, steps=4) == 0
    rows = map(json.loads, pathlib.Path("by_tail/metrics.jsonl").read_text().splitlines())
    validated = [row for row in rows if row.get("mode") == "validate"]
    assert all({"GAP head", "mAP tail"} <= row.keys() for row in validated)
    best = json.loads(pathlib.Path("by_tail/best/best.json").read_text())
    assert best["metric"] == "mAP tail"
    assert best["figures"]["mAP tail"] == max(row["mAP tail"] for row in validated)
    (line, *_) = [record.getMessage() for record in caplog.records if "validation at step" in record.getMessage()]
    assert "mAP tail: " in line
    assert "GAP head" not in line


def test_predictions_have_its_names(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", "--model=run", "--count=3", "data/video/train/a.tfrecord"]) == 0
    told = capsys.readouterr().out
    assert [line.split("labels: ")[1] for line in told.splitlines() if "labels: " in line] == NAMES
    assert cli.main(["inspect", "data/video/train/a.tfrecord"]) == 0
    assert "cat [b] (0): 8, dog (1): 8, bird (2): 8" in capsys.readouterr().out
    assert cli.main(["inspect", "--json", "nameless/video/train/a.tfrecord", "--num_classes=3"]) == 0
    (shard,) = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in shard["labels"]["most_frequent"]] == ["class 0", "class 1", "class 2"]


def test_the_service_answers_with_its_names(here: pathlib.Path) -> None:
    answer = ("v", np.array([0.2, 0.1, 0.7], np.float32))
    with scoring.open("run") as model:
        service = Service(model, ServeConfig(train_dir="run"))
        service.close()
        assert [row["name"] for row in service._as_json(answer, 2)["classes"]] == ["bird", "cat [b]"]
        with pytest.raises(UsageError, match=r"class 1 is 'dog' in run, and 'bird' in other/vocabulary\.csv"):
            Service(model, ServeConfig(train_dir="run", vocabulary="other/vocabulary.csv"))


def test_python_has_its_names(here: pathlib.Path) -> None:
    told = f"class 1 is 'dog' in {{}}, and 'bird' in {here}/other/vocabulary.csv"
    for path, where in (("run", "run"), ("exported/saved_model", "exported/saved_model"), ("model.tgz", "")):
        with yt8m.load(path) as model:
            assert model.vocabulary.names == tuple(NAMES)
            videos = list(model.predict("data/video/train/a.tfrecord", top_k=1))
            assert [video.classes[0].name for video in videos[:3]] == NAMES
            for other in ("other/video/train/a.tfrecord", yt8m.read_records("other/video/train/a.tfrecord")):
                message = re.escape(told.format(here / where)) if where else "class 1 is 'dog'"
                with pytest.raises(UsageError, match=message):
                    list(model.predict(other))
            report = model.evaluate("data/video/train/a.tfrecord")
            assert [row["name"] for row in report["classes"]] == NAMES


def test_its_classes_are_searched(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("run", "run/export/40", "exported", "exported/saved_model"):
        assert cli.main(["vocabulary", "search", "d", f"--run={folder}"]) == 0
        found = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert found == [["class", "name", "training", "videos"], ["1", "dog", "2"], ["2", "bird", "1"]]
    for folder, told in (("data", "there is no vocabulary.csv, so its"), ("nowhere", "there is no such folder")):
        folder = folder if folder == "nowhere" else "nameless"
        assert cli.main(["vocabulary", "search", "d", f"--run={folder}"]) == 2
        assert told in capsys.readouterr().err


_DIFFERENCE = "class 1 is 'dog' in {}, and 'bird' in other/vocabulary.csv. A model keeps the classes"


@pytest.mark.promise("X2")
def test_data_in_another_order_are_refused(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in here.glob("run/**/*") if path.is_file()}
    other = "other/video/train/*.tfrecord"
    named = [f"--input_data_pattern={other}", "--output_file=never.csv"]
    asked = [
        ("run", train_on(other, "run", steps=50)),
        ("run", evaluate("run", other)),
        ("run", inference.main(["--train_dir=run", *named])),
        ("model.tgz", inference.main(["--input_model_tgz=model.tgz", *named])),
        ("run", cli.main(["predict", "--model=run", "other/video/train/a.tfrecord"])),
        ("run", cli.main(["export", "--run=run", "--out=never", f"--eval_data_pattern={other}"])),
    ]
    told = capsys.readouterr().err
    for where, status in asked:
        assert status == 2
        assert _DIFFERENCE.format(where) in told
    assert told.count("A model keeps the classes that it was trained with") == len(asked)
    assert {path: path.stat().st_mtime_ns for path in here.glob("run/**/*") if path.is_file()} == before
    assert not list(here.glob("never*"))


def test_a_named_file_must_number_the_classes_as_the_data_do(
    here: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("run", "never"):
        assert train_on("data/video/train/*.tfrecord", folder, "--vocabulary=other/vocabulary.csv") == 2
        told = "--vocabulary=other/vocabulary.csv: 'dog' is class 2 there, but class 1 in data/vocabulary.csv"
        assert told in capsys.readouterr().err
    assert not (here / "never").exists()


def test_new_classes_are_another_vocabulary(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = write_data("more", [*NAMES, "fish"])
    assert train_on(pattern, "run") == 2
    told = "class 3 is missing (the last one is 2) in run, and 'fish' in more/vocabulary.csv."
    assert told in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.promise("X2")
def test_a_run_that_was_moved_keeps_it(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("run", "moved")
    shutil.copytree("data/video", "elsewhere")
    pattern = "elsewhere/train/*.tfrecord"
    assert evaluate("moved", pattern) == 0
    assert train_on(pattern, "moved", steps=42) == 0
    assert names_in(here / "moved/vocabulary.csv") == names_in(here / "moved/export/42/assets/vocabulary.csv") == NAMES
    assert "the names of the 3 classes come from moved/vocabulary.csv" in capsys.readouterr().err
    assert train_on("other/video/train/*.tfrecord", "moved", "--start_new_model") == 0
    assert names_in(here / "moved/vocabulary.csv") == ["cat [b]", "bird", "dog"]


@pytest.mark.heavy
def test_averages_and_ensembles_have_it(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "data/video/train/*.tfrecord"
    assert train_on(pattern, "second", "--save_checkpoint_steps=20", "--seed=2") == 0
    assert cli.main(["average-checkpoints", "--train_dir=second", "--last=2", "--out=averaged"]) == 0
    assert cli.main(["ensemble", "--runs=run,averaged", "--export_dir=both", "--output_model_tgz=both.tgz"]) == 0
    with tarfile.open("both.tgz") as archive:
        unpack_names(archive, here / "both")
    for folder in ("averaged", "both/assets", "both"):
        assert names_in(here / folder / "vocabulary.csv") == NAMES
    assert train_on("other/video/train/*.tfrecord", "third") == 0
    capsys.readouterr()
    assert cli.main(["ensemble", "--runs=run,third", "--export_dir=never"]) == 2
    assert "class 1 is 'dog' in run, and 'bird' in third." in capsys.readouterr().err
    assert train_on(pattern, "student", "--teacher=third") == 2
    assert "class 1 is 'bird' in third, and 'dog' in data/vocabulary.csv. A teacher" in capsys.readouterr().err


def test_flags_that_contradict_it(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "data/video/train/*.tfrecord"
    told = "--num_classes=4, but data/vocabulary.csv names 3 classes; leave the flag out, or name another file"
    assert train_on(pattern, "fresh", "--num_classes=4") == 2
    assert told in capsys.readouterr().err
    assert cli.main(["inspect", "data/video/train/a.tfrecord", "--num_classes=4"]) == 2
    assert told in capsys.readouterr().err
    assert train_on(pattern, "fresh", "--vocabulary=none.csv") == 2
    assert "--vocabulary=none.csv: there is no such" in capsys.readouterr().err
    assert evaluate("run", pattern, "--num_classes=4") == 2
    assert re.search("--num_classes=4: .*trained with 3", capsys.readouterr().err)
    words = [*MODEL, "--train_dir=fresh", "--vocabulary=data/vocabulary.csv"]
    assert train.main(words) == 2
    assert "--train_data_pattern is missing" in capsys.readouterr().err
    assert not (here / "fresh").exists()


@pytest.mark.heavy
def test_a_run_without_one(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "nameless/video/train/*.tfrecord"
    assert train_on(pattern, "plain", "--num_classes=3") == 0
    assert not list((here / "plain").rglob("vocabulary.csv"))
    assert not (here / "plain/export/40/assets").exists()
    assert evaluate("plain", pattern) == 0
    assert "best: class 2 (2)" in capsys.readouterr().out
    assert "## Classes" not in (here / "plain/inference_model/README.md").read_text()
    # The data's vocabulary, or one that is named, serves a model that has none.
    assert cli.main(["predict", "--model=plain", "--count=1", "data/video/train/a.tfrecord"]) == 0
    assert "labels: cat [b]" in capsys.readouterr().out
    more = ["--vocabulary=other/vocabulary.csv", "--report"]
    assert evaluate("plain", pattern, *more) == 0
    assert evaluate("plain", pattern, *more, "--eval_dir=elsewhere") == 0
    assert "best: dog (2)" in capsys.readouterr().out
    for folder in ("plain", "elsewhere"):
        (here / folder / "eval/report.html").unlink()
        assert cli.main(["report", folder]) == 0
        page = (here / folder / "eval/report.html").read_text()
        assert "cat [b]" in page
        assert "class 0" not in page
    write_data("two", ["a", "b"])
    assert evaluate("plain", pattern, "--vocabulary=two/vocabulary.csv") == 2
    assert "two/vocabulary.csv names 2 classes, but plain has 3." in capsys.readouterr().err
    assert train_on(pattern, "plain", "--vocabulary=data/vocabulary.csv", steps=41) == 0
    assert names_in(here / "plain/vocabulary.csv") == NAMES


def test_a_damaged_one_is_named(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = write_data("broken")
    (here / "broken/vocabulary.csv").write_text("index,name\n0,cat\n0,dog\n")
    assert train_on(pattern, "fresh") == 1
    assert re.search(r"broken/vocabulary\.csv, line 3: .*index 0\b.*earlier line", capsys.readouterr().err)
    assert not (here / "fresh").exists()


@pytest.mark.heavy
def test_it_travels_through_a_bucket(
    bucket: str, here: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    pattern, other = write_data(f"{bucket}/data", NAMES), write_data(f"{bucket}/other", ["cat [b]", "bird", "dog"])
    folder = f"{bucket}/run"
    assert train_on(pattern, folder) == 0
    for path in (f"{folder}/vocabulary.csv", f"{folder}/export/40/assets/vocabulary.csv"):
        assert vocabulary.read(path).names == tuple(NAMES)
    assert evaluate(folder, pattern) == 0
    assert "best: bird (2)" in capsys.readouterr().out
    assert evaluate(folder, other) == 2
    assert f"class 1 is 'dog' in {folder}, and 'bird' in {bucket}/other/vocabulary.csv" in capsys.readouterr().err
    assert cli.main(["predict", f"--model={folder}", "--count=1", f"{bucket}/data/video/train/a.tfrecord"]) == 0
    assert "labels: cat [b]" in capsys.readouterr().out


def test_sample_data_have_theirs(here: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--train=8", "--validate=0", "--test=0", "--shards=1", "--num_classes=30"]
    assert cli.main(["sample-data", "--out_dir=sample", *words]) == 0
    written, known = vocabulary.read("sample/vocabulary.csv"), vocabulary.load()
    assert (written.names, written.verticals) == (known.names[:30], known.verticals[:30])
    np.testing.assert_array_equal(written.counts, known.counts[:30])
    assert open_data("sample/video/train/*.tfrecord").vocabulary.path == "sample/vocabulary.csv"
    shutil.copytree("data", "mine")
    assert cli.main(["sample-data", "--out_dir=mine", "--level=frame", *words]) == 2
    assert "mine/vocabulary.csv already exists" in capsys.readouterr().err
    assert names_in(here / "mine/vocabulary.csv") == NAMES
    assert not (here / "mine/frame").exists()
