"""The program train.py: trains a model as its command line says."""

from __future__ import annotations

import functools
import os
import sys

from yt8m import terminal
from yt8m.command_line import flags, program
from yt8m.command_line.flag_parsing import find_word


def run(words: list[str]) -> int:
    """Trains as the flags in `words`, the arguments of the command, say; returns the exit status."""
    program.set_up_log()  # first, because reading the flags logs the values that were taken from the data
    if os.environ.get("TF_CONFIG"):
        # If a process of the cluster dies, TensorFlow logs ten lines, which say less than the one line of `Watch`. The
        # variable is set before the flags are read, because the module that --model names may import TensorFlow.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    config, data = flags.training(words)
    # Imported here, so that flag errors and --help come before the graph code is loaded.
    from yt8m.training import missing_data
    from yt8m.training.cluster_training import train

    if not (config.data.data_pattern or os.environ.get("TF_CONFIG")):
        missing_data.refuse(config, [flag for flag in missing_data.flags_of_own_data() if find_word(flag, words)])

    with terminal.json_output(config.json):
        return train(config, data)


main = functools.partial(program.run_main, "train.py", run)  # main(argv=None); None means sys.argv[1:]

if __name__ == "__main__":
    sys.exit(main())
