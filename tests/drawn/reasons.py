"""Why something that can be expressed is not drawn: each by name, so that a new hole is seen."""

from __future__ import annotations

from .branches import Branch
from .vocabulary import Row

_ACCELERATOR = "programs may use these names, but minitvm does not run on these accelerators"
_ELEMENTS = "accelerators only; see tests/machines/scratchpad/test_element_layout.py"
_GRID = "equivalent to x and y; random schedules use two dimensions"

REASONS: dict[Row, str] = {
    **{("storage scope", name): _ACCELERATOR for name in
       ("warp", "wmma", "m16n8k8", "metal", "texture", "amx", "vtcm", "acc", "inp", "wgt", "out")},
    **{("thread axis", name): _GRID for name in ("blockIdx.z", "vthread.y", "vthread.z")},
    ("expression", "BufferData"): "only in foreign calls, which interpreters cannot run",
    **{("graph operator", f"nn.contrib_{name}_elements"): _ELEMENTS for name in
       ("add", "conv2d", "depthwise_conv2d", "max_pool2d", "requantize")},
    ("graph operator", "call_tir"): "drawn by itself, with programs to call; see tests/graph/test_call_tir.py",
    ("graph operator", "call_packed"): "needs a Python function; see tests/graph/test_call_tir.py",
    ("graph pass changes", "stored_weights"):
        "needs a file with byte weights; see tests/graph/passes/test_stored_weights.py",
    ("pass changes", "swizzle_shared"): "warpgroups only; see tests/machines/cuda/test_swizzle_shared.py",
    ("pass changes", "reuse_workspaces"):
        "needs workspaces of unknown size; see tests/tir/transform/test_reuse_workspaces.py",
    ("storage scope", "warpgroup"): "warpgroups only; see tests/machines/cuda/strategy/test_warpgroups.py",
    ("graph pass changes", "attention"):
        "needs scores larger than a cache; see tests/machines/cpu/test_large_attention.py",
    ("graph pass changes", "byte_tables"): "quantised networks only; see tests/graph/passes/test_byte_tables.py",
    ("graph pass changes", "divided_scales"): "quantised networks only; see tests/graph/passes/test_divided_scales.py",
    ("graph operator", "qnn.contrib_depthwise_conv2d_NCHWc"):
        "quantised networks only; see tests/graph/passes/test_integer_products.py",
    ("graph pass changes", "split_einsum"): "needs more than two operands; see tests/graph/passes/test_split_einsum.py",
    ("graph pass changes", "pointwise_rows"):
        "needs convolutions next to transposes; see tests/graph/passes/test_pointwise_rows.py",
    ("graph pass changes", "group_norms"): "needs group normalisations; see tests/graph/passes/test_group_norms.py",
    ("requirement refuses", "iterates"): "needs loops without iterations; see tests/tir/schedule/test_errors.py",
    ("requirement refuses", "product_fits"): "needs more than 2^31 iterations; see tests/tir/schedule/test_errors.py",
    ("pass changes nothing", "drop_blocks"): "every function has a root block",
}  # fmt: skip


def reason_of_branch(branch: Branch) -> str | None:
    """Why a branch is not taken, where its shape says so: what refuses, what checks after a pass, what names types."""
    if branch.goes_to.startswith("raise ") or "refus" in branch.function:
        return "a refusal: the errors' texts are pinned by tests of their own"
    if branch.goes_to.startswith("yield ") or "verif" in branch.condition or "callback" in branch.condition:
        return "a check after a pass"
    return None
