"""What a loaded model refuses is said in the words of Python."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from golden_data import golden

import yt8m
from yt8m.python_api.results import ResultRows

DATA = str(golden("checkpoint_logistic/test.tfrecord"))


def test_a_prediction_is_refused_with_arguments_in_place_of_flags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    def refuse(*_: object) -> None:
        raise yt8m.UsageError("--batch_size=7 and --cache do not fit; leave out --cache.")

    with yt8m.load(golden("run_format_1")) as model:
        for attribute, call in (("batches", model.predict), ("scores", model.predict), ("hidden", model.embeddings)):
            with monkeypatch.context() as changed:
                changed.setattr(model._scorer, attribute, refuse)
                with pytest.raises(yt8m.UsageError, match=r"^batch_size=7 and cache .*leave out cache\.$"):
                    list(call(DATA))
        with pytest.raises(yt8m.UsageError, match=rf"^spans_from='{tmp_path}/nowhere': ") as refused:
            model.spans(DATA, spans_from=tmp_path / "nowhere")
    assert "--" not in str(refused.value).replace("`yt8m eval --spans`", "")


def test_records_and_batches_say_in_one_line_what_they_are() -> None:
    records = yt8m.read_records(DATA, batch_size=4)
    assert repr(records) == "<records of 1 file: video level, mean_audio of 8 and mean_rgb of 16, 3862 classes>"
    batch = next(iter(records))
    assert repr(batch) == ("<batch of 4 videos: mean_audio float32 [4, 8], mean_rgb float32 [4, 16]; labels [4, 3862]>")


def test_labels_beside_records_are_refused() -> None:
    with yt8m.load(golden("run_format_1")) as model, pytest.raises(yt8m.UsageError, match=rf"{DATA}.* labels .*own"):
        model.evaluate(DATA, [["a"]])


def test_files_without_records_are_refused_at_the_call(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    (tmp_path / "a.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + b"\0" * 100)
    (tmp_path / "t.csv").write_text("id,labels\na,b\n")
    with yt8m.load(golden("run_format_1")) as model:
        for name, remedy in (("x.npy", "numpy.load"), ("a.mp4", "predict_video"), ("t.csv", "DataFrame")):
            for data in (tmp_path / name, [str(tmp_path / name)]):
                with pytest.raises(yt8m.UsageError, match=rf"{name} is .*: .*{remedy}"):
                    model.predict(data)
        (tmp_path / "b.tfrecord").write_bytes(pathlib.Path(DATA).read_bytes())
        ids = [video.id for video in model.predict([DATA, tmp_path / "b.tfrecord"])]
        assert ids == 2 * [video.id for video in model.predict(DATA)]


def test_names_of_other_packages_are_answered() -> None:
    for name, answer in (("train", r"yt8m\.fit"), ("predict", r"yt8m\.load"), ("eval", r"yt8m\.evaluate")):
        with pytest.raises(AttributeError, match=answer):
            yt8m.__getattr__(name)
    with pytest.raises(yt8m.UsageError, match="Classifier"):
        yt8m.fit([[1.0]], [["a"]])  # type: ignore[misc]


def test_each_figure_of_a_run_has_a_column() -> None:
    row = ResultRows("runs", [{"run": "a", "figures": {"gap": 0.5, "mAP": 0.4}}, {"run": "b", "figures": None}])
    assert row.to_frame().columns.tolist() == ["run", "figures", "GAP", "mAP"]
    with pytest.raises(yt8m.UsageError, match=r"dict of .*columns"):
        yt8m.make_records([["a"], ["b"]], "out", [[1.0], [2.0]])


def test_no_rows_keep_their_columns() -> None:
    assert ResultRows("issues", [], ["rank", "video"]).to_frame().columns.tolist() == ["rank", "video"]
    assert ResultRows("issues", [{"a": 1}], ["rank", "video"]).to_frame().columns.tolist() == ["a"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("classes_", "model.names"),
        ("train", "yt8m.Classifier"),
        ("val", "model.evaluate"),
        ("export", "yt8m.export_model"),
        ("to", "CUDA_VISIBLE_DEVICES"),
        ("nonsense", "has no attribute 'nonsense'"),
    ],
)
def test_methods_of_other_packages_are_answered(name: str, hint: str) -> None:
    with yt8m.load(golden("run_format_1")) as model:
        with pytest.raises(AttributeError, match=hint):
            getattr(model, name)
        assert not hasattr(model, name)


@pytest.mark.heavy
def test_features_without_a_name_are_said_once(tmp_path: pathlib.Path) -> None:
    videos = np.eye(8, dtype=np.float32)
    yt8m.Classifier("LogisticModel", options={"max_steps": 1}).fit(videos, [["a"], ["b"]] * 4).save(tmp_path / "run")
    with yt8m.load(tmp_path / "run") as model:
        assert repr(model).startswith("<model class LogisticModel, step 1, classes 2, video features 8, from ")
