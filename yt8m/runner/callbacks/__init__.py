"""Auxiliary jobs around the steps, each a SessionRunHook, chosen by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from yt8m.config.registry import Registry
from yt8m.errors import UsageError
from yt8m.graph import Inputter
from yt8m.lazy import tf
from yt8m.runner.run_config import CallbackConfig, Context

# As paths: each module subclasses a class of TensorFlow's and is imported when it is used.
callbacks: Registry[Any] = Registry("callback")
for _name, _class in {
    "train_basic": "steps:TrainBasic",
    "train_guard": "steps:TrainGuard",
    "train_loss": "figures:TrainLoss",
    "train_speed": "figures:TrainSpeed",
    "train_accuracy": "figures:TrainAccuracy",
    "train_summary": "summaries:TrainSummary",
    "train_export": "steps:TrainExport",
    "train_profile": "steps:TrainProfile",
    "eval_basic": "figures:EvalBasic",
    "eval_metrics": "figures:EvalMetrics",
    "eval_speed": "figures:EvalSpeed",
    "infer_basic": "figures:InferBasic",
    "infer_writer": "figures:InferWriter",
}.items():
    callbacks.register(f"{__name__}.{_class}", _name)

DEFAULTS: dict[str, tuple[str, ...]] = {
    "train": ("train_guard", "train_basic", "train_loss", "train_speed", "train_accuracy", "train_summary"),
    "eval": ("eval_basic", "eval_metrics", "eval_speed"),
    "infer": ("infer_basic",),
}

_NO_HOOK = "the callback {!r} is a {}; expected a class that is derived from tf.train.SessionRunHook"


def names_for(mode: str, names: Sequence[str]) -> list[str]:
    """The callbacks of a run in order.

    The mode's `_basic` is always there: a run that asks for fewer lines in its log still wants its
    checkpoints. It is the first but for the guard, which names what must not be saved. Where only callbacks
    of a user's own are named, they come after the mode's usual ones.

    Raises:
      UsageError: a callback is of another mode, or stands twice.
    """
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UsageError(f"the callback {name!r} stands twice; name it once")
        other = name.partition("_")[0]
        if ":" not in name and other in DEFAULTS and other != mode:
            raise UsageError(f"the callback {name!r} is for {other}, and this run is for {mode}")
    if all(":" in name for name in names):
        return [*DEFAULTS[mode], *names]
    first = [*(["train_guard"] if "train_guard" in names else []), f"{mode}_basic"]
    return [*first, *(name for name in names if name not in first)]


def build(config: CallbackConfig, context: Context) -> list[Any]:
    """The hooks of a run.

    A class of a user's own is called with the context, or without anything where it takes nothing. An
    option for a callback that the run does not have adds that callback.

    Raises:
      UsageError: there is no such callback, or it does not take the options given.
    """
    names = names_for(context.config.mode, config.names)
    names += [name for name in config.options if name not in names]
    return [_make(name, context, dict(config.options.get(name, {}))) for name in names]


def progress_bar(context: Context, inputter: Inputter) -> Any:
    """The bar that stands for the lines on a terminal."""
    from yt8m.runner.callbacks.progress import Progress

    return Progress(context, inputter)


def check(mode: str, names: Sequence[str]) -> None:
    """Refuses unknown callbacks before anything is built; loads those of a user's own.

    Raises:
      UsageError: there is no such callback, it is no SessionRunHook, it is of another mode, or it
        stands twice.
    """
    for name in names_for(mode, names):
        found = callbacks.get(name)
        if isinstance(found, type) and not issubclass(found, tf.train.SessionRunHook):
            raise UsageError(_NO_HOOK.format(name, found.__name__))


def _make(name: str, context: Context, options: dict[str, Any]) -> Any:
    found = callbacks.get(name)
    if isinstance(found, str):
        found = callbacks.get(found)
    try:
        parameters = inspect.signature(found).parameters
        arguments = [context] if parameters else []
        inspect.signature(found).bind(*arguments, **options)
    except TypeError as error:
        raise UsageError(f"the callback {name!r} cannot be made: {error}") from error
    hook = found(*arguments, **options)
    if not isinstance(hook, tf.train.SessionRunHook):
        raise UsageError(_NO_HOOK.format(name, type(hook).__name__))
    return hook
