"""`python -m yt8m.tools.sample_data`."""

import sys

from yt8m.program import run_main
from yt8m.tools.sample_data import main

sys.exit(run_main("yt8m sample-data", main))
