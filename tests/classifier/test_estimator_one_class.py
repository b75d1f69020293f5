"""A `Classifier` of videos with one class each: the saved run gives the same scores and tags, in every program."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import pickle
import shutil
from typing import Any

import numpy as np
import pytest

import yt8m
from yt8m import scoring
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.errors import UsageError
from yt8m.export.derived_runs import check_calibrated
from yt8m.export.onnx_file import OnnxFile
from yt8m.export.web_page import page_facts
from yt8m.records.thresholds import Tagger
from yt8m.records.vocabulary import of_names
from yt8m.reports.timeline_page import Timeline, _rows
from yt8m.runs.opened_run import open_run
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Service

FEW_STEPS = {"max_steps": 30, "batch_size": 64, "base_learning_rate": 0.05, "input_transform": "standardize"}
FEW_STEPS |= {"export_model_steps": 0}
NAMES = np.array(["ant", "bee", "cat", "dog"])


def make_videos(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Videos of one of four classes, which overlap: float32 [count, 5], and names [count]."""
    draw, centres = np.random.default_rng(seed), np.random.default_rng(7).normal(size=(4, 5))
    classes = draw.integers(0, 4, count)
    return (centres[classes] + 1.2 * draw.normal(size=(count, 5))).astype("f"), NAMES[classes]


X, Y = make_videos(160)
NEW, TRUTH = make_videos(60, seed=1)


@pytest.fixture(scope="module")
def fitted() -> yt8m.Classifier:
    return yt8m.Classifier(model="LogisticModel", options=FEW_STEPS).fit(X, Y)


@pytest.fixture(scope="module")
def saved(fitted: yt8m.Classifier, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("saved") / "run"
    fitted.save(folder)
    return folder


def test_the_saved_run_gives_the_same_scores_and_tags(fitted: yt8m.Classifier, saved: pathlib.Path) -> None:
    scores, best = fitted.predict_proba(NEW), fitted.predict(NEW)
    assert scores.sum(1) == pytest.approx(np.ones(60), abs=1e-6)
    assert run_dir.read(str(saved), trust_code=True).config.data.one_class  # type: ignore[union-attr]
    with yt8m.load(saved) as model:
        assert model.predict_proba(NEW).tolist() == scores.tolist()
        assert model.tags(NEW) == fitted.tags(NEW) == [[name] for name in best]
        assert [video.classes[0].name for video in model.predict(NEW, top_k=1)] == best.tolist()
        assert model.evaluate(NEW, TRUTH.reshape(-1, 1).tolist())["Hit@1"] == fitted.score(NEW, TRUTH)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict_proba(NEW).tolist() == scores.tolist()


@pytest.mark.heavy
@pytest.mark.parametrize("form", ["saved_model", "onnx"])
def test_an_export_gives_the_same(
    fitted: yt8m.Classifier, saved: pathlib.Path, tmp_path: pathlib.Path, form: Any
) -> None:
    path = yt8m.export_model(saved, tmp_path / ("out.onnx" if form == "onnx" else "out"), format=form)
    with yt8m.load(path) as model:
        np.testing.assert_allclose(model.predict_proba(NEW), fitted.predict_proba(NEW), atol=1e-6)
        assert model.tags(NEW) == fitted.tags(NEW)
    if form == "onnx":
        facts = page_facts(OnnxFile(path))
        assert (facts["takes_best"], facts["thresholds"], facts["few_positives"]) == (True, None, None)


@pytest.mark.heavy
def test_a_chosen_model_has_thresholds_for_scores_that_add_up_to_one(tmp_path: pathlib.Path) -> None:
    classifier = yt8m.Classifier(budget=4, options={"label_loss": "CrossEntropyLoss"}).fit(X, Y)
    classifier.save(tmp_path / "run")
    with yt8m.load(tmp_path / "run") as model:
        assert model.predict_proba(NEW).tolist() == classifier.predict_proba(NEW).tolist()
        assert model.tags(NEW) == classifier.tags(NEW)
        assert list(model.thresholds.values()) == classifier.thresholds_.tolist()


def test_predict_prints_the_best_class(
    saved: pathlib.Path, tmp_path: pathlib.Path, fitted: yt8m.Classifier, capsys: Any
) -> None:
    np.save(tmp_path / "new.npy", NEW)
    words = ["predict", f"--model={saved}", "--tags", "--json", "--count=60", str(tmp_path / "new.npy")]
    assert cli.main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [[one["name"] for one in video["classes"]] for video in printed] == fitted.tags(NEW)
    assert not any("few_positives" in one for video in printed for one in video["classes"])


def test_the_log_names_thresholds_only_where_they_choose(
    saved: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = pathlib.Path(shutil.copytree(saved, tmp_path / "run"))
    (run / "eval").mkdir(exist_ok=True)
    (run / "eval/thresholds.csv").write_text("index,threshold\n" + "".join(f"{index},0.5\n" for index in range(4)))
    np.save(tmp_path / "new.npy", NEW)
    words = ["predict", f"--model={run}", "--tags", "--count=2", str(tmp_path / "new.npy")]
    origin, best = "the thresholds of the tags come from", "the tag of a video is its best class"
    assert cli.main(words) == 0
    said = capsys.readouterr().err
    assert (origin in said, best in said) == (False, True)
    assert cli.main([*words, f"--thresholds={run}/eval/thresholds.csv"]) == 0
    said = capsys.readouterr().err
    assert (origin in said, best in said) == (True, False)


def test_the_service_tags_the_best_class(saved: pathlib.Path, fitted: yt8m.Classifier) -> None:
    config = ServeConfig(train_dir=str(saved))
    with scoring.open(str(saved)) as scorer, contextlib.closing(Service(scorer, config)) as service:
        answers = [(str(row), scores) for row, scores in enumerate(fitted.predict_proba(NEW))]
        videos = service.content_of(answers, 1)["videos"]
    assert [[tag["name"] for tag in video["tags"]] for video in videos] == fitted.tags(NEW)


def test_a_file_that_is_named_and_a_guarantee_are_followed(saved: pathlib.Path, tmp_path: pathlib.Path) -> None:
    named = tmp_path / "named.csv"
    named.write_text("index,threshold\n" + "".join(f"{index},0.0\n" for index in range(4)))
    with scoring.open(str(saved)) as scorer:
        tagger = scorer.tagger()
        assert tagger is not None
        assert tagger.takes_best
        chosen = scorer.tagger(str(named))
        assert chosen is not None
        assert chosen.are_tags(np.arange(4, dtype="i4"), np.ones(4, "f")).all()


def test_a_run_without_the_fact_loads_as_before(saved: pathlib.Path, tmp_path: pathlib.Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    former = tmp_path / "former"
    former.mkdir()
    for path in saved.iterdir():
        if path.is_file():
            (former / path.name).write_bytes(path.read_bytes())
    del config["config"]["data"]["one_class"]
    (former / "config.json").write_text(json.dumps(config))
    with yt8m.load(former) as model, yt8m.load(saved) as other:
        raw = model.predict_proba(NEW)
        sums = raw.sum(1, keepdims=True)
        assert np.abs(sums - 1).max() > 0.05
        np.testing.assert_allclose(raw / sums, other.predict_proba(NEW), atol=1e-6)


@pytest.mark.heavy
def test_several_classes_a_video_are_none_of_this(tmp_path: pathlib.Path) -> None:
    classifier = yt8m.Classifier(model="LogisticModel", options=FEW_STEPS).fit(X, [[name] for name in Y])
    classifier.save(tmp_path / "run")
    saved = run_dir.read(str(tmp_path / "run"), trust_code=True)
    assert saved is not None
    assert not saved.config.data.one_class


def test_a_calibrated_run_is_refused(saved: pathlib.Path) -> None:
    run = open_run(str(saved), trust_code=True)
    with pytest.raises(UsageError, match=r"--calibrated_run .* one class"):
        check_calibrated(run)
    data = dataclasses.replace(run.config.data, one_class=False)
    check_calibrated(dataclasses.replace(run, config=dataclasses.replace(run.config, data=data)))


def test_the_best_class_of_each_part_is_marked_in_a_timeline() -> None:
    scores = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], np.float32)
    tagger = Tagger(np.zeros(3), -1, takes_best=True)
    rows = _rows(Timeline([0.0, 5.0], 10.0, scores), of_names(["a", "b", "c"]), tagger)
    marks = {row.name: [is_tag for *_, is_tag in row.cells] for row in rows}
    assert (marks["a"], marks["b"]) == ([True, False], [False, True])
    assert tagger.are_tags(np.array([[1, 0]], "i4"), np.array([[0.5, 0.2]], "f")).tolist() == [[True, False]]
