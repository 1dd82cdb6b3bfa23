"""Random ONNX graphs of 3 to 12 moves: values of many dtypes, sizes from 0, quantised islands, control flow.

| file | holds |
|---|---|
| `growing.py` | a graph that grows with its numbers: ONNX Runtime evaluates each node as soon as it is drawn |
| `moves.py` | moves on values of all dtypes; `bytes.py` those of quantised networks |
| `spliced.py` | moves that take a node of `random_nodes`, and a value of the graph as its data |
| `judging.py` | the interpreter and the compiled module beside those numbers |

A node that ONNX Runtime and ONNX's evaluator refuse is not drawn, so a move need not know when it is legal. Half of the
graphs have open dimensions. `python -m tests.frontends.onnx.mixed_graphs --help` runs a sweep by hand.
"""

from .judging import BAD, judge_seed, seeded

__all__ = ["BAD", "judge_seed", "seeded"]
