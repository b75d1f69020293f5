"""The work of one shard, in this process and without Beam, against inference.py and eval.py."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import cases
import numpy as np
import pytest
from bulk_data import FRAME, frame_shards, same_rows, trained, trained_on_videos
from hypothesis import given
from hypothesis import strategies as st

from yt8m import eval as evaluation
from yt8m import inference
from yt8m.bulk import shard_work
from yt8m.bulk.bulk_config import EvalBulk, InferBulk, RankBulk, ShardTask
from yt8m.bulk.shard_work import RankedSegments
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.model_input import padded


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A run, and the pattern of its shards."""
    return trained_on_videos(tmp_path_factory.mktemp("video"), (5, 9, 2))


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The same at frame level."""
    folder = tmp_path_factory.mktemp("frame")
    pattern = frame_shards(folder, (3, 4))
    return trained(folder, pattern, "FrameLevelLogisticModel", *FRAME), pattern


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    shard_work.close_models()


def shards_of(pattern: str, output: pathlib.Path) -> list[ShardTask]:
    files = sorted(pathlib.Path(pattern).parent.glob("*.tfrecord"))
    return [ShardTask(number, str(path), f"{output}/{path.stem}.csv") for number, path in enumerate(files)]


def test_the_files_of_all_shards_together_are_the_file_of_inference(
    video: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    run, pattern = video
    whole = tmp_path / "whole.csv"
    words = [f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={whole}", "--top_k=4"]
    assert inference.main([*words, "--batch_size=4"]) == 0
    config = InferBulk(model=run, data=pattern, out=str(tmp_path / "out"), top_k=4, batch_size=4)
    lines: list[str] = []
    for shard in shards_of(pattern, tmp_path / "out"):
        done = shard_work.predict(config, shard)
        text = pathlib.Path(shard.output).read_text().splitlines()
        assert (done.records, done.bad, done.error) == (len(text) - 1, "", "")
        lines += text[bool(lines) :]
    assert same_rows(lines, whole.read_text().splitlines())
    assert len(lines) == 17


def test_a_worker_reads_the_manifest_that_is_named(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    """Without it, a worker does not know of which range the bytes are, nor how many records there must be."""
    run, pattern = video
    (shard, *_) = shards_of(pattern, tmp_path / "out")
    content = {"records": 99, "bytes": 1, "crc32c": "00000000"}
    shards = {os.path.relpath(shard.path, tmp_path): content}
    (tmp_path / "elsewhere.json").write_text(json.dumps({"format": "yt8m manifest 1", "shards": shards}))
    config = InferBulk(model=run, data=pattern, out=str(tmp_path / "out"), manifest=str(tmp_path / "elsewhere.json"))
    with pytest.raises(RunError, match="99"):
        shard_work.predict(config, shard)


@pytest.mark.heavy
def test_the_lists_of_all_shards_joined_are_those_of_inference(frame: tuple[str, str], tmp_path: pathlib.Path) -> None:
    run, pattern = frame
    words = [f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={tmp_path}/whole.csv"]
    assert (
        inference.main(
            [*words, "--batch_size=8", "--segment_labels", "--segment_max_pred=5", "--segment_shifts=-1,0,2"]
        )
        == 0
    )
    shifts = (-1, 0, 2)
    config = RankBulk(
        model=run, data=pattern, out=str(tmp_path), batch_size=8, segment_max_pred=5, segment_shifts=shifts
    )
    found: dict[int, list[RankedSegments]] = {}
    for shard in reversed(shards_of(pattern, tmp_path)):
        for number, segments in shard_work.rank(config, shard)[1]:
            found.setdefault(number, []).append(segments)
    lines = [
        f"{number},{b' '.join(RankedSegments.joined(lists, 5).names.tolist()).decode()}"
        for number, lists in sorted(found.items())
    ]
    assert ["Class,Segments", *lines] == (tmp_path / "whole.csv").read_text().splitlines()


def in_passes(tmp_path: pathlib.Path, config: Any, work: Callable[[Any, ShardTask], Any]) -> Iterator[list[Any]]:
    """What a job gives for its shards without a cache, with an empty one, and with the one that this has filled."""
    for name, cache in (("plain", ""), ("filled", str(tmp_path / "cache")), ("read", str(tmp_path / "cache"))):
        given = dataclasses.replace(config, out=str(tmp_path / name), cache=cache)
        yield [work(given, shard) for shard in shards_of(config.data, tmp_path / name)]
        shard_work.close_models()


@pytest.mark.parametrize("level", cases.all_of(["video"], heavy=["frame"]))
@pytest.mark.promise("I11")
def test_predictions_from_a_cache_are_the_same_bytes(
    level: str, request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> None:
    run, pattern = request.getfixturevalue(level)
    config = InferBulk(model=run, data=pattern, out="out", top_k=4, batch_size=4)

    def predicted(config: InferBulk, shard: ShardTask) -> tuple[Any, bytes]:
        return shard_work.predict(config, shard), pathlib.Path(shard.output).read_bytes()

    plain, filled, read = in_passes(tmp_path, config, predicted)
    assert plain == filled == read
    assert len(list((tmp_path / "cache").iterdir())) == len(plain)


@pytest.mark.heavy
@pytest.mark.parametrize("level", ["video", "frame"])
@pytest.mark.promise("I11")
def test_figures_from_a_cache_are_the_same(level: str, request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    run, pattern = request.getfixturevalue(level)

    def evaluated(config: EvalBulk, shard: ShardTask) -> Any:
        done, name, metrics = shard_work.evaluate(config, shard)
        return done, name, {key: np.asarray(value).tolist() for key, value in metrics.get().items()}

    plain, filled, read = in_passes(tmp_path, EvalBulk(model=run, data=pattern, out="out", batch_size=4), evaluated)
    assert plain == filled == read


@pytest.mark.heavy
@pytest.mark.promise("I11")
def test_figures_of_rated_segments_from_a_cache_are_the_same(frame: tuple[str, str], tmp_path: pathlib.Path) -> None:
    pattern = frame_shards(tmp_path, (3, 4), is_rated=True)

    def evaluated(config: EvalBulk, shard: ShardTask) -> Any:
        done, _, metrics = shard_work.evaluate(config, shard)
        return done, {key: np.asarray(value).tolist() for key, value in metrics.get().items()}

    config = EvalBulk(model=frame[0], data=pattern, out="out", batch_size=4, segment_labels=True)
    plain, filled, read = in_passes(tmp_path, config, evaluated)
    assert plain == filled == read
    assert [done.records for done, _ in plain] == [3, 4]
    assert len(list((tmp_path / "cache").iterdir())) == len(plain)


@pytest.mark.heavy
@pytest.mark.promise("I11")
def test_ranked_segments_from_a_cache_are_the_same(frame: tuple[str, str], tmp_path: pathlib.Path) -> None:
    config = RankBulk(model=frame[0], data=frame[1], out="out", batch_size=8, segment_max_pred=5)

    def ranked(config: RankBulk, shard: ShardTask) -> Any:
        done, lists = shard_work.rank(config, shard)
        return done, [(number, [column.tolist() for column in segments]) for number, segments in lists]

    plain, filled, read = in_passes(tmp_path, config, ranked)
    assert plain == filled == read
    assert any(lists for _, lists in plain)


@pytest.mark.heavy
@pytest.mark.parametrize("limit", [0, 1])
def test_a_cache_keeps_the_damage_policy(video: tuple[str, str], tmp_path: pathlib.Path, limit: int) -> None:
    path = tmp_path / "cut.tfrecord"
    path.write_bytes(pathlib.Path(shards_of(video[1], tmp_path)[1].path).read_bytes()[:-7])
    config = InferBulk(model=video[0], data=str(path), out=f"{tmp_path}/out", batch_size=4, max_bad_records=limit)
    found = []
    for name in ("", "cache", "cache"):
        given = dataclasses.replace(config, cache=name and str(tmp_path / name))
        shard = ShardTask(3, str(path), f"{tmp_path}/out/{len(found)}.csv")
        if limit:
            found.append((shard_work.predict(given, shard), pathlib.Path(shard.output).read_bytes()))
        else:
            with pytest.raises(RunError, match=r"cut\.tfrecord: record 8") as refusal:
                shard_work.predict(given, shard)
            found.append((str(refusal.value), b""))
        shard_work.close_models()
    assert found[0] == found[1] == found[2]


def test_a_cache_is_read_by_a_run_and_not_by_an_export(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    (export,) = pathlib.Path(video[0], "export").iterdir()
    config = InferBulk(model=str(export), data=video[1], out=str(tmp_path), cache=str(tmp_path / "cache"))
    with pytest.raises(UsageError, match="--cache"):
        shard_work.predict(config, shards_of(video[1], tmp_path)[0])


def test_a_shard_alone_has_the_figures_of_eval(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    run, pattern = video
    shard = shards_of(pattern, tmp_path)[1]
    words = [f"--train_dir={run}", f"--eval_data_pattern={shard.path}", "--run_once", f"--eval_dir={tmp_path}"]
    assert evaluation.main([*words, "--batch_size=4"]) == 0
    done, name, metrics = shard_work.evaluate(EvalBulk(model=run, data=pattern, out=str(tmp_path), batch_size=4), shard)
    figures, expected = metrics.get(), json.loads((tmp_path / "eval/report.json").read_text())
    assert (done.records, name) == (9, "MoeModel")
    for key, figure in (
        ("gap", "gap"),
        ("map", "map"),
        ("gap_tail", "gap_tail"),
        ("hit_at_one", "avg_hit_at_one"),
        ("perr", "avg_perr"),
    ):
        assert figures[figure] == pytest.approx(expected[key], abs=1e-12)
    assert figures["avg_loss"] == pytest.approx(expected["loss"], rel=1e-6)


@pytest.mark.promise("O3")
def test_a_cut_shard_fails_or_is_noted(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    run, pattern = video
    path = tmp_path / "cut.tfrecord"
    path.write_bytes(pathlib.Path(shards_of(pattern, tmp_path)[1].path).read_bytes()[:-7])
    shard = ShardTask(3, str(path), f"{tmp_path}/out/cut.csv")
    strict = InferBulk(model=run, data=str(path), out=f"{tmp_path}/out", batch_size=4)
    with pytest.raises(RunError, match=r"cut\.tfrecord: record 8"):
        shard_work.predict(strict, shard)
    assert not pathlib.Path(shard.output).exists()
    lenient = InferBulk(model=run, data=str(path), out=f"{tmp_path}/out", batch_size=4, max_bad_records=1)
    done = shard_work.predict(lenient, shard)
    assert done.records == 8
    assert "record 8" in done.bad
    assert shard_work.read_outcome(lenient, shard) == done
    before = pathlib.Path(shard.output).stat().st_mtime_ns
    assert shard_work.predict(lenient, shard) == done
    assert pathlib.Path(shard.output).stat().st_mtime_ns == before
    assert len(pathlib.Path(shard.output).read_text().splitlines()) == 9


@pytest.mark.heavy
def test_a_run_without_checkpoints_an_archive_and_an_export_predict_alike(
    video: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    from yt8m.bulk import jobs

    copied = shutil.copytree(video[0], tmp_path / "run")
    assert inference.main([f"--train_dir={copied}", f"--output_model_tgz={tmp_path}/model.tgz"]) == 0
    for path in (*copied.glob("model.ckpt*"), copied / "checkpoint"):
        path.unlink()
    texts = []
    for run, out in ((video[0], tmp_path / "of run"), (str(copied), tmp_path / "of copy")):
        shard = shards_of(video[1], out)[0]
        given = InferBulk(model=run, data=video[1], out=str(out), batch_size=4)
        config, weights, found = jobs._fix_checkpoint(given)
        assert found == 6
        shard_work.predict(config, shard)
        texts.append(pathlib.Path(shard.output).read_text())
    assert weights == f"{copied}/inference_model/inference_model"
    assert texts[0] == texts[1]
    with pytest.raises(UsageError, match="step 3"):
        jobs._fix_checkpoint(dataclasses.replace(given, checkpoint="3"))

    for model in (f"{tmp_path}/model.tgz", min(map(str, pathlib.Path(video[0]).glob("export/*")))):
        shard = shards_of(video[1], tmp_path / f"of {pathlib.Path(model).name}")[0]
        config, weights, found = jobs._fix_checkpoint(dataclasses.replace(given, model=model))
        assert (weights, found) == (model, 6)
        assert shard_work.predict(config, shard).records == 5
        assert pathlib.Path(shard.output).read_text() == texts[0]


def test_segments_need_a_model_of_frames(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    run, pattern = video
    config = RankBulk(model=run, data=pattern, out=str(tmp_path))
    with pytest.raises(UsageError, match="video-level"):
        shard_work.rank(config, shards_of(pattern, tmp_path)[0])


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_joining_does_not_depend_on_the_grouping(scores: list[list[int]], most: int, draw: object) -> None:
    """`scores` has a sorted list for each shard; brute force sorts all of them in one stream."""
    lists = [
        RankedSegments.of_shard(
            np.sort(np.array(one, np.uint64)), number, [b"%d:%d" % (number, at) for at in range(len(one))]
        )
        for number, one in enumerate(scores)
    ]
    stream = [(key, name) for one in lists for key, name in zip(one.keys.tolist(), one.names.tolist(), strict=True)]
    expected = [name for _, name in sorted(stream, key=lambda item: item[0])[:most]]
    shuffled = list(lists)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    halves = [part for part in (shuffled[::2], shuffled[1::2]) if part]
    joined = RankedSegments.joined([RankedSegments.joined(part, most) for part in halves], most)
    assert joined.names.tolist() == expected


def test_padding_repeats_the_last_video() -> None:
    rows = [(b"a", "f", 0), (b"b", "f", 1)]
    assert padded(rows, 4) == [*rows, rows[1], rows[1]]
    assert padded(rows, 1) is rows
    batch = NumpyBatch(["a", "b"], {"x": np.arange(4.0).reshape(2, 2)}, np.array([1, 2], np.int32), np.eye(2) > 0)
    more = padded(batch, 3)
    assert list(more.ids) == ["a", "b", "b"]
    assert more.features["x"].tolist() == [[0, 1], [2, 3], [2, 3]]
    assert more.num_frames.tolist() == [1, 2, 2]
    assert list(itertools.chain(*more.labels.tolist())) == [True, False, False, True, False, True]


@pytest.mark.long
def test_spans_of_all_shards_are_those_of_predict(span_run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pattern = f"{span_run}/data/frame/validate/*.tfrecord"
    assert cli.call("predict", [f"--model={span_run}/run", f"--spans={tmp_path}/whole.csv", pattern]) == 0
    config = InferBulk(model=f"{span_run}/run", data=pattern, out=str(tmp_path / "out"), spans=True)
    lines = []
    for shard in shards_of(pattern, tmp_path / "out"):
        done = shard_work.predict(config, shard)
        text = pathlib.Path(shard.output).read_text().splitlines()
        assert (done.records, done.bad) == (8, "")
        lines += text[bool(lines) :]
    assert lines == (tmp_path / "whole.csv").read_text().splitlines()
    damaged = tmp_path / "damaged.tfrecord"
    (path,) = (span_run / "data" / "frame" / "validate").glob("*.tfrecord")
    damaged.write_bytes(path.read_bytes()[:-20])
    shard = ShardTask(0, str(damaged), str(tmp_path / "damaged.csv"))
    with pytest.raises(RunError, match=r"damaged\.tfrecord"):
        shard_work.predict(config, shard)
    done = shard_work.predict(dataclasses.replace(config, max_bad_records=1), shard)
    assert (done.records, bool(done.bad)) == (7, True)
    with pytest.raises(UsageError, match="--cache"):
        InferBulk(model="run", data="data", out="out", spans=True, cache="c")
