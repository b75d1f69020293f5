"""What the jobs of `yt8m bulk` write about their model."""

from __future__ import annotations

import contextlib
import pathlib
import shutil

import pytest
from bulk_data import FRAME, VIDEO, frame_shards, trained, video_shards
from small_exports import checkpoint

from yt8m import inference, storage, train
from yt8m.bulk.bulk_config import COMMANDS, BulkConfig, EvalBulk, InferBulk, RankBulk, ShardTask
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.records.opened_data import open_data
from yt8m.runs import best_checkpoint
from yt8m.runs.opened_run import open_run


@pytest.fixture(autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


def test_a_job_that_died_before_its_note_was_written_can_be_started_again(tmp_path: pathlib.Path) -> None:
    from yt8m.bulk import jobs

    (tmp_path / ".job.json.4000000.5bce98f7bbf6c6dd.tmp").touch()
    (tmp_path / ".lock").touch()
    jobs._claim_folder("infer", InferBulk(model="m", data="i", out=str(tmp_path), resume=True), {"model": "m"}, True)
    assert (tmp_path / "job.json").exists()
    with pytest.raises(UsageError, match="--resume"):
        jobs._claim_folder("infer", InferBulk(model="m", data="i", out=str(tmp_path)), {"model": "m"}, True)


@pytest.mark.parametrize(("name", "config"), [("eval", EvalBulk), ("rank", RankBulk)])
@pytest.mark.parametrize(
    ("has_result", "was_killed", "is_changed", "begins"),
    [(False, False, False, True), (True, True, False, True), (True, False, False, False), (False, True, True, False)],
    ids=["no result", "killed at its end", "ended", "other data"],
)
def test_an_interrupted_evaluation_or_ranking_begins_again_by_the_same_command(
    tmp_path: pathlib.Path,
    name: str,
    config: type[BulkConfig],
    has_result: bool,
    was_killed: bool,
    is_changed: bool,
    begins: bool,
) -> None:
    from yt8m.bulk import jobs

    def claim(was_killed: bool) -> None:
        tasks = [ShardTask(0, str(tmp_path / "shard"))]
        jobs._claim_folder(name, job, jobs._describe_job(name, job, tasks, "w"), was_killed)

    job = config(model="m", data="i", out=str(tmp_path / "out"))
    storage.write(tmp_path / "shard", "old")
    claim(was_killed=False)
    left = {"bad_records.txt", "parts/done.json", *([COMMANDS[name].result] if has_result else [])}
    for path in left:
        storage.write(tmp_path / "out" / path, "old")
    if is_changed:
        storage.write(tmp_path / "shard", "longer")
    with contextlib.nullcontext() if begins else pytest.raises(UsageError, match="holds files already"):
        claim(was_killed)
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"job.json", *(() if begins else left)}


@pytest.mark.parametrize(
    ("begun", "given", "remedy"), [(4, None, r"4.*None.*--batch_size=4"), (None, 8, r"None.*8.*--batch_size,")]
)
def test_a_job_of_another_batch_size_says_what_goes_on_with_it(
    begun: int | None, given: int | None, remedy: str, tmp_path: pathlib.Path
) -> None:
    from yt8m.bulk import jobs

    for size, expectation in ((begun, contextlib.nullcontext()), (given, pytest.raises(UsageError, match=remedy))):
        config = InferBulk(model="m", data="i", out=str(tmp_path), resume=True, batch_size=size)
        with expectation:
            jobs._claim_folder("infer", config, jobs._describe_job("infer", config, [], "w"), False)


@pytest.mark.parametrize("choice", ["", "best"])
def test_all_workers_of_a_job_score_with_the_checkpoint_that_was_the_best_when_it_began(
    tmp_path: pathlib.Path, choice: str
) -> None:
    """Also if a validation keeps a better one meanwhile: the workers of the first one find it, or fail."""
    from yt8m.bulk import jobs

    run, source = tmp_path / "run", tmp_path / "source"
    (run / "best").mkdir(parents=True)
    source.mkdir()
    data, _, prefix = checkpoint(source, "LogisticModel")
    run_dir.write(str(run), TrainConfig(data=data, train_dir=str(run), checkpoint="best"))
    for path in source.glob("model.ckpt.*"):
        for copy in (run / "model.ckpt-30", run / "best/model.ckpt-24"):
            shutil.copy(path, f"{copy}{str(path).removeprefix(prefix)}")
    config = InferBulk(model=str(run), data="d", out="o", checkpoint=choice)
    fixed, weights, step = jobs._fix_checkpoint(config)
    assert (step, weights) == (24, f"{run}/best/model.ckpt-24")
    assert open_run(str(run)).checkpoint(fixed.checkpoint) == weights
    best_checkpoint.replace_best(str(run), f"{run}/model.ckpt-30", 30, {})
    with pytest.raises(UsageError, match="24"):
        open_run(str(run)).checkpoint(fixed.checkpoint)


@pytest.mark.heavy
def test_the_report_has_the_classes_and_the_step_of_a_run_an_export_and_an_archive(tmp_path: pathlib.Path) -> None:
    from yt8m.bulk import jobs

    pattern = video_shards(tmp_path, (5,))
    run = trained(tmp_path, pattern, "LogisticModel", *VIDEO)
    assert inference.main([f"--train_dir={run}", f"--output_model_tgz={tmp_path}/model.tgz"]) == 0
    (tmp_path / "nameless").mkdir()
    shard = shutil.copy(pattern.replace("*", "0"), tmp_path / "nameless")
    (export,) = pathlib.Path(run, "export").iterdir()
    for model in (run, str(export), f"{tmp_path}/model.tgz"):
        config = EvalBulk(model=model, data=str(shard), out="o")
        names = jobs._class_names(config, open_data(config.data), 7)
        assert [names.name(index) for index in range(7)] == [f"name {index}" for index in range(7)], model
        assert jobs._fix_checkpoint(config)[2] == int(export.name), model


@pytest.mark.parametrize(
    ("model", "data", "refusal"),
    [("export.onnx", "a.tfrecord", "--cache"), ("model.tgz", "gs://b/a.tfrecord", "gs://b/a.tfrecord")],
)
def test_a_cache_that_cannot_serve_is_refused_before_the_work(
    model: str, data: str, refusal: str, tmp_path: pathlib.Path
) -> None:
    from yt8m.bulk import jobs

    (tmp_path / model).touch()
    config = InferBulk(model=str(tmp_path / model), data=data, out=str(tmp_path / "out"), cache=str(tmp_path / "cache"))
    with pytest.raises(UsageError, match=refusal):
        jobs.run("infer", config, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [model]


@pytest.mark.parametrize(
    ("config", "refusal"),
    [
        (InferBulk(model="a.onnx", data="d", out="o", max_bad_records=2), "--max_bad_records"),
        (EvalBulk(model="a.onnx", data="d", out="o", segment_labels=True), "--segment_labels"),
        (InferBulk(model="a.onnx", data="d", out="o", checkpoint="best"), r"a\.onnx"),
        (InferBulk(model="a.tgz", data="d", out="o", checkpoint="5"), r"a\.tgz"),
    ],
)
def test_what_needs_a_run_is_refused_before_the_work(
    config: BulkConfig, refusal: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from yt8m.bulk import jobs

    monkeypatch.chdir(tmp_path)
    pathlib.Path(config.model).touch()
    with pytest.raises(UsageError, match=refusal):
        jobs.run("infer", config, [])
    assert [path.name for path in tmp_path.iterdir()] == [config.model]


@pytest.mark.heavy
def test_what_cannot_rank_segments_is_refused_before_the_work(tmp_path: pathlib.Path) -> None:
    from yt8m.bulk import jobs

    words = ["--model=FrameLevelLogisticModel", f"--train_data_pattern={frame_shards(tmp_path, (9,), is_rated=True)}"]
    words += [*FRAME, "--segment_labels", "--film_mean", "--max_steps=1", "--batch_size=4"]
    assert train.main([*words, f"--train_dir={tmp_path}/run", f"--export_dir={tmp_path}/export"]) == 0
    refusals = {"run": "--film_mean", "export": "rank needs"}
    for model, refusal in refusals.items():
        config = RankBulk(model=f"{tmp_path}/{model}", data=f"{tmp_path}/rated/part*.tfrecord", out=f"{tmp_path}/out")
        with pytest.raises(UsageError, match=refusal):
            jobs.run("rank", config, [])
        assert not (tmp_path / "out").exists()
