"""`python -m yt8m.tools.cloud_job`."""

import sys

from yt8m.program import run_main
from yt8m.tools.cloud_job import main

sys.exit(run_main("yt8m cloud-job", main))
