"""The explorer: a schedule step by step, with its program, its cost and the oracle's verdict.

stepwise.py  a schedule as a list of steps: the lines of each, the program after it, its cost, the verdict
names.py     the lines of a trace with readable variable names
costs.py     the cost of a program: counted by the interpreter, and predicted by a small model of a core
pages.py     steps and levels as HTML; a page of steps that needs no network
state.py     the versions of a schedule that is edited: pure functions from a state to a state
evaluate.py  what the lines of a version do, computed in a worker process
server.py    the local server
assets/      style sheets and scripts; CodeMirror, which is bundled already
"""

from .pages import page
from .server import Explorer, server, started
from .stepwise import Refusal, Step, Subject, filmed, steps

__all__ = ["Explorer", "Refusal", "Step", "Subject", "filmed", "page", "server", "started", "steps"]
