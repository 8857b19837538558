"""Run the benchmarks: `python -m bench`, from the root of the repository."""

from __future__ import annotations

import sys

from bench.main import main

sys.exit(main(sys.argv[1:]))
