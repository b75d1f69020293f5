"""Evaluation and inference by several processes, under TF_CONFIG: the chief sends orders, the workers send results.

Orders and results go through TensorFlow queues in the chief's memory, so none can remain from an earlier job. In
an evaluation each process evaluates a share of the data, and the chief merges the metrics. In an inference each process
predicts for a part of the files, and the chief joins the parts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from absl import logging

from yt8m import readers, runner, storage
from yt8m.commands import evaluation, inference, segment_inference
from yt8m.commands.inference import announce_replacement
from yt8m.commands.input_check import digest
from yt8m.commands.workload import Workload
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.config.train_config import TrainConfig
from yt8m.deploy.cluster import EVALUATOR, PS, ClusterConfig, from_environment
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.runner.cluster import exchange, servers
from yt8m.runner.cluster.exchange import answers
from yt8m.runner.cluster.watchdog import Watchdog, unreachable
from yt8m.storage import json_text

OTHER_DATA = (
    "{} found other shards than the chief, or shards of another size: they changed while the processes "
    "started. There is no result; start the whole job again."
)
POLL_SECONDS = 0.5
LAST_ORDER_SECONDS = 20.0
CLOSE_SECONDS = 5.0
_HELLO, _FAILED, _END = b"hello", b"failed", ""
_CHIEF = f"/job:{exchange.WORKER_JOB}/task:0"


def cluster_here() -> ClusterConfig | None:
    """The cluster of TF_CONFIG if it has several replicas; None if this process works alone."""
    cluster = from_environment()
    return cluster if cluster is not None and len(cluster.replicas) > 1 else None


def has_no_part(cluster: ClusterConfig) -> bool:
    """Whether this process has a role that only training needs (parameter server or evaluator); if so, logs this."""
    if cluster.role not in (PS, EVALUATOR):
        return False
    logging.info("%s has nothing to do here: the chief and the workers share the data", cluster.name)
    return True


class Team:
    """The connection of this process to the others; a context manager.

    If a worker leaves the context with an exception, it sends the message to the chief.

    Args:
      cluster: the addresses of all processes, and the role of this one.
      stall_timeout: seconds that a process may be unreachable.

    Raises:
      UsageError: the port is in use.
    """

    def __init__(self, cluster: ClusterConfig, stall_timeout: float) -> None:
        self.cluster, self._timeout = cluster, stall_timeout
        self._known: set[int] = set()
        self._order = _END

    def __enter__(self) -> Team:
        runtime = servers.start(self.cluster)
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._build()
        own = f"/job:{exchange.WORKER_JOB}/task:{self.cluster.replica}"
        config = tf.ConfigProto(device_filters=[_CHIEF, own])
        with self._watched():
            self._session = tf.Session(runtime.target, self._graph, config)
            self._session.run(self._size)
            if not self.cluster.is_chief:
                self._put(b"", _HELLO)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *unused: object) -> None:
        if self.cluster.is_chief:
            self._dismiss()
        # If the chief died, sending and close() block forever.
        leaving = threading.Thread(target=self._leave, args=(error,), name="leave-team", daemon=True)
        leaving.start()
        leaving.join(CLOSE_SECONDS)

    def send(self, order: str) -> None:
        """Called by the chief: sends an order to every worker. A worker that connects later gets the order then."""
        self._order = order
        for replica in self._known:
            self._give(replica)

    def collect(self) -> list[bytes]:
        """Called by the chief: waits for the workers' results of the last order and returns them by replica number.

        Raises:
          RunError: a worker has failed, or was unreachable for `stall_timeout`; the message names it.
        """
        found: dict[int, bytes] = {}
        last_seen = dict.fromkeys(range(1, len(self.cluster.replicas)), time.monotonic())
        while missing := last_seen.keys() - found.keys():
            if not self._session.run(self._size):
                self._check_reach(missing, last_seen)
                time.sleep(POLL_SECONDS)
                continue
            number, order, result = self._session.run(self._get)
            replica = int(number)
            if result == _HELLO:
                self._known.add(replica)
                self._give(replica)
            elif order == _FAILED:
                self._known.discard(replica)
                raise RunError(f"{self._part_of(replica)} is missing: {result.decode()}")
            elif order.decode() == self._order:  # otherwise the result belongs to an abandoned order
                found[replica] = result
        return [found[replica] for replica in sorted(found)]

    def receive(self) -> str:
        """Called by a worker: waits for the next order and returns it; empty if there are no more orders.

        Raises:
          RunError: the chief is lost.
        """
        with self._watched() as watchdog:
            while not self._session.run(self._left[self.cluster.replica]):
                watchdog.beat()
                time.sleep(POLL_SECONDS)
            self._order = self._session.run(self._next_order).decode()
        return self._order

    def reply(self, result: bytes) -> None:
        """Called by a worker: sends its result of the last order to the chief.

        Raises:
          RunError: the chief is lost.
        """
        with self._watched():
            self._put(self._order.encode(), result)

    def _build(self) -> None:
        with tf.device(f"{_CHIEF}/device:CPU:0"):
            count = len(self.cluster.replicas)
            orders = [tf.FIFOQueue(100, tf.string, [[]], shared_name=f"orders_{i}") for i in range(count)]
            results = tf.FIFOQueue(1000, [tf.string] * 3, [[]] * 3, shared_name="results")
            self._text = tf.placeholder(tf.string, [])
            self._parts = [tf.placeholder(tf.string, []) for _ in range(3)]
            self._give_ops = [queue.enqueue(self._text) for queue in orders]
            self._left = [queue.size() for queue in orders]
            self._next_order = orders[self.cluster.replica].dequeue()
            self._put_op, self._get, self._size = (results.enqueue(self._parts), results.dequeue(), results.size())

    def _give(self, replica: int) -> None:
        self._session.run(self._give_ops[replica], {self._text: self._order})

    def _put(self, order: bytes, result: bytes) -> None:
        values = (str(self.cluster.replica).encode(), order, result)
        self._session.run(self._put_op, dict(zip(self._parts, values, strict=True)))

    def _check_reach(self, missing: set[int], last_seen: dict[int, float]) -> None:
        for replica in missing:
            if answers(self.cluster.replicas[replica]):
                last_seen[replica] = time.monotonic()
            elif time.monotonic() - last_seen[replica] > self._timeout:
                raise RunError(
                    f"{self._part_of(replica)} is lost: it has not answered for {self._timeout:g} s "
                    "(--stall_timeout). There is no result; start the whole job again."
                )

    def _part_of(self, replica: int) -> str:
        count = len(self.cluster.replicas)
        return f"the part of {self.cluster.replica_name(replica)}, {replica + 1} of {count},"

    def _dismiss(self) -> None:
        """Tells the workers that there are no more orders; waits at most LAST_ORDER_SECONDS until they know."""
        self.send(_END)
        deadline = time.monotonic() + LAST_ORDER_SECONDS
        left = [self._left[replica] for replica in self._known]
        while any(self._session.run(left)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        time.sleep(POLL_SECONDS)  # the last worker may still be receiving the reply to its dequeue

    def _leave(self, error: BaseException | None) -> None:
        """Closes the session. A worker that failed first sends its error message to the chief."""
        if error is not None and not self.cluster.is_chief:
            is_worded = isinstance(error, UsageError | RunError)
            words = str(error) if is_worded else f"{type(error).__name__}: {error}"
            with contextlib.suppress(tf.errors.OpError):
                self._put(_FAILED, words.encode())
        self._session.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Watchdog]:
        """Wraps calls that wait for the chief: a watchdog runs, and loss of the connection becomes `RunError`."""
        chief = {"the chief": self.cluster.replicas[0]}
        try:
            with Watchdog(self._timeout, lambda: unreachable(chief)) as watchdog:
                yield watchdog
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            raise RunError(f"{self.cluster.replica_name(0)} is gone; start the whole job again.") from error


def evaluate_together(config: EvalConfig) -> int:
    """Evaluates alone, or as one of the processes of a cluster; returns the exit status.

    The chief chooses the checkpoints. The metrics equal those of one process, because metrics merge exactly
    (except for rounding in the sums of PERR and loss).

    Raises:
      UsageError: the cluster is not valid, or for the reasons of `evaluation.evaluate`.
      RunError: the part of a worker is lost, or for the reasons of `evaluation.evaluate`.
    """
    cluster = cluster_here()
    if cluster is None:
        return evaluation.evaluate(config)
    if has_no_part(cluster):
        return 0
    with Team(cluster, config.stall_timeout) as others:
        if not cluster.is_chief:
            return _work_on_evaluation(config, others)
        return evaluation.evaluate(config, evaluate_one=_Leader(others))


class _Leader:
    """Evaluates a checkpoint on the chief, together with the workers."""

    def __init__(self, others: Team) -> None:
        self._others = others

    def __call__(
        self, config: EvalConfig, run: TrainConfig, train_dir: str, checkpoint: str, parts: Workload
    ) -> runner.Outcome:
        """The result with the merged metrics and the number of examples of all processes.

        Raises:
          RunError: a worker failed or is lost, or found other data than the chief.
        """
        self._others.send(checkpoint)
        outcome = evaluation.run_one(config, run, train_dir, checkpoint, _share(parts, self._others))
        if outcome.exit_code:
            return outcome
        results = dict(outcome.results)
        for replica, part in enumerate(self._others.collect(), start=1):
            message, evaluator, examples, data = pickle.loads(part)
            name = self._others.cluster.replica_name(replica)
            if message:
                raise RunError(f"{name} failed: {message}")
            if data != _digest(parts):
                raise RunError(OTHER_DATA.format(name))
            results["evaluator"].merge(evaluator)
            results["examples"] += examples
        results["figures"] = results["evaluator"].get()
        return dataclasses.replace(outcome, results=results)


def _work_on_evaluation(config: EvalConfig, others: Team) -> int:
    """Evaluates a worker's share for each checkpoint that the chief names; returns the exit status of the last one."""
    train_dir, run, parts = evaluation.prepare(config, writes=False)
    parts, status = _share(parts, others), 0
    while checkpoint := others.receive():
        outcome = evaluation.run_one(config, run, train_dir, checkpoint, parts)
        results: Any = outcome.results
        status = outcome.exit_code
        message = outcome.message if status else ""
        # Pickle is no additional risk: a client that can connect to this runtime can already run any graph.
        told = (message, results.get("evaluator"), results.get("examples", 0), _digest(parts))
        others.reply(pickle.dumps(told))
    return status


def _digest(parts: Workload) -> str:
    return parts.walked.digest if parts.walked is not None else ""


def _share(parts: Workload, others: Team) -> Workload:
    cluster = others.cluster
    return parts._replace(inputter=parts.inputter.share(cluster.replica, len(cluster.replicas)))


_ORDER = "predict"


def infer_together(config: InferenceConfig) -> int:
    """Predicts alone, or as one of the processes of a cluster; returns the exit status.

    Raises:
      UsageError: a flag that a cluster needs is missing, or for the reasons of `inference.infer`.
      RunError: the part of a process is lost, or for the reasons of `inference.infer`.
    """
    cluster = cluster_here()
    if cluster is None:
        return inference.infer(config)
    _check(config)
    if has_no_part(cluster):
        return 0
    with Team(cluster, config.stall_timeout) as others:
        try:
            return _lead(config, others) if cluster.is_chief else _work_on_inference(config, others)
        finally:
            _clear(config, cluster)


def _check(config: InferenceConfig) -> None:
    for name in ("output_file", "input_data_pattern"):
        if not getattr(config, name):
            raise UsageError(f"--{name} is missing: the processes of a cluster must be given the same one.")


def _lead(config: InferenceConfig, others: Team) -> int:
    """Leads the inference as the chief: chooses the checkpoint of all processes, and another if that is deleted."""
    announce_replacement(config.output_file)

    def newest() -> str:
        return (config.train_dir and checkpoints.newest_readable(config.train_dir)) or ""

    return checkpoints.with_newer(
        newest(),
        newest,
        lambda checkpoint: [checkpoint] if checkpoint else [],
        lambda checkpoint: _lead_with(config, others, checkpoint),
    )


def _lead_with(config: InferenceConfig, others: Team, checkpoint: str) -> int:
    """Predicts the chief's part with this checkpoint, collects the other parts, and joins all into one file."""
    cluster = others.cluster
    others.send(checkpoint or _ORDER)
    replies = [_predict(config, cluster, checkpoint), *(json_text.parse(reply) for reply in others.collect())]
    for replica, reply in enumerate(replies):
        name = f"the part of {cluster.replica_name(replica)}"
        if reply["path"] is None:
            raise storage.NotFoundError(f"{name} is missing: {checkpoint} was deleted while it was read.")
        if reply["data"] != replies[0]["data"]:
            raise RunError(OTHER_DATA.format(cluster.replica_name(replica)))
        if not storage.exists(reply["path"]) or storage.size(reply["path"]) != reply["size"]:
            raise RunError(
                f"{name}, {reply['path']}, is not visible to the chief: --output_file must be on shared storage."
            )
    _join(config, [reply["path"] for reply in replies])
    logging.info("the predictions of %d processes are in %s", len(replies), config.output_file)
    return 0


def _work_on_inference(config: InferenceConfig, others: Team) -> int:
    """Predicts a worker's part for each order of the chief; returns the exit status."""
    while order := others.receive():
        checkpoint = "" if order == _ORDER else order
        try:
            reply = _predict(dataclasses.replace(config, output_model_tgz=""), others.cluster, checkpoint)
        except RunError as error:
            if not checkpoint or not checkpoints.is_gone(checkpoint):
                raise
            logging.warning("%s", error)
            reply = {"path": None}
        others.reply(json.dumps(reply).encode())
    return 0


def _predict(config: InferenceConfig, cluster: ClusterConfig, checkpoint: str) -> dict[str, Any]:
    """Writes the part of this process. Returns its path, its size in bytes and a digest of the data, for the chief."""
    part, count = cluster.replica, len(cluster.replicas)
    whole = _files(config.input_data_pattern)
    data = digest(whole, storage.stamps(whole), {})
    # Each process takes consecutive files, so that the joined parts have the order of all files.
    files = whole[len(whole) * part // count : len(whole) * (part + 1) // count]
    path = _path(config, part, count)
    if files:
        own = dataclasses.replace(
            config,
            input_data_pattern=",".join(files),
            output_file=path,
            untar_model_dir=config.untar_model_dir and f"{config.untar_model_dir}-{part}",
        )
        inference.infer(own, segment_inference.write_part, *([checkpoint] if checkpoint else []))
    else:
        logging.info("there are fewer files than processes: %s has none to predict for", cluster.name)
        with storage.write_atomic(path, "w"):
            pass
    return {"data": data, "path": path, "size": storage.size(path)}


def _path(config: InferenceConfig, part: int, count: int) -> str:
    return f"{config.output_file}.part-{part:05d}-of-{count:05d}"


def _clear(config: InferenceConfig, cluster: ClusterConfig) -> None:
    """Removes the parts that are left if the job failed.

    Each process removes its own part. The chief also removes the parts of processes that died,
    including unfinished files, which have a temporary name.
    """
    for part, address in enumerate(cluster.replicas):
        path = _path(config, part, len(cluster.replicas))
        is_own = part == cluster.replica
        if is_own or (cluster.is_chief and not answers(address)):
            try:
                storage.discard_unfinished(path)
                if storage.exists(path):
                    storage.remove(path)
            except RunError as error:
                logging.warning("a partial file remains: %s", error)


def _files(pattern: str) -> list[str]:
    return readers.BatchQueue(readers.YT8MAggregatedFeatureReader(), pattern).files()


def _join(config: InferenceConfig, parts: Sequence[str]) -> None:
    """Joins the parts into the output file, with one header. Removes the parts when the file is complete."""
    with storage.write_atomic(config.output_file) as whole:
        if config.segment_labels:
            segment_inference.join_parts(whole, parts, config.segment_max_pred)
        else:
            _append(whole, parts)
    for part in parts:
        storage.remove(part)


def _append(whole: IO[Any], parts: Sequence[str]) -> None:
    header = b""
    for part in parts:
        with storage.open_read(part) as file:
            first = file.readline()
            if not header:
                header = first
                whole.write(header)
            while block := file.read(1 << 20):
                whole.write(block)
