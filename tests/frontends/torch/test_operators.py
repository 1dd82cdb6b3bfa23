"""Each converter: PyTorch's own result against the graph interpreter's and the compiled graph's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

import torch

import minitvm
from minitvm.frontends.torch.registry import converters
from minitvm.reference import graph as interpreter

from .cases import Call, Called, calls, tensors

pytestmark = pytest.mark.filterwarnings("ignore")

CALLS = calls()

# The other results, places of the largest elements and statistics for training, are refused.
FIRST_RESULT_ALONE = {
    "_native_batch_norm_legit_no_training.default",
    "_native_batch_norm_legit.no_stats", "native_group_norm.default", "native_layer_norm.default",
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default", "_native_multi_head_attention.default",
}  # fmt: skip


def test_every_converter_is_called() -> None:
    assert set(CALLS) == set(converters())


@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_are_those_of_torch(name: str) -> None:
    for call in CALLS[name]:
        _compare(name, call)


def _compare(name: str, call: Call) -> None:
    module, inputs = Called(name, call), tuple(tensors(call))
    results = torch.utils._pytree.tree_leaves(module(*inputs))
    if name in FIRST_RESULT_ALONE:
        results, module = results[:1], First(module)
    graph = minitvm.from_torch(module, inputs)
    arrays = [x.numpy() for x in inputs]
    for run in (interpreter.run(graph, arrays), compiled(graph, arrays)):
        assert len(run) == len(results), name
        for ours, theirs in zip(run, results, strict=True):
            expected = theirs.detach().numpy()
            assert ours.dtype == expected.dtype and ours.shape == expected.shape, (name, call)
            if name.startswith("upsample") and expected.dtype == np.uint8:  # PyTorch's weights have 14 bits
                ours, expected = ours.astype(int), expected.astype(int)
                np.testing.assert_allclose(ours, expected, atol=1, err_msg=f"{name} {call}")
                assert (ours == expected).mean() > 0.85
                continue
            np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5, err_msg=f"{name} {call}")


class First(torch.nn.Module):
    """The first result of a module."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs)[0]


def compiled(graph: minitvm.graph.Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results of the compiled graph."""
    results = minitvm.build(graph, threads=1)(*arrays)
    return list(results) if isinstance(results, tuple) else [results]
