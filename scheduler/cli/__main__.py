"""`python -m scheduler.cli` is `jupyter runai` without scripts on the path."""

import sys

from scheduler.cli import main

sys.exit(main())
