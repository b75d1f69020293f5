"""The plain session loop: SessionRunHooks around steps, merged into one `session.run` each.

On one machine MonitoredSession has two drawbacks. If a callback raises UnavailableError, it silently goes back to
the last checkpoint. It also takes every OutOfRangeError for the end of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from absl import logging

from yt8m.graph import EvalOps, TrainOps
from yt8m.lazy import tf
from yt8m.runner.signals import StopSignals


def run_steps(
    session: tf.Session, ops: TrainOps | EvalOps, hooks: Sequence[tf.train.SessionRunHook], signals: StopSignals
) -> bool:
    """Calls `after_create_session` of the hooks, then runs steps until a hook or a signal asks to stop.

    Returns:
      True if all data were read.
    """
    coordinator = tf.train.Coordinator()
    for hook in hooks:
        hook.after_create_session(session, coordinator)
    fetch = ops.train_op if isinstance(ops, TrainOps) else ops.examples
    context = tf.train.SessionRunContext(tf.train.SessionRunArgs(fetch), session)
    try:
        while not coordinator.should_stop() and not context.stop_requested and not signals.requested:
            given = [hook.before_run(context) or tf.train.SessionRunArgs(None) for hook in hooks]
            options, metadata = _merged_options(given)
            asked = [request.fetches for request in given if request.fetches is not None]
            _, got = session.run((fetch, asked), _merged_feeds(given), options, metadata)
            results = iter(got)
            for hook, request in zip(hooks, given, strict=True):
                result = None if request.fetches is None else next(results)
                hook.after_run(context, tf.train.SessionRunValues(result, options, metadata))
    except tf.errors.OutOfRangeError as error:
        if not is_end_of_data(error):
            raise
        return True
    return False


def is_end_of_data(error: tf.errors.OpError) -> bool:
    """Whether the iterator raised `error`, rather than a checkpoint file that hit a size limit."""
    return error.op is not None and error.op.type == "IteratorGetNext"


def close_all(hooks: Sequence[Any]) -> None:
    """Calls `close` of every hook that has one; if one raises, the others are still closed."""
    for hook in hooks:
        if hasattr(hook, "close"):
            try:
                hook.close()
            except Exception as error:
                logging.error("closing %s failed: %s", type(hook).__name__, error)


def _merged_feeds(requests: Iterable[tf.train.SessionRunArgs]) -> dict[Any, Any]:
    feeds: dict[Any, Any] = {}
    for request in requests:
        for tensor, value in (request.feed_dict or {}).items():
            if tensor in feeds:
                raise RuntimeError(f"two callbacks feed {tensor}")
            feeds[tensor] = value
    return feeds


def _merged_options(requests: Iterable[tf.train.SessionRunArgs]) -> tuple[Any, Any]:
    """The merged run options of all hooks, and the RunMetadata to fill; (None, None) if no hook has any."""
    given = [request.options for request in requests if request.options is not None]
    if not given:
        return None, None
    merged = tf.RunOptions()
    for options in given:
        merged.MergeFrom(options)
    return merged, tf.RunMetadata()
