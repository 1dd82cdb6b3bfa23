"""A fuzzer of sizes: small valid models of one operator, each with one size or attribute changed.

| file | holds |
|---|---|
| `changes.py` | what is changed in a model: an extent of an input, an attribute, a number in a constant |
| `seeds.py` | valid models of operators that ONNX's own tests lack |
| `fences.py` | arrays that end, or begin, at a page which no process may touch |
| `judging.py` | builds and runs one changed model, and compares it with ONNX Runtime and ONNX's evaluator |
| `verdicts.py` | the verdicts |
| `workers.py` | judges many models in a process of its own, whose end by a signal is a verdict |

`python -m tests.frontends.onnx.sizes --help` runs a sweep of the node models of ONNX's own tests, and of `seeds.py`, by
hand.
"""
