"""inference --segment_labels on frame records, against the model computed by hand."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
from golden_data import golden
from reader_records import Parsed, frame_record, read_shard, write_shard

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.lazy import tf
from yt8m.readers import EverySegmentReader
from yt8m.records import vocabulary

CLASSES = list(range(3, 20, 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("segments")
    (folder / "classes.csv").write_text("Index\n" + "".join(f"{number}\n" for number in CLASSES))
    flags = [
        f"--train_data_pattern={golden('tiny_segment.tfrecord')}",
        f"--train_dir={folder}/run",
        "--frame_features",
        "--segment_labels",
        "--model=FrameLevelLogisticModel",
        "--feature_names=rgb,audio",
        "--feature_sizes=16,8",
        "--num_classes=20",
        "--batch_size=4",
        "--num_epochs=4",
        "--max_frames=60",
        "--export_model_steps=none",
    ]
    assert train.main(flags) == 0
    return folder


def infer(folder: pathlib.Path, *more: str, given: int = 0) -> bytes:
    output = folder / "out.csv"
    output.unlink(missing_ok=True)
    words = [f"--train_dir={folder}/run", f"--input_data_pattern={golden('tiny_segment.tfrecord')}"]
    given_too = {word.partition("=")[0] for word in more}
    words = [word for word in words if word.partition("=")[0] not in given_too]
    if "--input_model_tgz" in given_too:
        words = words[1:]
    assert inference.main([*words, f"--output_file={output}", "--segment_labels", *more]) == given
    return output.read_bytes() if not given else b""


def by_hand(folder: pathlib.Path, context: int = 0, shifts: tuple[int, ...] = (0,)) -> dict[int, list[str]]:
    """All segments of each class, best first, by NumPy."""
    reader = EverySegmentReader(20, (16, 8), max_frames=60, context=context, shifts=shifts)
    parsed = Parsed(reader)(read_shard(golden("tiny_segment.tfrecord")))
    weights = tf.train.load_checkpoint(str(folder / "run"))
    x = parsed["video_matrix"].astype(np.float64)
    x = x / np.sqrt(np.maximum((x**2).sum(-1, keepdims=True), 1e-12))
    mean = x.sum(1) / np.maximum(parsed["num_frames"][:, None], 1)
    logits = mean @ weights.get_tensor("tower/fully_connected/weights")
    logits += weights.get_tensor("tower/fully_connected/biases")
    scores = (1 / (1 + np.exp(-logits))).reshape(-1, len(shifts), 20).mean(1)
    names = [name.decode() for name in parsed["video_ids"].tolist()][:: len(shifts)]
    return {number: [names[at] for at in np.argsort(-scores[:, number], kind="stable")] for number in range(20)}


@pytest.fixture(scope="module")
def film(run: pathlib.Path) -> pathlib.Path:
    """A run that sees the mean of the whole video too."""
    words = [f"--train_data_pattern={golden('tiny_segment.tfrecord')}", f"--train_dir={run}/film", "--film_mean"]
    words += ["--frame_features", "--segment_labels", "--model=FrameLevelLogisticModel", "--feature_names=rgb,audio"]
    words += [
        "--feature_sizes=16,8",
        "--num_classes=20",
        "--batch_size=4",
        "--num_epochs=4",
        "--max_frames=60",
        "--export_model_steps=none",
    ]
    assert train.main(words) == 0
    return run / "film"


@pytest.mark.heavy
def test_a_run_that_sees_the_whole_video(run: pathlib.Path, film: pathlib.Path) -> None:
    """Each segment is ranked by its own mean frame and by the mean of its video."""
    lists = infer(run, f"--segment_label_ids_file={run}/classes.csv", f"--train_dir={film}")
    reader = EverySegmentReader(20, (16, 8), max_frames=60)
    reader.film_mean = True
    parsed = Parsed(reader)(read_shard(golden("tiny_segment.tfrecord")))
    weights = tf.train.load_checkpoint(str(film))

    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.maximum((x**2).sum(-1, keepdims=True), 1e-12))

    segments = unit(parsed["video_matrix"].astype(np.float64)).sum(1) / np.maximum(parsed["num_frames"][:, None], 1)
    seen = np.concatenate([segments, unit(np.concatenate(parsed["film_means"], -1).astype(np.float64))], 1)
    logits = seen @ weights.get_tensor("tower/fully_connected/weights")
    logits += weights.get_tensor("tower/fully_connected/biases")
    names = [name.decode() for name in parsed["video_ids"].tolist()]
    for number in CLASSES:
        expected = [names[at] for at in np.argsort(-logits[:, number], kind="stable")]
        assert lists_of(lists)[number] == expected


@pytest.mark.heavy
def test_such_a_run_is_evaluated_on_segments_and_on_videos(film: pathlib.Path) -> None:
    words = [f"--train_dir={film}", f"--eval_data_pattern={golden('tiny_segment.tfrecord')}", "--run_once"]
    assert evaluation.main([*words, "--segment_labels"]) == 0
    assert evaluation.main(words) == 0  # whole videos, each with its own mean


def lists_of(content: bytes) -> dict[int, list[str]]:
    lines = content.decode().splitlines()
    assert lines[0] == "Class,Segments"
    rows = (line.split(",") for line in lines[1:])
    return {int(number): segments.split() for number, segments in rows}


@pytest.fixture(scope="module")
def ranked(run: pathlib.Path) -> bytes:
    """The lists of the run, which is packed too."""
    files = [f"--segment_label_ids_file={run}/classes.csv", f"--output_model_tgz={run}/m.tgz"]
    return infer(run, *files, "--batch_size=64")


@pytest.mark.parametrize("context", [0, pytest.param(2, marks=pytest.mark.heavy)])
def test_ranks_every_segment(run: pathlib.Path, ranked: bytes, context: int) -> None:
    more = [f"--segment_label_ids_file={run}/classes.csv", f"--segment_context={context}"]
    found, expected = lists_of(infer(run, *more) if context else ranked), by_hand(run, context)
    assert list(found) == CLASSES
    assert len(found[3]) > 50
    assert found == {number: expected[number] for number in CLASSES}


@pytest.mark.heavy
@pytest.mark.parametrize("batch_size", [4, 64])  # the windows of a segment may be in two batches
def test_scores_are_the_means_of_shifted_windows(run: pathlib.Path, ranked: bytes, batch_size: int) -> None:
    words = ["--segment_shifts=-2,0,1", f"--batch_size={batch_size}"]
    shifted = infer(run, f"--segment_label_ids_file={run}/classes.csv", *words)
    expected = by_hand(run, shifts=(-2, 0, 1))
    assert lists_of(shifted) == {number: expected[number] for number in CLASSES}
    assert shifted != ranked
    assert sorted(lists_of(shifted)[3]) == sorted(lists_of(ranked)[3])


def test_the_cut_and_the_batch_size(run: pathlib.Path, ranked: bytes) -> None:
    files = [f"--segment_label_ids_file={run}/classes.csv", "--segment_max_pred=7"]
    found = lists_of(infer(run, *files, "--batch_size=3"))
    assert found == {number: segments[:7] for number, segments in lists_of(ranked).items()}


@pytest.mark.heavy
def test_the_published_classes_that_the_model_has(run: pathlib.Path) -> None:
    published = vocabulary.segment_classes()
    assert list(lists_of(infer(run))) == published[published < 20].tolist()


@pytest.mark.heavy
def test_all_classes_of_a_vocabulary_of_ones_own(run: pathlib.Path) -> None:
    vocabulary.write(f"{run}/own.csv", vocabulary.of_names([f"gesture {number}" for number in range(20)]))
    assert list(lists_of(infer(run, f"--vocabulary={run}/own.csv"))) == list(range(20))
    (run / "own.csv").unlink()


@pytest.mark.heavy
def test_a_packed_model_ranks_alike(run: pathlib.Path, ranked: bytes) -> None:
    packed = [f"--input_model_tgz={run}/m.tgz", f"--untar_model_dir={run}/u"]
    assert infer(run, f"--segment_label_ids_file={run}/classes.csv", *packed) == ranked


@pytest.mark.heavy
def test_candidates_limit_the_classes_of_a_video(run: pathlib.Path, ranked: bytes) -> None:
    files = [f"--segment_label_ids_file={run}/classes.csv"]
    every = lists_of(ranked)
    videos = sorted({name.split(":")[0] for name in every[3]})
    allowed = {video: {3, 4} if at % 2 else {5} for at, video in enumerate(videos)}
    lines = [f"{video}," + " ".join(f"{c} 0.5" for c in sorted(classes)) for video, classes in allowed.items()]
    (run / "videos.csv").write_text("VideoId,LabelConfidencePairs\n" + "\n".join(lines) + "\n")
    found = lists_of(infer(run, *files, f"--candidates_from={run}/videos.csv"))
    for number in CLASSES:
        assert found[number] == [name for name in every[number] if number in allowed[name.split(":")[0]]]
    (run / "videos.csv").write_text("\n".join(lines[1:]) + "\n")
    infer(run, *files, f"--candidates_from={run}/videos.csv", given=1)


def test_no_frame_is_no_list(run: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    lists = {"rgb": np.zeros((0, 16), np.uint8), "audio": np.zeros((0, 8), np.uint8)}
    path = write_shard(run / "empty.tfrecord", [frame_record({"id": [b"v"]}, lists)])
    infer(run, f"--input_data_pattern={path}", given=1)
    assert "hold no frame" in capfd.readouterr().err
    assert not (run / "out.csv").exists()


def test_what_cannot_be(run: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (run / "high.csv").write_text("Index\n3\n25\n")
    infer(run, f"--segment_label_ids_file={run}/high.csv", given=2)
    assert re.search(r"class 25 is not.*\b0 to 19\b", capfd.readouterr().err)
    (run / "words.csv").write_text("Index\n3\nx\n")
    infer(run, f"--segment_label_ids_file={run}/words.csv", given=1)
    assert "words.csv, line 3: " in capfd.readouterr().err
    words = [f"--train_dir={run}/run", f"--input_data_pattern={golden('tiny_segment.tfrecord')}"]
    assert inference.main([*words, "--segment_context=3"]) == 2
    assert "--segment_context needs --segment_labels" in capfd.readouterr().err
    assert inference.main([*words, "--segment_shifts=1"]) == 2
    assert "--segment_shifts needs --segment_labels" in capfd.readouterr().err
    assert not (run / "out.csv").exists()
