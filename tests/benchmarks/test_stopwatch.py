"""The stopwatch on a real run, and the floor on real products."""

from __future__ import annotations

import pytest
from tiny_workload import TinyInputter, TinyModeler, write_rows

from benchmarks.floors import Floor
from benchmarks.measure import Measured, Sample
from benchmarks.products import Product, dense, net_vlad, recurrent
from yt8m import runner


@pytest.mark.parametrize("with_floor", [True, False])
def test_blocks_of_a_run_with_a_floor_on_either_side(tmp_path, with_floor):
    measured, floors = Measured(8, [], []), iter(range(1, 100))
    name = "benchmarks.stopwatch:Stopwatch"
    floor = (lambda: Sample(next(floors), 1.0)) if with_floor else None
    options = {"into": measured, "steps": 4, "repeats": 3, "floor": floor}
    config = runner.RunnerConfig("train", str(tmp_path / "run"), batch_size_per_gpu=8)
    inputter = TinyInputter(write_rows(tmp_path / "rows.tfrecord"))
    outcome = runner.build(
        config, inputter, TinyModeler(), runner.CallbackConfig((name,), {name: options})
    ).run()
    assert outcome.status is runner.Status.FINISHED
    assert len(measured.samples) == 3
    assert [floor.seconds for floor in measured.floors] == ([1, 2, 3, 4] if with_floor else [])
    assert all(0 < sample.seconds < 10 for sample in measured.samples)


def test_products_that_wait_for_each_other_add_up():
    one, many = (Floor([Product(64, 256, 256, in_turn=count)], steps=5) for count in (1, 50))
    assert min(many().cpu for _ in range(5)) > 5 * min(one().cpu for _ in range(5)) > 0


def test_two_products_take_longer_than_one():
    one, two = (Floor(dense(256, 512, 1024, training=flag, to_input=False), 5) for flag in (False, True))
    assert min(two().cpu for _ in range(5)) > min(one().cpu for _ in range(5)) > 0


def operations(products: list[Product]) -> int:
    return sum(2 * p.rows * p.inner * p.columns * max(p.side_by_side, 1) * p.in_turn for p in products)


def test_the_products_of_a_model_are_counted_whole():
    steps, cells = 32 * 300, 1024
    layers = 2 * steps * 4 * cells * (2 * 1152 + 3 * cells + 2 * 3 * cells)
    classifier = 3 * 2 * 32 * cells * 3862 * 5
    assert operations(recurrent(32, cells, gates=(4,))) == layers + classifier
    described = 1024 * 256 + 128 * 128
    pooling = (2 + 2) * 2 * 2 * 300 * described
    layers = 3 * 2 * 2 * 1024 * (described + 1024 + 5 * 3862)
    assert operations(net_vlad(2)) == pooling + layers
