"""A run that begins with the weights of a run of other classes, which are found by their names."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Sequence

import numpy as np
import pytest
from golden_data import golden

import yt8m
from yt8m import train
from yt8m.lazy import tf
from yt8m.records import vocabulary

OLD = [f"class {number}" for number in range(20)]
# Class 3 is gone, class 5 has another name, two are new, and the order has changed.
NEW = ["comet", *[name for name in reversed(OLD) if name not in ("class 3", "class 5")], "class five", "aurora"]


def words(folder: pathlib.Path, names: Sequence[str], *more: str) -> list[str]:
    path = f"{folder}.csv"
    vocabulary.write(path, vocabulary.of_names(names))
    data = [f"--train_data_pattern={golden('tiny_video.tfrecord')}", f"--vocabulary={path}", "--batch_size=4"]
    data.append("--export_model_steps=none")
    return [f"--train_dir={folder}", *data, "--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", *more]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of the old classes; `renames.csv` is beside it."""
    folder = tmp_path_factory.mktemp("old_classes")
    assert train.main(words(folder / "old", OLD, "--model=MoeModel", "--max_steps=4", "--num_epochs=9")) == 0
    (folder / "renames.csv").write_text("old,new\nclass 5,class five\n")
    return folder / "old"


def scores(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """{class: its scores of some videos}."""
    rng = np.random.default_rng(0)
    arrays = {"mean_rgb": rng.normal(size=(7, 16)), "mean_audio": rng.normal(size=(7, 8))}
    with yt8m.load(folder) as model:
        arrays = {name: values.astype(np.float32) for name, values in arrays.items()}
        found = list(model.predict(arrays, top_k=model.num_classes))
        by_video = [{one.name: one.score for one in video.classes} for video in found]
        return {name: np.array([of_video[name] for of_video in by_video]) for name in model.vocabulary.names}


def test_classes_are_taken_by_name(
    old: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    new, more = tmp_path / "new", ["--model=MoeModel", f"--init_from={old}", f"--rename={old.parent}/renames.csv"]
    assert train.main(words(new, NEW, *more, "--max_steps=0")) == 0
    said = capfd.readouterr().err
    assert f"classes of {old}: 19 kept (1 renamed), 2 new, 1 gone" in said
    assert "not in the data: class 3" in said
    assert f"thresholds of {old} do not apply" in said
    assert "tower/experts/weights  [24, 42]  yes, 19 of 21 classes" in said
    assert tf.train.latest_checkpoint(str(new)) == f"{new}/model.ckpt-0"
    before, after = scores(old), scores(new)
    for name in after.keys() & before.keys():
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    np.testing.assert_array_equal(after["class five"], before["class 5"])
    assert train.main(words(new, NEW, *more, "--max_steps=2")) == 0
    assert tf.train.latest_checkpoint(str(new)) == f"{new}/model.ckpt-2"


@pytest.mark.heavy
def test_fit_takes_them_too(old: pathlib.Path, tmp_path: pathlib.Path) -> None:
    given = dict(word.removeprefix("--").split("=") for word in words(tmp_path / "new", NEW, "--model=MoeModel"))
    run = yt8m.fit(**given, init_from=old, max_steps=0)
    assert (run.status, run.step) == ("finished", 0)
    np.testing.assert_array_equal(scores(tmp_path / "new")["class 7"], scores(old)["class 7"])


def test_renames_that_do_not_fit_are_refused(
    old: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rename = f"--rename={old.parent}/renames.csv"
    assert train.main(words(tmp_path / "new", NEW, rename)) == 2
    assert "--rename needs --init_from: add it" in capfd.readouterr().err
    assert train.main(words(tmp_path / "new", OLD, "--model=MoeModel", f"--init_from={old}", rename)) == 2
    assert "'class five'" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


def variables(folder: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


MLP = ["--model=ResidualMlpModel", "--mlp_hidden_size=8", "--num_epochs=9"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "optimizer",
    [
        ["--optimizer=AdamWOptimizer", "--weight_decay=0.1", "--moving_average_decay=0.9"],
        ["--accumulate_steps=2", "--clip_by=global"],
        ["--optimizer=MomentumOptimizer", "--base_learning_rate=0.5"],
    ],
)
def test_only_new_classes_learn(tmp_path: pathlib.Path, optimizer: list[str]) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    assert train.main(words(old, OLD, *MLP, *optimizer, "--max_steps=4")) == 0
    more = [*MLP, *optimizer, f"--init_from={old}", "--train_only=new", "--l2_penalty=0.1"]
    assert train.main(words(new, ["comet", *OLD[::-1]], *more, "--max_steps=0")) == 0
    start = variables(new)
    assert train.main(words(new, ["comet", *OLD[::-1]], *more, "--max_steps=6")) == 0
    end, learnt = variables(new), set()
    for name, value in end.items():
        of_class = value.shape[-1:] in ((21,), (42,), (63,))
        is_new = np.arange(value.shape[-1]) < value.shape[-1] // 21 if of_class else np.zeros(value.shape[-1:], bool)
        if name.startswith("tower/"):
            np.testing.assert_array_equal(value[..., ~is_new], start[name][..., ~is_new], err_msg=name)
            assert not name.endswith(("Adam", "Adam_1", "Momentum")) or not value[..., ~is_new].any()
            learnt |= {name.split("/")[2]} if of_class and (value != start[name]).any() else set()
    assert learnt == {"weights", "biases"}
    before, after = scores(old), scores(new)
    for name in OLD:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


@pytest.mark.heavy
def test_classes_that_read_each_other_do_not_learn_of_new_ones(tmp_path: pathlib.Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    assert train.main(words(old, OLD, "--model=GatedMoeModel", "--num_epochs=9", "--max_steps=4")) == 0
    more = ["--model=GatedMoeModel", f"--init_from={old}", "--train_only=new", "--num_epochs=9", "--max_steps=6"]
    assert train.main(words(new, [*OLD, "comet"], *more)) == 0
    before, after = scores(old), scores(new)
    for name in OLD:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5)


def test_train_only_needs_new_classes(
    old: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = [f"--init_from={old}", "--model=MoeModel", "--train_only=new"]
    nameless = tmp_path / "nameless"
    shutil.copytree(old, nameless)
    (nameless / "vocabulary.csv").unlink()
    of_nameless = [f"--init_from={nameless}", *start[1:]]
    refused = [
        (NEW, of_nameless, f"names of the classes are not known; give {nameless} and the data a vocabulary.csv"),
        (OLD, start, "the data have no new class; to train all classes, write --train_only= (an"),
        (NEW, start[1:], "--train_only needs --init_from"),
        (NEW, [*start, "--optimizer=FtrlOptimizer"], "may change a weight whose gradient is 0"),
    ]
    for names, more, told in refused:
        assert train.main(words(tmp_path / "new", names, *more)) == 2
        assert told in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.heavy
def test_features_in_another_order_are_named(
    old: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    more = ["--model=MoeModel", f"--init_from={old}", "--max_steps=0"]
    for order, is_warned in ((["--feature_names=mean_audio,mean_rgb", "--feature_sizes=8,16"], True), ([], False)):
        usual = [word for word in words(tmp_path / str(is_warned), OLD, *more) if not (order and "--feature" in word)]
        assert train.main([*usual, *order]) == 0
        said = capfd.readouterr().err
        message = "reads the features mean_rgb (16), mean_audio (8), but this run reads mean_audio (8), mean_rgb (16)"
        assert (message in said) == is_warned
