"""Back ends: one object for each kind of machine. All code that depends on the machine uses this object.

    register(Backend("toy", machine=..., language="numpy", generate=generate, program=Program))
    minitvm.build(model, target="toy")

A `Backend` is a set of *parts*. The table `parts.PARTS` describes them: how a part is called, who uses it, and what
happens if it is missing. Three parts have no default: `register` refuses a back end that lacks one of them.

    asked by                          part               question
    target.find_kind                  machine            which options describe such a machine
    graph.passes.pipeline             products           in which dtypes products are computed
    topi.registry                     operators          which operators of graphs are the machine's own
    graph.passes.pipeline             layouts            which graph passes put values into the machine's layouts
    strategy.registry                 rules              which schedules a function may get
    machines.simd.graph               algorithms         which algorithm a convolution gets
    tools.cli                         explain            why a function is scheduled as it is
    tir.transform.pipeline            passes             which passes lower a scheduled function to kernels
    tir.tensor_intrin                 intrinsics         which tensor intrinsic a name refers to
    tir.tensor_intrin                 instructions       which operations a machine with scratchpads has
    build                             generate           the source of a kernel
    link                              language, waits    the language of the source; which steps wait for those before
    lowering                          refusal            which operators of a network run on the host instead
    runtime                           program            what runs an executable: `runtime.program.Program`
    runtime.hosted                    hosted             what runs a kernel in the middle of another machine's program
    machines.scratchpad               timed              how many cycles a kernel takes
    tune.runner                       opened             the device, in the process that measures on it
    build                             at_hand            which device of this machine to use if a target names none
    build                             require_runnable   whether this machine can run a target's code
    tools.cli                         devices            which devices there are
    runtime.artifact                  machine_code       how compiled kernels are saved and loaded

A part is an object, or its name, `"module:attribute"`, which is imported when the part is first needed. So one object
describes a back end from graph passes to kernels, and the runtime still loads without the compiler, because it needs
only `program`.

This package knows no machine. minitvm's own back ends are the objects `BACKEND` in the folders of `minitvm/machines`,
one folder for each machine. A back end from outside calls `register`. Its distribution may name the module that does so
as an entry point of the group `minitvm.backends`; the module is then imported when a target has an unknown name.

A target without a back end can be scheduled, lowered with the defaults, and interpreted; `get` refuses it when code is
needed.
"""

from .parts import PARTS, Backend, Part
from .registry import find, get, lookup, names, own, register, registered

__all__ = [
    "PARTS", "Backend", "Part", "find", "get", "lookup", "names", "own", "register", "registered",
]  # fmt: skip
