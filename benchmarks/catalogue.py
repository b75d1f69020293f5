"""All rows by name: training, reading and metrics, then everything that follows training."""

from __future__ import annotations

from benchmarks import beam, many, service, serving, starting
from benchmarks.rows import ROWS as TRAINING
from benchmarks.rows import Row

ROWS: dict[str, Row] = {
    **TRAINING,
    "eval/FrameLevelLogisticModel": Row(serving.evaluate_frames, ratio=0.60),
    "eval/rated segments": Row(serving.evaluate_segments, rate=20_000),
    "bulk/infer, MoeModel, a shard": Row(beam.infer("MoeModel", "video")),
    "bulk/infer, DbofModel, a shard": Row(beam.infer("DbofModel", "frame")),
    "bulk/eval, MoeModel, a shard": Row(beam.evaluate("MoeModel", "video")),
    "bulk/infer, 2 workers to 1": Row(beam.growth("infer")),
    "bulk/eval, 2 workers to 1": Row(beam.growth("eval")),
    "bulk/joining 1.1 million videos": Row(beam.joining, peak_mb=2000),
    "inference/LogisticModel to CSV": Row(serving.write_predictions, ratio=0.60),
    "metrics/1.1 million videos": Row(many.validation, peak_mb=2000),
    "serve/1 client": Row(service.clients_1),
    "serve/16 clients": Row(service.clients_16),
    "serve/64 clients": Row(service.clients_64),
    "start/help": Row(starting.overview, within=0.2),
    "start/first step": Row(starting.first_step, within=2.3),
    "start/first step beside import": Row(starting.first_step_beside, within=0.8),
    "start/predict one record": Row(starting.predict, within=2.5),
    "start/predict beside import": Row(starting.predict_beside, within=1.0),
}
