"""`yt8m from-text`: its logits are those of the network, and the run is one like any other."""

from __future__ import annotations

import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import made_videos
import numpy as np
import pytest
import requests
import tiny_networks

import yt8m
from yt8m import extractors
from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.extractors.hugging_face import EVEN_COSINE, HuggingFaceNetwork, TextClassifier, text_classifier
from yt8m.records import shards, vocabulary
from yt8m.training import text_run

CLASSES = "name,prompt\ndisc,\nsquare,a red square\nsquare,a square thing\nstripes,moving stripes\n"
TEXTS = [["a video of disc"], ["a red square", "a square thing"], ["moving stripes"]]
FAMILIES = ("SigLIP", "CLIP")


@pytest.fixture(scope="module", params=FAMILIES)
def run(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The folder of the network of a family, and that of the run made with it."""
    folder = tmp_path_factory.mktemp("text")
    network = tiny_networks.write(folder / request.param, request.param)
    (folder / "classes.csv").write_text(CLASSES)
    words = [f"--classes={folder}/classes.csv", f"--extractor=hf:{network}", f"--out={folder}/zero"]
    assert cli.main(["from-text", *words]) == 0
    return network, f"{folder}/zero"


def logits_per_image(network: str, pictures: list[np.ndarray]) -> np.ndarray:
    """The network's own logits of pictures, for each of the texts."""
    import torch
    import transformers

    model = transformers.AutoModel.from_pretrained(network).eval()
    texts = [text for of_class in TEXTS for text in of_class]
    longest = {"padding": "max_length", "max_length": 12} if "SigLIP" in network else {"padding": True}
    tokens = transformers.AutoTokenizer.from_pretrained(network)(texts, return_tensors="pt", **longest)
    inputs = transformers.AutoImageProcessor.from_pretrained(network, backend="pil")(pictures, return_tensors="pt")
    mask = {} if "SigLIP" in network else {"attention_mask": tokens["attention_mask"]}
    with torch.no_grad():
        return model(input_ids=tokens["input_ids"], **mask, **inputs).logits_per_image.numpy()


def classifier_of(network: str, texts: list[list[str]]) -> TextClassifier:
    extractor = extractors.create(f"hf:{network}")
    assert isinstance(extractor, HuggingFaceNetwork)
    return text_classifier(extractor, network, texts)


def constant(network: str) -> float:
    """By how much the logits of a run are smaller than those of its network."""
    import transformers

    model = transformers.AutoModel.from_pretrained(network)
    return 0.0 if hasattr(model, "logit_bias") else 0.25 * model.logit_scale.exp().item()


@pytest.mark.heavy
def test_scores_are_those_of_the_network(run: tuple[str, str], tmp_path: pathlib.Path) -> None:
    network, folder = run
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    path = made_videos.write(tmp_path / "clip.mkv", lambda _: picture, None, times=[0.0])
    logits = logits_per_image(network, [picture])[0] - constant(network)
    with yt8m.load(folder) as model:
        scores = {one.name: one.score for one in model.predict_video(path, top_k=3).classes}
    for name, logit in (("disc", logits[0]), ("stripes", logits[3])):
        assert scores[name] == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-5)


@pytest.mark.heavy
def test_logits_of_the_mean_embedding_are_those_of_the_network(run: tuple[str, str], tmp_path: pathlib.Path) -> None:
    import torch

    network, _ = run
    classifier = classifier_of(network, [[text] for of_class in TEXTS for text in of_class])
    assert classifier.has_bias == ("SigLIP" in network)
    path = made_videos.write(tmp_path / "clip.mkv", made_videos.shape("disc"), None, 4.0)
    (features,) = yt8m.extract(path, extractors=[f"hf:{network}"]).values()
    mean = features.mean(axis=0)
    logits = mean / np.linalg.norm(mean) @ classifier.weights + classifier.biases

    import transformers

    model = transformers.AutoModel.from_pretrained(network).eval()
    kind = type(model.get_image_features(pixel_values=torch.zeros(1, 3, 32, 32)))
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():  # the network compares this embedding with the texts
        patch.setattr(transformers.AutoModel, "from_pretrained", lambda _: model)
        vision = torch.tensor(mean)[None]
        patch.setattr(type(model.vision_model), "forward", lambda *_, **__: kind(pooler_output=vision))
        if hasattr(model, "visual_projection"):
            patch.setattr(model, "visual_projection", torch.nn.Identity())
        expected = logits_per_image(network, [np.zeros((32, 32, 3), np.uint8)])[0]
    np.testing.assert_allclose(logits + constant(network), expected, atol=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("tokenizer.json", r"no tokenizer .*tokenizer_config\.json"),
        ("tokenizer_config.json", r"no tokenizer .*tokenizer_config\.json"),
        ("preprocessor_config.json", r"does not say.*pictures"),
    ],
)
def test_a_network_that_lacks_a_file_is_refused(
    run: tuple[str, str], tmp_path: pathlib.Path, file: str, problem: str
) -> None:
    network = shutil.copytree(run[0], tmp_path / "lacking")
    (network / file).unlink()
    with pytest.raises(UsageError, match=problem) as refused:
        classifier_of(str(network), [["a disc"]])
    assert "\n" not in str(refused.value)


@pytest.mark.heavy
def test_settings_of_clips_are_refused(run: tuple[str, str]) -> None:
    extractor = extractors.create(f"hf:{run[0]}", {"clip_rate": 3.0})
    assert isinstance(extractor, HuggingFaceNetwork)
    with pytest.raises(UsageError, match=r"clip_rate=3\.0 .*pictures, not .*clips"):
        text_classifier(extractor, run[0], [["a disc"]])


@pytest.mark.heavy
def test_siglip_gets_texts_in_lower_case(run: tuple[str, str]) -> None:
    network, _ = run
    small, large = (classifier_of(network, [[text]]).weights for text in ("a red disc", "A RED Disc"))
    assert np.array_equal(small, large) == ("SigLIP" in network)  # the tokenizer of the tiny CLIP keeps capitals


@pytest.mark.heavy
def test_a_score_is_even_at_the_stated_cosine_without_a_bias(run: tuple[str, str]) -> None:
    network, _ = run
    classifier = classifier_of(network, [["a disc"], ["a square"]])
    if not classifier.has_bias:
        scale = np.linalg.norm(classifier.weights, axis=0)
        np.testing.assert_allclose(EVEN_COSINE * scale + classifier.biases, 0, atol=1e-5)


@pytest.fixture(scope="module")
def evaluated(run: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pathlib.Path]:
    """A run of texts after `eval --report`, and a folder with records of videos and a film."""
    network, zero = run
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "videos").mkdir()
    made_videos.write_kinds(folder / "videos", 9)
    made_videos.write(folder / "film.mp4", made_videos.shape("disc"), None, 13.0)
    words = [f"--videos={folder}/videos", "--labels=folder", f"--out={folder}/data", f"--extractors=hf:{network}"]
    words += ["--level=video", "--splits=train:0.5,test:0.5", f"--vocabulary={zero}/vocabulary.csv"]
    assert cli.main(["extract", *words]) == 0
    pattern = f"--eval_data_pattern={folder}/data/video/test/*.tfrecord"
    assert cli.main(["eval", f"--train_dir={zero}", pattern, "--run_once", "--report"]) == 0
    return zero, folder


@pytest.mark.heavy
def test_an_evaluation_writes_its_page_and_thresholds(evaluated: tuple[str, pathlib.Path]) -> None:
    zero, _ = evaluated
    assert json.loads(pathlib.Path(zero, "eval/report.json").read_text())["num_examples"] >= 1
    assert "stripes" in pathlib.Path(zero, "eval/report.html").read_text()
    with open(f"{zero}/eval/thresholds.csv", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["disc", "square", "stripes"]


@pytest.mark.heavy
def test_tags_and_timeline_of_a_film(
    evaluated: tuple[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    zero, folder = evaluated
    monkeypatch.chdir(folder)  # the timeline is written here
    pathlib.Path("low.csv").write_text("index,threshold\n0,0\n1,0\n2,1\n")
    words = [f"--model={zero}", "film.mp4", "--timeline", "--tags", "--thresholds=low.csv"]
    assert cli.main(["predict", *words]) == 0
    assert set(re.findall(r"^0\.\d+  (\w+)", capsys.readouterr().out, re.MULTILINE)) == {"disc", "square"}
    page = pathlib.Path("film.mp4.timeline.html").read_text()
    assert re.findall(r'<th scope="col">([\d:]+)</th>', page) == ["0:00", "0:05", "0:10"]
    assert set(re.findall(r'<th scope="row">(\w+)</th>', page)) <= {"disc", "square", "stripes"}


@pytest.mark.heavy
def test_an_export_predicts_the_same_and_has_the_thresholds(evaluated: tuple[str, pathlib.Path]) -> None:
    zero, folder = evaluated
    assert cli.main(["export", f"--model={zero}", f"--out={folder}/export"]) == 0
    film, scores = str(folder / "film.mp4"), []
    for path in (zero, f"{folder}/export"):
        with yt8m.load(path) as model:
            scores.append({best.name: best.score for best in model.predict_video(film).classes})
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)
    thresholds = [
        pathlib.Path(path).read_text() for path in (f"{zero}/eval/thresholds.csv", f"{folder}/export/thresholds.csv")
    ]
    assert thresholds[0] == thresholds[1]


@pytest.mark.heavy
def test_a_service_answers_with_the_scores_of_predict(evaluated: tuple[str, pathlib.Path]) -> None:
    zero, folder = evaluated
    shard = sorted(folder.glob("data/video/test/*.tfrecord"))[0]
    record = next(shards.read_shard(str(shard)))
    command = [sys.executable, "-m", "yt8m", "serve", f"--model={zero}", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = next(found[0] for line in server.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
            headers = {"Content-Type": "application/octet-stream"}
            answer = requests.post(f"{url}/predict", data=record, headers=headers)
        finally:
            server.terminate()
            server.stdout.read()
    assert answer.status_code == 200, answer.text
    (video,) = answer.json()["videos"]
    with yt8m.load(zero) as model:
        expected = next(iter(model.predict(str(shard), top_k=3)))
    assert [best["name"] for best in video["classes"]] == [best.name for best in expected.classes]
    np.testing.assert_allclose(
        [best["score"] for best in video["classes"]], [best.score for best in expected.classes], atol=1e-6
    )
    assert "tags" in video


@pytest.mark.heavy
def test_training_goes_on_from_a_run_of_texts(evaluated: tuple[str, pathlib.Path]) -> None:
    zero, folder = evaluated
    words = [f"--train_data_pattern={folder}/data/video/train/*.tfrecord", f"--train_dir={folder}/few"]
    words += [f"--init_from={zero}", "--num_epochs=1", "--batch_size=4", "--model=LogisticModel"]
    assert cli.main(["train", *words, "--moving_average_decay=0.5", "--base_learning_rate=0.5"]) == 0
    (folder / "more.csv").write_text("name\nred thing\n")
    words = [f"--model={folder}/few", f"--from_text={folder}/more.csv", f"--out={folder}/more_of_few"]
    assert cli.main(["add-classes", *words]) == 0
    before, after = (scores(f"{folder}/{name}", f"{folder}/film.mp4") for name in ("few", "more_of_few"))
    assert all(after[name] == pytest.approx(score, abs=1e-6) for name, score in before.items())


def scores(run: str, film: str) -> dict[str, float]:
    """{class: the score of a film}."""
    with yt8m.load(run) as model:
        return {best.name: best.score for best in model.predict_video(film).classes}


@pytest.mark.heavy
def test_classes_are_added_by_their_texts(run: tuple[str, str], tmp_path: pathlib.Path) -> None:
    """Old classes keep their scores, and new ones get those of a run that had them from the start."""
    network, folder = run
    (tmp_path / "more.csv").write_text("name\nred thing\nmoving disc\n")
    (tmp_path / "all.csv").write_text(CLASSES + "red thing,\nmoving disc,\n")
    words = [f"--model={folder}", f"--from_text={tmp_path}/more.csv", f"--out={tmp_path}/more"]
    assert cli.main(["add-classes", *words]) == 0
    words = [f"--classes={tmp_path}/all.csv", f"--extractor=hf:{network}", f"--out={tmp_path}/all"]
    assert cli.main(["from-text", *words]) == 0
    film = made_videos.write(tmp_path / "film.mp4", made_videos.shape("disc"), None, 4.0)
    before, grown, anew = (scores(path, str(film)) for path in (folder, f"{tmp_path}/more", f"{tmp_path}/all"))
    assert list(json.loads(pathlib.Path(tmp_path, "more/config.json").read_text())["config"]["data"]["extractors"])
    assert grown.keys() == anew.keys() == {"disc", "square", "stripes", "red thing", "moving disc"}
    for name, score in grown.items():
        assert score == pytest.approx(anew[name], abs=1e-6)
        assert name not in before or score == pytest.approx(before[name], abs=1e-6)


@pytest.mark.heavy
def test_classes_that_cannot_be_added_by_texts(
    run: tuple[str, str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more.csv").write_text("name\ndisc\n")
    for words, problem in (
        ([f"--from_text={tmp_path}/more.csv"], "has the class disc already"),
        ([f"--from_text={tmp_path}/more.csv", "--data=x"], "without --data; give one of them"),
        ([f"--from_text={tmp_path}/more.csv", "--template=x"], "it has no {}"),
        ([], "--data is missing"),
    ):
        assert cli.main(["add-classes", f"--model={run[1]}", f"--out={tmp_path}/more", *words]) == 2
        assert problem in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    ("content", "words", "problem"),
    [
        ("colour,size\nred,disc\nred,ball\n", [], "has no column 'name'; it has: colour, size"),
        ("", [], "has no column 'name'; it has: none"),
        ("name,name\ndisc,disc\n", [], "names a column twice"),
        ('name\ndisc\n"two\nlines"\n', [], "row 2: the name holds a line break or a control character"),
        ("name\n", [], "has no classes"),
        ("name,prompt\n,a disc\n", [], "row 1: the name is empty"),
        ("name\ndisc\n", ["--template=a video"], "it has no {}"),
        ("name\ndisc\n", ["--extractor=inception"], "expected hf:NAME with its pooled output"),
        ("name\ndisc\n", ["--pooling=mean"], "expected hf:NAME with its pooled output"),
    ],
)
def test_what_is_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: str, words: list[str], problem: str
) -> None:
    (tmp_path / "classes.csv").write_text(content)
    usual = [f"--classes={tmp_path}/classes.csv", f"--out={tmp_path}/zero"]
    usual += [] if any(word.startswith("--extractor") for word in words) else ["--extractor=hf:owner/name"]
    assert cli.main(["from-text", *usual, *words]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "zero").exists()


def test_a_table_that_is_not_utf8_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "classes.csv").write_bytes(b"name\ndisc\ncaf\x81\x8d\n")
    words = [f"--classes={tmp_path}/classes.csv", "--extractor=hf:owner/name", f"--out={tmp_path}/zero"]
    assert cli.main(["from-text", *words]) == 1
    assert "line 3: this is not UTF-8 text" in capsys.readouterr().err


def test_names_may_be_odd_and_come_from_parquet(tmp_path: pathlib.Path) -> None:
    import pyarrow
    from pyarrow import parquet

    names = ["comma, name", 'quo"te', "\U0001f600 smile", "<b>[x]</b>", "=1+1"]
    parquet.write_table(pyarrow.table({"name": names}), tmp_path / "classes.parquet")
    prompts = text_run.read_prompts(f"{tmp_path}/classes.parquet", "{}, {}")
    assert prompts == {name: [f"{name}, {name}"] for name in names}


def test_prompts_of_one_name_belong_together(tmp_path: pathlib.Path) -> None:
    (tmp_path / "classes.csv").write_text("\ufeff" + CLASSES)
    prompts = text_run.read_prompts(f"{tmp_path}/classes.csv", "a video of {}")
    assert list(prompts) == ["disc", "square", "stripes"]
    assert list(prompts.values()) == TEXTS
    with pytest.raises(UsageError, match=r"other\.csv: .*no such file"):
        text_run.read_prompts(f"{tmp_path}/other.csv", "{}")


@pytest.mark.heavy
def test_in_a_run_of_one_class_a_video_the_scores_add_up_to_1_over_all_classes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    data = DataConfig(feature_names=("x",), feature_sizes=(3,), num_classes=2, one_class=True)
    values = dict(zip(text_run._VARIABLES, (weights[:, :2], np.zeros(2, np.float32)), strict=True))
    config = TrainConfig(train_dir=f"{tmp_path}/one", data=data, model=ModelConfig(model="LogisticModel"))
    text_run.write_run(config, values, 1, vocabulary.of_names(["a", "b"]), "made")
    new = TextClassifier(weights[:, 2:], np.zeros(2, np.float32), has_bias=True)
    monkeypatch.setattr(text_run, "_make_classifier", lambda *_: new)
    (tmp_path / "more.csv").write_text("name\nc\nd\n")
    words = [f"--model={tmp_path}/one", f"--from_text={tmp_path}/more.csv", f"--out={tmp_path}/more"]
    assert cli.main(["add-classes", *words]) == 0
    assert "add up to 1, over all classes now" in capsys.readouterr().out
    videos = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    with yt8m.load(f"{tmp_path}/one") as old, yt8m.load(f"{tmp_path}/more") as grown:
        former, scores = (model.predict_proba(videos) for model in (old, grown))
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-6)
    kept = scores[:, :2] / scores[:, :2].sum(1, keepdims=True)
    np.testing.assert_allclose(kept, former, rtol=1e-5)
