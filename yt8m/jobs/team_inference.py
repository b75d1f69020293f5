"""Inference under TF_CONFIG: every process predicts for some of the files, the chief joins the parts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import IO, Any

from absl import logging

from yt8m import json_text, readers, storage
from yt8m.config import InferenceConfig
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError, UsageError
from yt8m.jobs import inference, segment_parts, team
from yt8m.jobs.input_check import digest
from yt8m.runner import checkpoints
from yt8m.runner.watchdog import answers

_ORDER = "predict"


def infer(config: InferenceConfig) -> int:
    """Predicts alone, or as one of several; returns the exit status.

    Raises:
      UsageError: several processes cannot do what is asked; as `inference.infer`.
      RunError: a part is lost; as `inference.infer`.
    """
    cluster = team.cluster_here()
    if cluster is None:
        return inference.infer(config)
    _check(config)
    if team.has_no_part(cluster):
        return 0
    with team.Team(cluster, config.stall_timeout) as others:
        try:
            return _lead(config, others) if cluster.is_chief else _work(config, others)
        finally:
            _clear(config, cluster)


def _check(config: InferenceConfig) -> None:
    for name in ("output_file", "input_data_pattern"):
        if not getattr(config, name):
            raise UsageError(f"--{name} is missing: the processes of a cluster have to agree on it.")


def _lead(config: InferenceConfig, others: team.Team) -> int:
    """The chief: all predict by the checkpoint that it chooses; by a newer one where that is deleted."""

    def newest() -> str:
        return (config.train_dir and checkpoints.newest_readable(config.train_dir)) or ""

    return checkpoints.with_newer(
        newest(),
        newest,
        lambda checkpoint: [checkpoint] if checkpoint else [],
        lambda checkpoint: _lead_with(config, others, checkpoint),
    )


def _lead_with(config: InferenceConfig, others: team.Team, checkpoint: str) -> int:
    """The chief's own part, then all of them in one file."""
    cluster = others.cluster
    others.send(checkpoint or _ORDER)
    replies = [
        _predict(config, cluster, checkpoint),
        *(json_text.parse(reply) for reply in others.collect()),
    ]
    for replica, reply in enumerate(replies):
        name = f"the part of {cluster.replica_name(replica)}"
        if reply["path"] is None:
            raise storage.NotFoundError(f"{name} is missing: {checkpoint} was deleted while it was read.")
        if reply["data"] != replies[0]["data"]:
            raise RunError(team.OTHER_DATA.format(cluster.replica_name(replica)))
        if not storage.exists(reply["path"]) or storage.size(reply["path"]) != reply["size"]:
            raise RunError(
                f"{name}, {reply['path']}, does not reach the chief: --output_file must be on shared storage."
            )
    _join(config, [reply["path"] for reply in replies])
    logging.info("the predictions of %d processes are in %s", len(replies), config.output_file)
    return 0


def _work(config: InferenceConfig, others: team.Team) -> int:
    """A worker: its part, as often as the chief wants one."""
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
    """Writes this process' part; what the chief needs to know of it."""
    part, count = cluster.replica, len(cluster.replicas)
    whole = _files(config.input_data_pattern)
    data = digest(whole, storage.stamps(whole), {})
    # Neighbours, so that the parts, joined, have the order of the whole.
    files = whole[len(whole) * part // count : len(whole) * (part + 1) // count]
    path = _path(config, part, count)
    if files:
        own = dataclasses.replace(
            config,
            input_data_pattern=",".join(files),
            output_file=path,
            untar_model_dir=config.untar_model_dir and f"{config.untar_model_dir}-{part}",
        )
        inference.infer(own, segment_parts.write, *([checkpoint] if checkpoint else []))
    else:
        logging.info("there are fewer files than processes: %s has none to predict for", cluster.name)
        with storage.write_atomic(path, "w"):
            pass
    return {"data": data, "path": path, "size": storage.size(path)}


def _path(config: InferenceConfig, part: int, count: int) -> str:
    return f"{config.output_file}.part-{part:05d}-of-{count:05d}"


def _clear(config: InferenceConfig, cluster: ClusterConfig) -> None:
    """Removes the parts that are still there because the job failed.

    Each process its own, and the chief those of processes that are gone too: what these were just writing
    is there under another name.
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
                logging.warning("a part stays: %s", error)


def _files(pattern: str) -> list[str]:
    return readers.BatchQueue(readers.YT8MAggregatedFeatureReader(), pattern).files()


def _join(config: InferenceConfig, parts: Sequence[str]) -> None:
    """One file of all parts, with one header; the parts go when it is whole."""
    with storage.write_atomic(config.output_file) as whole:
        if config.segment_labels:
            segment_parts.join(whole, parts, config.segment_max_pred)
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
