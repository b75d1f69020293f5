"""A run of one class a video keeps that, however its training goes on; so does a run that begins from it."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.config import run_dir

NAMES = ["ant", "bee", "cat"]
NO_EXPORT = "--export_model_steps=0"


def videos(names: list[str], count: int = 90) -> tuple[np.ndarray, np.ndarray]:
    draw, centres = np.random.default_rng(3), np.random.default_rng(7).normal(size=(len(names), 5))
    classes = np.arange(count) % len(names)
    return (centres[classes] + draw.normal(size=(count, 5))).astype("f"), np.array(names)[classes]


def write(folder: pathlib.Path, names: list[str], second: str = "") -> str:
    """Writes records whose manifest does not say how many classes a video has; every fifth may get a second one."""
    features, labels = videos(names)
    texts = [f"{label};{second}" if second and row % 5 == 0 else str(label) for row, label in enumerate(labels)]
    np.savez(f"{folder}.npz", id=[f"video {row}" for row in range(len(labels))], labels=texts, features=features)
    (pathlib.Path(f"{folder}.csv")).write_text("\n".join(["index,name", *(f"{i},{n}" for i, n in enumerate(names))]))
    words = [f"--table={folder}.npz", f"--out={folder}", f"--vocabulary={folder}.csv", "--label_separator=;"]
    assert cli.main(["make-records", *words, "--splits=train:0.7,validate:0.3"]) == 0
    return f"{folder}/video/train/*.tfrecord"


def sums(folder: pathlib.Path) -> np.ndarray:
    saved = run_dir.read(str(folder), trust_code=True)
    with yt8m.load(folder) as model:
        total = model.predict_proba(videos(NAMES)[0]).sum(1)
    assert saved is not None
    assert saved.config.data.one_class == np.allclose(total, 1, atol=1e-5)
    return np.asarray(total)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("fitted") / "crun"
    few = {"max_steps": 20, "batch_size": 32, "base_learning_rate": 0.05, "export_model_steps": 0}
    yt8m.Classifier(model="LogisticModel", options=few).fit(*videos(NAMES)).save(folder)
    return folder


@pytest.fixture
def crun(fitted: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(fitted, tmp_path / "crun"))


def test_a_run_that_is_continued_keeps_it(
    crun: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["train", f"--out={crun}", "--model=LogisticModel", NO_EXPORT, "--max_steps=30"]
    assert cli.main([*words, f"--data={write(tmp_path / 'several', NAMES, 'cat')}"]) == 2
    said = capfd.readouterr().err
    assert "one class each" in said
    assert "has 2 labels" in said
    assert cli.main([*words, f"--data={write(tmp_path / 'own', NAMES)}"]) == 0
    np.testing.assert_allclose(sums(crun), 1, atol=1e-5)


@pytest.mark.heavy
def test_a_run_that_begins_from_it_keeps_it_if_the_data_allow(
    crun: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, second, said in (("own", "", "as in"), ("several", "cat", "but not in the new run: video")):
        words = [f"--data={write(tmp_path / name, NAMES, second)}", f"--init_from={crun}", "--max_steps=10", NO_EXPORT]
        assert cli.main(["train", *words, f"--out={tmp_path}/{name}_run"]) == 0
        assert said in capfd.readouterr().err
        assert np.allclose(sums(tmp_path / f"{name}_run"), 1, atol=1e-5) == (not second)


@pytest.mark.heavy
def test_added_classes_keep_it(crun: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = write(tmp_path / "more", [*NAMES, "dog"])
    assert cli.main(["add-classes", f"--model={crun}", f"--data={data}", f"--out={tmp_path}/grown"]) == 0
    np.testing.assert_allclose(sums(tmp_path / "grown"), 1, atol=1e-5)
