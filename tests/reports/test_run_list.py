"""`yt8m runs` on real runs: what each is, what differs, how good it is, and how it ended; and `train --config`."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import time
from typing import Any

import pytest
from own_clips import NAMES
from small_run import evaluate, run

from yt8m import storage
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.reports import run_list
from yt8m.runner.hooks import Callback
from yt8m.training import training_run


class KeepsACopy(Callback):
    """Copies the folder of the run in the middle, as a kill would leave it, and keeps what `yt8m runs` sees then."""

    seen: run_list.ListedRun

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.context.step == 8:
            folder = pathlib.Path(self.context.config.model_dir)
            KeepsACopy.seen = run_list.find_runs([str(folder)])[0]
            shutil.copytree(folder, folder.parent / "deep/er/killed")


class Fails(Callback):
    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.context.step == 2:
            raise RunError("the \x1b[31mdisk[/] burnt")


class Stops(Callback):
    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.context.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Runs that ended in each way; all but the first start from the config of the first."""
    root = tmp_path_factory.mktemp("work") / "runs"
    assert run(root / "a", f"--callbacks={__name__}:KeepsACopy", "--save_checkpoint_steps=5") == 0
    evaluate(root / "a", "--keep_best")
    (root / "a/vocabulary.csv").write_text("index,name\n" + "".join(f"{n},{NAMES[n % 3]} {n}\n" for n in range(10)))
    start = f"--config={root}/a/config.json"
    failing = ["train", start, f"--train_dir={root}/b", f"--callbacks={__name__}:Fails", "--base_learning_rate=0.02"]
    assert cli.main([*failing, "--parse_threads=1"]) == 1
    stopped = [
        "train",
        f"--config={root}/a",
        f"--train_dir={root}/c",
        f"--callbacks={__name__}:Stops",
        "--model=MoeModel",
    ]
    original = training_run.runner_config
    with pytest.MonkeyPatch.context() as patch:  # on a slow machine the save would outlast the grace, and end pytest
        patch.setattr(
            training_run, "runner_config", lambda *given: dataclasses.replace(original(*given), stop_grace_seconds=300)
        )
        assert cli.main([*stopped, "--moe_num_mixtures=3"]) == 143
    (root / "damaged").mkdir()
    (root / "damaged/config.json").write_text('{"config": {')
    return root


@pytest.fixture
def found(folder: pathlib.Path) -> dict[str, run_list.ListedRun]:
    return {os.path.relpath(one.folder, folder): one for one in run_list.find_runs([str(folder)])}


@pytest.mark.heavy
def test_runs_are_found_at_any_depth_and_their_parts_are_none(
    found: dict[str, run_list.ListedRun], folder: pathlib.Path
) -> None:
    assert (folder / "a/best/best.json").exists()
    assert (folder / "a/inference_model").is_dir()
    assert sorted(found) == ["a", "b", "c", "damaged", "deep/er/killed"]


@pytest.mark.heavy
def test_how_each_ended_is_known(found: dict[str, run_list.ListedRun], folder: pathlib.Path) -> None:
    assert KeepsACopy.seen.state == "running"
    assert (KeepsACopy.seen.step, KeepsACopy.seen.why) == (7, "")
    states = {name: (one.state, one.step, one.why) for name, one in found.items()}
    assert states["a"] == ("finished", 12, "")
    assert states["b"][0] == "failed"
    assert "disk[/] burnt" in states["b"][2]
    # The signal arrives within step 3 or the next one, after which the run is saved.
    last = max(int(path.stem.rpartition("-")[2]) for path in (folder / "c").glob("model.ckpt-*.index"))
    assert states["c"] == ("stopped", last, "stopped by a signal")
    assert 3 <= last < 12
    assert states["deep/er/killed"] == ("stopped", 7, "it recorded no end, so it was killed")
    assert states["damaged"][0] == "damaged"
    assert re.search(r"config\.json .*damaged", states["damaged"][2])


def test_a_lock_that_lives_means_running_and_one_that_was_left_does_not(folder: pathlib.Path) -> None:
    killed = folder / "deep/er/killed"
    assert (killed / "train.lock").exists()
    with run_dir.lock(str(killed)):
        assert run_list.find_runs([str(killed)])[0].state == "running"
    (killed / "train.lock").touch()
    assert run_list.find_runs([str(killed)])[0].state == "stopped"


def test_a_resumed_run_forgets_how_it_ended_before(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run_dir.write(str(tmp_path), run_dir.read(str(folder / "a")).config)
    run_dir.note_end(str(tmp_path), run_dir.Ended("failed", None, "why"))
    assert run_list.find_runs([str(tmp_path)])[0].state == "failed"
    run_dir.forget_end(str(tmp_path))
    run_dir.forget_end(str(tmp_path))
    assert run_list.find_runs([str(tmp_path)])[0].state == "stopped"
    assert not (folder / "deep/er/killed/ended.json").exists()


def test_what_differs_is_what_the_flags_said(found: dict[str, run_list.ListedRun]) -> None:
    names = {"a": "KeepsACopy", "b": "Fails", "c": "Stops", "deep/er/killed": "KeepsACopy"}
    differing = {name: dict(found[name].differing) for name in names}
    for name, callback in names.items():
        assert differing[name].pop("callbacks") == (f"{__name__}:{callback}",)
    others = {name: one for name, one in differing.items() if name != "b"}
    assert differing["b"] == {"base_learning_rate": 0.02, "parse_threads": 1}
    assert others == {name: {"base_learning_rate": 0.01, "parse_threads": None} for name in others}
    assert [found[name].model for name in sorted(names)] == ["LogisticModel"] * 2 + ["MoeModel", "LogisticModel"]


def test_the_best_evaluation_counts_and_a_training_batch_stands_in(
    found: dict[str, run_list.ListedRun], folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    report = json.loads((folder / "a/eval/report.json").read_text())
    assert found["a"].figures.source == "evaluation"
    assert found["a"].figures.step == 12
    assert found["a"].figures.values["GAP"] == report["gap"]
    assert found["a"].figures.values["mAP"] == report["map"]
    last = json.loads((folder / "c/metrics.jsonl").read_text().splitlines()[-1])
    assert (found["c"].figures.source, found["c"].figures.values["GAP"]) == ("training batch", last["GAP"])
    validated = tmp_path / "a"
    shutil.copytree(folder / "a", validated)
    rows = [(5, report["gap"] + 0.1, 3.0), (10, report["gap"] - 0.1, 2.0)]
    with (validated / "metrics.jsonl").open("a") as file:
        for step, gap, loss in rows:
            file.write(json.dumps({"step": step, "mode": "validate", "GAP": gap, "loss": loss}) + "\n")
    by_gap, by_loss = (run_list.find_runs([str(validated)], by)[0] for by in ("gap", "loss"))
    assert (by_gap.figures.step, by_gap.figures.values) == (5, {"GAP": rows[0][1], "loss": 3.0})
    assert by_gap.step == 12
    assert by_loss.figures.values["loss"] == min(2.0, report["loss"])
    # If the run means its best checkpoint, the figures are those of its weights, whatever the table is sorted by.
    saved = json.loads((validated / "config.json").read_text())
    saved["config"]["checkpoint"] = "best"
    (validated / "config.json").write_text(json.dumps(saved))
    of_meant = [run_list.find_runs([str(validated)], by)[0].figures for by in ("gap", "loss", "age")]
    assert [(figures.step, figures.values["GAP"]) for figures in of_meant] == [(12, report["gap"])] * 3
    saved["config"]["checkpoint"] = "last"
    (validated / "config.json").write_text(json.dumps(saved))
    # If the data have changed since the first of these validations, it no longer counts, although it is the higher one.
    told = {"begun": None, "metric": "GAP", "data": None, "first_compared": 1, "epochs": [0, 0]}
    history = told | {"validations": [{"step": step, "GAP": gap, "loss": loss} for step, gap, loss in rows]}
    (validated / "validation.json").write_text(json.dumps(history))
    assert run_list.find_runs([str(validated)], "gap")[0].figures.values["GAP"] == report["gap"]
    (validated / "validation.json").write_text("{")
    assert run_list.find_runs([str(validated)])[0].state == "damaged"


def test_a_run_that_chose_its_model_shows_what_may_be_quoted(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    chosen = tmp_path / "a"
    shutil.copytree(folder / "a", chosen)
    report = json.loads((chosen / "eval/report.json").read_text())
    saved = json.loads((chosen / "config.json").read_text())
    saved["config"]["search"]["quoted"] = {"map": 0.5, "gap": 0.6, "hit_at_one": 0.7, "videos": 9}
    (chosen / "config.json").write_text(json.dumps(saved))
    (chosen / "test.json").write_text(json.dumps({**report, "gap": report["gap"] / 2}))
    of_test = run_list.find_runs([str(chosen)])[0].figures
    assert (of_test.source, of_test.step, of_test.videos) == ("split test", 12, report["num_examples"])
    assert (of_test.values["GAP"], of_test.values["mAP"]) == (report["gap"] / 2, report["map"])
    (chosen / "test.json").unlink()
    assert run_list.find_runs([str(chosen)])[0].figures.source == "evaluation"
    for name in ("eval", "best"):
        shutil.rmtree(chosen / name)
    of_choice = run_list.find_runs([str(chosen)])[0].figures
    assert (of_choice.source, of_choice.step, of_choice.videos) == ("choice", 12, 9)
    assert of_choice.values == {"GAP": 0.6, "Hit@1": 0.7}
    (chosen / "test.json").write_text("{")
    assert run_list.find_runs([str(chosen)])[0].state == "damaged"


def test_what_an_evaluation_wrote_elsewhere_is_no_run(tmp_path: pathlib.Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/metrics.jsonl").write_text('{"step": 12, "mode": "eval", "GAP": 0.5}\n')
    assert [run.folder for run in run_list.find_runs([str(tmp_path)])] == [str(tmp_path / "eval")]
    (tmp_path / "eval/report.json").write_text("{}")
    assert not run_list.find_runs([str(tmp_path)])


def test_the_table_is_sorted_by_any_column(folder: pathlib.Path) -> None:
    def order(by: str) -> list[str]:
        return [os.path.relpath(one.folder, folder) for one in run_list.find_runs([str(folder)], by)]

    figures = {os.path.relpath(one.folder, folder): one.figures for one in run_list.find_runs([str(folder)])}
    steps = {os.path.relpath(one.folder, folder): one.step for one in run_list.find_runs([str(folder)])}
    batches = [name for name, one in figures.items() if one and one.source == "training batch"]
    best = sorted(batches, key=lambda name: -figures[name].values["GAP"])
    assert order("GAP") == order("gap") == order("Gap") == ["a", *best, "damaged"]
    assert order("HIT@1") == order("hit_at_one") == order("Hit@1")
    assert order("run") == order("Run") == ["a", "b", "c", "damaged", "deep/er/killed"]
    assert order("step") == ["a", *sorted(("deep/er/killed", "c"), key=lambda name: -steps[name]), "b", "damaged"]
    assert order("state")[0] == "damaged"
    os.utime(folder / "b/config.json", (time.time() + 60, time.time() + 60))
    assert order("age")[0] == "b"
    with pytest.raises(UsageError, match=r"--sort=GAPP: .*no such column.*did you mean GAP\?"):
        order("GAPP")


def test_the_command_prints_a_table_or_json(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    assert cli.main(["runs", "--json", "--sort=run"]) == 0
    told = {one["run"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(told) == [f"runs/{name}" for name in ("a", "b", "c", "damaged", "deep/er/killed")]
    assert told["runs/b"]["differs"]["base_learning_rate"] == 0.02
    assert (told["runs/a"]["state"], told["runs/a"]["step"], told["runs/a"]["figures_step"]) == ("finished", 12, 12)
    assert told["runs/damaged"]["model"] is None
    assert cli.main(["runs", "--sort=run"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["run", "model", "step"]
    assert [line.split()[0] for line in lines] == list(told)
    assert "base_learning_rate=0.02" in lines[1]
    assert [line.count("parse_threads=") for line in lines] == [0, 1, 0, 0, 0]  # the others were not given it
    assert "failed: the \\x1b[31mdisk[/] burnt" in lines[1]
    assert cli.main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"there is no run in {tmp_path}\n"
    assert cli.main(["runs", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_figures_of_different_videos_are_said_not_to_be_comparable(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, videos, positives in (("a", 12, 7), ("b", 60, 31), ("c", 60, 31), ("d", 60, 30)):
        run_dir.write(str(tmp_path / name), TrainConfig(train_dir=str(tmp_path / name)))
        report = {"global_step": 5, "num_examples": videos, "gap": 0.5, "metrics": [{"name": "GAP", "key": "gap"}]}
        report["classes"] = [{"class": 3, "name": "cat", "average_precision": 0.5, "positives": positives}]
        (tmp_path / name / "eval").mkdir()
        (tmp_path / name / "eval/report.json").write_text(json.dumps(report))

    def printed(*names: str) -> str:
        assert cli.main(["runs", *(str(tmp_path / name) for name in names), "--sort=GAP"]) == 0
        return capsys.readouterr().out

    note = printed("a", "b").splitlines()[-1]
    assert note.startswith("not comparable by GAP: evaluated on different videos, 12 videos")
    assert "; 60 videos" in note
    assert "not comparable" in printed("b", "d")
    assert "not comparable" not in printed("b", "c")
    assert cli.main(["runs", str(tmp_path), "--sort=run"]) == 0
    assert "not comparable" not in capsys.readouterr().out


def test_a_figure_of_videos_without_labels_is_a_dash_with_the_reason_and_never_the_worst(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [{"name": "GAP", "key": "gap"}, {"name": "mAP", "key": "map"}, {"name": "GAP tail", "key": "gap_tail"}]
    for name, classes, gap, mean in (("a", 3, 0.5, 0.25), ("b", 0, 0.0, None), ("c", 3, 0.0, 0.125)):
        run_dir.write(str(tmp_path / name), TrainConfig(train_dir=str(tmp_path / name)))
        report = {"global_step": 5, "num_examples": 12, "gap": gap, "map": mean, "gap_tail": None, "metrics": keys}
        (tmp_path / name / "eval").mkdir()
        (tmp_path / name / "eval/report.json").write_text(
            json.dumps({**report, "num_classes_with_positives": classes, "classes": []})
        )
    assert cli.main(["runs", str(tmp_path), "--sort=GAP"]) == 0
    header, *rows, note = (line for line in capsys.readouterr().out.splitlines() if line.strip(" ─-"))
    assert "GAP tail" not in header
    figures = {line.split()[0].rpartition("/")[2]: line.split()[2:4] for line in rows}
    assert [*figures.items()] == [("a", ["0.5000", "0.2500"]), ("c", ["0.0000", "0.1250"]), ("b", ["—", "—"])]
    assert note.startswith("— GAP, mAP: no example has a label (")
    assert note.endswith("/b)")
    assert run_list.find_runs([str(tmp_path / "b")])[0].as_json()["figures"] == {}


def test_a_long_message_is_cut_in_the_table_and_whole_in_json(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(folder / "a/config.json", tmp_path)
    message = f"{tmp_path}/model.ckpt-5 cannot be read: " + "more " * 50 + "end"
    run_dir.note_end(str(tmp_path), run_dir.Ended("failed", 5, message))
    assert cli.main(["runs", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["why"] == message
    assert cli.main(["runs", str(tmp_path)]) == 0
    state = capsys.readouterr().out.splitlines()[1].partition("failed:")[2]
    assert state == " model.ckpt-5 cannot be read: more more more more mo…"
    assert len(f"failed:{state}") == 60


def test_runs_in_a_bucket_are_listed_alike(folder: pathlib.Path, bucket: str) -> None:
    for inner, names in storage.tree(str(folder)).items():
        for name in names:
            if inner.endswith(("/a", "/a/eval", "/b", "/killed")) and name.endswith((".json", ".jsonl", ".index")):
                with storage.write_atomic(f"{bucket}/team/{os.path.relpath(inner, folder)}/{name}") as file:
                    file.write(storage.read_bytes(f"{inner}/{name}"))
    there = {one.folder.removeprefix(f"{bucket}/team/"): one for one in run_list.find_runs([f"{bucket}/team/"])}
    here = {os.path.relpath(one.folder, folder): one for one in run_list.find_runs([str(folder)])}
    assert sorted(there) == ["a", "b", "deep/er/killed"]
    for name, one in there.items():
        assert (one.state, one.step, one.model) == (here[name].state, here[name].step, here[name].model)
    assert there["a"].figures == here["a"].figures
    with run_dir.lock(f"{bucket}/team/b"):
        assert run_list.find_runs([f"{bucket}/team/b"])[0].state == "running"


def test_a_run_from_the_config_of_another_has_its_options_but_not_its_folder(folder: pathlib.Path) -> None:
    first, second = (json.loads((folder / f"{name}/config.json").read_text())["config"] for name in "ab")
    assert second["train_dir"] == f"{folder}/b"
    assert second["optimizer"].pop("base_learning_rate") == 0.02
    assert first["optimizer"].pop("base_learning_rate") == 0.01
    assert (first["data"].pop("parse_threads"), second["data"].pop("parse_threads")) == (None, 1)
    vocabularies = first["data"].pop("vocabulary"), second["data"].pop("vocabulary")
    assert vocabularies == ("", f"{folder}/a/vocabulary.csv")
    assert (folder / "b/vocabulary.csv").read_text() == (folder / "a/vocabulary.csv").read_text()
    for one in (first, second):
        del one["train_dir"], one["callbacks"]
    assert second == first


def test_data_that_differ_have_the_name_of_their_flag(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        config = TrainConfig(train_dir=str(tmp_path / name), data=DataConfig(data_pattern=f"{name}/*"))
        run_dir.write(config.train_dir, config)
    runs = run_list.find_runs([str(tmp_path)], "run")
    assert [run.differing for run in runs] == [{"train_data_pattern": "a/*"}, {"train_data_pattern": "b/*"}]


def test_extractors_are_a_name_and_a_size_in_the_table_and_whole_in_json(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {
        "name": "onnx:net.onnx",
        "feature": "onnx",
        "settings": {"mean": [0.5]},
        "weights": {"onnx_file": "ab" * 32},
    }
    for name, extractors in (("a", (entry,)), ("b", ())):
        data = DataConfig(feature_names=("mean_onnx",), feature_sizes=(48,), extractors=extractors)
        run_dir.write(str(tmp_path / name), TrainConfig(train_dir=str(tmp_path / name), data=data))
    assert cli.main(["runs", str(tmp_path), "--sort=run"]) == 0
    _, first, _ = capsys.readouterr().out.splitlines()
    assert first.endswith("extractors=onnx:net.onnx[48]")
    assert cli.main(["runs", str(tmp_path), "--sort=run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["differs"]["extractors"] == [entry]


def test_options_that_followed_the_data_are_marked_and_have_their_reason(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainConfig()
    origin = {"option": "batch_size", "value": 32, "reason": "80 videos"}
    search = dataclasses.replace(config.search, origins=(origin, {**origin, "option": "model", "value": "MoeModel"}))
    data = dataclasses.replace(config.data, batch_size=32)
    run_dir.write(str(tmp_path / "a"), dataclasses.replace(config, search=search, data=data))
    run_dir.write(str(tmp_path / "b"), config)
    assert cli.main(["runs", str(tmp_path), "--sort=run", "--json"]) == 0
    assert [one["chosen"] for one in json.loads(capsys.readouterr().out)] == [
        {"batch_size": "80 videos", "model": "80 videos"},
        {},
    ]
    assert cli.main(["runs", str(tmp_path), "--sort=run"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "batch_size=32 (chosen)" in first
    assert f"{config.model.model} (chosen)" in first
    assert "(chosen)" not in second
