"""All rows by name."""

from __future__ import annotations

from functools import partial

from benchmarks import (
    beam,
    exchange,
    extracting,
    gpu,
    growth,
    large_report,
    metrics,
    records,
    runs,
    saving,
    segments,
    service,
    small_data,
    spans,
    starting,
    steps,
    whole,
)
from benchmarks import input as reading
from benchmarks.peers import comparison
from benchmarks.rows import Row

_CLIENTS = {"1 client": 1, "16 clients": 16, "64 clients": 64}

ROWS: dict[str, Row] = {
    **steps.models(),
    "train/LogisticModel, no floor": Row(
        lambda repeats: runs.train(runs.video_data(), "LogisticModel", repeats), peak_mb=1200
    ),
    "train/LogisticModel, cached": Row(steps.train_cached, ratio=0.70),
    "train/LogisticModel, plain steps": Row(
        lambda repeats: runs.train_beside(runs.video_data(), "LogisticModel", repeats), beside=0.02
    ),
    "train/FrameLevelLogisticModel": Row(steps.train_frame_logistic, ratio=0.80),
    "train/FrameLevelLogisticModel, no floor": Row(
        lambda repeats: runs.train(runs.frame_data(), "FrameLevelLogisticModel", repeats), peak_mb=1200
    ),
    "train/FrameLevelLogisticModel, cache": Row(steps.train_cached_frames, own_mb=1200),
    "step/DbofModel, cache": Row(partial(steps.steps_cached, "DbofModel", 64), cpu_ratio=0.95),
    "step/NeXtVladModel, cache": Row(partial(steps.steps_cached, "NeXtVladModel", 32), cpu_ratio=0.95),
    "step/NetVladModel, cache": Row(partial(steps.steps_cached, "NetVladModel", 32), cpu_ratio=0.95),
    "train/DbofModel, no floor": Row(
        lambda repeats: runs.train(runs.frame_data(64), "DbofModel", repeats, steps=runs.FEW_STEPS), peak_mb=2500
    ),
    "eval/LogisticModel": Row(steps.evaluate_logistic, ratio=0.75),
    "eval/FrameLevelLogisticModel": Row(steps.evaluate_frames, ratio=0.60),
    "eval/rated segments": Row(steps.evaluate_segments, rate=20_000),
    "metrics/dense": Row(metrics.dense, rate=metrics.EXAMPLES / 0.5),
    "metrics/dense with ties": Row(metrics.dense_tied),
    "metrics/top-k columns": Row(metrics.from_columns, rate=metrics.EXAMPLES / 0.05),
    "metrics/1.1 million videos": Row(metrics.validation, peak_mb=2000),
    "report/50,000 videos": Row(large_report.page, rate=50_000 / 20),
    "segments/inference": Row(segments.inference, rate=30_000),
    "spans/an hour of film": Row(spans.an_hour, within=10, peak_mb=1500),
    "segments/ranking": Row(segments.ranking),
    "segments/judging": Row(segments.judging, rate=1000 * 100_000 / 60, peak_mb=3000),
    "make-records/100,000 videos": Row(records.make_records, ratio=1 / 3),
    "make-records/1,000,000 rows": Row(records.read_rows, cpu_ratio=1 / 12),
    **extracting.ROWS,
    "input/video, for training": Row(lambda repeats: reading.read(runs.video_data(), True, 100, repeats)),
    "input/video, cached": Row(reading.video_cached),
    "input/video, in order": Row(lambda repeats: reading.read(runs.video_data(), False, 100, repeats)),
    "input/frame, for training": Row(reading.frame_shuffled, ratio=0.85),
    "input/frame, cache": Row(reading.frame_cached, cpu_ratio=3.0),
    "cache/make": Row(reading.make_cache),
    "read_records/video, in order": Row(
        lambda repeats: reading.read_as_numpy(runs.video_data(), False, repeats), cpu_ratio=1.0
    ),
    "read_records/video, shuffled": Row(
        lambda repeats: reading.read_as_numpy(runs.video_data(), True, repeats), cpu_ratio=1.0
    ),
    "read_records/frame, in order": Row(
        lambda repeats: reading.read_as_numpy(runs.frame_data(), False, repeats), cpu_ratio=0.60
    ),
    "bulk/infer, MoeModel, a shard": Row(partial(beam.infer, "MoeModel", "video")),
    "bulk/infer, DbofModel, a shard": Row(partial(beam.infer, "DbofModel", "frame")),
    "bulk/eval, MoeModel, a shard": Row(partial(beam.evaluate, "MoeModel", "video")),
    "bulk/infer, 2 workers to 1": Row(partial(beam.growth, "infer")),
    "bulk/eval, 2 workers to 1": Row(partial(beam.growth, "eval")),
    "bulk/joining 1.1 million videos": Row(beam.joining, peak_mb=2000),
    "inference/LogisticModel to CSV": Row(steps.write_predictions, ratio=0.60),
    **{f"serve/{name}": Row(partial(service.clients, number)) for name, number in _CLIENTS.items()},
    **{f"serve/{name}, ONNX": Row(partial(service.clients_of_onnx, number)) for name, number in _CLIENTS.items()},
    "resume/position in videos": Row(lambda repeats: saving.save_position(runs.video_data(), repeats)),
    "resume/position in frames": Row(lambda repeats: saving.save_position(runs.frame_data(), repeats)),
    **{f"save/{megabytes} MB of weights": Row(partial(saving.save, megabytes)) for megabytes in (1, 18, 100)},
    "start/help": Row(starting.overview, within=0.2),
    "start/first step": Row(starting.first_step, within=2.3),
    "start/first step beside import": Row(starting.first_step_beside, within=1.0),
    "start/resumed step beside import": Row(starting.resumed_step_beside),
    "start/predict one record": Row(starting.predict, within=2.5),
    "start/predict beside import": Row(starting.predict_beside, within=0.6),
    "start/predict one record, ONNX": Row(starting.predict_by_onnx, within=0.5),
}

# Rows that take long or need more than this project, of which `--rows` must name some.
LONG_ROWS: dict[str, Row] = {
    **{
        f"exchange/{kind}, {number} processes": Row(
            partial(exchange.steps, kind, number), ratio=ratio if number == 2 else None
        )
        for number in (2, 4)
        for kind, ratio in zip(exchange.KINDS, (None, 1 / 1.3, 1.0), strict=True)
    },
    **{f"growth/validated videos x {size}": Row(partial(growth.validation, size)) for size in growth.SIZES},
    **{f"growth/classes x {size}": Row(partial(growth.classes, size)) for size in growth.SIZES},
    **{f"growth/frames x {size}": Row(partial(growth.frames, size)) for size in growth.SIZES},
    **{f"growth/towers x {size}": Row(partial(growth.towers, size)) for size in growth.SIZES},
    **{
        f"gpu{'-xla' * xla}/{model}, {precision}": Row(partial(gpu.train, model, precision, xla))
        for xla in (False, True)
        for precision in ("float32", "bfloat16", "float16")
        for model in gpu.MODELS
    },
    **{f"small/{name}, without a flag": Row(partial(small_data.compare, name), within=60) for name in small_data.SETS},
    **comparison.ROWS,
    "whole/ranking 66 million segments": Row(segments.rank_all),
    "whole/judging them": Row(segments.judge_all),
    **{
        f"whole/{program} {work.model}, {work.number:,} videos": Row(partial(whole.run, program, work))
        for work in (whole.VIDEOS, whole.FRAMES)
        for program in whole.PROGRAMS
    },
    f"whole/cache of {whole.FRAMES.number:,} videos of frames": Row(partial(whole.make_cache, whole.FRAMES)),
    **{
        f"whole/{program} {whole.FRAMES.model} from the cache": Row(
            partial(whole.run, program, whole.FRAMES, is_cached=True)
        )
        for program in whole.PROGRAMS
    },
}
