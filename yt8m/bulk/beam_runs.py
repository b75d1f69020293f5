"""Runs Beam pipelines: options, temporary folders, the log of the workers, and retries after a worker died.

A pipeline has one task for each shard. The last output of a task is a `Done` (see `bulk_config`), even if the task
failed: Beam would repeat a task that raises an error, and the task would fail again.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging as beam_log
import os
import re
import secrets
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from absl import logging
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners import create_runner
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from yt8m import storage, terminal
from yt8m.bulk.bulk_config import WORKERS_LOG, Done
from yt8m.errors import RunError, UsageError, first_line, install_advice, suggestion
from yt8m.storage import copies, temporary

_MOST_ATTEMPTS = 3  # how often a pipeline is run at most; it is run again if a worker process died
# If a worker process died, the text of Beam's error has one of these texts.
_DEAD_WORKER_TEXTS = (
    *("Channel closed", "Worker subprocess", "Socket closed", "StatusCode.UNAVAILABLE", "StatusCode.CANCELLED"),
)
_METRICS_NAMESPACE = "yt8m"  # of the counters and distributions that are added to Beam's metrics
# With these runners, words that are no options of Beam are accepted, because a job server gets them.
_RUNNERS_WITH_JOB_SERVER = ("FlinkRunner", "SparkRunner", "PortableRunner", "PrismRunner")


class BeamJob(NamedTuple):
    """How a pipeline is run.

    Attributes:
      log_folder: the folder of `workers.log`; if this folder is in a bucket, the file is in the folder for temporary
        files.
      unit: what a shard holds, such as `records`; the progress lines name it.
    """

    runner: str
    workers: int
    beam_words: Sequence[str]
    outcomes_path: str
    log_folder: str
    unit: str = "records"


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorker(worker_handlers.SubprocessSdkWorkerHandler):
    """A worker process of DirectRunner that ends with the job, even if the job is killed.

    Without this class Beam would also wait forever for the answers of a dead worker.
    """

    def start_worker(self) -> None:
        """Starts the process, and a thread that answers pending requests with an error after the process died."""
        command = [sys.executable, "-m", "yt8m.bulk.worker_process", str(os.getpid())]
        self._worker_command_line = shlex.join(command).encode()  # Beam gives it to a shell
        super().start_worker()
        threading.Thread(target=self._fail_requests_after_death, name="watch_worker", daemon=True).start()

    def _fail_requests_after_death(self) -> None:
        self.worker_thread.join()
        answer = beam_fn_api_pb2.InstructionResponse(error="Worker subprocess died")
        while self.control_conn._state != worker_handlers.BeamFnControlServicer.DONE_STATE:
            for future in list(self.control_conn._futures_by_id.values()):
                future.set(answer)
            time.sleep(0.1)  # Beam may send the dead worker more requests until it has seen the errors


def run_tasks(job: BeamJob, tasks: Sequence[Any], build: Callable[[Any], Any]) -> list[Done]:
    """Runs a pipeline on the tasks; returns the outcome of each task, in any order.

    If a worker process dies, the whole pipeline starts again; there are at most three attempts. A task of `infer` or
    `extract` whose file exists from an earlier attempt does not make it again; other tasks are repeated.
    """
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        try:
            with _temporary_folder():
                return _run_once(job, tasks, build) if tasks else []
        except (RuntimeError, OSError) as error:
            if not any(text in str(error) for text in _DEAD_WORKER_TEXTS):
                raise RunError(_failure_message(job, str(error))) from error
            if attempt == _MOST_ATTEMPTS:
                break
            logging.warning("a worker process died (%s); starting again, attempt %d", first_line(error), attempt + 1)
    raise RunError(
        f"worker processes died {_MOST_ATTEMPTS} times. If memory ran out, give fewer --workers or a smaller "
        "--batch_size."
    )


def _failure_message(job: BeamJob, beam_error: str) -> str:
    """The message to the user for an error of Beam.

    If a worker failed, the text of Beam's error holds the worker's traceback. If that traceback ends in an error of
    this project, the text of that error is the message.
    """
    project_errors = re.findall(r"^yt8m\.errors\.\w+: (.+?)(?: \[while running .*\])?$", beam_error, re.MULTILINE)
    return project_errors[-1] if project_errors else f"the Beam runner {job.runner} failed: {first_line(beam_error)}"


def check_options(runner: str, workers: int, beam_words: Sequence[str]) -> None:
    """Refuses a runner or options that Beam does not accept. Call it before anything is written."""
    options, stderr = _pipeline_options(BeamJob(runner, workers, beam_words, "", "")), io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):  # argparse prints all options of Beam, and the error as the last line
            unknown, beam_options = _find_unknown_words(options, beam_words)
        create_runner(runner)
    except SystemExit as error:
        reason = stderr.getvalue().rstrip().rpartition("error: ")[2]
        raise UsageError(f"Beam refuses an option: {reason or ' '.join(beam_words)}") from error
    except (ValueError, ImportError) as error:
        hint = f" To have the client of Dataflow, {install_advice('dataflow')}." if "Dataflow" in runner else ""
        raise UsageError(f"--runner={runner}: {first_line(error)}{hint}") from error
    if unknown and runner not in _RUNNERS_WITH_JOB_SERVER:  # a job server may have options that only it knows
        name = unknown[0].partition("=")[0]
        hint = suggestion(name, beam_options, otherwise=".")
        raise UsageError(
            f"Beam has no option {name}{hint} Write the options of yt8m bulk before -- and those of Beam after it."
        )


def _find_unknown_words(options: PipelineOptions, beam_words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the words that are no options of Beam, flags before values; the names of all options of Beam)."""
    unknown, beam_options = list[str](), list[str]()

    def inspect_parser(parser: Any) -> None:
        unknown.extend(parser.parse_known_args(list(beam_words))[1])
        beam_options.extend(name for action in parser._actions for name in action.option_strings)

    # Beam calls the function with its complete parser. Without `retain_unknown_options` Beam would log a warning about
    # unknown words.
    options.get_all_options(add_extra_args_fn=inspect_parser, retain_unknown_options=True)
    return sorted(unknown, key=lambda word: not word.startswith("-")), beam_options


def _run_once(job: BeamJob, tasks: Sequence[Any], build: Callable[[Any], Any]) -> list[Done]:
    """Runs the pipeline once; returns the outcomes, which the pipeline writes to `job.outcomes_path`."""
    pipeline = beam.Pipeline(options=_pipeline_options(job))
    outcomes = build(pipeline | "shards" >> beam.Create(list(tasks)) | "spread" >> beam.Reshuffle())
    marks_folder = storage.join(os.path.dirname(job.outcomes_path), f"marks-{secrets.token_hex(4)}")
    outcomes | "mark" >> beam.Map(leave_mark, marks_folder)
    outcomes | "all done" >> beam.combiners.ToList() | "note" >> beam.Map(write_json, job.outcomes_path)
    beam_log.getLogger("apache_beam").setLevel(beam_log.ERROR)  # Beam's warnings are about its own flags
    # The job service would log the output of the workers, which workers.log has already.
    beam_log.getLogger(local_job_service.__name__).setLevel(beam_log.CRITICAL)
    with _log_of_workers(job), ShardProgress(marks_folder, len(tasks), job.unit):
        result = pipeline.run()
        result.wait_until_finish()
    _log_largest_joined_size(result)
    return [Done(*values) for values in storage.read_json(job.outcomes_path)]


def _pipeline_options(job: BeamJob) -> PipelineOptions:
    """The options of Beam for a job; the user's own options come last, so that they win."""
    words = [f"--runner={job.runner}", "--default_sdk_harness_log_level=WARNING"]
    if job.runner == "DirectRunner":
        words += ["--direct_running_mode=multi_processing", f"--direct_num_workers={job.workers}"]
    return PipelineOptions([*words, *job.beam_words])


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
    """Redirects temporary files of this process and of the workers to a private folder, which is removed at the end.

    Without this, the temporary files of Beam would remain in the system's folder.
    """
    with copies.private_folder("yt8m-bulk-") as folder, temporary.redirected(folder):
        yield


@contextlib.contextmanager
def _log_of_workers(job: BeamJob) -> Iterator[None]:
    """Redirects the output of DirectRunner's worker processes to the file workers.log.

    The file is removed at the end, unless the pipeline fails. The worker processes inherit the file descriptors 1 and
    2 from this process, so these lead to the file inside the `with` block. Until the block ends, this process itself
    prints to copies of the former descriptors. With other runners, nothing is redirected.
    """
    if job.runner != "DirectRunner":
        yield
        return
    path = storage.join(job.log_folder, WORKERS_LOG)
    if storage.is_remote(path):
        path = os.path.join(temporary.folder_path(), WORKERS_LOG)
    saved, streams = [os.dup(1), os.dup(2)], (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    try:
        _redirect_to_file(path)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(saved_descriptor), "w", buffering=1) for saved_descriptor in saved)
        yield
    except BaseException:
        logging.warning("the output of the workers is in %s", path)
        raise
    else:
        os.remove(path)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # the end of the output is lost, for example on a full disk
                stream.close()
        sys.stdout, sys.stderr = streams
        for target, source in zip((1, 2), saved, strict=True):
            os.dup2(source, target)
            os.close(source)


def _redirect_to_file(path: str) -> None:
    """Redirects the file descriptors 1 and 2 to a pipe; a thread copies what arrives in the pipe to a file.

    If the disk is full, the thread drops the output and goes on reading. If a worker itself wrote the file, printing an
    error would fail on a full disk, and Beam would wait forever for the worker's answer.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    reading, writing = os.pipe()

    def copy() -> None:
        while content := os.read(reading, 1 << 16):
            with contextlib.suppress(OSError):
                os.write(file, content)
        os.close(reading)
        os.close(file)

    threading.Thread(target=copy, name="workers-log", daemon=True).start()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)


class ShardFn(beam.DoFn):
    """Does the work of one shard.

    If the work raises a `RunError` or `UsageError`, the output is a `Done` with the text of the error. So Beam does
    not repeat the work.
    """

    def __init__(self, config: Any, work: Callable[[Any, Any], Iterator[Any]]) -> None:
        self._config, self._work = config, work

    def process(self, shard: Any) -> Iterator[Any]:
        """Yields the outputs of `work` for the shard; counts its records, and its bad record, in Beam's metrics."""
        try:
            for output in self._work(self._config, shard):
                if isinstance(output, Done):
                    Metrics.counter(_METRICS_NAMESPACE, "records").inc(output.records)
                    Metrics.counter(_METRICS_NAMESPACE, "bad_records").inc(int(bool(output.bad)))
                yield output
        except (RunError, UsageError) as error:
            yield Done(shard.number, error=str(error))


def write_json(value: Any, path: str) -> None:
    """Writes `value` as JSON to the file `path`, local or gs://."""
    storage.write(path, json.dumps(value))


def record_joined_size(size: int) -> None:
    """Adds the size in bytes of a value that a worker joined in memory, such as a class's line, to Beam's metrics.

    `run_tasks` logs the largest of these sizes.
    """
    Metrics.distribution(_METRICS_NAMESPACE, "joined_bytes").update(size)


def _log_largest_joined_size(result: Any) -> None:
    """Logs the size of the largest value that a worker joined in memory, by which users can choose machines."""
    distributions = result.metrics().query(MetricsFilter().with_name("joined_bytes"))["distributions"]
    if distributions:
        logging.info(
            "the largest value that a worker joined in memory has %d bytes",
            max(distribution.result.max for distribution in distributions),
        )


LOOK_SECONDS = 2.0  # time between two looks at the marks of the finished shards
REMOTE_LOOK_SECONDS = 15.0  # the same for a bucket; longer, because listing a bucket costs money


def leave_mark(done: Done, folder: str) -> Done:
    """Writes a mark for a finished shard: an empty file in `folder` named SHARD-RECORDS, such as 7-1200."""
    with storage.write_atomic(storage.join(folder, f"{done.number}-{done.records}"), "w"):
        return done


class ShardProgress:
    """Inside its `with` block, a thread shows how many shards and records are done, and the time left.

    On a terminal the thread shows a bar; elsewhere it logs a line every 30 seconds. Workers may be on other machines,
    and some runners report nothing until they end. So workers write a mark for each finished shard (see `leave_mark`),
    and the thread lists the marks regularly.

    Args:
      unit: what a shard holds, such as `records`.
    """

    def __init__(self, folder: str, shards: int, unit: str) -> None:
        self._folder, self._unit = folder, unit
        self._work = terminal.CountedWork(shards, "shards", lambda line: logging.info("%s", line))
        self._seconds = REMOTE_LOOK_SECONDS if storage.is_remote(folder) else LOOK_SECONDS
        self._has_ended = threading.Event()

    def __enter__(self) -> ShardProgress:
        self._work.__enter__()
        self._thread = threading.Thread(target=self._watch, name="shard-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._has_ended.set()
        self._thread.join()
        if self._work.has_bar:
            self.look()
        self._work.__exit__()

    def _watch(self) -> None:
        while not self._has_ended.wait(self._seconds):
            self.look()

    def look(self) -> None:
        """Counts the marks, then updates the bar or, if the last line is 30 seconds old, logs another line."""
        shards, records = self._count_finished()
        self._work.show(shards, records, self._unit, f"{records} {self._unit}, ")

    def _count_finished(self) -> tuple[int, int]:
        """(number of finished shards, number of their records). A shard that two workers finished counts once."""
        try:
            names = storage.names_in(self._folder)
        except RunError as error:  # if a bucket does not answer for a moment, the job must go on
            logging.debug("cannot list the finished shards: %s", error)
            return 0, 0
        matches = [re.fullmatch(r"(\d+)-(\d+)", name) for name in names]
        counts = {int(match[1]): int(match[2]) for match in matches if match}
        return len(counts), sum(counts.values())
