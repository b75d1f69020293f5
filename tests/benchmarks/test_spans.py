"""Planted spans are learned; a run, its export and its ONNX file find the same ones."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import yt8m
from benchmarks import spans
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.eval_util.span_joining import JoinRule

pytestmark = pytest.mark.long
# As a choice without a flag might train, but in so many steps on each machine.
FLAGS = [
    *("--model=FrameLevelLogisticModel", "--input_transform=standardize", "--segment_context=5", "--l2_penalty=0.003"),
    *("--base_learning_rate=0.03", "--learning_rate_schedule=cosine", "--learning_rate_decay_examples=76800"),
    *("--batch_size=128", "--max_steps=600", "--num_epochs=100"),
]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, spans.SpanShare]:
    """The folder of films and of a run, and what the run has learned."""
    folder = tmp_path_factory.mktemp("planted")
    return folder, spans.measure(folder, spans.films(1, 80, longest=120, noise=0.7), FLAGS)


@pytest.mark.heavy
def test_spans_are_found_nearly_as_by_one_who_knows_them(learned: tuple[pathlib.Path, spans.SpanShare]) -> None:
    _, share = learned
    assert share.model >= 0.9 * share.oracle > 0.8


@pytest.mark.heavy
def test_the_run_sees_the_neighbours_of_a_cell(learned: tuple[pathlib.Path, spans.SpanShare]) -> None:
    saved = run_dir.read(str(learned[0] / "run"))
    assert saved is not None
    assert saved.config.data.segment_context == 5
    assert json.loads((learned[0] / "run" / "eval" / "spans.json").read_text())["segment_context"] == 5


@pytest.mark.heavy
def test_an_export_and_an_onnx_file_find_the_same_spans(learned: tuple[pathlib.Path, spans.SpanShare]) -> None:
    folder, _ = learned
    pytest.importorskip("onnx")
    assert cli.call("export", [f"--train_dir={folder}/run", "--format=onnx", f"--out={folder}/model.onnx"]) == 0
    (export,) = (folder / "run" / "export").iterdir()
    found = []
    for path in (folder / "run", export, folder / "model.onnx"):
        with yt8m.load(path) as model:
            rows = model.spans(f"{folder}/data/frame/test/*.tfrecord", spans_from=f"{folder}/run/eval/spans.json")
        found.append(rows)
    for rows in found[1:]:
        assert [(row["video"], row["class"]) for row in rows] == [(row["video"], row["class"]) for row in found[0]]
        for name in ("start", "end", "score"):
            np.testing.assert_allclose([row[name] for row in rows], [row[name] for row in found[0]], atol=1e-4)
    assert len(found[0]) > 10


def test_the_oracle_knows_the_planted_cells() -> None:
    film = spans.PlantedFilm(np.zeros((10, 2), np.float32), [(3, 1.4, 4.6), (3, 4.0, 6.2), (5, 8.0, 8.4)])
    assert spans.oracle_spans(film, JoinRule()) == [(3, 1.0 + 0.0, 6.0, 1.0)]
    true = [(0, 3, 1.4, 6.2, 0.0)]
    assert spans.figure(true, [(0, *span) for span in spans.oracle_spans(film, JoinRule())]) == 1.0
    assert spans.figure(true, [(0, 3, 6.5, 9.0, 1.0)]) == 0.0
