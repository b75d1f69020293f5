"""Which operations take the time of a step on batches in memory, as TensorFlow traces them.

`python -m benchmarks.operations LogisticModel --precision=bfloat16` traces training, `--mode=eval` evaluation. Traces
slow a step down, and operations run side by side; so use the shares, not the times.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from typing import Any

from benchmarks.peers import ours
from benchmarks.peers.comparison import NETWORKS, Comparison
from yt8m import deploy, graph
from yt8m.config.train_config import DeviceConfig
from yt8m.lazy import tf

_LINES = 15


def main() -> None:
    """Prints the operations that take most of a step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations", description=__doc__)
    parser.add_argument("model", choices=NETWORKS)
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--mode", default="train", choices=("train", "eval"))
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    comparison = Comparison("step", arguments.model, arguments.precision)
    milliseconds = trace_step(comparison, arguments.mode, arguments.steps)
    total = sum(milliseconds.values())
    for (kind, name), value in sorted(milliseconds.items(), key=lambda item: -item[1])[:_LINES]:
        print(f"{value:9.2f} ms {value / total:5.1%}  {kind:22s} {name}")


def trace_step(comparison: Comparison, mode: str, steps: int) -> dict[tuple[str, str], float]:
    """`trace` of training or evaluation steps of a network."""
    inputter = ours.stored_inputter(comparison)
    modeler = ours.create_workload(comparison, mode).modeler
    deployment, _ = deploy.local(1, 0)
    with tf.Graph().as_default(), tf.Session(config=deployment.session_config()) as session:
        if mode == "train":
            devices = DeviceConfig(precision=comparison.precision)
            ops: Any = graph.build(inputter, modeler, deployment, ours.OPTIMIZER, devices)
            fetch = ops.train_op
        else:
            ops = graph.build_eval(inputter, modeler, deployment)
            fetch = ops.reports
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: inputter.files()})
        return trace(session, fetch, steps)


def trace(session: tf.Session, fetch: Any, steps: int) -> dict[tuple[str, str], float]:
    """{(kind, name) of each operation: its milliseconds in a step, over all its runs}; the median of `steps` steps.

    As many steps run before, without traces.
    """
    for _ in range(steps):
        session.run(fetch)
    samples: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(steps):
        for operation, value in _traced_step(session, fetch).items():
            samples[operation].append(value)
    return {operation: statistics.median(values) for operation, values in samples.items()}


def _traced_step(session: tf.Session, fetch: Any) -> dict[tuple[str, str], float]:
    metadata, options = tf.RunMetadata(), tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetch, options=options, run_metadata=metadata)
    milliseconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            kind = node.timeline_label.partition(" = ")[2].partition("(")[0]
            milliseconds[kind, node.node_name] += (node.op_end_rel_micros - node.op_start_rel_micros) / 1000
    return milliseconds


if __name__ == "__main__":
    main()
