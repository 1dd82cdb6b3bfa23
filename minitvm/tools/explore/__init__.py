"""The explorer: a schedule step by step, with its program, its cost and the oracle's verdict.

steps.py     a schedule as a list of steps: the lines of each, the program after it, its cost, the verdict
names.py     the lines of a trace with readable variable names
costs.py     the cost of a program: counted by the interpreter, and predicted by a small model of a core
page.py      steps as one HTML page that needs no network
assets/      the style sheet and the script of that page
"""

from .pages import page
from .stepwise import Refusal, Step, Subject, filmed, steps

__all__ = ["Refusal", "Step", "Subject", "filmed", "page", "steps"]
