"""``python -m lode.cli``: the command ``lode``."""

from __future__ import annotations

import sys

from lode.cli.app import main

sys.exit(main())
