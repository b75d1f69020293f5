"""What all programs share: the log on the error stream, and how errors become a line and an exit status."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence

from absl import logging as absl_logging

from yt8m import terminal
from yt8m.command_line import typed_names
from yt8m.command_line.streams import discard, lasting_streams
from yt8m.errors import RunError, UsageError, missing_tensorflow
from yt8m.termination import Terminated

_LONGEST = 6000  # characters of the message of an error that are printed

FORMAT = "%(asctime)s %(levelname)s %(message)s"  # of a line in the log


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """The log handler of this package, which writes to the current sys.stderr.

    While a progress bar is shown, sys.stderr is the bar's stream, which prints lines above the bar. The handler is a
    class of its own so that `set_up_log` can find it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the line of one record; drops it if there is no error stream, as in a service."""
        self.stream = sys.stderr
        if self.stream is not None and not self.stream.closed:
            super().emit(record)


def set_up_log() -> None:
    """Makes absl's log records from INFO on, and those of other libraries from WARNING on, go to the error stream.

    A second call only switches the log to the current error stream.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(handler)
    handler = _Handler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT, "%Y-%m-%d %H:%M:%S"))
    root.addHandler(handler)
    root.removeHandler(absl_logging.get_absl_handler())
    absl_logging.set_verbosity(absl_logging.INFO)
    tensorflow = logging.getLogger("tensorflow")
    tensorflow.handlers.clear()  # TensorFlow may have added a handler, which would repeat each line
    tensorflow.addFilter(_no_deprecation_notice)


_users_of_log = 0  # number of blocks of `shown_log` that threads are in
_log_lock = threading.Lock()


@contextlib.contextmanager
def shown_log() -> Iterator[None]:
    """Sets up the log like `set_up_log` during the block, and restores the earlier state afterwards.

    Several threads may be in such blocks at once. If the process has set up logging itself, nothing is changed.
    """
    global _users_of_log, _undo_log
    with _log_lock:
        if not _users_of_log:
            _undo_log = _set_up_log_if_needed()
        _users_of_log += 1
    try:
        yield
    finally:
        with _log_lock:
            _users_of_log -= 1
            if not _users_of_log:
                _undo_log()


_is_hidden = contextvars.ContextVar("is_hidden", default=False)  # whether a block of `hidden_log` hides the log


@contextlib.contextmanager
def hidden_log() -> Iterator[None]:
    """Drops what this package and TensorFlow log below ERROR inside the block, in this thread, and shows no bars."""
    for logger in (absl_logging.get_absl_logger(), logging.getLogger("tensorflow")):
        logger.addFilter(_is_shown)  # a second time it changes nothing
    token = _is_hidden.set(True)
    try:
        with terminal.without_bars():
            yield
    finally:
        _is_hidden.reset(token)


def _is_shown(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR or not _is_hidden.get()


def _set_up_log_if_needed() -> Callable[[], None]:
    """Sets up the log, unless the process has set up logging itself; returns a function that undoes this."""
    root, tensorflow = logging.getLogger(), logging.getLogger("tensorflow")
    # absl adds a handler of one of these types to the root logger. So such a handler does not show that the process has
    # set up logging itself.
    plain = (logging.StreamHandler, type(absl_logging.get_absl_handler()))
    if root.level != logging.WARNING or any(type(handler) not in plain for handler in root.handlers):
        return lambda: None
    before = list(root.handlers), list(tensorflow.handlers), list(tensorflow.filters), absl_logging.get_verbosity()

    def undo() -> None:
        root.handlers[:], tensorflow.handlers[:], tensorflow.filters[:] = before[:3]
        absl_logging.set_verbosity(before[3])

    root.handlers[:] = []
    set_up_log()
    return undo


_undo_log: Callable[[], None] = lambda: None  # noqa: E731 - replaced whenever the log is set up


def _no_deprecation_notice(record: logging.LogRecord) -> bool:
    """A filter of log records that drops TensorFlow's deprecation notices.

    They are of no use to users, because this package needs graph mode, which TensorFlow calls deprecated.
    """
    return "is deprecated and will be removed" not in str(record.msg)


_called = contextvars.ContextVar("called", default="")  # the name that `calling` sets


@contextlib.contextmanager
def calling(name: str) -> Iterator[None]:
    """Makes messages in the `with` block name the program `name`, such as `yt8m train`, as the user typed it."""
    token = _called.set(name)
    try:
        yield
    finally:
        _called.reset(token)


def called(default: str) -> str:
    """The name of the program as the user typed it, which `calling` sets; `default` outside of a block of `calling`."""
    return _called.get() or default


def run_main(program: str, run: Callable[[list[str]], int], argv: Sequence[str] | None = None) -> int:
    """Runs a program; turns an exception into one line on stderr and an exit status.

    With YT8M_DEBUG=1 in the environment, the traceback of an error is printed too. Unexpected exceptions are bugs and
    are not caught.

    Args:
      program: the name of the program, with which an error line begins, unless `calling` sets another name.
      argv: the words after the program's name; None for sys.argv[1:].

    Returns:
      The result of `run`; the attribute `exit_code` of a `UsageError` (2) or a `RunError` (1, unless it was changed); 2
      if TensorFlow is needed but not installed; 130 after Ctrl-C; 128 + the number of another signal that ended the
      program (`Terminated`); 1 if the output could not be written, or the program that reads it ended too early.
    """
    program = called(program)
    _find_models_in_this_folder()
    words = list(sys.argv[1:] if argv is None else argv)
    with lasting_streams() as lost_output:
        try:
            with typed_names.noting():
                status = _run(program, run, words)
        except SystemExit as end:  # after --help
            if status := _end_output(program, lost_output):
                return status
            raise end
        lost = _end_output(program, lost_output)
        return status or lost


def _end_output(program: str, lost_output: Callable[[], str]) -> int:
    """Writes what is left of the output; the exit status is 1 if the output could not be written, else 0."""
    try:
        reason = lost_output()
    except BrokenPipeError:
        return _stop_printing()
    if reason:
        print(f"{program}: error: the output could not be written: {reason}.", file=sys.stderr)
    return int(bool(reason))


def _run(program: str, run: Callable[[list[str]], int], words: list[str]) -> int:
    """Runs a program; turns an exception into one line on stderr, and returns the exit status, as `run_main` says."""
    try:
        _refuse_other_encodings(words)
        return run(words)
    except (UsageError, RunError) as error:
        if os.environ.get("YT8M_DEBUG") == "1":
            traceback.print_exc()
        print(f"{program}: error: {_in_one_line(typed_names.in_typed_names(str(error)))}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        print(f"{program}: error: {missing_tensorflow('this needs')}", file=sys.stderr)
        return UsageError.exit_code
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, Terminated) else signal.SIGINT
        by = signal.Signals(number).name if isinstance(stop, Terminated) else "Ctrl-C"
        print(f"{program}: stopped by {by}", file=sys.stderr)
        return 128 + number
    except BrokenPipeError:
        return _stop_printing()


def _in_one_line(message: str) -> str:
    """The message without line breaks; the middle of a very long one is left out: a damaged table may name such ids."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST * 2 // 3]} ... {line[-_LONGEST // 3 :]}"


def _stop_printing() -> int:
    """The exit status if the program that reads the output has ended (`| head`)."""
    discard(sys.stdout)  # without this, Python would print an error at its exit
    return 1


def _refuse_other_encodings(words: Sequence[str]) -> None:
    """Raises `UsageError` for a word that is not UTF-8: TensorFlow and the files of a run take names in UTF-8 only."""
    for word in words:
        if (shown := word.encode("utf-8", "backslashreplace").decode()) != word:
            raise UsageError(f"{shown} is not UTF-8; rename the file or folder, or write the flag in UTF-8")


def _find_models_in_this_folder() -> None:
    """Lets `--model=my_models:Mine` find ./my_models.py; an installed module of that name takes precedence."""
    if not getattr(sys.flags, "safe_path", False) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
