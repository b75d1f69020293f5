"""Writes predictions: `python inference.py --help` lists the flags."""

import sys

from yt8m.inference import main

if __name__ == "__main__":
    sys.exit(main())
