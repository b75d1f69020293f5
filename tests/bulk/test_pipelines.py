"""`yt8m bulk` with real worker processes of Beam's DirectRunner."""

from __future__ import annotations

import glob
import json
import os
import pathlib
import re
import sys

import pytest
from bulk_data import FRAME, frame_shards, lines_of, predictions, same_rows, trained, trained_on_videos
from bulk_jobs import finish, start
from terminal import on_a_terminal

from yt8m import eval as evaluation
from yt8m import inference, storage

pytestmark = [pytest.mark.heavy]
SIZES = (5, 9, 2, 7)


@pytest.fixture(scope="module", autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A run, and the pattern of its shards."""
    return trained_on_videos(tmp_path_factory.mktemp("video"), SIZES)


def test_predictions_are_those_of_inference_and_a_used_folder_is_refused(
    video: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "out"
    said = finish(start("infer", *video, output, "--batch_size=4"))
    assert same_rows(lines_of(output), predictions(*video, tmp_path))
    assert json.loads((output / "predictions.json").read_text())["global_step"] == 6
    assert sorted(path.name for path in output.iterdir()) == [
        "job.json",
        *(f"part{number}.csv" for number in range(len(SIZES))),
        "predictions.json",
    ]
    assert "23 records of 4 shards were read" in said
    assert "add --resume" in finish(start("infer", *video, output), 2)
    other = finish(start("infer", *video, output, "--batch_size=4", "--resume", "--top_k=3"), 2)
    assert "holds a job whose top_k is 20, but this job has 3; give --top_k=20" in other


def test_a_job_does_not_go_on_with_another_shard_or_other_weights(
    video: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    run, pattern = video
    output = tmp_path / "out"
    words = ["infer", *video, output, "--batch_size=4"]
    finish(start(*words))
    finish(start(*words, "--resume"))
    # The first one that differs is named, so the last one is changed first.
    for path in sorted((sorted(glob.glob(pattern))[1], f"{run}/model.ckpt-6.index"), reverse=True):
        before = os.stat(path)
        os.utime(path)  # as if the file had been written again, with as many bytes
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        said = finish(start(*words, "--resume"), 2)
        assert re.search(f"--resume: {path} was .*{output}; name another folder", said)


def test_model_shards_and_predictions_may_be_in_a_bucket(
    video: tuple[str, str], bucket: str, tmp_path: pathlib.Path
) -> None:
    run, pattern = video
    for folder, target in ((run, "run"), (os.path.dirname(pattern), "data")):
        for path in filter(pathlib.Path.is_file, pathlib.Path(folder).rglob("*")):
            with storage.write_atomic(f"{bucket}/{target}/{path.relative_to(folder)}") as file:
                file.write(path.read_bytes())
    words = (f"{bucket}/run", f"{bucket}/data/part*.tfrecord", f"{bucket}/out", "--batch_size=4")
    finish(start("infer", *words))
    for name in storage.names_in(f"{bucket}/out"):
        (tmp_path / name).write_bytes(storage.read_bytes(f"{bucket}/out/{name}"))
    assert same_rows(lines_of(tmp_path), predictions(*video, tmp_path))
    assert not storage.exists(f"{bucket}/out/parts")
    storage.remove(f"{bucket}/out/part2.csv")
    assert "3 of 4 shards are done already" in finish(start("infer", *words, "--resume"))
    assert storage.read_bytes(f"{bucket}/out/part2.csv") == (tmp_path / "part2.csv").read_bytes()


@pytest.mark.promise("O3")
def test_resuming_writes_what_is_missing(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    output = tmp_path / "out"
    words = [f"--model={video[0]}", f"--input={video[1]}", f"--output={output}", "--batch_size=4"]
    shown = on_a_terminal([sys.executable, "-m", "yt8m", "bulk", "infer", *words])
    assert re.search(r"4/4 shards [\d.]+ records/s", shown)
    assert not (output / "parts").exists()
    whole = lines_of(output)
    (output / "part1.csv").unlink()
    kept = (output / "part0.csv").stat().st_mtime_ns
    assert "3 of 4 shards are done already" in finish(start("infer", *video, output, "--batch_size=4", "--resume"))
    assert lines_of(output) == whole
    assert (output / "part0.csv").stat().st_mtime_ns == kept


def test_figures_are_those_of_eval(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    run, pattern = video
    process = start("eval", run, pattern, tmp_path / "out", "--batch_size=4", "--json")
    printed, table = process.communicate(timeout=600)
    assert process.returncode == 0
    words = [f"--train_dir={run}", f"--eval_data_pattern={pattern}", "--run_once", f"--eval_dir={tmp_path}"]
    assert evaluation.main([*words, "--batch_size=4"]) == 0
    expected = json.loads((tmp_path / "eval/report.json").read_text())
    found = json.loads((tmp_path / "out/report.json").read_text())
    assert json.loads(printed) == found
    assert found["classes"] == expected["classes"]
    assert found["metrics"] == expected["metrics"]
    for key in ("gap", "map", "hit_at_one", "perr", "gap_head", "gap_middle", "gap_tail", "map_head", "map_tail"):
        assert found[key] == pytest.approx(expected[key], abs=1e-12)
        assert f"{expected[key]:.4f}" in table
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    assert (found["num_examples"], found["global_step"], found["model"]) == (23, 6, "MoeModel")


def test_lists_of_segments_are_those_of_inference(tmp_path: pathlib.Path) -> None:
    pattern = frame_shards(tmp_path, (3, 4, 1))
    run = trained(tmp_path, pattern, "FrameLevelLogisticModel", *FRAME)
    finish(start("rank", run, pattern, tmp_path / "out[1]", "--batch_size=8", "--segment_max_pred=6"))
    words = [f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={tmp_path}/whole.csv"]
    assert inference.main([*words, "--batch_size=8", "--segment_labels", "--segment_max_pred=6"]) == 0
    assert (tmp_path / "out[1]/segments.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_a_damaged_shard_ends_the_job_or_is_counted(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for path in pathlib.Path(video[1]).parent.glob("*.tfrecord"):
        content = path.read_bytes()
        (folder / path.name).write_bytes(content[:-5] if path.name == "part1.tfrecord" else content)
    pattern = f"{folder}/part*.tfrecord"
    said = finish(start("infer", video[0], pattern, tmp_path / "strict"), 1)
    assert "part1.tfrecord: record 8" in said
    assert not (tmp_path / "strict/part1.csv").exists()
    assert not (tmp_path / "strict/predictions.json").exists()
    finish(start("infer", video[0], pattern, tmp_path / "lenient", "--max_bad_records=1"))
    assert len(lines_of(tmp_path / "lenient")) == 1 + sum(SIZES) - 1
    assert "part1.tfrecord: record 8" in (tmp_path / "lenient/bad_records.txt").read_text()
