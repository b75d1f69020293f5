"""A batch of videos to label: against a loop, and in the files that are written."""

from __future__ import annotations

import csv
import json
import pathlib
import types
from typing import Any

import numpy as np
import pytest
from labels.own_labels import NAMES, make_records, write_table

from yt8m.command_line import cli
from yt8m.errors import UsageError
from yt8m.eval_util.top_k import top_k
from yt8m.labels import batch_selection
from yt8m.labels.batch_selection import LabelledVideos, SelectConfig, UnlabelledVideos, select, tags_of
from yt8m.records import vocabulary
from yt8m.records.batches import read_records
from yt8m.records.opened_data import open_data

VIDEOS, CLASSES, SIZE = 80, 6, 5


def candidates() -> UnlabelledVideos:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(VIDEOS, SIZE)).astype(np.float32)
    directions[40:60] = directions[0] + rng.normal(0, 0.01, (20, SIZE))  # nearly the same video
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    scores = rng.random((VIDEOS, CLASSES), np.float32)
    scores[40:60] = 0.5
    ids = [f"v{number}" for number in range(VIDEOS)]
    return UnlabelledVideos(ids, top_k(scores, CLASSES), scores.mean(0, dtype=np.float64), directions)


COUNTS = np.array([100, 50, 20, 10, 5, 1])
LABELLED = LabelledVideos(150, COUNTS, np.eye(SIZE, dtype=np.float32)[:2])


def config(by: str, count: int = 12, seed: int = 0) -> SelectConfig:
    return SelectConfig("run", "data", "out.csv", count, by, seed=seed)


def scores_of(of: UnlabelledVideos) -> np.ndarray:
    scores = np.zeros((VIDEOS, CLASSES))
    np.put_along_axis(scores, of.best.classes.astype(np.int64), of.best.scores, 1)
    return scores


def rescaled(score: float, mean: float, share: float) -> float:
    """Bayes' rule, if a class has another frequency than the mean of the scores."""
    present, absent = score * share / mean, (1 - score) * (1 - share) / (1 - mean)
    return present / (present + absent)


def test_the_batch_is_that_of_a_loop() -> None:
    of, worth = candidates(), np.zeros(VIDEOS)
    for (row, number), score in np.ndenumerate(scores_of(of)):
        chance = rescaled(score, of.mean_scores[number], (COUNTS[number] + 0.5) / 151)
        worth[row] += 2 * np.sqrt(chance * (1 - chance)) / (1 + COUNTS[number])
    chosen: list[int] = []
    for _ in range(12):
        others = [*LABELLED.directions, *of.directions[chosen]]
        gains = [worth[row] * min(1 - of.directions[row] @ other for other in others) ** 15 for row in range(VIDEOS)]
        chosen.append(max((row for row in range(VIDEOS) if row not in chosen), key=lambda row: gains[row]))
    selection = select(of, LABELLED, config("all"))
    assert selection.indices.tolist() == chosen
    assert sum(40 <= index < 60 for index in chosen) <= 1  # one of the videos that are alike
    assert selection.values == pytest.approx(worth[chosen], rel=1e-5)


def test_uncertainty_alone_is_the_top_of_a_list() -> None:
    of = candidates()
    selection = select(of, LABELLED, config("uncertainty"))
    variances = (4 * scores_of(of) * (1 - scores_of(of))).sum(1)
    assert selection.indices.tolist() == np.argsort(-variances, kind="stable")[:12].tolist()
    assert sum(40 <= index < 60 for index in selection.indices) == 12


def test_scores_of_0_and_1_and_classes_that_are_never_or_always_there_do_no_harm() -> None:
    scores = np.tile(np.array([[0, 1, 0, 1, 0.5, 1e-30]], np.float32), (VIDEOS, 1))
    of = UnlabelledVideos(
        candidates().ids, top_k(scores, CLASSES), scores.mean(0, dtype=np.float64), candidates().directions
    )
    counts = LABELLED._replace(counts=np.array([0, 150, 150, 0, 75, 0]))
    assert np.isfinite(select(of, counts, config("all")).values).all()


def test_a_random_batch_depends_on_its_seed() -> None:
    first, again, other = (select(candidates(), LABELLED, config("random", seed=seed)) for seed in (0, 0, 1))
    assert first.indices.tolist() == again.indices.tolist() != other.indices.tolist()
    assert len(set(first.indices.tolist())) == 12


def test_no_more_videos_are_chosen_than_there_are() -> None:
    assert sorted(select(candidates(), LABELLED, config("all", 500)).indices.tolist()) == list(range(VIDEOS))


def test_the_name_of_the_file_fits_its_format() -> None:
    with pytest.raises(UsageError, match=r"--out=out\.csv: .*--format=label-studio\b.* \.json"):
        SelectConfig("run", "data", "out.csv", format="label-studio")


def test_files_without_a_record_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_selection, "read_records", lambda *_, **__: [])
    scorer: Any = types.SimpleNamespace(num_classes=CLASSES, check=lambda _: None)
    with pytest.raises(UsageError, match=r"--data=a\.tfrecord: .*no record"):
        batch_selection.read_candidates(scorer, "a.tfrecord")
    with pytest.raises(UsageError, match=r"labelled videos, a\.tfrecord, have no record"):
        batch_selection.read_labelled(scorer, open_data(None).of_files(["a.tfrecord"]))


def test_labelled_videos_with_other_numbers_of_classes_are_refused(tmp_path: pathlib.Path) -> None:
    takes = types.SimpleNamespace(folder="run")
    scorer: Any = types.SimpleNamespace(shown_names=vocabulary.of_names(["cat", "dog"]), takes=takes)
    pattern = str(tmp_path / "a.tfrecord")
    batch_selection.refuse_other_numbers(scorer, open_data(None).vocabulary)
    (tmp_path / "a.tfrecord").touch()
    for names in ([], ["cat"], ["cat", "dog"], ["cat", "dog", "bird"]):
        if names:
            vocabulary.write(str(tmp_path / vocabulary.NAME), vocabulary.of_names(names))
        batch_selection.refuse_other_numbers(scorer, open_data(pattern).vocabulary)
    vocabulary.write(str(tmp_path / vocabulary.NAME), vocabulary.of_names(["dog", "cat", "bird"]))
    with pytest.raises(UsageError, match=r"class 0 is 'cat' in run, and 'dog' in .*vocabulary\.csv"):
        batch_selection.refuse_other_numbers(scorer, open_data(pattern).vocabulary)


def test_what_is_left_of_the_candidates_keeps_its_rows() -> None:
    of = candidates()
    left = of.without({"v1", "v79", "other"})
    rows = [row for row in range(VIDEOS) if row not in (1, 79)]
    assert left.ids == [f"v{row}" for row in rows]
    assert left.best.classes.tolist() == of.best.classes[rows].tolist()
    assert left.best.scores.tolist() == of.best.scores[rows].tolist()
    assert left.directions.tolist() == of.directions[rows].tolist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a run and the videos that it was trained on."""
    folder = tmp_path_factory.mktemp("selection")
    write_table(folder)
    make_records(folder)
    pattern = f"{folder}/data/video/train/*.tfrecord"
    words = [
        f"--train_data_pattern={pattern}",
        f"--train_dir={folder}/run",
        "--batch_size=16",
        "--num_epochs=5",
        "--export_model_steps=none",
    ]
    assert cli.main(["train", *words]) == 0
    return folder


def words_for(trained: pathlib.Path, *splits: str) -> list[str]:
    patterns = ",".join(f"{trained}/data/video/{name}/*.tfrecord" for name in splits)
    return [f"--model={trained}/run", f"--data={patterns}"]


@pytest.mark.long
def test_a_table_and_tasks_are_written(trained: pathlib.Path, tmp_path: pathlib.Path) -> None:
    of_run = [*words_for(trained, "test"), "--count=5"]
    assert cli.main(["select", *of_run, f"--out={tmp_path}/next.csv", "--dry_run"]) == 0
    assert not (tmp_path / "next.csv").exists()
    assert cli.main(["select", *of_run, f"--out={tmp_path}/next.csv"]) == 0
    with (tmp_path / "next.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert {part.split()[0] for row in rows for part in row["classes"].split("; ")} == set(NAMES)
    address = "/data/local-files/?d=clips/v1.mp4"
    (tmp_path / "media.csv").write_text(f"id,address\n{rows[0]['video']},{address}\n")
    tasks_words = [*of_run, "--format=label-studio", f"--out={tmp_path}/tasks.json", f"--media={tmp_path}/media.csv"]
    assert cli.main(["select", *tasks_words]) == 0
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["data"] for task in tasks] == [
        {"video": address if row is rows[0] else row["video"], "id": row["video"]} for row in rows
    ]
    for prediction in (prediction for task in tasks for prediction in task["predictions"]):
        (result,) = prediction["result"]
        assert (result["type"], result["from_name"], result["to_name"]) == ("choices", "classes", "video")
        assert set(result["value"]["choices"]) <= set(NAMES)

    thresholds = [(1.0, "cat"), (0.0, "dog"), (1.0, "bird")]  # each video has the tag dog, and no other
    lines = [f"{index},{name},{least},class,9,,,,1" for index, (least, name) in enumerate(thresholds)]
    (trained / "run/eval").mkdir()
    header = "index,name,threshold,basis,positives,precision,recall,f1,step"
    (trained / "run/eval/thresholds.csv").write_text("\n".join([header, *lines]) + "\n")
    assert cli.main(["select", *tasks_words]) == 0
    tagged = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["predictions"][0]["result"][0]["value"]["choices"] for task in tagged] == [["dog"]] * 5


@pytest.mark.long
def test_labelled_videos_are_not_chosen(
    trained: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    labelled = f"{trained}/data/video/validate/*.tfrecord"
    words = [*words_for(trained, "test", "validate"), f"--labelled={labelled}", "--count=1000"]
    assert cli.main(["select", *words, f"--out={tmp_path}/unlabelled.csv"]) == 0
    with (tmp_path / "unlabelled.csv").open(newline="") as file:
        chosen = {row["video"] for row in csv.DictReader(file)}
    test_ids, labelled_ids = (
        {video for batch in read_records(f"{trained}/data/video/{split}/*.tfrecord") for video in batch.ids}
        for split in ("test", "validate")
    )
    assert chosen == test_ids
    said = capfd.readouterr().out.splitlines()[-1]
    assert said.startswith(f"left out of --data: {len(labelled_ids)} videos, labelled already in ")

    assert cli.main(["select", *words_for(trained, "train"), f"--out={tmp_path}/none.csv"]) == 2
    assert "among the labelled ones" in capfd.readouterr().err
    assert not (tmp_path / "none.csv").exists()


def test_without_thresholds_tags_are_as_many_as_labels() -> None:
    best = top_k(np.array([[0.1, 0.3, 0.2], [0.02, 0.05, 0.4], [0.0, 0.15, 0.04]], np.float32), 3)
    of_two = LabelledVideos(2, np.array([2, 0, 1]), np.zeros((0, 1), np.float32))  # 1.5 labels a video
    assert tags_of(best, of_two, None).sum() == 4
    assert sorted(best.scores[tags_of(best, of_two, None)].tolist()) == pytest.approx([0.15, 0.2, 0.3, 0.4])
