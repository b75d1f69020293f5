"""What differs between runs: settings by name, figures with the paired bootstrap as a loop has it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
from reports import report_runs
from sklearn import metrics

from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.search_config import ModelSearchConfig
from yt8m.config.train_config import ModelConfig, OptimizerConfig, TrainConfig
from yt8m.eval_util import eval_samples
from yt8m.eval_util.resampling import Interval, interval
from yt8m.eval_util.videos import hashes
from yt8m.records import vocabulary
from yt8m.reports import differences
from yt8m.reports.loading import Run, load, same_videos

RESAMPLES = 60


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs with configs, the second trained by another version; and one without a config, on fewer videos."""
    made = []
    for seed, rate in ((1, 0.01), (2, 0.02)):
        folder = tmp_path_factory.mktemp(f"run{seed}")
        report_runs.make_run(folder, seed)
        search = ModelSearchConfig(quoted={"map": rate})
        data = DataConfig(data_pattern=f"data{seed}/*", num_classes=3862, vocabulary=f"data{seed}/names.csv")
        extractor = {"name": "onnx:net.onnx", "feature": "onnx", "seed": seed}
        data = dataclasses.replace(data, feature_names=("mean_onnx",), feature_sizes=(48,), extractors=(extractor,))
        model, optimizer = ModelConfig("MoeModel", {"moe_num_mixtures": seed}), OptimizerConfig(base_learning_rate=rate)
        settings = {
            "data": data,
            "model": model,
            "optimizer": optimizer,
            "search": search,
            "max_steps": seed - 1 or None,
        }
        run_dir.write(str(folder), TrainConfig(train_dir=str(folder), **settings))
        made.append(folder)
    path = made[1] / "config.json"
    written = json.loads(path.read_text())
    written["versions"]["tensorflow"] = "1.15"
    path.write_text(json.dumps(written))
    other = tmp_path_factory.mktemp("other")
    report_runs.make_run(other, 3, seen=320)
    return [str(folder) for folder in (*made, other)]


@pytest.fixture(scope="module")
def runs(folders: list[str]) -> list[Run]:
    return load(folders, RESAMPLES, 0)


def test_settings_that_differ_are_listed_and_no_others(runs):
    versions = run_dir.versions()
    found = {(one.kind, one.name): one.values for one in differences.settings(runs[:2])}
    assert found == {
        ("config", "base_learning_rate"): ["0.01", "0.02"],
        ("config", "moe_num_mixtures"): ["1", "2"],
        ("config", "max_steps"): ["not set", "1"],
        ("data", "train_data_pattern"): ["data1/*", "data2/*"],
        ("version at training", "tensorflow"): [versions["tensorflow"], "1.15"],
    }


def test_a_run_without_a_config_lacks_its_settings(runs):
    found = {(one.kind, one.name): one.values for one in differences.settings(runs)}
    assert found["config", "base_learning_rate"] == ["0.01", "0.02", "—"]
    assert found["training", "config.json"] == [*["was read"] * 2, "is missing, so its settings are not compared"]
    assert ("config", "batch_size") not in found  # the two runs that have a config have the same
    assert found["evaluation", "videos"] == ["80", "80", "320"]
    assert ("evaluation", "hash of the sampled videos") not in found


@pytest.mark.parametrize("checkpoint", ["model.ckpt-90", "best/model.ckpt-90"])
def test_a_folder_of_eval_dir_has_the_config_and_the_curves_of_the_run_of_its_checkpoint(
    folders, tmp_path: pathlib.Path, checkpoint
):
    """The first run again, evaluated into a folder of its own."""
    report_runs.make_run(tmp_path, 1)
    (tmp_path / "metrics.jsonl").unlink()
    whole = eval_samples.read(str(tmp_path))
    figures = {**whole.figures, "checkpoint": f"{folders[0]}/{checkpoint}"}
    eval_samples.write(str(tmp_path), whole._replace(figures=figures))
    first, other = load([folders[0], str(tmp_path)], 10, 0)
    assert differences.settings([first, other]) == []
    assert other.training.folder == folders[0]
    assert other.folder == str(tmp_path)
    assert list(other.curves) == list(first.curves) == ["loss", "GAP", report_runs.HOSTILE]


def test_the_names_of_the_classes_are_compared_not_the_paths_of_their_files(folders, tmp_path: pathlib.Path):
    shutil.copytree(folders[0], tmp_path / "renamed")
    vocabulary.write(str(tmp_path / "renamed/vocabulary.csv"), vocabulary.of_names([f"n{i}" for i in range(3862)]))
    (setting,) = differences.settings(load([folders[0], str(tmp_path / "renamed")], 10, 0))
    assert (setting.kind, setting.name) == ("data", "hash of the names of the classes")
    assert setting.values[0] == "YouTube-8M's" != setting.values[1]


def test_another_model_is_one_setting(folders, tmp_path: pathlib.Path):
    shutil.copytree(folders[0], tmp_path / "other")
    whole = eval_samples.read(folders[0])
    figures = {**whole.figures, "model": "LogisticModel"}
    eval_samples.write(str(tmp_path / "other"), whole._replace(figures=figures))
    config = run_dir.read_config(f"{folders[0]}/config.json")
    run_dir.write(str(tmp_path / "other"), dataclasses.replace(config, model=ModelConfig("LogisticModel", {})))
    settings = differences.settings(load([folders[0], str(tmp_path / "other")], 10, 0))
    assert [(setting.kind, setting.name) for setting in settings if "LogisticModel" in setting.values] == [
        ("model", "model")
    ]


def test_without_any_config_only_this_is_said(folders, runs):
    found = {(one.kind, one.name) for one in differences.settings([runs[0], runs[2]])}
    assert found == {("evaluation", "videos"), ("training", "config.json")}


def gap(seed: int, rows: np.ndarray) -> float:
    """GAP of these videos; copies of a video tie, and are taken one after another, as their order does not matter."""
    scores, labels = report_runs.data(seed)
    truth, values = labels[rows].ravel(), scores[rows].ravel()
    right = truth[np.argsort(-values, kind="stable")]
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())


def test_the_difference_of_gap_is_that_of_a_paired_bootstrap(runs):
    rows = {one.figure: one for one in differences.differing_figures(runs[0], runs[1])}
    every = np.arange(report_runs.VIDEOS)
    scores = [report_runs.data(seed) for seed in (1, 2)]
    gaps = [metrics.average_precision_score(labels.ravel(), values.ravel()) for values, labels in scores]
    assert rows["GAP"].values == tuple(f"{one:.4f}" for one in gaps)
    assert rows["GAP"].difference == f"{gaps[1] - gaps[0]:+.4f}"
    order = np.argsort(hashes([b"v%d" % number for number in every]))
    draw = np.random.default_rng(0)
    sets = [order[draw.integers(len(every), size=len(every))] for _ in range(RESAMPLES)]
    expected = interval(gaps[1] - gaps[0], np.array([gap(2, one) - gap(1, one) for one in sets]), least=-1.0)
    assert rows["GAP"].bounds == pytest.approx(expected, abs=1e-3)
    told = "may be chance" if expected.low <= 0 <= expected.high else "is better"
    assert told in rows["GAP"].verdict


def test_runs_that_are_the_same_and_runs_on_other_videos(runs):
    same = {one.figure: one.verdict for one in differences.differing_figures(runs[0], runs[0])}
    assert set(same.values()) == {"the same"}
    chosen = np.arange(70)
    other = runs[1]._replace(samples=runs[1].samples._replace(videos=runs[1].samples.videos.take(chosen), seen=70))
    found = {one.figure: one for one in differences.differing_figures(runs[0], other)}
    assert found["GAP"].bounds is None
    assert found["GAP"].verdict == "not comparable: 80 videos and 70, 70 of them common"
    assert found["GAP"].difference == "—"
    order = np.argsort(hashes([b"v%d" % number for number in range(report_runs.VIDEOS)]))[chosen]
    common = found["GAP of the 70 common videos"]
    assert common.values == tuple(f"{gap(seed, order):.4f}" for seed in (1, 2))
    assert common.bounds is not None
    assert "not comparable" not in common.verdict
    assert {"mAP of the 70 common videos", "Hit@1 of the 70 common videos"} <= found.keys()


def test_a_figure_of_a_run_without_labels_is_a_dash_with_the_reason_and_no_verdict(runs, tmp_path):
    report_runs.make_run(tmp_path, 1, labelled=False)
    (unlabelled,) = load([str(tmp_path)], RESAMPLES, 0)
    for first, other, place in ((runs[0], unlabelled, 1), (unlabelled, runs[0], 0)):
        found = {one.figure: one for one in differences.differing_figures(first, other)}
        for name in ("GAP", "Hit@1", "PERR", "mAP"):
            row = found[name]
            assert row.values[place] == "—"
            assert row.values[1 - place] not in ("—", "0.0000")
            assert (row.verdict, row.difference) == (f"{unlabelled.name}: no example has a label", "—")
    assert {one.verdict for one in differences.differing_figures(unlabelled, unlabelled) if one.figure == "GAP"} == {
        "no example has a label"
    }


def test_common_videos_with_other_labels_and_none_at_all(runs):
    samples = runs[1].samples
    labels = samples.videos.labels.copy()
    labels[: int(samples.videos.num_labels[0])] = (labels[: int(samples.videos.num_labels[0])] + 1) % 3862
    changed = dataclasses.replace(samples.videos, labels=labels)
    rows = differences.differing_figures(runs[0], runs[1]._replace(samples=samples._replace(videos=changed)))
    assert rows[0].verdict == "not comparable: 80 videos and 80, 80 of them common, 1 of these with other labels"
    assert any(one.figure == "GAP of the 79 common videos" for one in rows)
    elsewhere = dataclasses.replace(samples.videos, keys=samples.videos.keys + np.uint64(1))
    rows = differences.differing_figures(runs[0], runs[1]._replace(samples=samples._replace(videos=elsewhere)))
    assert {one.verdict for one in rows} == {"not comparable: 80 videos and 80, 0 of them common"}


def test_videos_with_other_labels_are_not_the_same(runs):
    samples = runs[0].samples
    other = dataclasses.replace(samples.videos, labels=(samples.videos.labels + 1) % samples.num_classes)
    assert not same_videos(runs[0], runs[0]._replace(samples=samples._replace(videos=other)))
    assert not same_videos(runs[0], runs[0]._replace(samples=samples._replace(num_classes=samples.num_classes + 1)))
    assert same_videos(runs[0], runs[0])


def test_a_bound_of_zero_may_be_chance_whatever_its_rounding(runs, monkeypatch: pytest.MonkeyPatch):
    """One run is better on two videos and worse on none: some resamples have neither."""
    monkeypatch.setattr(differences, "_bounds", lambda *_: Interval(2.2e-16, 0.025))
    figures = {**runs[0].samples.figures, "gap": runs[0].samples.figures["gap"] + 0.01}
    other = runs[0]._replace(samples=runs[0].samples._replace(figures=figures))
    assert {one.figure: one.verdict for one in differences.differing_figures(runs[0], other)}["GAP"] == "may be chance"


def test_a_difference_beyond_chance_names_the_better_run(runs):
    resampled = {key: values + 0.2 for key, values in runs[0].resampled.items()}
    figures = {**runs[0].samples.figures, "gap": runs[0].samples.figures["gap"] + 0.2}
    better = runs[0]._replace(name="b", resampled=resampled, samples=runs[0].samples._replace(figures=figures))
    for first, second in ((runs[0], better), (better, runs[0])):
        assert {one.figure: one.verdict for one in differences.differing_figures(first, second)}["GAP"] == "b is better"


@pytest.mark.heavy
def test_the_page_begins_with_what_differs(folders, tmp_path: pathlib.Path):
    words = [*folders[:2], f"--output={tmp_path}/both.html", "--resamples=10"]
    assert cli.main(["report", *words]) == 0
    page = (tmp_path / "both.html").read_text()
    assert 0 < page.index("What differs") < page.index("moe_num_mixtures") < page.index("Difference from")
    assert page.index("Difference from") < page.index('class="figures"')
