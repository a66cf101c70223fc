"""`python -m scheduler.cli` is `jupyter runai` for whoever has no scripts on the path."""

import sys

from scheduler.cli import main

sys.exit(main())
