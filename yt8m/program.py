"""The one way in which every program ends: an exit status, and one line where something was wrong."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence

from yt8m.errors import RunError, UsageError

Program = Callable[[list[str]], int]

_called = contextvars.ContextVar("called", default="")


@contextlib.contextmanager
def calling(name: str) -> Iterator[None]:
    """Within it programs go by `name`, as the user called them, and not by their own."""
    token = _called.set(name)
    try:
        yield
    finally:
        _called.reset(token)


def called(usual: str) -> str:
    """The name that the user called the program by; `usual` where it was started as itself."""
    return _called.get() or usual


def run_main(program: str, run: Program, argv: Sequence[str] | None = None) -> int:
    """Runs a program and turns what it raises into one line on stderr and an exit status.

    Args:
      program: the name in front of the error line, unless `calling` gives another.
      run: takes the words behind the program's name, returns the exit status.
      argv: those words; by default of this process.

    Returns:
      What `run` returned; 2 for `UsageError`, 1 for `RunError` (with YT8M_DEBUG=1 their traceback is
      printed too), 130 after Ctrl-C. Other exceptions are faults of the program and pass.
    """
    program = called(program)
    _find_models_in_this_folder()
    try:
        status = run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except (UsageError, RunError) as error:
        if os.environ.get("YT8M_DEBUG") == "1":
            traceback.print_exc()
        print(f"{program}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{program}: stopped by Ctrl-C", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`); Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _find_models_in_this_folder() -> None:
    """Lets `--model=my_models:Mine` mean ./my_models.py, behind everything that is installed."""
    if not getattr(sys.flags, "safe_path", False) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
