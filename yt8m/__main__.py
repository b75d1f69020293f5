"""`python -m yt8m` runs the command `yt8m`."""

import sys

from yt8m.cli import main

sys.exit(main())
