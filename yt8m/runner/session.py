"""The plain session loop: SessionRunHooks around steps, merged into one `session.run` each.

One machine needs no MonitoredSession, and is better off without: that one answers an UnavailableError of
a callback by going back to the last checkpoint without a word, and reads every OutOfRangeError as the
end of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from absl import logging

from yt8m.lazy import tf
from yt8m.runner.signals import StopSignals


def run_steps(
    session: tf.Session,
    fetch: Any,
    hooks: Sequence[tf.train.SessionRunHook],
    coordinator: tf.train.Coordinator,
    signals: StopSignals,
) -> bool:
    """Runs `fetch` until a hook or a signal asks for the end.

    Returns:
      True where the data came to their end.
    """
    try:
        while not coordinator.should_stop() and not signals.requested:
            if run_step(session, fetch, hooks):
                coordinator.request_stop()
    except tf.errors.OutOfRangeError as error:
        if not is_end_of_data(error):
            raise
        return True
    return False


def run_step(session: tf.Session, fetch: Any, hooks: Sequence[tf.train.SessionRunHook]) -> bool:
    """One step with all that the hooks ask for; True where one of them asks for the end."""
    context = tf.train.SessionRunContext(tf.train.SessionRunArgs(fetch), session)
    asked = {}
    for index, hook in enumerate(hooks):
        request = hook.before_run(context)
        if request is not None:
            asked[index] = request
    options, metadata = _merged_options(asked.values())
    fetches = {"step": fetch, "hooks": {i: r.fetches for i, r in asked.items() if r.fetches is not None}}
    got = session.run(fetches, _merged_feeds(asked.values()), options, metadata)
    for index, hook in enumerate(hooks):
        values = tf.train.SessionRunValues(got["hooks"].get(index), options, metadata)
        hook.after_run(context, values)
    return context.stop_requested


def is_end_of_data(error: tf.errors.OpError) -> bool:
    """Whether the iterator said so, and not a checkpoint file that hit a size limit."""
    return error.op is not None and error.op.type == "IteratorGetNext"


def close_all(hooks: Sequence[tf.train.SessionRunHook]) -> None:
    """Calls `close` of every hook that has one; what one raises keeps no other from its own."""
    for hook in hooks:
        close = getattr(hook, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:
                logging.error("closing %s failed: %s", type(hook).__name__, error)


def _merged_feeds(requests: Any) -> dict[Any, Any]:
    feeds: dict[Any, Any] = {}
    for request in requests:
        for tensor, value in (request.feed_dict or {}).items():
            if tensor in feeds:
                raise RuntimeError(f"two callbacks feed {tensor}")
            feeds[tensor] = value
    return feeds


def _merged_options(requests: Any) -> tuple[Any, Any]:
    """Run options of all hooks in one, and where to put what they ask for; (None, None) for none."""
    given = [request.options for request in requests if request.options is not None]
    if not given:
        return None, None
    merged = tf.RunOptions()
    for options in given:
        merged.MergeFrom(options)
    return merged, tf.RunMetadata()
