"""The stopwatch on a real run, and the floor on real products."""

from __future__ import annotations

import pytest
from tiny_workload import TinyInputter, TinyModeler, write_rows

from benchmarks.floors import DenseFloor
from benchmarks.measure import Measured, Sample
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


def test_two_products_take_longer_than_one():
    shape = (256, 512, 1024)
    one, two = (DenseFloor(*shape, training=training, steps=5) for training in (False, True))
    assert min(two().cpu for _ in range(5)) > min(one().cpu for _ in range(5)) > 0
