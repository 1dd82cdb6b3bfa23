"""Names of the plug-in modules that extend the core, as text: each module is imported only when it is needed.

The core imports no plug-in. If it offers something that a plug-in defines, such as TVM's names, this file has the name
of the module. `minitvm/__init__.py` has the public names of whole modules, such as `minitvm.ir`.
"""

from __future__ import annotations

ANALYSIS = "minitvm.compat.tvm.analysis"  # TVM's questions about programs
INTRINSICS = "minitvm.compat.tvm.tensor_intrin"  # tensor intrinsics of TVM's, registered by their names
PROFILE = "minitvm.tools.profile"  # what `module.profile()` returns
PRIMITIVES = "minitvm.compat.tvm.schedule.primitives"  # schedule primitives, registered by an import
RELAX = "minitvm.frontends.relax"  # reads the graphs of a module as text, and prints them
