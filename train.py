"""Trains a model: `python train.py --help` lists the flags."""

import sys

from yt8m.train import main

if __name__ == "__main__":
    sys.exit(main())
