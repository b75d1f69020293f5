"""Evaluates a run: `python eval.py --help` lists the flags."""

import sys

from yt8m.eval import main

if __name__ == "__main__":
    sys.exit(main())
