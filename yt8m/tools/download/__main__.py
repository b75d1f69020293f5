"""`python -m yt8m.tools.download`."""

import sys

from yt8m.program import run_main
from yt8m.tools.download import main

sys.exit(run_main("yt8m download", main))
