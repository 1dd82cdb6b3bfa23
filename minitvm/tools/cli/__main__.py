"""`python -m minitvm.tools.cli`, for a checkout that is not installed."""

import sys

from . import main

sys.exit(main())
