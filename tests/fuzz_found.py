"""A plugin of pytest: writes down each failure as soon as it is known, for a run that may not live to tell it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FILE = "MINITVM_FUZZ_FOUND"  # the environment variable that names the file


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Only where reports are collected: the workers of pytest-xdist send theirs there."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ and FILE in os.environ:
        with open(os.environ[FILE], "a") as file:
            file.write(f"{report.nodeid}\n{report.longreprtext}\n")


def read(file: Path) -> str:
    """What was written down so far; nothing where nothing failed."""
    return file.read_text() if file.is_file() else ""
