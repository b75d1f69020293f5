"""Callbacks for tests, as a user would write them; named `runner.tiny_hooks:Losses` and so on."""

from __future__ import annotations

import resource
import time
from typing import Any

from yt8m import runner
from yt8m.lazy import tf


class Losses(runner.Callback):
    """Writes the exact loss of each step."""

    def __init__(self, context: runner.Context, path: str) -> None:
        super().__init__(context)
        self.path = path

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self.context.ops.label_loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        with open(self.path, "a") as file:
            file.write(f"{self.context.step} {float(run_values.results).hex()}\n")


class Ids(runner.Callback):
    """Writes the ids of each step, which the modeler reports; with a `pause`, the input has time to read ahead."""

    def __init__(self, context: runner.Context, path: str, pause: float = 0.0) -> None:
        super().__init__(context)
        self.path, self.pause = path, pause

    def before_run(self, run_context: Any) -> Any:
        time.sleep(self.pause)
        return tf.train.SessionRunArgs(self.context.ops.reports["ids"])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        with open(self.path, "a") as file:
            file.writelines(f"{name.decode()}\n" for name in run_values.results)


class Rows(runner.Callback):
    """Writes the step, the last shard's number in the run's sequence and the ids of each step."""

    def __init__(self, context: runner.Context, path: str) -> None:
        super().__init__(context)
        self.path = path

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs((self.context.ops.input.last_shard, self.context.ops.reports["ids"]))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        shard, ids = run_values.results
        with open(self.path, "a") as file:
            file.write(f"{self.context.step} {shard} {b' '.join(ids).decode()}\n")


class Gate(runner.Callback):
    """Says `at step N` on the standard output and then takes `seconds`; for step 0, before it runs."""

    def __init__(self, context: runner.Context, step: int, seconds: float = 0.0) -> None:
        super().__init__(context)
        self.step, self.seconds = step, seconds

    def before_run(self, run_context: Any) -> None:
        if self.step == 0 == self.context.step:
            print("about to run", flush=True)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.context.step == self.step:
            print(f"at step {self.step}", flush=True)
            time.sleep(self.seconds)


class FileLimit(runner.Callback):
    """From step `step` on, no file may grow over `size` bytes."""

    def __init__(self, context: runner.Context, step: int, size: int) -> None:
        super().__init__(context)
        self.step, self.size = step, size

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.context.step == self.step:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))


class Raises(runner.Callback):
    """Raises at step `step`."""

    def __init__(self, context: runner.Context, step: int) -> None:
        super().__init__(context)
        self.step = step

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.context.step == self.step:
            raise tf.errors.UnavailableError(None, None, "the bucket answers 503")


class Closed(runner.Callback):
    """Leaves a line in `path` when it is closed."""

    def __init__(self, context: runner.Context, path: str) -> None:
        super().__init__(context)
        self.path = path

    def close(self) -> None:
        with open(self.path, "a") as file:
            file.write("closed\n")


class Plain(tf.train.SessionRunHook):
    """A SessionRunHook that is no callback of ours: takes nothing, keeps its calls."""

    calls: list[str] = []  # noqa: RUF012 - shared on purpose: the test has no other hold on it

    def __init__(self) -> None:
        self.calls.clear()

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.calls.append("after_create_session")

    def before_run(self, run_context: Any) -> None:
        self.calls.append("before_run")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append("after_run")

    def end(self, session: Any) -> None:
        self.calls.append("end")


class FailsAtTheEnd(tf.train.SessionRunHook):
    """Cannot reach its server any more."""

    def end(self, session: Any) -> None:
        raise ConnectionError("no route to the server")
