"""The callbacks of a run, by name. They are SessionRunHooks, which log, save checkpoints, write summaries, ..."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.registry import Catalogue
from yt8m.runner.run_config import CallbackConfig, Context

# The catalogue has paths, not classes, because each class derives from one of TensorFlow: its module is imported only
# when a run uses the callback.
callbacks = Catalogue("callback", group="yt8m.callbacks")
for _name, _class in {
    "train_basic": "steps:TrainBasic",
    "train_guard": "steps:TrainGuard",
    "train_loss": "figures:TrainLoss",
    "train_speed": "figures:Speed",
    "train_accuracy": "figures:TrainAccuracy",
    "train_summary": "figures:TrainSummary",
    "train_export": "steps:TrainExport",
    "train_profile": "steps:TrainProfile",
    "train_validation": "validation:TrainValidation",
    "eval_basic": "figures:EvalBasic",
    "eval_metrics": "figures:EvalMetrics",
    "eval_speed": "figures:Speed",
    "eval_summary": "figures:EvalSummary",
    "infer_basic": "figures:InferBasic",
    "infer_writer": "figures:InferWriter",
}.items():
    callbacks.register(f"{__name__}.{_class}", _name)

# {mode: the callbacks that every run of this mode has, in order, unless `-name` removes one}
DEFAULTS: dict[str, tuple[str, ...]] = {
    "train": ("train_guard", "train_basic", "train_loss", "train_speed", "train_accuracy", "train_summary"),
    "eval": ("eval_basic", "eval_metrics", "eval_speed"),
    "infer": ("infer_basic",),
}

_NO_HOOK = "the callback {!r} is a {}; expected a class that is derived from tf.train.SessionRunHook"


def names_for(mode: str, names: Sequence[str]) -> list[str]:
    """The names of a run's callbacks, in order: the defaults of the mode, then the additional ones.

    In training, `["my_module:Mine", "-train_speed"]` gives the defaults without `train_speed`, then `my_module:Mine`.
    Naming a default callback has no effect. The mode's `_basic` callback cannot be removed, because a run without it
    would neither save checkpoints nor count examples.

    Args:
      names: names of callbacks to add, or `package.module:Class`; `-name` removes a default callback.
    """
    defaults = DEFAULTS[mode]
    for index, name in enumerate(names):
        bare_name = name.removeprefix("-")
        if bare_name in [earlier.removeprefix("-") for earlier in names[:index]]:
            raise UsageError(f"the callback {bare_name!r} is named twice; name it once")
        callback_mode = bare_name.partition("_")[0]
        if ":" not in bare_name and callback_mode in DEFAULTS and callback_mode != mode:
            raise UsageError(
                f"the callback {bare_name!r} is for {callback_mode}, and this run is for {mode}; leave it out"
            )
        if name != bare_name and (bare_name not in defaults or bare_name == f"{mode}_basic"):
            removable = ", ".join(default for default in defaults if default != f"{mode}_basic")
            raise UsageError(f"the callback {bare_name!r} cannot be removed; these can: {removable or 'none'}")
    remaining = [name for name in defaults if f"-{name}" not in names]
    return [*remaining, *(name for name in names if name not in defaults and not name.startswith("-"))]


def names_and_packages(mode: str) -> list[str]:
    """The names of callbacks that a run of this mode can have, as `Registry.names_and_packages` lists them."""
    others = tuple(f"{other}_" for other in DEFAULTS if other != mode)
    return [name for name in callbacks.names_and_packages() if not name.startswith(others)]


def build(config: CallbackConfig, context: Context) -> list[Any]:
    """Makes the callbacks of a run.

    The constructor of a callback gets the context and the callback's options; if it has no parameters, as that of some
    SessionRunHooks, it gets neither.

    Args:
      config: the names and options of the callbacks. A callback that only `config.options` names is added after the
        others.

    Returns:
      The callbacks, in the order in which they are called.
    """
    names = names_for(context.config.mode, config.names)
    names += [name for name in config.options if name not in names]
    return [_create_callback(name, context, dict(config.options.get(name, {}))) for name in names]


def check(mode: str, names: Sequence[str]) -> None:
    """Checks the names of callbacks before the graph is built. This imports the user's own callbacks.

    Args:
      names: names of callbacks, or `package.module:Class`; `-name` removes a default callback of the mode.
    """
    for name in names_for(mode, names):
        callback = callbacks.get(name)
        if isinstance(callback, type) and not issubclass(callback, tf.train.SessionRunHook):
            raise UsageError(_NO_HOOK.format(name, callback.__name__))


def _create_callback(name: str, context: Context, options: dict[str, Any]) -> Any:
    """Calls the constructor of one callback; raises `UsageError` if it fails or makes something else than a hook."""
    factory = callbacks.get(name)
    if isinstance(factory, str):
        factory = callbacks.get(factory)
    try:
        parameters = inspect.signature(factory).parameters
        arguments = [context] if parameters else []
        inspect.signature(factory).bind(*arguments, **options)
    except TypeError as error:
        raise UsageError(
            f"the callback {name!r} cannot be made: {error}. CallbackConfig.options must have the arguments of its "
            "constructor, without the context."
        ) from error
    hook = factory(*arguments, **options)
    if not isinstance(hook, tf.train.SessionRunHook):
        raise UsageError(_NO_HOOK.format(name, type(hook).__name__))
    return hook
