"""The stopwatch on a real run, and the floor on real products."""

from __future__ import annotations

import pytest
from tiny_workload import TinyInputter, TinyModeler, write_rows

from benchmarks import gpu, runs
from benchmarks.measure import Measured, Sample
from benchmarks.products import Product, dense, floor, net_vlad, recurrent, transformer
from benchmarks.stopwatch import FloorTurns
from yt8m import runner
from yt8m.video.workload import Workload


@pytest.mark.parametrize("with_floor", [True, pytest.param(False, marks=pytest.mark.heavy)])
def test_blocks_of_a_run_with_a_floor_on_either_side(tmp_path, with_floor):
    floors = iter(range(1, 100))
    timed_floors = {"reading": lambda: Sample(next(floors), 1.0)} if with_floor else {}
    config = runner.RunnerConfig("train", str(tmp_path / "run"), batch_size_per_gpu=8)
    inputter = TinyInputter(write_rows(tmp_path / "rows.tfrecord"))
    measured = runs.run(config, Workload(None, inputter, TinyModeler()), 3, timed_floors, steps=4)
    assert (measured.count, len(measured.samples)) == (8, 3)
    taken = {name: [sample.seconds for sample in samples] for name, samples in measured.floors.items()}
    assert taken == ({"reading": [1, 2, 3, 4]} if with_floor else {})
    assert all(sample.seconds > 0 for sample in measured.samples)


def test_what_ends_a_block_is_timed_with_it(tmp_path):
    ended, measured = [], Measured(8)
    settings = {"turns": FloorTurns(measured, {}, 2), "steps": 2, "finish": lambda context: ended.append(context.step)}
    config = runner.RunnerConfig("train", str(tmp_path / "run"), batch_size_per_gpu=8)
    inputter = TinyInputter(write_rows(tmp_path / "rows.tfrecord"))
    runs.run_watched(config, inputter, TinyModeler(), "Stopwatch", settings)
    assert ended == [5, 9]  # after the first step, each block of 2 has 2 untimed steps before it
    assert len(measured.samples) == 2


@pytest.mark.heavy
def test_products_that_wait_for_each_other_add_up():
    one, many = (floor([Product(64, 256, 256, in_turn=count)], steps=5) for count in (1, 50))
    assert min(many().cpu for _ in range(5)) > 5 * min(one().cpu for _ in range(5)) > 0


def operations(products: list[Product]) -> int:
    return sum(2 * p.rows * p.inner * p.columns * max(p.side_by_side, 1) * p.in_turn for p in products)


def test_a_layer_that_is_trained_is_two_products_and_three_if_its_input_is_trained():
    counts = [
        operations(dense(256, 512, 1024, training=training, to_input=to_input))
        for training, to_input in ((False, False), (True, False), (True, True))
    ]
    assert counts == [number * 2 * 256 * 512 * 1024 for number in (1, 2, 3)]


def test_the_products_of_a_model_are_counted_whole():
    steps, cells = 32 * 300, 1024
    layers = 2 * steps * 4 * cells * (2 * 1152 + 3 * cells + 2 * 3 * cells)
    classifier = 3 * 2 * 32 * cells * 3862 * 5
    assert operations(recurrent(32, cells, gates=(4,))) == layers + classifier
    described = 1024 * 256 + 128 * 128
    pooling = (2 + 2) * 2 * 2 * 300 * described
    layers = 3 * 2 * 2 * 1024 * (described + 1024 + 5 * 3862)
    assert operations(net_vlad(2)) == pooling + layers


def test_plain_steps_are_the_floor_of_all_steps(tmp_path):
    measured = Measured(8)
    config = runner.RunnerConfig("train", str(tmp_path / "run"), batch_size_per_gpu=8, log_every_n_iter=3)
    inputter = TinyInputter(write_rows(tmp_path / "rows.tfrecord"))
    options = {"measured": measured, "steps": 6, "repeats": 2}
    runs.run_watched(config, inputter, TinyModeler(), "StepWatch", options)
    assert (len(measured.samples), len(measured.floors["plain steps"])) == (2, 2)
    assert all(ratio > 0 for ratio in measured.summary()["ratio"].values())


def test_a_transformer_multiplies_what_its_layers_hold():
    tokens, size, wide = 2 * 300, 512, 2048
    layer = 3 * tokens * (4 * size * size + 2 * size * wide) + 6 * 2 * 300 * 300 * size
    ends = 2 * tokens * 1152 * size + 3 * 2 * size * 5 * 3862
    assert operations(transformer(2)) == 2 * (2 * layer + ends)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_floors_compute_in_either_precision(precision):
    assert floor([Product(4, 3, 2), Product(2, 3, 4, side_by_side=2)], 1, precision)().cpu >= 0


def test_the_share_of_a_chips_peak():
    assert gpu.operations([Product(2, 3, 4, side_by_side=5, in_turn=6)]) == 2 * 2 * 3 * 4 * 5 * 6
    assert gpu.peak("NVIDIA H200", "bfloat16") == 989.4
    assert [gpu.peak("Tesla T4", precision) for precision in ("float32", "float16")] == [8.1, 65.0]
    assert gpu.peak("NVIDIA L4", "float32") == 60.0
    assert gpu.peak("NVIDIA A100-SXM4-40GB", "bfloat16") == 312.0
    assert gpu.peak("NVIDIA H100 80GB HBM3", "float32") == 494.7
    assert [gpu.peak("Tesla V100-SXM2-16GB", each) for each in ("float16", "bfloat16")] == [125.0, None]
    assert gpu.peak("Unheard Of 1", "float32") is None
    assert gpu.describe_share(2e12, 10.0) == "2.00 TFLOP/s, 20.0% of the peak"
    assert gpu.describe_share(2e12, None) == "2.00 TFLOP/s, peak unknown"
