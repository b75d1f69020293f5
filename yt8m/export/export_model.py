"""`yt8m export`: exports the model of a checkpoint as a SavedModel, an ONNX file, a web page or a NumPy file.

With --weights the weights are quantised. With --eval_data_pattern both the checkpoint and the export are evaluated, and
the difference of their GAPs is printed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

import numpy as np
from absl import logging

from yt8m import readers, runner, storage, terminal
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.export_config import ExportConfig
from yt8m.config.run_dir import INFERENCE_MODEL
from yt8m.errors import RunError
from yt8m.eval_util import EvaluationMetrics
from yt8m.export import model_card, onnx_file, web_page
from yt8m.export.onnx_export import export_onnx
from yt8m.export.onnx_file import OnnxFile
from yt8m.export.saved_model import ModelFacts, export_saved_model, replaced_folder, write_inference_model
from yt8m.export.weights_file import write_weights
from yt8m.records import span_rules, thresholds
from yt8m.records.batches import read_records
from yt8m.runs import trained_model
from yt8m.runs.opened_run import open_run
from yt8m.runs.trained_model import TrainedModel
from yt8m.storage.new_outputs import new_output
from yt8m.video import workload

SAVED_MODEL = "saved_model"  # the default of --format, and the folder of the SavedModel


def run(config: ExportConfig) -> int:
    """Writes `--out` completely or not at all; returns the exit status 0.

    `--format` says what is written: a folder with saved_model/, inference_model/, config.json and README.md; an ONNX
    file; the folder of a web page; or a NumPy file of the weights. The folder with saved_model/ can take the place of a
    run's folder in `yt8m inference --model` and `yt8m train --teacher`.

    Raises:
      UsageError: there is no such run or checkpoint, `--out` exists already, or a package that the format needs is not
        installed.
      RunError: the checkpoint cannot be read, the model cannot be converted, or `--out` cannot be written.
    """
    with new_output(config.out, repr(config), sources=[config.train_dir]) as is_done:
        if not is_done:
            write_model = _WRITERS[config.format]
            run = open_run(config.train_dir, trust_code=config.trust_code)
            trained_model.with_newer(
                lambda: TrainedModel(run, run.checkpoint(config.checkpoint)), lambda model: write_model(config, model)
            )
    return 0


def _export_folder(config: ExportConfig, model: TrainedModel) -> None:
    """Writes the folder `--out` with the SavedModel and the inference model; prints their sizes.

    With --eval_data_pattern, it also evaluates the checkpoint and the export, and prints the GAP lost.
    """
    run, train_dir, step = model.run.config, model.run.folder, model.step
    data = model.run.data_for(config, config.eval_data_pattern, run.data.segment_labels)
    names = model.run.fit(data, "eval_data_pattern", {}).names
    created = workload.create(data, run.model, "eval", config.top_k)._replace(names=names)
    model.log()
    figures: dict[str, float] = {}
    with replaced_folder(config.out.rstrip("/")) as new_folder:
        # The checkpoint is read before all else, because training may delete it at any time.
        parameters = _write_models(new_folder, config, model, created)
        # The SavedModel gets the thresholds too, because users often copy its folder alone.
        for folder in (new_folder, os.path.join(new_folder, SAVED_MODEL)):
            thresholds.copy(train_dir, folder, step)
            span_rules.copy(run.data, train_dir, folder, step)
        if config.eval_data_pattern:
            exported_weights = os.path.join(new_folder, INFERENCE_MODEL, INFERENCE_MODEL)
            exported = TrainedModel(model.run, exported_weights, is_file=True)
            figures = _gap_figures(*(_measure_gap(config.top_k, measured, data) for measured in (model, exported)))
        run_dir.write(new_folder, dataclasses.replace(run, train_dir=config.out), names, is_own=model.run.is_own)
        card_figures = model_card.report_of(train_dir, step) | figures
        model_card.write(new_folder, run, step, parameters, figures=card_figures, weights=config.weights, names=names)
        sizes = model_card.sizes_in(new_folder)
    _print_summary(config, sizes, figures)


def _export_onnx(config: ExportConfig, model: TrainedModel) -> None:
    """Writes the ONNX file `--out`; prints its size and, with --eval_data_pattern, the GAP lost."""
    size = _write_onnx(config.out, config, model)
    print(f"weights: {config.weights}\n{config.out}: {model_card.size(size)}")
    logging.info("the model is in %s", config.out)


def _export_page(config: ExportConfig, model: TrainedModel) -> None:
    """Writes the folder of the web page, `--out`; prints its size, and whether the page accepts videos.

    With --eval_data_pattern, it also prints the GAP lost.
    """
    runtime = web_page.runtime_files(config.onnxruntime_web)
    with replaced_folder(config.out.rstrip("/")) as new_folder:
        _write_onnx(os.path.join(new_folder, web_page.MODEL), config, model)
        why_no_videos = web_page.write(new_folder, runtime)
        size = sum(model_card.sizes_in(new_folder).values())
    print(f"weights: {config.weights}\n{config.out}: {model_card.size(size)}")
    print(f"the page takes features alone: {why_no_videos}" if why_no_videos else "the page takes videos and features")
    logging.info("the page is in %s; serve it by any web server, such as python -m http.server", config.out)


def _export_weights(config: ExportConfig, model: TrainedModel) -> None:
    """Writes the NumPy file `--out`; prints its size."""
    names = model.run.fit(model.run.data_for(config, "", False), "eval_data_pattern", {}).names
    model.log()
    count = write_weights(config.out, model, ModelFacts.of_run(model.run, names))
    print(f"variables: {count}\n{config.out}: {model_card.size(storage.size(config.out))}")
    logging.info("the weights are in %s", config.out)


_WRITERS = {SAVED_MODEL: _export_folder, "onnx": _export_onnx, "web": _export_page, "npz": _export_weights}


def _write_onnx(path: str, config: ExportConfig, model: TrainedModel) -> int:
    """Writes the ONNX file `path`; with --eval_data_pattern, prints the GAP lost. Returns the file's size in bytes."""
    run, data = model.run.config, model.run.data_for(config, config.eval_data_pattern, False)
    names = model.run.fit(data, "eval_data_pattern", {}).names
    model.log()

    def describe(exported: OnnxFile, parameters: int) -> dict[str, str]:
        gaps: dict[str, float] = {}
        if data.data_pattern:
            before = _measure_gap(config.top_k, model, data)
            gaps = _gap_figures(before, _measure_gap_of_file(config.top_k, exported, data))
        report = model_card.report_of(model.run.folder, model.step) | gaps
        card = model_card.text(run, model.step, parameters, {}, figures=report, weights=config.weights, names=names)
        _print_gaps(gaps)
        texts = {model_card.NAME: card, onnx_file.FIGURES: json.dumps(report)}
        tags = thresholds.text_of_step(model.run.folder, model.step)
        spans = span_rules.text_for_export(run.data, model.run.folder, model.step)
        return texts | ({thresholds.NAME: tags} if tags else {}) | ({span_rules.NAME: spans} if spans else {})

    return export_onnx(
        path,
        model.weights,
        run.data,
        model.modeler(run.data, "infer", config.top_k),
        ModelFacts.of_run(model.run, names, config.weights),
        input_type=config.input_type,
        describe=describe,
    )


def _measure_gap_of_file(top_k: int, exported: OnnxFile, data: DataConfig) -> float:
    """GAP of an ONNX file on the data of `--eval_data_pattern`."""
    metrics = EvaluationMetrics(data.num_classes, top_k)
    records = read_records(
        data.data_pattern,
        batch_size=data.batch_size,
        feature_names=data.feature_names,
        num_classes=data.num_classes,
        max_frames=data.max_frames,
        dequantize=True,
    )
    for batch in records:
        metrics.accumulate(exported.scores(batch), batch.labels, np.zeros(len(batch)))
    return float(metrics.get()["gap"])


def _write_models(folder: str, config: ExportConfig, model: TrainedModel, created: workload.Workload) -> int:
    """Writes the inference model and the SavedModel into `folder`; returns the model's number of parameters."""
    counts, facts = list[int](), ModelFacts.of_run(model.run, created.names, config.weights)
    inference_model, saved_model = (os.path.join(folder, name) for name in (INFERENCE_MODEL, SAVED_MODEL))
    write_inference_model(
        inference_model,
        model.weights,
        created.modeler,
        facts,
        frame_features=model.run.config.data.frame_features,
        describe=lambda _, parameters: counts.append(parameters),
    )
    export_saved_model(saved_model, model.weights, created.reader, created.modeler, facts, default=config.signature)
    return counts[0]


def _measure_gap(top_k: int, model: TrainedModel, data: DataConfig) -> float:
    """GAP of a checkpoint or an inference model on the data of `--eval_data_pattern`."""
    inputter = readers.BatchQueue.for_config(data, "eval")
    modeler = model.modeler(data, "eval", top_k)
    outcome = runner.build(model.runner_config("eval"), inputter, modeler, runner.CallbackConfig()).run()
    if outcome.exit_code:
        raise RunError(f"the evaluation of {model.weights} failed: {outcome.ending}")
    return float(outcome.results["figures"]["gap"])


def _gap_figures(before: float, after: float) -> dict[str, float]:
    """The figures for the model card, from the GAP of the checkpoint and of its export."""
    return {"gap_of_the_checkpoint": before, "gap_as_exported": after, "loss_in_gap": before - after}


def _print_gaps(figures: Mapping[str, float]) -> None:
    if figures:
        print("GAP: {:.6f} before, {:.6f} as exported, {:z.6f} lost".format(*figures.values()))
        terminal.print_json(figures)


def _print_summary(config: ExportConfig, sizes: dict[str, int], figures: dict[str, float]) -> None:
    print(f"weights: {config.weights}")
    for name in (INFERENCE_MODEL, SAVED_MODEL):
        print(f"{name}: {model_card.size(sizes[name])}")
    _print_gaps(figures)
    logging.info("the model is in %s", config.out)
