"""Modules of plug-ins that add to the spine, as text: nothing is imported before somebody asks for it.

The spine imports no plug-in. Where it offers what one defines, such as TVM's names, the name of the module stands here.
Public names of whole modules, such as `minitvm.ir`, stand in `minitvm/__init__.py`.
"""

from __future__ import annotations

ANALYSIS = "minitvm.compat.tvm.analysis"  # TVM's questions about programs
INTRINSICS = "minitvm.compat.tvm.tensor_intrin"  # tensor intrinsics of TVM's, registered by their names
PROFILE = "minitvm.tools.profile"  # what `module.profile()` returns
PRIMITIVES = "minitvm.compat.tvm.schedule.primitives"  # schedule primitives, registered by an import
