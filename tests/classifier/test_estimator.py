"""`yt8m.Classifier`: trains, predicts, is copied, pickled and saved, and works within scikit-learn."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import average_precision_score

import yt8m
from yt8m.classifier.classifier_scores import mean_average_precision
from yt8m.config import run_dir
from yt8m.python_api.data_errors import DataError, in_python
from yt8m.records import thresholds
from yt8m.training.search.budget_clock import BudgetClock

FEW_STEPS = {"max_steps": 40, "batch_size": 64, "base_learning_rate": 0.1, "input_transform": "standardize"}
FEW_STEPS |= {"export_model_steps": 0}
QUICK: dict[str, Any] = dict(model="LogisticModel", options=FEW_STEPS)
NAMES = ["ant", "bee", "cat"]


def make_videos(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Videos of one or two of three classes: float32 [count, 6], and 0 or 1 [count, 3]."""
    draw, prototypes = np.random.default_rng(seed), np.random.default_rng(99).normal(size=(3, 6))
    labels = np.zeros((count, 3), int)
    labels[np.arange(count)[:, None], draw.integers(0, 3, (count, 2))] = 1
    return (labels @ prototypes + 0.2 * draw.normal(size=(count, 6))).astype("f"), labels


def names_of(labels: np.ndarray) -> list[list[str]]:
    return [[NAMES[index] for index in np.flatnonzero(row)] for row in labels]


X, Y = make_videos(240)


@pytest.fixture(scope="module")
def fitted() -> yt8m.Classifier:
    return yt8m.Classifier(**QUICK).fit(X, names_of(Y))


def test_scores_labels_and_tags_agree(fitted: yt8m.Classifier) -> None:
    x, y = make_videos(100, seed=1)
    scores = fitted.predict_proba(x)
    assert (scores.dtype, scores.shape, fitted.classes_.tolist()) == (np.float32, (100, 3), NAMES)
    assert (scores.min() >= 0, scores.max() <= 1) == (True, True)
    assert average_precision_score(y, scores) > 0.95
    labels = fitted.predict(x)
    assert labels.dtype == bool
    assert labels.tolist() == (scores >= fitted.thresholds_).tolist()
    assert (labels == y).mean() > 0.9
    for tags, row, values in zip(fitted.tags(x), labels, scores, strict=True):
        assert tags == [NAMES[index] for index in np.argsort(-values) if row[index]]


def test_score_is_the_map_that_scikit_learn_computes(fitted: yt8m.Classifier) -> None:
    x, y = make_videos(60, seed=2)
    expected = average_precision_score(y, fitted.predict_proba(x), average="macro")
    assert fitted.score(x, names_of(y)) == pytest.approx(expected)
    weights = np.random.default_rng(0).integers(0, 3, 60)
    expected = average_precision_score(y, fitted.predict_proba(x), average="macro", sample_weight=weights)
    assert fitted.score(x, y, sample_weight=weights) == pytest.approx(expected)


def test_mean_average_precision_of_tied_scores() -> None:
    draw = np.random.default_rng(3)
    scores, labels = draw.integers(0, 4, (50, 5)).astype("f"), draw.random((50, 5)) < 0.3
    labels[:, 4] = False  # a class without a video does not count
    expected = average_precision_score(labels[:, :4], scores[:, :4], average="macro")
    assert mean_average_precision(scores, labels, None) == pytest.approx(expected)


def test_scores_do_not_depend_on_the_other_videos(fitted: yt8m.Classifier) -> None:
    x, _ = make_videos(300, seed=4)
    scores = fitted.predict_proba(x)
    assert (fitted.predict_proba(x[::-1])[::-1] == scores).all()
    assert (fitted.predict_proba(x[123:124]) == scores[123:124]).all()


def test_thresholds_are_chosen_on_videos_that_were_held_out_and_lie_in_the_run(fitted: yt8m.Classifier) -> None:
    tagger = thresholds.read(f"{fitted._run.path}/eval/thresholds.csv")
    assert tagger.thresholds.tolist() == fitted.thresholds_.tolist()
    assert 0 < sum(tagger.positives) <= 2 * 30  # of 240 videos, 30 were held out
    assert not os.path.exists(fitted._run.data)


def test_a_saved_run_names_no_folder_of_the_training(fitted: yt8m.Classifier, tmp_path: pathlib.Path) -> None:
    fitted.save(tmp_path / "mine")
    config = (tmp_path / "mine/config.json").read_text()
    assert "(arrays in memory)" in config
    texts = [path.read_text() for path in (tmp_path / "mine").rglob("*") if path.suffix in (".json", ".jsonl", ".md")]
    assert [text for text in texts if "yt8m-classifier-" in text] == []
    assert json.loads(config)["config"]["train_dir"] == str(tmp_path / "mine")
    table = yt8m.list_runs(str(tmp_path / "mine"))
    assert "yt8m-classifier-" not in str(list(table))
    assert run_dir.is_own(str(tmp_path / "mine"))


def test_a_saved_classifier_is_a_run(fitted: yt8m.Classifier, tmp_path: pathlib.Path) -> None:
    fitted.save(tmp_path / "mine")
    with yt8m.load(tmp_path / "mine") as model:
        assert [model.vocabulary.name(index) for index in range(3)] == NAMES
        videos = list(model.predict({"features": X[:5]}, top_k=3))
        for video, scores in zip(videos, fitted.predict_proba(X[:5]), strict=True):
            assert {one.name: one.score for one in video.classes} == dict(
                zip(NAMES, map(pytest.approx, scores.tolist()), strict=True)
            )
        for same in (X[:5], X[:5].tolist(), list(X[:5]), pd.DataFrame(X[:5]), {"features": X[:5].tolist()}):
            assert list(model.predict(same, top_k=3)) == videos  # the X of `fit`
        for wrong, problem in (
            (X[:, :2], "features of 6"),
            (X[0], r"\[videos, size\]"),
            (["a"], "no file matches 'a'"),
        ):
            with pytest.raises(yt8m.UsageError, match=problem):
                model.predict(wrong)
        with pytest.raises(yt8m.UsageError, match="no labels"):
            model.evaluate(X)
        with pytest.raises(yt8m.UsageError, match="row 1"):
            model.predict(np.vstack([X[:1], np.full((1, 6), np.nan)]))
    with pytest.raises(ValueError, match="mine exists already"):
        fitted.save(tmp_path / "mine")
    with pytest.raises(ValueError, match="gs://films/mine"):
        fitted.save("gs://films/mine")


def test_a_loaded_classifier_gives_the_same_scores_tags_and_thresholds(
    fitted: yt8m.Classifier, tmp_path: pathlib.Path
) -> None:
    x, y = make_videos(60, seed=5)
    fitted.save(tmp_path / "mine")
    with yt8m.load(tmp_path / "mine") as model:
        np.testing.assert_allclose(model.predict_proba(x), fitted.predict_proba(x), atol=1e-6)
        assert model.tags(x) == fitted.tags(x)
        assert model.thresholds == dict(zip(NAMES, fitted.thresholds_.tolist(), strict=True))
        report = model.evaluate(x, names_of(y), intervals=True)
        assert report["mAP"] == pytest.approx(fitted.score(x, y), abs=1e-6)
        own_report = copy.deepcopy(fitted).evaluate(x, names_of(y))
        assert {**own_report, "checkpoint": ""} == {**report, "checkpoint": ""}
        assert own_report.intervals == report.intervals
        assert yt8m.evaluate(model, x, pd.DataFrame(y, columns=NAMES)) == report
        assert yt8m.evaluate(model, x, pd.DataFrame(y[:, ::-1], columns=NAMES[::-1])) == report
        assert model.evaluate(x, y, intervals=True) == report
    os.remove(tmp_path / "mine/eval/thresholds.csv")
    with yt8m.load(tmp_path / "mine") as model:
        assert model.thresholds == {}
        with pytest.raises(yt8m.UsageError, match="has no thresholds"):
            model.tags(x)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (None, "arrays have no labels"),
        ([["ant"]], "the data have 60 videos, but labels has 1"),
        ([["newt"]] * 60, r"labels\[0\] has the class 'newt'"),
        (["ant;newt"] * 60, r"labels\[0\] has the class 'newt'"),
        (np.full((60, 3), 2), r"^labels\[0, 0\] is 2: "),
        (np.ones((60, 2)), r"labels .*\b2 columns.*\b3 classes"),
        ([[0, 1, 0], [1]], r"labels\[0\] has the class 0"),
        (pd.DataFrame({"newt": [0] * 60}), "^labels is one column 'newt' of 0 and 1"),
    ],
)
def test_labels_of_an_evaluation_that_do_not_fit_are_refused(
    fitted: yt8m.Classifier, labels: Any, problem: str
) -> None:
    with pytest.raises(yt8m.UsageError, match=problem):
        fitted._run.model.evaluate(make_videos(60)[0], labels)


def test_a_notebook_shows_what_was_trained(fitted: yt8m.Classifier) -> None:
    assert "not yet" in yt8m.Classifier()._repr_html_()
    assert "LogisticModel" in fitted._repr_html_()


def test_pickles_and_copies_have_the_model(fitted: yt8m.Classifier) -> None:
    content = pickle.dumps(fitted)
    scores = fitted.predict_proba(X[:9])
    for make in (lambda: pickle.loads(content), lambda: copy.deepcopy(fitted)):
        other = make()
        assert other._run.path != fitted._run.path
        assert (other.predict_proba(X[:9]) == scores).all()
        assert other.get_params() == fitted.get_params()
        folder = os.path.dirname(other._run.path)
        assert os.path.exists(folder)
        del other
        assert not os.path.exists(folder)
    unfitted = pickle.loads(pickle.dumps(yt8m.Classifier(budget=7)))
    assert unfitted.get_params()["budget"] == 7


def test_parameters() -> None:
    classifier = yt8m.Classifier(model="MoeModel", budget=5)
    assert repr(classifier) == "Classifier(model='MoeModel', budget=5)"
    assert clone(classifier).get_params() == classifier.get_params()
    assert classifier.set_params(budget=9, verbose=True).get_params()["budget"] == 9
    with pytest.raises(ValueError, match="bugdet"):
        classifier.set_params(bugdet=1)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "tags"])
def test_a_classifier_that_is_not_trained_says_so(method: str) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="fit first"):
        getattr(yt8m.Classifier(), method)(X)


@pytest.mark.parametrize(
    ("arguments", "given", "problem"),
    [
        ({}, dict(y=Y[:9]), "240 videos, but y has 9"),
        ({}, dict(X_val=X), "X_val and y_val go together"),
        ({}, dict(X_val=X[:, :2], y_val=Y), "X_val has"),
        ({}, dict(groups=[1] * 240), "one group"),
        ({}, dict(X=["a.mp4", "b.mp4"], y=Y[:2]), r"extractors=\("),
        (
            dict(extractors="inception", extractor_settings={"inception_graph": "/no/such.pb"}),
            dict(X=["/no/a.mp4", "/no/b.mp4"], y=Y[:2]),
            r"X\[0\] is '/no/a.mp4'",
        ),
        ({}, dict(X=["a.mp4", "b.mp4"]), "X has 2 videos, but y has 240"),
        (dict(options={"train_dir": "runs/mine"}), {}, "train_dir"),
        (dict(options={"out": "runs/mine"}), {}, r"options .*\bout\b.*classifier"),
        (dict(options={"data": "x"}), {}, r"options .*\bdata\b.*classifier"),
        (dict(model="LogisticModel"), dict(X=[np.ones((2, 6))] * 240), "one vector .*but X has frames"),
        (dict(model="FrameLevelLogisticModel"), {}, "takes frames.*but X has one vector.*LogisticModel"),
        ({}, dict(y=0 * Y), "no video of y"),
        ({}, dict(X=np.where(np.arange(240)[:, None] == 7, np.float32(1e30), X)), "1e\\+30 in row 7"),
        (dict(options={"feature_names": ["x"], "max_steps": 3}), {}, "feature_names"),
        (dict(options={"max_stepz": 5}), {}, r'options\["max_stepz"\].*options\["max_steps"\]\?'),
        (dict(model="LogisticModle"), {}, "^model='LogisticModle': .*LogisticModel"),
        (dict(model=None), {}, "model is None"),
        (dict(model="LogisticModel", options={"max_steps": "many"}), {}, r"options\[\"max_steps\"\]='many': "),
        (dict(model="LogisticModel", options={"moe_num_mixtures": 4, "max_steps": 3}), {}, "another model"),
        (dict(budget=-1), {}, r"^budget .*at least 1\b"),
        (dict(budget=float("nan")), {}, "budget='nan'"),
        (dict(budget=[1]), {}, r"budget is \[1\]"),
        (dict(random_state="abc"), {}, "random_state is 'abc'"),
        (dict(random_state=-1), {}, "random_state is -1"),
        (dict(random_state=1.5), {}, "random_state is 1.5"),
        (dict(random_state=2**40), {}, "^random_state must be at most"),
        (dict(options="max_steps"), {}, "options is"),
        (dict(extractors=5), {}, "extractors is 5"),
        (dict(extractor_settings=[1]), {}, "extractor_settings is"),
        (dict(label_separator=""), dict(X=X[:2], y=["a", "b"]), "label_separator is ''"),
        (dict(options={"mixup": 0.2}), {}, "mixup.*name a model"),
        (dict(options={"max_steps": 9}), {}, "max_steps.*name a model"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], given: dict[str, Any], problem: str) -> None:
    with pytest.raises(yt8m.UsageError, match=problem) as caught:
        yt8m.Classifier(**arguments).fit(**{"X": X, "y": Y, **given})
    assert isinstance(caught.value, ValueError)  # as scikit-learn expects
    assert not re.search("--(?!data=)|Config", str(caught.value))


def test_commands_in_messages_keep_their_flags() -> None:
    message = "--seed=-3 and --optimizer=my.module:Adam. Use `yt8m train --data=x`, or leave the flag"
    assert in_python(message) == (
        "random_state=-3 and options[\"optimizer\"]='my.module:Adam'. Use `yt8m train --data=x`, or leave the flag"
    )
    assert (
        in_python("--vggish_model=/a.b: no file", ["vggish_model"])
        == "extractor_settings[\"vggish_model\"]='/a.b': no file"
    )


def test_other_features_are_refused(fitted: yt8m.Classifier) -> None:
    for x, problem in (
        (X[:, :5], "X has 5 features, but Classifier is expecting 6 features"),
        (X[:, np.newaxis], "X is of frames"),
        ({"a": X, "b": X}, "expecting {'features': 6}"),
        ({"foo": X}, r"the features {'foo': 6}, .*{'features': array}"),
        (["a.mp4"], "was trained on arrays"),
    ):
        with pytest.raises(DataError, match=problem):
            fitted.predict(x)
    with pytest.raises(DataError, match="newt"):
        fitted.score(X[:1], [["newt"]])


def test_a_column_of_ids_and_too_few_labels_are_named(fitted: yt8m.Classifier) -> None:
    frame = pd.DataFrame(X).assign(video=[f"v{row}" for row in range(len(X))])
    with pytest.raises(ValueError, match=r"the column 'video' of X has 'v0' in row 0.*drop\(columns='video'\)"):
        yt8m.Classifier(**QUICK).fit(frame, Y)
    with pytest.raises(ValueError, match=r"X has 240 .*y has 3\b"):
        fitted.score(X, Y[:3])


def test_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(yt8m.UsageError, match=r"TF_CONFIG.*yt8m train"):
        yt8m.Classifier(**QUICK).fit(X, Y)


@pytest.mark.heavy
def test_one_class_a_video(tmp_path: pathlib.Path) -> None:
    names = np.array(NAMES)[Y.argmax(1)]
    classifier = yt8m.Classifier(**QUICK).fit(pd.DataFrame(X, columns=list("abcdef")), names)
    scores = classifier.predict_proba(X)
    assert scores.sum(1) == pytest.approx(np.ones(240), abs=1e-5)
    assert classifier.predict(X).tolist() == np.array(NAMES)[scores.argmax(1)].tolist()
    assert classifier.tags(X)[0] == [classifier.predict(X)[0]]
    assert classifier.score(X, names) == (classifier.predict(X) == names).mean() > 0.7
    assert classifier.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(DataError, match="order"):
        classifier.predict(pd.DataFrame(X, columns=list("fedcba")))
    classifier.save(tmp_path / "mine")
    yt8m.export_model(tmp_path / "mine", tmp_path / "exported")
    for path in ("mine", "exported"):
        with yt8m.load(tmp_path / path) as model:
            (video,) = model.predict(pd.DataFrame(X[:1], columns=list("abcdef"), dtype=object), top_k=1)
            assert video.classes[0].name == classifier.predict(X[:1])[0]
            for call in (model.predict, model.embeddings):
                with pytest.raises(yt8m.UsageError, match="order"):
                    call(pd.DataFrame(X, columns=list("fedcba")))


@pytest.mark.heavy
def test_frames_of_videos_of_different_lengths(tmp_path: pathlib.Path) -> None:
    lengths = np.random.default_rng(0).integers(1, 5, 240)
    frames = [np.repeat(row[np.newaxis], length, 0) for row, length in zip(X, lengths, strict=True)]
    classifier = yt8m.Classifier(model="FrameLevelLogisticModel", options=FEW_STEPS)
    classifier.fit({"rgb": frames, "audio": [part[:, :2] for part in frames]}, Y, X_val=None)
    x, y = make_videos(50, seed=1)
    new = {"rgb": np.repeat(x[:, None], 3, 1), "audio": np.repeat(x[:, None, :2], 3, 1)}
    assert average_precision_score(y, classifier.predict_proba(new)) > 0.9
    classifier.save(tmp_path / "mine")
    unequal = {"rgb": frames[:40], "audio": [part[:, :2] for part in frames[:40]]}
    with yt8m.load(tmp_path / "mine") as model:
        scores = {video.id: video.classes[0].score for video in model.predict(unequal, top_k=1)}
        assert list(scores.values()) == pytest.approx(classifier.predict_proba(unequal).max(1), abs=1e-5)
        with pytest.raises(yt8m.UsageError, match="'rgb': array, 'audio': array"):
            model.predict(frames)


@pytest.mark.heavy
@pytest.mark.long
def test_a_choice_keeps_the_thresholds_of_videos_that_it_had_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """In folds each of the 200 videos is scored by a model that has not seen it, so the labels of all count once."""
    monkeypatch.setattr(BudgetClock, "spent", lambda _: 0.0)  # the clock of a busy machine cuts no plan short
    x, y = make_videos(200, seed=6)
    groups = np.arange(200) // 4
    classifier = yt8m.Classifier(model="LogisticModel", budget=8).fit(x, y, groups=groups)
    chosen = thresholds.read(f"{classifier._run.path}/search_thresholds.csv")
    assert chosen.thresholds.tolist() == classifier.thresholds_.tolist()
    assert list(chosen.positives) == y.sum(0).tolist()
    search = json.loads(pathlib.Path(classifier._run.path, "config.json").read_text())["config"]["search"]
    assert search["is_refitted"]
    assert search["quoted"]["folds"] == 4
    other_x, other_y = make_videos(200, seed=7)
    assert classifier.score(other_x, other_y) > 0.97


@pytest.mark.heavy
def test_videos_for_validation_are_never_trained_on() -> None:
    x, y = make_videos(80, seed=6)
    classifier = yt8m.Classifier(model="LogisticModel", budget=8).fit(x, y, X_val=X, y_val=Y)
    assert '"is_refitted": true' not in pathlib.Path(classifier._run.path, "config.json").read_text()
    tagger = thresholds.read(f"{classifier._run.path}/eval/thresholds.csv")
    assert list(tagger.positives) == Y.sum(0).tolist()


@pytest.mark.heavy
def test_the_default_budget_reaches_what_scikit_learn_does_on_digits() -> None:
    from sklearn.datasets import load_digits

    draw, data = np.random.default_rng(0), load_digits()
    rows = draw.integers(0, len(data.data), (3000, 2))
    x = np.concatenate([data.data[rows].max(1), data.data[rows].mean(1)], 1) / 16
    names = [sorted({f"digit {data.target[index]}" for index in row}) for row in rows]
    classifier = yt8m.Classifier().fit(x[:2000], names[:2000])
    assert classifier.score(x[2000:], names[2000:]) > 0.94


@pytest.mark.heavy
def test_neither_scikit_learn_nor_pandas_is_needed(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "videos.npz", x=X, y=Y)
    program = (
        "import sys\n"
        "sys.modules['sklearn'] = sys.modules['pandas'] = None\n"
        "import numpy as np, yt8m\n"
        "classifier = yt8m.Classifier(model='LogisticModel', options={'max_steps': 3})\n"
        "assert 'tensorflow' not in sys.modules\n"
        f"data = np.load({str(tmp_path / 'videos.npz')!r})\n"
        "try: classifier.predict(data['x'])\n"
        "except ValueError as error: print(error)\n"
        "print(classifier.fit(data['x'], data['y']).predict_proba(data['x']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "this Classifier is not trained yet: call fit first; yt8m.load(path) loads one that was saved.",
        "(240, 3)",
    ]
    assert "INFO" not in done.stderr


@pytest.mark.heavy
def test_spans_are_where_cells_reach_the_threshold() -> None:
    x, y = make_videos(80, seed=3)
    frames = np.repeat(x[:, None], 5, axis=1)
    fitted = yt8m.Classifier("FrameLevelLogisticModel", options=FEW_STEPS).fit(frames, names_of(y))
    films = [np.concatenate(frames[[0, 0, 1, 2]])[:18], frames[3]]
    found = fitted.spans(films)
    for film, spans in zip(films, found, strict=True):
        cells = [film[first : first + 5] for first in range(0, len(film), 5)]
        scores = fitted.predict_proba(cells)
        shown = np.zeros(scores.shape, bool)
        for start, end, name, score in spans:
            part = slice(round(start) // 5, -(-round(end) // 5))
            shown[part, NAMES.index(name)] = True
            assert score == pytest.approx(scores[part, NAMES.index(name)].mean(), abs=1e-5)
            assert end <= len(film)
        np.testing.assert_array_equal(shown, in_spans(scores, fitted.span_thresholds_))
    assert [span[0] for span in found[0]] == sorted(span[0] for span in found[0])


def in_spans(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Whether each cell is in a span, bool [cells, C], by going from each cell that reaches its threshold."""
    inside = scores >= thresholds
    for _ in range(len(scores)):
        beside = np.pad(inside, ((1, 1), (0, 0)))
        inside |= (beside[:-2] | beside[2:]) & (scores >= 0.7 * thresholds)
    return inside


def test_whole_videos_have_no_spans(fitted: yt8m.Classifier) -> None:
    with pytest.raises(ValueError, match=r"whole videos.*\[frames, values\]"):
        fitted.spans(X)
    with pytest.raises(ValueError, match="trained on arrays"):
        fitted.spans(["film.mp4"])
