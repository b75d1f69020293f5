"""Opens trained models of every file format, so that programs can score videos with them.

`scoring.open(path)` returns a `Scorer` for the folder of a run, the folder of an export (SavedModel), an archive
(.tgz), or an ONNX file. Every program that runs a trained model calls it, with one exception: if `yt8m eval` or
`yt8m inference` gets the folder of a run, that program reads the files with the input pipeline of `yt8m.runner`, and
builds its graph from a `TrainedModel`, which is a run with chosen weights.

Modules that need TensorFlow are imported at their first use, so that an ONNX file opens quickly, and also opens if
TensorFlow is not installed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.scoring.model_input import InputKind
from yt8m.scoring.scorer import EvaluatedStep, EvaluationSettings, Scorer
from yt8m.storage import copies

if TYPE_CHECKING:
    from yt8m.config.programs import InferenceConfig
    from yt8m.runs.trained_model import TrainedModel

__all__ = ["EvaluatedStep", "EvaluationSettings", "Scorer", "open"]

ARCHIVES, ONNX = (".tgz", ".tar.gz"), ".onnx"  # endings of paths, by which `open` tells the formats of files apart


def open(
    path: str,
    checkpoint: str = "",
    *,
    trust_code: bool = False,
    config: InferenceConfig | None = None,
    first_input: InputKind = "records",
) -> Scorer:
    """Opens a trained model and returns its scorer. Close the scorer, or use it in a `with` block.

    Args:
      path: the folder of a run, the folder of an export (SavedModel), an archive (.tgz), or an ONNX file; local or
        gs://.
      checkpoint: which checkpoint of a run: `last`, `best`, or a step. In a folder without checkpoints `last` is its
        inference model or its newest export.
      config: how a run or an archive reads records, such as the number of bad records to tolerate; None for the
        defaults. Exports and ONNX files ignore this argument.
      first_input: the kind of input for which the graph of a run or an archive is built at once: `records`, `parsed
        records` or `floats`. Graphs for other kinds are built at their first use. Exports and ONNX files ignore this.
    """
    is_run = False
    if not path.endswith((*ARCHIVES, ONNX)):
        from yt8m.config import run_dir

        is_run = run_dir.is_run(path)
    if checkpoint not in ("", "last") and not is_run:
        raise UsageError(
            f"--checkpoint={checkpoint} chooses among the checkpoints of a run, and {path} is not a run; name "
            "a run, or leave out --checkpoint."
        )
    if path.endswith(ONNX):
        from yt8m.scoring.onnx_scorer import OnnxScorer

        return OnnxScorer(path)
    from yt8m import forks

    forks.refuse_copy(path)
    if path.endswith(ARCHIVES):
        return _open_archive(path, trust_code, config, first_input)
    if not storage.is_dir(path):
        raise UsageError(
            f"{path}: {storage.why_no_folder(path)}; name a run, an export, an archive (.tgz) or an ONNX file (.onnx)."
        )
    from yt8m.runs import trained_model
    from yt8m.runs.opened_run import open_run
    from yt8m.scoring.export_scorer import open_export
    from yt8m.scoring.graph_scorer import GraphScorer

    if not is_run:
        return open_export(path)
    run = open_run(path, trust_code=trust_code)
    if checkpoint in ("", "last") and not trained_model.has_weights(run):
        with contextlib.suppress(UsageError):
            return open_export(path)

    def scorer_of(model: TrainedModel) -> Scorer:
        model.log()
        return GraphScorer(path, model, config, first_input)

    return trained_model.with_newer(lambda: trained_model.of_run(run, checkpoint), scorer_of)


def _open_archive(path: str, trust_code: bool, config: InferenceConfig | None, first_input: InputKind) -> Scorer:
    from yt8m.runs import trained_model
    from yt8m.scoring.graph_scorer import GraphScorer

    with contextlib.ExitStack() as stack:
        folder = os.path.join(stack.enter_context(copies.private_folder("yt8m-model-")), "model")
        model = trained_model.of_archive(path, folder, trust_code=trust_code)
        model.log()
        scorer = GraphScorer(path, model, config, first_input)
        scorer.resources = stack.pop_all()
        return scorer
