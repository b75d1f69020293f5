"""What every call from Python has in common."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from yt8m import registry, storage
from yt8m.command_line import typed_names
from yt8m.errors import UsageError, reworded
from yt8m.storage import pipes

# A flag in a message, with its value if that is a word: `--model=LogisticModl`, `unknown flag --base_learning_rat`; or
# a command, which has flags indeed.
_FLAG = re.compile(typed_names.COMMAND + r"|(?:\bflag )?--(\w+)(?:=('[^']*'|[\w:/+.*?{},=\[\]-]*[\w/*?}\]=])|=(?=\s))?")
_OWNER = re.compile(r"\b[A-Z]\w*Config: ")

_guard = threading.Lock()  # guards `_open_scopes`
_open_scopes = 0  # calls of all threads, and calls within them


@contextlib.contextmanager
def call_scope(remedy: str = "give trust_code=True") -> Iterator[None]:
    """The context of a call from Python. What is trusted inside is not trusted after it, and pipes are read anew.

    Args:
      remedy: replaces the advice to add the flag --trust_code in error messages.
    """
    try:
        with registry.local_trust(), _pipes_for_a_call():
            yield
    except UsageError as error:
        raise UsageError(re.sub("add (--)?trust_code", remedy, str(error))) from error


@contextlib.contextmanager
def in_words_of_python() -> Iterator[None]:
    """Inside the block, what a command refuses is said with the arguments of a function in place of flags."""
    with reworded(lambda message: with_arguments(message, lambda name: name)):
        yield


def with_arguments(message: str, spelled: Callable[[str], str]) -> str:
    """The message of a command with arguments in place of flags.

    Args:
      spelled: how the argument for a flag is written.
    """

    def argument(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name is None:
            return match[0]
        if value is None:
            return spelled(name)
        is_literal = value.startswith("'") or value.lstrip("-").replace(".", "", 1).isdigit()
        return f"{spelled(name)}={value if is_literal else repr(value)}"

    message = message.replace(", or --help of its command", "").replace("unknown flag --", "unknown option --")
    message = _OWNER.sub("", message).replace("--help=all lists all flags", "help(yt8m.fit) lists all options")
    return _FLAG.sub(argument, message).replace(" the flag ", " the option ")


def local_path(path: Any) -> str:
    """One path as a text, with the home folder in place of `~`."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected one path; found a {type(path).__name__}, {str(path)[:60]!r}.")
    return storage.expanded(os.fspath(path))


def video_path(path: Any) -> str:
    """The path of a video. A file that is missing is refused before weights of extractors are fetched."""
    video = local_path(path)
    if not storage.is_remote(video) and not storage.exists(video):
        raise UsageError(f"{video}: there is no such file.")
    return video


def name_list(argument: str, names: str | Sequence[str] | None) -> list[str]:
    """The names in an argument, which may be one name alone, or several with commas between them."""
    listed = names.split(",") if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"{argument} is {names!r}: expected a name, or a list of names.")
    return [name.strip() for name in listed]


@contextlib.contextmanager
def _pipes_for_a_call() -> Iterator[None]:
    """Keeps what pipes gave until no call is left that may read it again."""
    global _open_scopes
    with _guard:
        _open_scopes += 1
    try:
        yield
    finally:
        with _guard:
            _open_scopes -= 1
            if not _open_scopes:
                pipes.forget()
