"""`python -m yt8m` runs the command `yt8m`."""

import sys

from yt8m.command_line.cli import main

sys.exit(main())
