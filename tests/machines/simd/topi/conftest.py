"""The way to run an operator that tests of topi have."""

from tests.topi.conftest import run

__all__ = ["run"]
