"""The model of a web page of a run of spans finds the spans that the run finds, as it carries `spans.json`."""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m.command_line import cli
from yt8m.records import span_rules


@pytest.mark.heavy
def test_the_model_of_a_page_finds_the_spans_of_its_run(
    span_run: pathlib.Path, tmp_path: pathlib.Path, onnxruntime_web: str
) -> None:
    page = tmp_path / "page"
    words = [f"--model={span_run}/run", "--format=web", f"--out={page}", f"--onnxruntime_web={onnxruntime_web}"]
    assert cli.call("export", words) == 0
    data = f"{span_run}/data/frame/validate/*.tfrecord"
    tables = []
    for number, model in enumerate((span_run / "run", page / "model.onnx")):
        out = tmp_path / f"{number}.csv"
        assert cli.call("predict", [f"--model={model}", f"--spans={out}", data]) == 0
        tables.append(out.read_text())
    assert tables[0] == tables[1]
    assert tables[0].count("\n") > 10
    written = json.loads((span_run / "run" / "eval" / span_rules.NAME).read_text())
    other = tmp_path / "other.json"  # the rule of the page is what counts, not a default of 0.5
    other.write_text(json.dumps({**written, "thresholds": [0.999] * len(written["thresholds"])}))
    words = [f"--model={page / 'model.onnx'}", f"--spans={tmp_path / '2.csv'}", f"--spans_from={other}", data]
    assert cli.call("predict", words) == 0
    assert (tmp_path / "2.csv").read_text() != tables[0]
