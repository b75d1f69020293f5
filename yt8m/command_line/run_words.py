"""How eval and inference name a run: `--model=RUN` as every other command, and flags of its training, as published.

The published eval.py and inference.py were given the model and the features again. Here a run says them itself, so such
flags are compared with the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from yt8m import models, options, storage
from yt8m.command_line.flag_parsing import Flag, find_word, program_flags
from yt8m.config.search_config import AUTO
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError, suggestion

_MODEL = "model"
# Flags of the published train.py that shape neither the model nor its training's steps: one file of flags for all three
# published programs may hold them.
_WITHOUT_EFFECT = ("train_data_pattern", "start_new_model", "max_steps", "export_model_steps", "log_device_placement")
_PACKED = (".tgz", ".tar.gz")


def flags_of_training(program: Sequence[Flag]) -> list[Flag]:
    """The flags that say how a run is trained, and others of the published train.py, that the program does not have."""
    taken = {name for flag in program for name in (flag.name, *flag.aliases)}
    compared_flags = {
        options.short_name(item.name) for item in options.shaping(TrainConfig()) if item.shapes != "nothing"
    }
    compared_flags |= {*_WITHOUT_EFFECT}
    training = program_flags(TrainConfig, "Training")
    return [flag._replace(aliases=()) for flag in training if flag.name in compared_flags and flag.name not in taken]


def with_run_named(words: Sequence[str], flag_of_archive: str = "") -> list[str]:
    """The words with `--train_dir=RUN` in place of `--model=RUN`, unless the value is the name of a model.

    Args:
      flag_of_archive: the flag that takes a packed model; empty if the program takes none.
    """
    value, folder = find_word(_MODEL, words), find_word("train_dir", words)
    is_choice = value == AUTO and (bool(folder) or not storage.is_dir(AUTO))  # a run may have this name, too
    if is_choice or (value and folder and _place_of(value) == _place_of(folder)):
        return _without_model(words)
    if not value or _is_name_of_class(value):
        return list(words)
    if folder:
        raise UsageError(f"--model={value} and --train_dir={folder} name two runs; give one of them.")
    is_packed = value.endswith(_PACKED) and flag_of_archive
    flag = flag_of_archive if is_packed else "train_dir"
    return [_renamed(word, flag) for word in words]


def _place_of(run: str) -> str:
    """The same text for all spellings of a run's folder."""
    return storage.absolute(run).rstrip("/")


def _without_model(words: Sequence[str]) -> list[str]:
    """The words without --model: it names the same run again, or is the `auto` with which the run was trained."""
    spelled = (f"--{_MODEL}", f"-{_MODEL}")
    return [
        word
        for before, word in itertools.pairwise(["", *words])
        if before not in spelled and word.partition("=")[0] not in spelled
    ]


def _renamed(word: str, flag: str) -> str:
    name, equals, value = word.partition("=")
    return f"--{flag}{equals}{value}" if name in (f"--{_MODEL}", f"-{_MODEL}") else word


def _is_name_of_class(value: str) -> bool:
    """Whether the value of --model names a class, not a run; a folder of such a name is written ./NAME."""
    if storage.is_remote(value) or "/" in value or storage.exists(value) or storage.is_dir(value):
        return value in models.names()
    if ":" in value or value in models.names():
        return True
    raise UsageError(
        f"--model={value}: there is no such file or folder, and no model has this name"
        f"{suggestion(value, models.names(), '.')} Name the folder of a run."
    )
