"""Exercise 19: which operators become one kernel?

`ops` is a list of `Op(name, kind, inputs)` (lessons/fusing.py). `inputs` has the names of the values that the operator
reads: the names of other operators, or of inputs of the network. Each operator comes after the operators that compute
its inputs. `kind` is its class: "element-wise", "injective", "reduction", "complex" or "opaque". Write

    kernels(ops) -> list of kernels, each a list of the names of its operators

Go through the operators in order. An operator joins the kernel of another operator p if

    1. p computes one of its inputs, and no other operator reads the result of p, and
    2. the classes allow it: an element-wise operator may join a kernel that has no opaque operator; an injective
       operator or a reduction may join a kernel that has only element-wise and injective operators; a complex or
       opaque operator joins no kernel.

If several inputs allow it, the operator joins the kernel that belongs to the first of them. An operator that joins no
kernel begins a new one. The kernels are in the order in which they were begun, and so are the operators of a kernel.

    conv, relu = Op("conv", "complex", ("x", "w")), Op("relu", "element-wise", ("conv",))
    kernels([conv, relu])                                       ->   [["conv", "relu"]]
    kernels([conv, relu, Op("flip", "injective", ("relu",))])   ->   [["conv", "relu"], ["flip"]]
    kernels([conv, relu, Op("add", "element-wise", ("relu", "conv"))])   ->   [["conv"], ["relu", "add"]]

In the last example, relu and add both read conv, so neither joins its kernel.

Check it with: minitvm lesson 19 --check
"""

from __future__ import annotations

from lessons.fusing import Op


def kernels(ops: list[Op]) -> list[list[str]]:
    """The names of the operators of each kernel."""
    raise NotImplementedError("kernels(ops): the text at the top describes the task")
