"""Runs Beam pipelines: options, temporary folders, the log of the workers, and retries after a worker died.

A pipeline has one task for each shard. A task ends with a `Done`, even if it failed, so that Beam does not repeat it:
repeating would not help.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging as beam_log
import os
import re
import secrets
import sys
import tempfile
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
from yt8m.errors import RunError, UsageError, first_line, suggestion
from yt8m.storage import copies

_TRIES = 3
_LOST = ("Channel closed", "Worker subprocess", "Socket closed", "StatusCode.UNAVAILABLE", "StatusCode.CANCELLED")
_COUNTERS = "yt8m"
_WITH_A_JOB_SERVER = ("FlinkRunner", "SparkRunner", "PortableRunner", "PrismRunner")


class BeamJob(NamedTuple):
    """How a pipeline is run.

    Attributes:
      runner: name of the Beam runner.
      workers: number of worker processes of DirectRunner.
      words: command-line options of Beam.
      note: path of the JSON file to which the pipeline writes the outcomes of its tasks.
      folder: the folder of `workers.log`.
      unit: what a shard holds, such as `records`; named in the progress lines.
    """

    runner: str
    workers: int
    words: Sequence[str]
    note: str
    folder: str
    unit: str = "records"


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorker(worker_handlers.SubprocessSdkWorkerHandler):
    """A worker process of DirectRunner. Without this class Beam waits forever for a worker that died early."""

    def start_worker(self) -> None:
        """Starts the process, and a thread that answers pending requests with an error after the process died."""
        super().start_worker()
        threading.Thread(target=self._end_requests_of_the_dead, name="watch_worker", daemon=True).start()

    def _end_requests_of_the_dead(self) -> None:
        self.worker_thread.join()
        answer = beam_fn_api_pb2.InstructionResponse(error="Worker subprocess died")
        while self.control_conn._state != worker_handlers.BeamFnControlServicer.DONE_STATE:
            for future in list(self.control_conn._futures_by_id.values()):
                future.set(answer)
            time.sleep(0.1)  # more requests may come until Beam notices


def run_tasks(job: BeamJob, tasks: Sequence[Any], join: Callable[[Any], Any]) -> list[Done]:
    """Runs a pipeline on the tasks; returns the outcome of each task.

    If a worker process dies, the pipeline starts again; tasks whose file is complete then do nothing.

    Args:
      job: how the pipeline is run.
      tasks: one task for each shard.
      join: builds the pipeline: maps the PCollection of the tasks to a PCollection of their outcomes (`Done`).

    Raises:
      RunError: worker processes died in each of three attempts, or the runner failed.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            with _temporary_folder():
                return _run_once(job, tasks, join) if tasks else []
        except (RuntimeError, OSError) as error:
            if not any(text in str(error) for text in _LOST):
                raise RunError(_failure(job, str(error))) from error
            if attempt == _TRIES:
                break
            logging.warning("a worker process died (%s); starting again, attempt %d", first_line(error), attempt + 1)
    raise RunError(
        f"worker processes died {_TRIES} times. If memory ran out, give fewer --workers or a smaller --batch_size."
    )


def _failure(job: BeamJob, text: str) -> str:
    """What to say of an error of Beam. That of a worker is the text of a traceback, which may end in one of ours."""
    ours = re.findall(r"^yt8m\.errors\.\w+: (.+?)(?: \[while running .*\])?$", text, re.MULTILINE)
    return ours[-1] if ours else f"the Beam runner {job.runner} failed: {first_line(text)}"


def check_options(runner: str, workers: int, words: Sequence[str]) -> None:
    """Refuses a runner or options that Beam does not accept. Call it before anything is written.

    Raises:
      UsageError: there is no such runner, it is not installed, or an option is wrong.
    """
    options, stderr = _options(BeamJob(runner, workers, words, "", "")), io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):  # the list of all options of Beam, and then the error
            unknown, beam_options = _unknown_words(options, words)
        create_runner(runner)
    except SystemExit as error:
        reason = stderr.getvalue().rstrip().rpartition("error: ")[2]
        raise UsageError(f"Beam refuses an option: {reason or ' '.join(words)}") from error
    except (ValueError, ImportError) as error:
        hint = " Install the client of Dataflow by pip install -e '.[dataflow]'." if "Dataflow" in runner else ""
        raise UsageError(f"--runner={runner}: {first_line(error)}{hint}") from error
    if unknown and runner not in _WITH_A_JOB_SERVER:  # a job server may have options that only it knows
        name = unknown[0].partition("=")[0]
        hint = suggestion(name, beam_options, otherwise=".")
        raise UsageError(
            f"Beam has no option {name}{hint} Write the options of yt8m bulk before -- and those of Beam after it."
        )


def _unknown_words(options: PipelineOptions, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the words that are no options of Beam, flags first; the names of all options of Beam)."""
    unknown, beam_options = list[str](), list[str]()

    def note(parser: Any) -> None:
        unknown.extend(parser.parse_known_args(list(words))[1])
        beam_options.extend(name for action in parser._actions for name in action.option_strings)

    # Without `retain_unknown_options` Beam would log a warning about unknown words.
    options.get_all_options(add_extra_args_fn=note, retain_unknown_options=True)
    return sorted(unknown, key=lambda word: not word.startswith("-")), beam_options


def _run_once(job: BeamJob, tasks: Sequence[Any], join: Callable[[Any], Any]) -> list[Done]:
    pipeline = beam.Pipeline(options=_options(job))
    done = join(pipeline | "shards" >> beam.Create(list(tasks)) | "spread" >> beam.Reshuffle())
    marks = storage.join(os.path.dirname(job.note), f"marks-{secrets.token_hex(4)}")
    done | "mark" >> beam.Map(leave_mark, marks)
    done | "all done" >> beam.combiners.ToList() | "note" >> beam.Map(write_json, job.note)
    beam_log.getLogger("apache_beam").setLevel(beam_log.ERROR)  # Beam's warnings are about its own flags
    beam_log.getLogger(local_job_service.__name__).setLevel(beam_log.CRITICAL)  # workers.log has what it would repeat
    with _workers_log(job), ShardProgress(marks, len(tasks), job.unit):
        result = pipeline.run()
        result.wait_until_finish()
    _log_sizes(result)
    return [Done(*values) for values in storage.read_json(job.note)]


def _options(job: BeamJob) -> PipelineOptions:
    words = [f"--runner={job.runner}", "--default_sdk_harness_log_level=WARNING"]
    if job.runner == "DirectRunner":
        words += ["--direct_running_mode=multi_processing", f"--direct_num_workers={job.workers}"]
    return PipelineOptions([*words, *job.words])


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
    """Makes a private folder the one for temporary files, here and in the workers, since Beam leaves files behind."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    with copies.private_folder("yt8m-bulk-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before[1]
            os.environ.pop("TMPDIR")
            if before[0] is not None:
                os.environ["TMPDIR"] = before[0]


@contextlib.contextmanager
def _workers_log(job: BeamJob) -> Iterator[None]:
    """Redirects the output of DirectRunner's worker processes to a file, which is kept if the pipeline fails.

    The processes inherit the file descriptors 1 and 2; this process prints to copies of them meanwhile.
    """
    if job.runner != "DirectRunner":
        yield
        return
    path = storage.join(job.folder, WORKERS_LOG)
    if storage.is_remote(path):
        path = os.path.join(tempfile.gettempdir(), WORKERS_LOG)
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
            stream.close()
        sys.stdout, sys.stderr = streams
        for target, source in zip((1, 2), saved, strict=True):
            os.dup2(source, target)
            os.close(source)


def _redirect_to_file(path: str) -> None:
    """Redirects the file descriptors 1 and 2 to a pipe, from which a thread writes a file.

    The thread goes on where the disk is full. If a worker itself wrote the file, it would fail there while it prints
    an error, and Beam would wait forever for its answer.
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
    """Does the work of one shard. A `RunError` or `UsageError` becomes the shard's `Done`, so that Beam does not retry.

    Args:
      config: the settings of the job.
      work: maps (config, shard) to an iterator of outputs, the last of which is a `Done`.
    """

    def __init__(self, config: Any, work: Callable[[Any, Any], Iterator[Any]]) -> None:
        self._config, self._work = config, work

    def process(self, shard: Any) -> Iterator[Any]:
        """The outputs of the shard."""
        try:
            for output in self._work(self._config, shard):
                if isinstance(output, Done):
                    Metrics.counter(_COUNTERS, "records").inc(output.records)
                    Metrics.counter(_COUNTERS, "bad_records").inc(int(bool(output.bad)))
                yield output
        except (RunError, UsageError) as error:
            yield Done(shard.number, error=str(error))


def write_json(value: Any, path: str) -> None:
    """Writes a value to a JSON file."""
    storage.write(path, json.dumps(value))


def note_size(count: int) -> None:
    """Records the size in bytes of an element that is joined in memory, for the log."""
    Metrics.distribution(_COUNTERS, "joined_bytes").update(count)


def _log_sizes(result: Any) -> None:
    """Logs the size of the largest element that was joined, which bounds the memory of a worker."""
    distributions = result.metrics().query(MetricsFilter().with_name("joined_bytes"))["distributions"]
    if distributions:
        logging.info(
            "the largest value that a worker joined in memory has %d bytes",
            max(distribution.result.max for distribution in distributions),
        )


LOOK_SECONDS = 2.0
REMOTE_LOOK_SECONDS = 15.0  # longer, because listing a bucket costs money


def leave_mark(done: Done, folder: str) -> Done:
    """Writes an empty file for a finished shard; its name is the number of the shard and the number of its records."""
    with storage.write_atomic(storage.join(folder, f"{done.number}-{done.records}"), "w"):
        return done


class ShardProgress:
    """A context in which a thread shows how many shards and records are done, and the time left.

    On a terminal it shows a bar, elsewhere a line every 30 seconds. Workers may be on other machines, and some runners
    report nothing until they end. So a worker writes an empty file, a mark, for each shard that it has finished, and
    this thread lists the marks regularly.

    Args:
      folder: the folder of the marks; every attempt of the job has its own.
      shards: number of shards.
      unit: what a shard holds, such as `records`.
    """

    def __init__(self, folder: str, shards: int, unit: str) -> None:
        self._folder, self._unit = folder, unit
        self._work = terminal.CountedWork(shards, "shards", lambda line: logging.info("%s", line))
        self._seconds = REMOTE_LOOK_SECONDS if storage.is_remote(folder) else LOOK_SECONDS
        self._over = threading.Event()

    def __enter__(self) -> ShardProgress:
        self._work.__enter__()
        self._thread = threading.Thread(target=self._watch, name="shard-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join()
        if self._work.has_bar:
            self.look()
        self._work.__exit__()

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            self.look()

    def look(self) -> None:
        """Counts the marks, and updates the bar, or logs a line if the last one is 30 seconds old."""
        done, records = self._counted()
        self._work.show(done, records, self._unit, f"{records} {self._unit}, ")

    def _counted(self) -> tuple[int, int]:
        """(number of finished shards, number of their records). A shard that was done twice counts once."""
        try:
            names = storage.names_in(self._folder)
        except RunError as error:  # a bucket that does not answer for a moment must not end the job
            logging.debug("cannot list the finished shards: %s", error)
            return 0, 0
        matches = [re.fullmatch(r"(\d+)-(\d+)", name) for name in names]
        counts = {int(match[1]): int(match[2]) for match in matches if match}
        return len(counts), sum(counts.values())
