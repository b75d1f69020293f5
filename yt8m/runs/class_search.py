"""`yt8m vocabulary search TEXT`: finds classes of YouTube-8M, or of a run, by name, vertical or number.

A vertical is the subject of a class, such as Games; YouTube-8M has 24 of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from yt8m import options, storage, terminal
from yt8m.config import run_dir
from yt8m.errors import RunError, UsageError
from yt8m.options import option, path_option
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary

# The subfolders in which a run (itself), a SavedModel and an export of `yt8m export` keep the vocabulary.
_NAMED_IN = ("", "assets", "saved_model/assets")


@dataclass(frozen=True)
class SearchConfig(options.Checked):
    """The flags of `yt8m vocabulary search`."""

    limit: int = option(20, "largest number of classes to show, best matches first", minimum=1)
    run: str = path_option(
        "folder of a run or of an exported model, whose classes are searched [YouTube-8M's]",
        flag="model",
        aliases=("train_dir", "run"),
    )


def run(config: SearchConfig, words: Sequence[str]) -> int:
    """Prints the classes that match a text; returns the exit status.

    Raises:
      UsageError: no text is given; or there is no such run, or its classes have no names.
      RunError: no class matches; the message has the closest names.
    """
    text = " ".join(words[1:]).strip()
    if words[:1] != ["search"] or not text:
        raise UsageError(
            f"`yt8m {' '.join(['vocabulary', *words])}` is not complete or not known; expected `yt8m vocabulary search "
            "TEXT`, with the text to find in the names of the classes."
        )
    names = _read_names_of_run(config.run) if config.run else vocabulary.load()
    matches = search(text, names)
    if not matches:
        raise RunError(f"no class has {text!r} in its name{_suggest_closest(text, names)}.")
    _print_classes(matches[: config.limit], names)
    if len(matches) > config.limit:
        print(f"and {len(matches) - config.limit} more; --limit={len(matches)} shows all")
    return 0


def _read_names_of_run(folder: str) -> Vocabulary:
    if not storage.is_dir(folder):
        raise UsageError(f"--model={folder}: {storage.why_no_folder(folder)}; name the folder of a run.")
    for subfolder in _NAMED_IN:
        names = run_dir.own_names(storage.join(folder, subfolder), None)
        if names:
            return names
    saved = run_dir.read(folder)
    names = names.shown(saved.config.data.num_classes if saved else None)
    if not names:
        raise UsageError(
            f"--model={folder}: there is no {vocabulary.NAME}, so its classes have numbers only; name another run, or "
            "leave out --model to search the classes of YouTube-8M."
        )
    return names


def search(text: str, names: Vocabulary) -> list[int]:
    """Finds the classes that match a text; small and capital letters are the same.

    From the best match to the worst, the text is the index of the class, is its name, begins the name, begins a word
    of the name, occurs in the name, or occurs in the name of its vertical (its subject, such as Games).

    Returns:
      The indices of the matching classes, best match first. Of equally good matches, the class with more training
      videos comes first.
    """
    lowered_text = " ".join(text.casefold().split())
    ranks = {index: _match_rank(lowered_text, index, names) for index in range(len(names))}
    matching = [index for index, rank in ranks.items() if rank is not None]
    return sorted(matching, key=lambda index: (ranks[index], -int(names.counts[index]), index))


def _match_rank(lowered_text: str, index: int, names: Vocabulary) -> int | None:
    """How well the class `index` matches a text in small letters: 0 is the best match, None means no match."""
    name = names.names[index].casefold()
    tests = (
        lowered_text == str(index),
        lowered_text == name,
        name.startswith(lowered_text),
        f" {lowered_text}" in name,
        lowered_text in name,
        lowered_text in names.verticals[index].casefold(),
    )
    return tests.index(True) if True in tests else None


def _suggest_closest(text: str, names: Vocabulary) -> str:
    by_name = {name.casefold(): name for name in names.names}
    close = difflib.get_close_matches(text.casefold(), by_name, n=3)
    return f"; closest: {', '.join(by_name[name] for name in close)}" if close else ""


def _print_classes(matches: list[int], names: Vocabulary) -> None:
    """Prints a table of classes. Columns for which the vocabulary has no value are left out."""
    rated = set(vocabulary.segment_classes().tolist() if names.is_youtube8m else ())
    columns: dict[str, list[str]] = {
        "class": [str(index) for index in matches],
        "name": [names.names[index] for index in matches],
        "training videos": [f"{names.counts[index]:,}" for index in matches] if names.counts.any() else [],
        "vertical": [names.verticals[index] for index in matches],
        "segments": ["rated" if index in rated else "" for index in matches] if rated else [],
    }
    shown_columns = {name: column for name, column in columns.items() if any(column) or (column and names.is_youtube8m)}
    terminal.print_table(
        list(shown_columns), zip(*shown_columns.values(), strict=True), right=("class", "training videos")
    )
