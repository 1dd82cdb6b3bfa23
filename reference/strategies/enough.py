"""End a Hypothesis test early when it has seen enough."""

from __future__ import annotations

import unittest


class Enough(unittest.SkipTest):
    """Raise it inside a Hypothesis test to end the test at once, without further draws.

    Hypothesis passes on exceptions that skip a test. It would treat any other exception as a failure, and draw again.
    """
