"""Every pass keeps the meaning of every graph, and does what it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.build import lower
from minitvm.expr import structural_equal
from minitvm.graph import Graph, GraphBuilder, Value, optimize, verify_graph
from minitvm.graph.lower import function_key, to_prim_func
from minitvm.graph.nodes import FUSED
from minitvm.graph.passes.common_subexpressions import common_subexpressions
from minitvm.graph.passes.constant_folding import constant_folding
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.fold_batch_norm import fold_batch_norm
from minitvm.graph.passes.fuse import fuse
from minitvm.graph.passes.group_norms import group_norms
from minitvm.graph.passes.pointwise_rows import pointwise_rows
from minitvm.graph.passes.simplify import simplify
from minitvm.graph.passes.split_conv_transpose import split_conv_transpose
from minitvm.graph.passes.split_pool import split_pool
from minitvm.graph.passes.split_resize import split_resize
from minitvm.graph.rewrite import with_output_names
from minitvm.machines.simd.graph.blocked_layout import blocked_layout
from minitvm.reference import graph as interpreter
from minitvm.reference import tir as loops
from minitvm.reference.judging.equivalence import check
from minitvm.reference.strategies.graphs import RandomGraph
from minitvm.reference.strategies.graphs import graphs as random_graphs
from minitvm.target import Target
from minitvm.te import size_var
from minitvm.tir.nodes import PrimFunc
from tests.fewer import examples
from tests.mutants import moves  # noqa: F401  (its moves are named below)

from .graphs import by_te, feed, graphs

PASSES: dict[str, Callable[[Graph], Graph]] = {
    "common_subexpressions": common_subexpressions,
    "constant_folding": constant_folding,
    "dead_code": dead_code,
    "fold_batch_norm": fold_batch_norm,
    "fuse": fuse,
    "group_norms": group_norms,
    "pointwise_rows": pointwise_rows,
    "simplify": simplify,
    "split_conv_transpose": split_conv_transpose,
    "split_pool": split_pool,
    "split_resize": split_resize,
    "all": optimize,
}


def operators(graph: Graph) -> Counter[str]:
    inner = [n for item in graph.nodes for n in (item.graph.nodes if item.op == FUSED else (item,))]
    return Counter(n.op for n in inner)


def groups(graph: Graph) -> list[list[str]]:
    return [[n.op for n in item.graph.nodes] for item in graph.nodes]


def same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4 * scale)


@pytest.mark.parametrize("name", PASSES)
@given(graph=graphs(), seed=st.integers(0, 99))
@examples(8, 25)
def test_pass_keeps_the_meaning(name: str, graph: Graph, seed: int) -> None:
    verify_graph(graph)
    after = PASSES[name](graph)
    verify_graph(after)
    assert [v.name for v in after.inputs] == [v.name for v in graph.inputs]
    assert [(v.name, v.type) for v in after.outputs] == [(v.name, v.type) for v in graph.outputs]
    inputs = feed(graph, seed)
    same(interpreter.run(after, inputs), interpreter.run(graph, inputs))


LOOKS_FOR: dict[str, tuple[str, ...]] = {
    "fold_batch_norm": ("convolution_chain", "scaled_product", "scaled_product"),
    "simplify": ("nearly_nothing", "nearly_nothing", "ones", "moved_pad", "whole_slice", "transpose", "reshape"),
    "common_subexpressions": ("equal_bytes", "twin_constants", "twins", "alike_but_one"),
    "constant_folding": ("nearly_nothing", "slice", "arithmetic", "equal_bytes"),
}


@pytest.mark.parametrize("name", LOOKS_FOR)
@given(data=st.data())
@examples(65, 200)
def test_pass_keeps_the_meaning_of_what_it_looks_for(name: str, data: st.DataObject) -> None:
    case = data.draw(random_graphs(largest=3, moves=LOOKS_FOR[name], symbolic=False))
    after = PASSES[name](case.graph)
    verify_graph(after)
    wanted = interpreter.run(case.graph, case.inputs)
    for a, b, tolerance in zip(interpreter.run(after, case.inputs), wanted, case.tolerances, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@given(graph=graphs(largest=6), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_fused_groups_lower_to_what_they_mean(graph: Graph, seed: int) -> None:
    inputs = feed(graph, seed)
    same(by_te(fuse(graph), inputs), interpreter.run(graph, inputs))


def network() -> tuple[GraphBuilder, Callable[..., np.ndarray]]:
    rng = np.random.default_rng(0)
    return GraphBuilder(), lambda *shape: rng.standard_normal(shape).astype("float32")


def residual_block() -> Graph:
    b, normal = network()
    x = b.input("x", (1, 8, 5, 5))

    def conv_bn(value: object) -> object:
        conv = b.op("nn.conv2d", value, normal(8, 8, 3, 3), padding=1)
        return b.op("nn.batch_norm", conv, normal(8), normal(8), normal(8), np.abs(normal(8)))

    inner = b.op("nn.relu", conv_bn(x))
    return b.build(b.op("nn.relu", b.op("add", conv_bn(inner), inner), name="y"))


def test_batch_norm_goes_into_the_convolution() -> None:
    after = dead_code(fold_batch_norm(residual_block()))
    assert operators(after) == {"nn.conv2d": 2, "nn.bias_add": 2, "nn.relu": 2, "add": 1}
    inputs = feed(after)
    same(interpreter.run(after, inputs), interpreter.run(residual_block(), inputs))


def test_batch_norm_behind_a_bias_or_a_dense_layer_is_folded_too() -> None:
    b, normal = network()
    x = b.input("x", (2, 6))
    dense = b.op("nn.bias_add", b.op("nn.dense", x, normal(4, 6)), normal(4))
    graph = b.build(b.op("nn.batch_norm", dense, normal(4), normal(4), normal(4), np.abs(normal(4))))
    after = dead_code(fold_batch_norm(graph))
    assert operators(after) == {"nn.dense": 1, "nn.bias_add": 1}
    inputs = feed(graph)
    same(interpreter.run(after, inputs), interpreter.run(graph, inputs))


def batch_norm_stays(groups: int = 1, axis: int = 1) -> None:
    """Behind a transposed convolution of several groups, or a bias along another axis, nothing can be folded."""
    b, normal = network()
    conv = b.op("nn.conv2d_transpose", b.input("x", (1, 4, 4, 4)), normal(4, 4 // groups, 1, 1), groups=groups)
    biased = b.op("nn.bias_add", conv, normal(4), axis=axis)
    graph = b.build(b.op("nn.batch_norm", biased, normal(4), normal(4), normal(4), np.abs(normal(4))))
    after, inputs = dead_code(fold_batch_norm(graph)), feed(graph)
    assert operators(after)["multiply"] == 1
    same(interpreter.run(after, inputs), interpreter.run(graph, inputs))


@pytest.mark.parametrize("groups, axis", [(2, 1), (1, 2), (1, -1)])
def test_batch_norm_behind_groups_or_another_bias_becomes_arithmetic(groups: int, axis: int) -> None:
    batch_norm_stays(groups, axis)


def test_batch_norm_of_a_value_with_other_readers_becomes_arithmetic() -> None:
    b, normal = network()
    conv = b.op("nn.conv2d", b.input("x", (1, 4, 3, 3)), normal(4, 4, 1, 1))
    norm = b.op("nn.batch_norm", conv, normal(4), normal(4), normal(4), np.abs(normal(4)))
    after = fold_batch_norm(b.build([norm, conv]))
    assert operators(after) == {"nn.conv2d": 1, "multiply": 1, "add": 1}


@pytest.mark.parametrize("op, attrs, results", [
    ("split", {"indices_or_sections": 2, "axis": 1}, 2), ("topk", {"k": 4, "axis": 1}, 2),
])  # fmt: skip
@pytest.mark.parametrize("biased", [False, True])
def test_batch_norm_behind_an_operator_with_several_results(
    op: str, attrs: dict[str, Any], results: int, biased: bool
) -> None:
    """As behind a recurrent layer: there are no weights that take the scale."""
    b, normal = network()
    parts = b.op(op, b.input("x", (2, 8)), **attrs)
    assert len(parts) == results
    value = b.op("nn.bias_add", parts[0], normal(4)) if biased else parts[0]
    graph = b.build(b.op("nn.batch_norm", value, normal(4), normal(4), normal(4), np.abs(normal(4)) + 0.5))
    after = dead_code(fold_batch_norm(graph))
    assert not operators(after).get("nn.batch_norm")
    inputs = feed(graph)
    same(interpreter.run(after, inputs), interpreter.run(graph, inputs))


def test_residual_block_is_two_functions() -> None:
    fused = fuse(dead_code(fold_batch_norm(residual_block())))
    assert groups(fused) == [
        ["nn.conv2d", "nn.bias_add", "nn.relu"],
        ["nn.conv2d", "nn.bias_add", "add", "nn.relu"],
    ]


def test_of_two_added_convolutions_one_takes_the_sum() -> None:
    b, normal = network()
    x = b.input("x", (1, 4, 3, 3))
    first, second = (b.op("nn.conv2d", x, normal(4, 4, 1, 1)) for _ in range(2))
    fused = fuse(b.build(b.op("add", first, second)))
    assert groups(fused) == [["nn.conv2d"], ["nn.conv2d", "add"]]


def test_a_change_of_layout_back_takes_the_convolution() -> None:
    """With what stands between them; nothing joins behind it, and no other way of convolving takes part."""
    b = GraphBuilder("unblocked")
    x, w = b.input("x", (1, 1, 8, 8, 16)), np.ones((2, 1, 3, 3, 16, 16), np.float32)
    made = b.op("nn.relu", b.op("nn.contrib_conv2d_NCHWc", x, w, padding=1))
    plain = b.op("tanh", b.op("layout.unblock_axis", made, axis=1, extent=32))
    assert groups(fuse(b.build(plain))) == [["nn.contrib_conv2d_NCHWc", "nn.relu", "layout.unblock_axis"], ["tanh"]]
    depthwise = b.op("nn.contrib_depthwise_conv2d_NCHWc", x, np.ones((1, 3, 3, 16), np.float32))
    plain = b.op("layout.unblock_axis", depthwise, axis=1, extent=16)
    assert groups(fuse(b.build(plain)))[-2:] == [["nn.contrib_depthwise_conv2d_NCHWc"], ["layout.unblock_axis"]]


def test_what_widens_is_taken_by_its_readers() -> None:
    """Between two groups there are bytes; floats that are returned, or read by what takes nothing, are stored."""
    b = GraphBuilder("bytes")
    x, w = b.input("x", (1, 4, 5, 5), "uint8"), np.ones((4, 4, 1, 1), "int8")
    scale, zero = np.array(0.5, "float32"), np.array(3, "uint8")

    def layer() -> Value:
        total = b.op("cast", b.op("qnn.conv2d", x, w), dtype="float32")
        q = b.op("qnn.quantize", total, scale, zero, axis=0, out_dtype="uint8")
        return b.op("qnn.dequantize", q, scale, zero, axis=0)

    product = ["qnn.conv2d", "cast", "qnn.quantize"]
    added = b.op("add", layer(), layer())
    returned, padded = layer(), b.op("nn.conv2d", layer(), np.ones((4, 4, 1, 1), "float32"))
    fused = fuse(b.build([added, returned, padded]))
    assert groups(fused) == [
        product, ["qnn.dequantize", *product, "qnn.dequantize", "add"], [*product, "qnn.dequantize"],
        [*product, "qnn.dequantize"], ["nn.conv2d"],
    ]  # fmt: skip


def test_what_turns_memory_reads_narrow_elements() -> None:
    b = GraphBuilder("image")
    scale, zero = np.array(0.5, "float32"), np.array(3, "uint8")
    q = b.op("qnn.quantize", b.input("x", (1, 3, 8, 8)), scale, zero, axis=0, out_dtype="uint8")
    blocked = b.build(b.op("layout.block_axis", q, axis=1, block=4))
    assert groups(fuse(blocked)) == [["qnn.quantize"], ["layout.block_axis"]]


def test_fusion_by_pattern() -> None:
    """Injective chains fuse, a reduction takes them, opaque never does; branches that meet take what they part from."""
    b, _ = network()
    x = b.input("x", (4, 6))
    chain = b.op("transpose", b.op("exp", b.op("add", x, 1.0)))
    total = b.op("sum", chain, axis=1)
    soft = b.op("nn.softmax", b.op("nn.relu", total))
    shared = b.op("tanh", soft)
    met = b.op("add", b.op("sin", shared), b.op("cos", shared))
    fused = fuse(b.build([met, b.op("max", shared)]))
    assert groups(fused) == [
        ["add", "exp", "transpose", "sum"],
        ["nn.relu"],
        ["nn.softmax"],
        ["tanh"],
        ["sin", "cos", "add"],
        ["max"],
    ]
    assert groups(fuse(dead_code(b.build(met))))[-1] == ["tanh", "sin", "cos", "add"]


def test_hard_swish_joins_its_convolution() -> None:
    b, normal = network()
    x = b.input("x", (1, 4, 6, 6))
    inner = b.op("nn.bias_add", b.op("nn.conv2d", b.op("exp", x), normal(4, 4, 3, 3), padding=1), normal(4))
    gate = b.op("divide", b.op("clip", b.op("add", inner, 3.0), a_min=0.0, a_max=6.0), 6.0)
    fused = fuse(b.build(b.op("multiply", inner, gate)))
    assert groups(fused) == [["exp"], ["nn.conv2d", "nn.bias_add", "add", "clip", "divide", "multiply"]]


def test_nothing_is_computed_twice() -> None:
    b, _ = network()
    small, large = b.input("small", (1, 4, 1, 1)), b.input("large", (1, 4, 8, 8))
    gate = b.op("multiply", b.op("sigmoid", small), large)
    fused = fuse(b.build(b.op("tile", b.op("exp", gate), reps=(1, 1, 1, 2))))
    assert groups(fused) == [["sigmoid"], ["multiply", "exp"], ["tile"]]


def test_a_gather_takes_its_indices_but_not_its_data() -> None:
    """Rows by an index that is repeated along them: no tensor of indices is made. Data may be read many times."""
    b = GraphBuilder()
    x, rows = b.op("exp", b.input("x", (9, 8))), b.op("broadcast_to", b.input("i", (4, 1), "int64"), shape=(4, 8))
    after = fuse(b.build(b.op("gather", x, rows, axis=0)))
    assert groups(after) == [["exp"], ["broadcast_to", "gather"]]


@pytest.mark.parametrize("turning", ["layout.block_axis", "transpose"])
def test_what_turns_memory_around_reads_one_tensor(turning: str) -> None:
    """A copy in squares cannot choose among the inputs of a concatenation; an element-wise operator can."""
    b, _ = network()
    whole = b.op("concatenate", b.input("x", (1, 14, 4, 4)), b.input("y", (1, 18, 4, 4)), axis=1)
    attrs = {"axis": 1, "block": 16} if turning == "layout.block_axis" else {"axes": (0, 2, 3, 1)}
    element, turned = b.op("exp", whole), b.op(turning, whole, **attrs)
    assert groups(fuse(dead_code(b.build(turned)))) == [["concatenate"], [turning]]
    assert groups(fuse(dead_code(b.build(element)))) == [["concatenate", "exp"]]
    joined = b.op("concatenate", turned, b.op("full", shape=(1, *turned.shape[1:]), fill_value=1.0), axis=0)
    assert [turning] in groups(fuse(dead_code(b.build(joined))))


def test_inputs_of_a_function_have_names_of_their_own() -> None:
    """A value and the same one in another layout have one name; a function may read both."""
    b = GraphBuilder()
    x = b.op("nn.relu", b.op("nn.conv2d", b.input("x", (1, 3, 1, 1)), np.ones((3, 3, 1, 1), "float32")))
    graph = b.build([x, b.op("concatenate", b.op("nn.relu", x), x, axis=0)])
    fused = fuse(with_output_names(blocked_layout(graph, Target("cpu")), graph))
    verify_graph(fused)
    names = [[value.name for value in node.graph.inputs] for node in fused.nodes]
    assert any(len(inputs) > 1 for inputs in names) and all(len(set(inputs)) == len(inputs) for inputs in names)


def test_scalars_stand_in_the_function_and_weights_are_parameters() -> None:
    b, normal = network()
    x = b.input("x", (2, 3))
    fused = fuse(b.build(b.op("multiply", b.op("add", x, normal(3)), 0.5)))
    (node,) = fused.nodes
    assert len(node.inputs) == 2
    assert "T.float32(0.5)" in to_prim_func(node).script()


def test_groups_that_differ_in_names_and_weights_share_a_function() -> None:
    b, normal = network()
    x = b.input("x", (1, 4, 8, 8))
    for _ in range(3):
        x = b.op("nn.relu", b.op("nn.conv2d", x, normal(4, 4, 3, 3), padding=1))
    strided = b.op("nn.relu", b.op("nn.conv2d", x, normal(4, 4, 3, 3), padding=1, strides=2))
    keys = [function_key(node) for node in fuse(b.build(strided)).nodes]
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_different_scalars_are_different_functions() -> None:
    b, _ = network()
    x = b.input("x", (3,))
    y = b.op("nn.softmax", b.op("add", x, 1.0))
    nodes = fuse(b.build(b.op("add", y, 2.0))).nodes
    assert len({function_key(n) for n in nodes}) == len(nodes) == 3


SIMILAR = ("twins", "equal_bytes", "equal_bytes", "alike_but_one", "alike_but_one", "arithmetic", "unary", "cast")


@given(random_graphs(moves=SIMILAR, symbolic=False))
@examples(20, 60)
def test_nodes_that_share_a_function_have_the_same_one(drawn: RandomGraph) -> None:
    """Dtypes of equal width, constants of equal bytes or shapes, attributes: the key tells them apart."""
    shared: dict[object, PrimFunc] = {}
    for node in (*drawn.graph.nodes, *fuse(drawn.graph).nodes):
        func = to_prim_func(node)
        first = shared.setdefault(function_key(node), func)
        assert structural_equal(first, func), f"{first}\n{func}"


def test_functions_are_shared_across_symbolic_sizes() -> None:
    """The halves of n and the halves of that are one variable each in a function of their own."""
    b, _ = network()
    x = b.input("x", (1, 2, 4, size_var("n")))
    first = b.op("nn.max_pool2d", b.op("nn.max_pool2d", x, pool_size=2, strides=2), pool_size=1)
    second = b.op("nn.max_pool2d", first, pool_size=1)
    nodes = fuse(b.build(second)).nodes
    assert function_key(nodes[1]) == function_key(nodes[2])
    assert "n // 2" not in to_prim_func(nodes[1]).script()


@pytest.mark.parametrize("factor, width", [(1, 12), (2, 6), (6, 2)])
def test_reshapes_to_sizes_that_no_input_has(factor: int, width: int) -> None:
    """The function of the second reshape sees n * 4 rows and is told n * factor of them."""
    b, _ = network()
    n = size_var("n")
    x = b.input("x", (n, 4, 3))
    rows = b.op("nn.softmax", b.op("reshape", x, newshape=(n * 4, 3)))
    graph = b.build(b.op("reshape", rows, newshape=(n * factor, width)))
    (*_, last) = fuse(graph).nodes
    func = to_prim_func(last)
    data, out = np.arange(60, dtype="float32").reshape(20, 3), np.zeros((5 * factor, width), "float32")
    loops.run(func, data, out)
    np.testing.assert_array_equal(out, data.reshape(out.shape))


@given(n=st.integers(4, 11))
@examples(4, 8)
def test_symbolic_network(n: int) -> None:
    b, normal = network()
    x = b.input("x", (1, 4, 8, size_var("n")))
    y = b.op("nn.relu", b.op("nn.conv2d", x, normal(8, 4, 3, 3), padding=1, strides=(2, 1)))
    y = b.op("nn.avg_pool2d", y, pool_size=2, strides=2)
    y = b.op("reshape", b.op("transpose", y, axes=(0, 3, 1, 2)), newshape=(0, -1, 16))
    y = b.op("nn.softmax", b.op("nn.bias_add", b.op("nn.dense", y, normal(5, 16)), normal(5), axis=-1))
    graph = b.build(y)
    after = optimize(graph)
    verify_graph(after)
    inputs = feed(graph, n=n)
    wanted = interpreter.run(graph, inputs)
    same(interpreter.run(after, inputs), wanted)
    same(by_te(after, inputs), wanted)


def test_shape_arithmetic_folds_away() -> None:
    b, _ = network()
    x = b.input("x", (2, 3, 4))
    dims = b.op("strided_slice", b.op("shape_of", x), begin=(1,), end=(3,))
    half = b.op("divide", b.op("prod", dims), np.array(-5, "int64"))
    (constant,) = constant_folding(b.build(half)).constants[-1:]
    assert constant.data == -2
    assert not dead_code(constant_folding(b.build(half))).nodes


def test_folding_uses_the_evaluator_where_there_is_no_fold() -> None:
    b, _ = network()
    graph = b.build(b.op("tanh", b.constant(np.zeros(3, "float32"))))
    assert constant_folding(graph).nodes
    asked: list[str] = []

    def evaluate(node: object, arrays: list[np.ndarray]) -> list[np.ndarray]:
        asked.append(node.op)  # type: ignore[attr-defined]
        return [np.tanh(arrays[0])]

    assert not constant_folding(graph, evaluate).nodes
    assert asked == ["tanh"]


def test_folding_does_not_blow_constants_up() -> None:
    b, _ = network()
    graph = b.build(b.op("tile", b.constant(np.zeros(1000, "float32")), reps=(100,)))
    assert constant_folding(graph).nodes


def test_simplify_removes_what_does_nothing() -> None:
    b, _ = network()
    x = b.input("x", (2, 3, 4))
    y = b.op("cast", b.op("nn.dropout", b.op("copy", x)), dtype="float32")
    y = b.op("transpose", b.op("transpose", y, axes=(2, 0, 1)), axes=(1, 2, 0))
    y = b.op("reshape", b.op("squeeze", b.op("expand_dims", y, axis=0), axis=0), newshape=(6, 4))
    y = b.op("strided_slice", b.op("nn.pad", y, pad_width=((0, 0), (0, 0))), begin=(0,), end=(6,))
    y = b.op("multiply", b.op("concatenate", y, axis=0), 1.0)
    after = dead_code(simplify(b.build(b.op("exp", y))))
    assert operators(after) == {"reshape": 1, "exp": 1}


def test_simplify_keeps_the_names_of_outputs() -> None:
    b, _ = network()
    x = b.input("x", (3,))
    after = simplify(b.build(b.op("copy", x, name="y")))
    assert [v.name for v in after.outputs] == ["y"]


def test_common_subexpressions_are_computed_once() -> None:
    b, _ = network()
    x = b.input("x", (3,))
    first, second = (b.op("exp", b.op("add", x, 1.0)) for _ in range(2))
    other = b.op("exp", b.op("add", x, 2.0))
    after = dead_code(common_subexpressions(b.build(b.op("elementwise_sum", first, second, other))))
    assert operators(after) == {"add": 2, "exp": 2, "elementwise_sum": 1}


def test_dead_code_goes_and_inputs_stay() -> None:
    b, normal = network()
    x, unused = b.input("x", (3,)), b.input("unused", (3,))
    b.op("exp", b.op("add", unused, normal(3)))
    after = dead_code(b.build(b.op("tanh", x)))
    assert operators(after) == {"tanh": 1}
    assert not after.constants
    assert [v.name for v in after.inputs] == ["x", "unused"]


def test_callback_sees_every_pass() -> None:
    seen: list[str] = []
    optimize(residual_block(), callback=lambda name, before, after: seen.append(name))
    assert seen[0] == "dead_code"
    assert seen[-1] == "fuse"


def test_group_lowers_to_the_function_of_its_parts() -> None:
    fused = fuse(dead_code(fold_batch_norm(residual_block())))
    from minitvm.graph.lower import to_te

    for node in fused.nodes:
        verdict = check(to_te(node), to_prim_func(node))
        assert verdict, verdict.message


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(3, 2, 1)])
def test_convolutions_of_open_images_keep_their_tiles_in_registers(kernel: int, stride: int, pad: int) -> None:
    """The extent (h + 1) // 2 of a loop bounds its variable, so that no condition stays around a tile."""
    b, normal = network()
    x = b.input("x", (size_var("n"), 3, size_var("h"), size_var("w")))
    y = b.op("nn.conv2d", x, normal(16, 3, kernel, kernel), strides=stride, padding=pad)
    executable = lower(b.build(b.op("nn.bias_add", y, normal(16))), stop_at="executable")
    assert any("conv2d_local_16" in kernel.source for kernel in executable.kernels)


def test_a_third_power_is_two_products() -> None:
    b = GraphBuilder("cube")
    x = b.input("x", (2, 3))
    graph = b.build([b.op("power", x, np.float32(3)), b.op("power", x, np.float32(2.5))])
    after = dead_code(simplify(graph))
    verify_graph(after)
    assert operators(after) == {"multiply": 2, "power": 1}
    values = {"x": np.array([[-2.0, 0.5, -0.0], [3.0, 1e20, -1e-3]], np.float32)}
    with np.errstate(all="ignore"):
        for found, expected in zip(interpreter.run(after, values), interpreter.run(graph, values), strict=True):
            np.testing.assert_allclose(found, expected, rtol=3e-7)


def slices_of_what_was_joined() -> None:
    """Every slice of 3 + 1 + 2 entries, forwards, by one and by two: it reads what joins them where it needs two."""
    rng = np.random.default_rng(0)
    for stacked, rows in ((False, (3, 1, 2)), (True, (1, 1, 1))):
        total, edges = sum(rows), np.cumsum((0, *rows))
        for begin, end, step in ((b, e, s) for b in range(-1, total) for e in range(-1, total + 2) for s in (1, 2)):
            places = range(*slice(begin, end, step).indices(total))
            if not places:
                continue
            b = GraphBuilder("joined")
            shapes = [(2, 4) if stacked else (2, n, 4) for n in rows]
            parts = [b.input(f"x{k}", shape) for k, shape in enumerate(shapes)]
            joined = b.op("stack" if stacked else "concatenate", *parts, axis=-2)
            cut = b.op("strided_slice", joined, begin=(1, begin), end=(4, end), strides=(2, step), axes=(-1, 1))
            graph = b.build(b.op("nn.relu", cut))
            after = dead_code(simplify(graph))
            verify_graph(after)
            alone = any(low <= places[0] and places[-1] < high for low, high in pairwise(edges))
            assert (operators(after)["stack"] + operators(after)["concatenate"] == 0) == alone, (begin, end, step)
            arrays = {f"x{k}": rng.standard_normal(s).astype("float32") for k, s in enumerate(shapes)}
            same(interpreter.run(after, arrays), interpreter.run(graph, arrays))


def test_slices_of_what_was_joined() -> None:
    slices_of_what_was_joined()
