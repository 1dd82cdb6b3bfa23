"""Relax, the graph language of TVM, as text: `@I.ir_module` classes with `@R.function`, read into graphs and printed.

    from minitvm.script import ir as I, relax as R, tir as T

    @I.ir_module
    class Module:
        @T.prim_func
        def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")): ...

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.call_tir(Module.double, (x,), R.Tensor((4,), "float32"))
                gv = R.nn.relu(lv)
                R.output(gv)
            return gv

    module = minitvm.build(Module)

A graph can express this part of Relax: operators, `R.call_tir`, `R.call_dps_packed`, `R.match_cast`, tuples, dataflow
blocks, calls of other functions (which are inlined), and symbolic sizes. Branches and operators without an equivalent
are refused at their place in the text. `script(graph)` prints a graph; an operator that Relax does not have becomes a
call of its loop program.
"""

from __future__ import annotations

from ...importing import Frontend
from .language import function
from .module import RelaxModule, from_graph, graph_of, module_of
from .printer import script

__all__ = ["FRONTEND", "RelaxModule", "from_graph", "function", "graph_of", "module_of", "script"]

FRONTEND = Frontend("a Relax module", "RelaxModule", ".relax.py", graph_of, frozenset())
