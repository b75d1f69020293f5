"""Classes of one's own: given as classes, refused where no later program could import them, found from any folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import yt8m
from yt8m import registry
from yt8m.models import get
from yt8m.scoring import video_features

MODULE = """
from yt8m.models import get


class MineModel(get("LogisticModel")):
    pass
"""
FLAGS = dict(max_steps=2, num_classes=2, num_epochs=5)


def project(folder: pathlib.Path, module: str) -> pathlib.Path:
    """A folder with a module of one's own, and records of two classes."""
    (folder / f"{module}.py").write_text(MODULE)
    x = np.random.default_rng(0).normal(size=(20, 4)).astype("f")
    import pandas as pd

    table = pd.DataFrame({"id": [f"v{n}" for n in range(20)], "labels": [["ab"[n % 2]] for n in range(20)]})
    yt8m.make_records(table, folder / "data", x, feature_names="clip", splits={"train": 1.0})
    return folder


@pytest.mark.heavy
def test_a_class_of_a_module_is_trained_and_found_from_any_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "my_models_of_a_test")
    monkeypatch.syspath_prepend(folder)
    from my_models_of_a_test import MineModel

    run = yt8m.fit(
        model=MineModel, data=folder / "data/video/train/*.tfrecord", train_dir=folder / "runs/mine", **FLAGS
    )
    assert '"my_models_of_a_test:MineModel"' in pathlib.Path(run.folder, "config.json").read_text()
    program = f"import yt8m; print(yt8m.load({run.folder!r}))"
    told = subprocess.run([sys.executable, "-c", program], cwd="/", capture_output=True, text=True)
    assert "my_models_of_a_test:MineModel" in told.stdout, told.stderr
    del sys.modules["my_models_of_a_test"]


def notebook_class(name: str) -> type:
    return type("MineModel", (get("LogisticModel"),), {"__module__": name})


def test_a_class_of_a_notebook_is_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(yt8m.UsageError, match=r"%%writefile my_models.py.*from my_models import MineModel"):
        yt8m.fit(model=notebook_class("__main__"), train_dir=tmp_path / "run")

    class LocalModel(get("LogisticModel")):  # type: ignore[misc]
        pass

    with pytest.raises(yt8m.UsageError, match=r"inside of a function.*LocalModel"):
        yt8m.Classifier(model=LocalModel).fit(np.eye(4, dtype="f"), [["a"]] * 4)
    assert not (tmp_path / "run").exists()


def test_names_of_classes() -> None:
    assert registry.name_of_class(get("MoeModel")) == "MoeModel"
    assert registry.name_of_class(notebook_class("my.models")) == "my.models:MineModel"


def test_modules_are_looked_for_near_the_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "package_near_a_run/inner").mkdir(parents=True)
    (tmp_path / "package_near_a_run/inner/__init__.py").write_text("")
    (tmp_path / "package_near_a_run/__init__.py").write_text("")
    run = tmp_path / "runs/mine"
    run.mkdir(parents=True)
    registry.find_near(["json:loads", "nowhere_at_all:X", "onnx:a/b.onnx", "http://x"], str(run))
    assert str(tmp_path) not in sys.path
    registry.find_near(["package_near_a_run.inner:Mine"], str(run))
    assert sys.path[-1] == str(tmp_path)
    registry.find_near(["package_near_a_run.inner:Mine"], "gs://bucket/runs")
    assert sys.path.count(str(tmp_path)) == 1


def test_weights_with_a_relative_path_are_looked_for_near_the_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets/clip.onnx").write_bytes(b"")
    run = os.path.join(tmp_path, "runs/mine")
    entry = {"name": "onnx:nets/clip.onnx"}
    assert video_features._path_near(entry, run) == {"onnx_file": f"{tmp_path}/nets/clip.onnx"}
    assert video_features._path_near({"name": "saved_model:nets"}, run) == {"saved_model_dir": f"{tmp_path}/nets"}
    for name in (
        "onnx:nets/other.onnx",
        f"onnx:{tmp_path}/nets/clip.onnx",
        "onnx:gs://nets/clip.onnx",
        "inception",
        "hf:a/b",
    ):
        assert video_features._path_near({"name": name}, run) == {}
    monkeypatch.chdir(tmp_path)
    assert video_features._path_near(entry, run) == {}  # it is here
