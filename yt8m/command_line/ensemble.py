"""`yt8m ensemble`: joins prediction files, or several runs into one exported model; see `export.ensembles`."""

from __future__ import annotations

from collections.abc import Sequence

from yt8m.command_line import flag_parsing, flags, program
from yt8m.export import ensembles


def main(argv: list[str]) -> int:
    """Joins the files or runs that the flags name; returns the exit status.

    Raises:
      UsageError: there are no such files or runs, or the runs have different features or classes.
      RunError: a line of a file is damaged, or a run has no checkpoint.
    """
    purpose = "Joins the predictions of several models, or makes one exported model of several runs."
    config = flags.read(ensembles.EnsembleConfig, "yt8m ensemble", purpose, _with_commas(argv))
    if config.predictions:
        ensembles.join_files(config)
    else:
        program.set_up_log()
        # Imported only here, because it needs TensorFlow, and joining files does not.
        from yt8m.export import joined_runs

        joined_runs.export(config)
    return 0


def _with_commas(words: Sequence[str]) -> list[str]:
    """Rewrites `--predictions A B` as `--predictions=A,B`, so that list flags may also be separated by blanks."""
    declared = flag_parsing.flags_of(ensembles.EnsembleConfig, "Flags")
    lists = {name for flag in declared if flag.kind == tuple[str, ...] for name in (flag.name, *flag.aliases)}
    joined: list[str] = []
    for word in words:
        name, equals, text = joined[-1].lstrip("-").partition("=") if joined else ("", "", "")
        if word.startswith("-") or name not in lists:
            joined.append(word)
        else:
            joined[-1] = f"{joined[-1]},{word}" if equals and text else f"--{name}={word}"
    return joined
