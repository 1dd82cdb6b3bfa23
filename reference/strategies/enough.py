"""How a Hypothesis test ends when it has seen enough."""

from __future__ import annotations

import unittest


class Enough(unittest.SkipTest):
    """Raised inside of a Hypothesis test, ends it at once, with no further draws.

    Hypothesis hands on what skips a test. Any other exception it would take for a failure, and draw again.
    """
