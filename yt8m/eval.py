"""The program eval.py: evaluates a model as its command line says."""

from __future__ import annotations

import functools
import sys

from yt8m import terminal
from yt8m.command_line import flags, program
from yt8m.deploy import cluster


def run(words: list[str]) -> int:
    """Evaluates a run as the flags in `words`, the arguments of the command, say; returns the exit status."""
    program.set_up_log()  # first, because reading the flags opens the data, about which there may be something to say
    config, data = flags.evaluation(words)
    # Imported here, so that flag errors and --help come before the graph code is loaded.
    from yt8m.scoring import evaluation

    # In a cluster only the chief evaluates; each other process ends at once.
    if cluster.is_left_to_the_chief("evaluates", "yt8m bulk eval"):
        return 0
    with terminal.json_output(config.json):
        return evaluation.evaluate(config, data=data)


main = functools.partial(program.run_main, "eval.py", run)  # main(argv=None); None means sys.argv[1:]

if __name__ == "__main__":
    sys.exit(main())
