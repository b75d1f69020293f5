"""The page on workloads of one's own: its code runs as it stands."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import types

import pytest

from yt8m.lazy import tf

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "users" / "own_workload.md"


def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def body_lines(code):
    """Lines that say something, imports left out."""
    return [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the page's first two blocks define and compute, in the current folder."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks()[:2]:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_workload_of_the_page_trains_on_two_towers_and_evaluates(names, tmp_path):
    assert (names["trained"].exit_code, names["trained"].global_step) == (0, 200)
    assert names["evaluated"].results["figures"]["Avg_Loss"] < 1e-4
    reader = tf.train.load_checkpoint(str(tmp_path / "runs" / "line"))
    assert reader.get_tensor("slope") == pytest.approx(3, abs=0.02)
    assert reader.get_tensor("offset") == pytest.approx(1, abs=0.02)


@pytest.mark.heavy
def test_it_goes_on_also_without_the_package_and_with_ported_callbacks(names, tmp_path, monkeypatch):
    more = names["RunnerConfig"](**{**vars(names["run"]), "max_steps": 210})
    assert names["Runner"](more, names["Points"](), names["Line"]()).run().global_step == 210
    without_package(blocks()[2], tmp_path)
    ported(names, blocks()[3], monkeypatch)


def without_package(code, folder):
    """A step of the training's meta-graph in a process that cannot import this package."""
    blocked = "import sys\nsys.modules['yt8m'] = None\n"
    done = subprocess.run([sys.executable, "-c", blocked + code], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "201"), done.stderr


def ported(names, code, monkeypatch):
    """The pattern of Lambda's demo, as the page ports it."""
    exec(compile(code, str(PAGE), "exec"), names)
    module = types.ModuleType("my_callbacks")
    module.MeanError = names["MeanError"]
    monkeypatch.setitem(sys.modules, "my_callbacks", module)
    outcome = names["Runner"](names["ported"], names["Points"](), names["ReportedLine"](), names["callbacks"]).run()
    assert (outcome.exit_code, outcome.global_step) == (0, 50)
    means = outcome.results["means"]
    assert len(means) == 5
    assert means[-1] < means[0] / 10


def test_inputter_and_modeler_are_ten_lines():
    assert len(body_lines(blocks()[0])) == 10
