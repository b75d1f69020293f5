"""Runs a job of `yt8m bulk`: lists its shards, claims its output folder, runs its pipeline, and writes its results."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from glob import escape
from typing import IO, Any, NamedTuple

from absl import logging

from yt8m import options, scoring, storage, terminal
from yt8m.bulk import pipelines, shard_work
from yt8m.bulk.beam_runs import check_options
from yt8m.bulk.bulk_config import (
    COMMANDS,
    PARTS,
    WORKERS_LOG,
    BulkConfig,
    Done,
    EvalBulk,
    InferBulk,
    RankBulk,
    ShardTask,
)
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError, UsageError, first_line, quantity, refusing
from yt8m.eval_util import metrics
from yt8m.eval_util.segment_ranking import NO_SEGMENT
from yt8m.records import label_check, shared_videos
from yt8m.records.batches import check_record_count
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.prediction_files import SEGMENTS_HEADER
from yt8m.records.vocabulary import Vocabulary
from yt8m.runs import trained_model
from yt8m.runs.opened_run import open_run
from yt8m.scoring import evaluation_results
from yt8m.storage import new_outputs, state_files

# Files in the output folder: the description of the job, its lock, and the list of its bad records.
_DESCRIPTION_FILE, _LOCK_FILE, _BAD_RECORDS_FILE = "job.json", ".lock", "bad_records.txt"


class FinishedJob(NamedTuple):
    """A job whose shards are done; only the final files are missing.

    Attributes:
      step: the training step of the weights; 0 if it is unknown.
    """

    config: BulkConfig
    data: OpenedData
    shards: Sequence[ShardTask]
    weights: str
    step: int


def run(name: str, config: BulkConfig, beam_words: Sequence[str]) -> int:
    """Runs a command: writes its results into the folder --out, and returns the exit status 0.

    Raises:
      UsageError: the model, the data or an option of Beam cannot be used, or the output folder holds files that the job
        must not continue.
      RunError: another process writes to the output folder, a shard failed or differs from --manifest, too many records
        are bad, workers died in each of three attempts, or `rank` finds no segment.
    """
    check_options(config.runner, config.workers, beam_words)
    config, weights, step = _fix_checkpoint(config)
    data = open_data(config.data, manifest=config.manifest)
    shards, expected = _tasks_of_shards(config, data.files), data.manifest
    if isinstance(config, InferBulk) and config.spans:
        shard_work.refuse_unfit_for_spans(config, data)
    if isinstance(config, EvalBulk):
        label_check.warn(data)
        saved = run_dir.read(config.model) if run_dir.is_run(config.model) else None
        shared_videos.warn(data, saved.config.data.data_pattern if saved else "")
    was_killed = storage.exists(storage.join(config.out, _LOCK_FILE))  # a job that ends in another way removes it
    with new_outputs.locked_folder(config.out, _LOCK_FILE):
        _claim_folder(name, config, _describe_job(name, config, shards, weights), was_killed)
        finished = [shard for shard in shards if shard_work.is_finished(config, shard)]
        if finished:
            logging.info("%d of %d shards are done already", len(finished), len(shards))
        outcomes = pipelines.run(name, config, [shard for shard in shards if shard not in finished], beam_words)
        records = sum(outcome.records for outcome in outcomes)
        outcomes += [shard_work.read_outcome(config, shard) for shard in finished]
        _check_outcomes(config, shards, outcomes)
        paths = {shard.number: shard.path for shard in shards}
        for outcome in outcomes:
            if outcome.records and not outcome.bad:  # then the shard was read to its end
                check_record_count(paths[outcome.number], outcome.records, expected)
        logging.info("%d records of %d shards were read", records, len(shards) - len(finished))
        finish = {"infer": _finish_predictions, "rank": _finish_ranking, "eval": _finish_evaluation}[name]
        finish(FinishedJob(config, data, shards, weights, step))
        if storage.exists(parts_folder := storage.join(config.out, PARTS)):  # there is none if all shards were done
            storage.remove_tree(parts_folder)
    return 0


def _fix_checkpoint(config: BulkConfig) -> tuple[BulkConfig, str, int]:
    """Chooses the weights. If --model is a run, the returned config has their step, so that all workers load the same.

    A step stays the same if a training or an evaluation replaces the best checkpoint meanwhile. The config has none if
    the run has an inference model and no checkpoint.
    """
    if not run_dir.is_run(config.model):
        if not storage.is_dir(config.model) and not storage.exists(config.model):
            raise UsageError(f"--model={config.model}: there is no such run, export, archive or ONNX file.")
        _refuse_run_options(config)
        DataConfig(data_pattern=config.data, cache=config.cache).check_cache()
        with scoring.open(config.model, config.checkpoint, trust_code=config.trust_code) as scorer:
            if isinstance(config, RankBulk):
                shard_work.data_of_segments(scorer, config)
            return config, config.model, scorer.step
    run = open_run(config.model, trust_code=config.trust_code)
    data = run.data_for(config.inference_config(), config.data, isinstance(config, RankBulk))
    if isinstance(config, RankBulk):
        shard_work.refuse_film_mean(data)
    model = trained_model.of_run(run, config.checkpoint)  # the inference model if the run has no checkpoint
    if not model.is_file:
        config = dataclasses.replace(config, checkpoint=str(model.step))
    return config, model.weights, model.step


def _refuse_run_options(config: BulkConfig) -> None:
    """Raises `UsageError` if an option needs a run or its archive, and the model is neither."""
    for name in options.paths_where(config, needs_run=True):
        if getattr(config, name) and not config.model.endswith(scoring.ARCHIVES):
            raise UsageError(f"--{name} needs the folder of a run or its archive; {config.model} is an export.")


def _tasks_of_shards(config: BulkConfig, files: Sequence[str]) -> list[ShardTask]:
    """One task for each file, in the same order; for `infer`, each task names a CSV file in --out."""
    if not isinstance(config, InferBulk):
        return [ShardTask(index, path) for index, path in enumerate(files)]
    # Two folders may have shards of the same name. So the name of the CSV file keeps the shard's path below the folder
    # that contains all shards.
    common_folder = os.path.commonpath([os.path.dirname(path) for path in files])
    names = [f"{os.path.splitext(os.path.relpath(path, common_folder))[0]}.csv" for path in files]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"--data: two shards would write their predictions to the same file, {twice}; "
            "name these shards in two jobs."
        )
    return [
        ShardTask(i, path, storage.join(config.out, n)) for i, (path, n) in enumerate(zip(files, names, strict=True))
    ]


def _claim_folder(name: str, config: BulkConfig, description: Mapping[str, Any], was_killed: bool) -> None:
    """Writes the description of the job into the output folder, unless --resume continues the job described there.

    `rank` and `eval` keep nothing of an interrupted job, so that the same job just begins again.
    """
    description_path = storage.join(config.out, _DESCRIPTION_FILE)
    if isinstance(config, InferBulk) and config.resume and storage.exists(description_path):
        former = _read_description(description_path, config)
        _refuse_other_job(config.out, description, former)
        return
    if not isinstance(config, InferBulk) and (was_killed or not storage.exists(_result_path(name, config))):
        _discard_interrupted(name, config, description)
    # Hidden files are the lock, and leftovers of a job that died before it wrote its description.
    if any(name != WORKERS_LOG and not name.startswith(".") for name in storage.names_in(config.out)):
        hint = "add --resume to continue an interrupted job, or " if isinstance(config, InferBulk) else ""
        raise UsageError(f"--out={config.out} holds files already; {hint}name a new folder.")
    state_files.write(description_path, description)


def _read_description(path: str, config: BulkConfig) -> dict[str, Any]:
    """Reads the description of a job. One of an earlier version lacks options that came later; it did as they say."""
    with refusing(lambda error: RunError(f"{path} is damaged ({first_line(error)}). Name another folder as --out.")):
        return {**{field.name: field.default for field in dataclasses.fields(config)}, **state_files.read(path)}


def _discard_interrupted(name: str, config: BulkConfig, description: Mapping[str, Any]) -> None:
    """Removes from the output folder what an interrupted job with the same description has written."""
    description_path = storage.join(config.out, _DESCRIPTION_FILE)
    if not storage.exists(description_path):
        return
    former, same = _read_description(description_path, config), json.loads(json.dumps(description))
    if any(former.get(key) != value for key, value in same.items()):
        return
    logging.info("%s holds an interrupted job with the same settings, model and shards: it begins again", config.out)
    if storage.exists(parts_folder := storage.join(config.out, PARTS)):
        storage.remove_tree(parts_folder)
    for path in (storage.join(config.out, _BAD_RECORDS_FILE), _result_path(name, config), description_path):
        if storage.exists(path):
            storage.remove(path)


def _refuse_other_job(output: str, description: Mapping[str, Any], former: Mapping[str, Any]) -> None:
    """Raises `UsageError` if two jobs differ: this one, and the `former` one, which began in the folder `output`."""
    for key in description:
        if key != "files" and description[key] != former.get(key):
            value = former.get(key)
            flag = f"leave out --{key}" if value is None else f"give --{key}={value}"
            remedy = f"{flag}, or name another folder" if key != "command" else "name another folder"
            raise UsageError(
                f"--resume: {output} holds a job whose {key} is {value!r}, but this job has {description[key]!r}; "
                f"{remedy}."
            )
    files, former_files = description["files"], former.get("files", {})
    for path in sorted({*files, *former_files}):
        if files.get(path) != former_files.get(path):
            is_new, is_missing = path not in former_files, path not in files
            change = "is new in" if is_new else "is missing in" if is_missing else "was rewritten since"
            raise UsageError(f"--resume: {path} {change} the job that began in {output}; name another folder.")


def _describe_job(name: str, config: BulkConfig, shards: Sequence[ShardTask], weights: str) -> dict[str, Any]:
    """The settings, and the sizes and versions of the data's and the model's files.

    All of these must be the same when --resume continues a job.
    """
    if storage.is_dir(weights):
        model_files = [storage.join(folder, file) for folder, names in storage.tree(weights).items() for file in names]
    else:
        folder, stem = os.path.split(weights)  # of an archive, an ONNX file, or the files of a checkpoint
        model_files = [weights, *storage.glob_in(folder or ".", f"{escape(stem)}.*")]
    files = storage.stamps([*(shard.path for shard in shards), *model_files])
    return {
        "command": name,
        **options.shaping_values(config),
        "files": {path: list(stamp) for path, stamp in files.items()},
    }


def _check_outcomes(config: BulkConfig, shards: Sequence[ShardTask], outcomes: Sequence[Done]) -> None:
    """Logs the bad records; writes the list of them, if there are any, into the output folder."""
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed:
        failed_count = f" ({len(failed)} of {len(shards)} shards failed)" if len(failed) > 1 else ""
        raise RunError(f"{failed[0].error}{failed_count}")
    bad = [outcome.bad for outcome in outcomes if outcome.bad]
    for damage in bad:
        logging.warning("skipped the rest of a shard: %s", damage)
    if len(bad) > config.max_bad_records:
        raise RunError(f"{bad[-1]} {len(bad)} records are bad; --max_bad_records allows {config.max_bad_records}.")
    if bad:
        storage.write(storage.join(config.out, _BAD_RECORDS_FILE), "".join(f"{damage}\n" for damage in bad))


def _finish_predictions(job: FinishedJob) -> None:
    """Writes predictions.json, which lists the prediction file of each shard; it is the last file of the job."""
    output = job.config.out
    files = {shard.path: os.path.relpath(shard.output, output) for shard in job.shards}
    index = {"model": job.config.model, "global_step": job.step, "files": files}
    storage.write(_result_path("infer", job.config), json.dumps(index, indent=2))
    logging.info("the predictions are in %s, %s", output, quantity(len(files), "file"))


def _finish_ranking(job: FinishedJob) -> None:
    """Writes segments.csv: joins the files that the workers wrote, each with the line of one class."""
    config = job.config
    line_files = storage.glob_in(config.out, PARTS, "class*")
    if not line_files:
        raise RunError(NO_SEGMENT)
    with storage.write_atomic(_result_path("rank", config)) as ranking_file:
        ranking_file.write(SEGMENTS_HEADER + b"\n")
        segments = [_copy_line(ranking_file, path) for path in line_files]
    logging.info("the lists of %d classes are in %s", len(line_files), _result_path("rank", config))
    figures = {"classes": len(line_files), "segments": sum(segments)}
    terminal.print_json({"out": _result_path("rank", config), "global_step": job.step, **figures})


def _copy_line(ranking_file: IO[bytes], path: str) -> int:
    """Appends the file with the line of one class to segments.csv; returns the number of its segments."""
    content = storage.read_bytes(path)
    ranking_file.write(content)
    return len(content.partition(b",")[2].split())


def _finish_evaluation(job: FinishedJob) -> None:
    """Prints the metrics and writes report.json, as `yt8m eval` does."""
    config = job.config
    merged = storage.read_json(storage.join(config.out, PARTS, pipelines.FIGURES_FILE))
    names = _class_names(config, job.data, merged["num_classes"])
    figures = pipelines.restore_arrays(merged["figures"])
    result = evaluation_results.EvaluationResult(
        job.weights, job.step, figures, figures["num_examples"], metrics.load(), names
    )
    evaluation_results.write_report(_result_path("eval", config), result, merged["model"])


def _class_names(config: BulkConfig, data: OpenedData, num_classes: int) -> Vocabulary:
    """The names of the classes: those stored with the model, or else those in the vocabulary beside the data."""
    if run_dir.is_run(config.model):
        names_of_model = run_dir.own_names(config.model, num_classes)
    else:
        with scoring.open(config.model, trust_code=config.trust_code) as scorer:
            names_of_model = scorer.names
    return data.names_for(names_of_model, num_classes, config.model).shown(num_classes)


def _result_path(name: str, config: BulkConfig) -> str:
    return storage.join(config.out, COMMANDS[name].result)
