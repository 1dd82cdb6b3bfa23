"""Caches in ONNX models: GroupQueryAttention as ONNX Runtime computes it, TensorScatter and Attention as ONNX does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import minitvm as tvm
from minitvm.errors import InputError, MinitvmError, UnsupportedOperator
from minitvm.frontends.onnx import from_onnx
from minitvm.graph import Graph
from minitvm.reference import graph as oracle
from minitvm.tools.models.decoder import decoder, greedy
from tests.drawing import Seeded

SMALL = {"context": 24, "depth": 1, "width": 64, "heads": 4, "key_heads": 2, "hidden": 96, "vocabulary": 50}


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], opset: int = 18) -> onnx.ModelProto:
    """Nodes as a model; `inputs` are arrays, or shapes of floats."""
    infos = []
    for name, value in inputs.items():
        is_array = isinstance(value, np.ndarray)
        kind = helper.np_dtype_to_tensor_dtype(value.dtype) if is_array else TensorProto.FLOAT
        infos.append(helper.make_tensor_value_info(name, kind, list(value.shape if is_array else value)))
    graph = helper.make_graph(nodes, "caches", infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    versions = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


class Grouped:
    """A random call of GroupQueryAttention: one token or a prompt, with or without a past, packed, turned."""

    def __init__(self, seed: int) -> None:
        d = Seeded(seed, *b"grouped")
        self.batch, self.groups, self.length = d.int(1, 2), d.int(1, 2), d.one(1, 1, 2, 3)
        heads, width, places = self.groups * d.int(1, 3), d.one(16, 32), d.one(4, 9, 20)
        self.has_past, packed, turned = d.int(0, 4) > 0, d.flag(), d.flag()
        places = places if self.has_past else self.length
        self.first = np.zeros(self.batch, int)
        if self.has_past and (self.length == 1 or self.batch == 1):
            self.first = d.rng.integers(0, places - self.length + 1, self.batch)
        last = self.first + self.length - 1
        if self.batch > 1 and self.length > 1:  # prompts of different lengths
            last[1] = d.int(0, self.length - 1)
        self.last = last
        shapes = {"q": heads, "k": self.groups, "v": self.groups}
        if packed:
            shapes = {"q": heads + 2 * self.groups}
        row = (self.batch, self.length)
        self.arrays = {name: d.data([*row, n * width], low=-9, high=9) / np.float32(8) for name, n in shapes.items()}
        names = [*shapes, *([] if not packed else ["", ""]), *(["pk", "pv"] if self.has_past else ["", ""])]
        for name in ("pk", "pv") if self.has_past else ():
            self.arrays[name] = d.data([self.batch, self.groups, places, width], low=-9, high=9) / np.float32(8)
        self.arrays["seq"] = last.astype(np.int32)
        self.arrays["total"] = np.array([max(last.max() + 1, self.length)], np.int32)
        for name in ("cos", "sin") if turned else ():
            self.arrays[name] = d.data([20, width // 2], low=-9, high=9) / np.float32(8)
        names += ["seq", "total", *(["cos", "sin"] if turned else [])]
        attrs = {"num_heads": heads, "kv_num_heads": self.groups, "do_rotary": int(turned), **d.attrs(scale=0.3)}
        if turned:
            attrs["rotary_interleaved"] = d.int(0, 1)
        node = helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", **attrs)
        self.model = model([node], self.arrays, ["y", "nk", "nv"])
        self.text = f"seed {seed}: {attrs}, " + ", ".join(f"{n}{list(a.shape)}" for n, a in self.arrays.items())

    def seen(self, results: list[np.ndarray]) -> list[np.ndarray]:
        """What the operator defines: rows of tokens that there are, places that are filled."""
        y, keys, values = results
        rows = [y[b, : self.last[b] - self.first[b] + 1] for b in range(self.batch)]
        return rows + [c[b, :, : self.last[b] + 1] for c in (keys, values) for b in range(self.batch)]


def runtime(of: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(of.SerializeToString(), providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, arrays)
    return results


@pytest.mark.alike(most=20)
@pytest.mark.parametrize("seed", range(40))
def test_grouped_queries_are_those_of_onnx_runtime(seed: int) -> None:
    case = Grouped(seed)
    wanted, found = runtime(case.model, case.arrays), oracle.run(from_onnx(case.model), case.arrays)
    for a, b in zip(case.seen(found), case.seen(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5, err_msg=case.text)


@pytest.mark.full
@pytest.mark.parametrize("part", range(10))
def test_many_grouped_queries_are_those_of_onnx_runtime(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        test_grouped_queries_are_those_of_onnx_runtime(seed)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"qk_output": 1}, {}, "attribute qk_output=1 is not supported"),
    ({"kv_cache_bit_width": 8}, {}, "attribute kv_cache_bit_width=8 is not supported"),
]


@pytest.mark.parametrize(("attrs", "shapes", "text"), REFUSED)
def test_what_is_not_supported_is_refused(attrs: dict[str, Any], shapes: dict[str, Any], text: str) -> None:
    inputs: dict[str, Any] = dict.fromkeys("qkv", (1, 1, 16))
    inputs |= {"pk": (1, 1, 8, 16), "pv": (1, 1, 8, 16), **shapes, "seq": np.zeros(1, np.int32)}
    inputs["total"] = np.ones(1, np.int32)
    node = helper.make_node(
        "GroupQueryAttention", list(inputs), ["y", "nk", "nv"], "the_node", domain="com.microsoft", num_heads=1,
        kv_num_heads=1, **attrs,
    )  # fmt: skip
    with pytest.raises(UnsupportedOperator) as caught:
        from_onnx(model([node], inputs, ["y"]))
    assert text in str(caught.value)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [-2, 1])
def test_tensor_scatter(mode: str, axis: int) -> None:
    rng = np.random.default_rng(3)
    cache, shape = rng.standard_normal((2, 3, 5, 4)).astype(np.float32), [2, 3, 5, 4]
    shape[axis] = 2
    arrays = {"cache": cache, "new": rng.standard_normal(shape).astype(np.float32)}
    arrays["at"] = np.array([1, cache.shape[axis] - (2 if mode == "linear" else 1)])
    node = helper.make_node("TensorScatter", list(arrays), ["y"], mode=mode, axis=axis)
    (found,) = oracle.run(from_onnx(model([node], arrays, ["y"], 24)), arrays)
    wanted = cache.copy()
    for b, j in np.ndindex(2, 2):
        place = (arrays["at"][b] + j) % cache.shape[axis]
        np.moveaxis(wanted, axis, 1)[b, place] = np.moveaxis(arrays["new"], axis, 1)[b, j]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("queries", [1, 2])
def test_attention_to_the_filled_places(causal: int, queries: int) -> None:
    rng = np.random.default_rng(4)
    arrays = {
        name: rng.standard_normal((2, 2, n, 8)).astype(np.float32) for name, n in (("q", queries), ("k", 6), ("v", 6))
    }
    arrays["filled"] = np.array([3, 6])
    node = helper.make_node("Attention", ["q", "k", "v", "", "", "", "filled"], ["y"], is_causal=causal)
    proto = model([node], arrays, ["y"], 24)
    (wanted,) = ReferenceEvaluator(proto).run(None, arrays)
    graph = from_onnx(proto)
    np.testing.assert_allclose(oracle.run(graph, arrays)[0], wanted, atol=1e-5)
    assert ("nn.cached_attention" in {n.op for n in graph.nodes}) == (queries == 1 and not causal)


# ---- states ---------------------------------------------------------------------------------------------------------


def scattered() -> onnx.ModelProto:
    """One step with a cache as ONNX itself has it: TensorScatter, then Attention to what is filled."""
    nodes = [
        helper.make_node("TensorScatter", ["past_0", "new", "at"], ["present_0"]),
        helper.make_node("Add", ["at", "one"], ["filled"]),
        helper.make_node("Attention", ["query", "present_0", "present_0", "", "", "", "filled"], ["y"]),
    ]
    inputs = {"past_0": ("batch", 2, "length", 8), "new": ("batch", 2, 1, 8), "query": ("batch", 2, 1, 8),
              "at": np.zeros(1, np.int64)}  # fmt: skip
    proto = model(nodes, inputs, ["y", "present_0"], 24)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.int64), "one"))
    return proto


@pytest.mark.parametrize("states", [True, {"past_0": "present_0"}])
def test_states_by_their_usual_names_or_by_any(states: Any) -> None:
    graph = from_onnx(scattered(), shapes={"new": (1, 2, 1, 8)}, states=states, max_length=5)
    assert [(a.name, a.shape) for a, _ in graph.state_pairs()] == [("past_0", (1, 2, 5, 8))]
    assert [v.name for v in graph.outputs[:1]] == ["y"]
    module = tvm.build(graph)
    rng, memory = np.random.default_rng(5), dict[str, np.ndarray]()
    for at in range(5):
        inputs = {name: rng.standard_normal((1, 2, 1, 8)).astype(np.float32) for name in ("new", "query")}
        inputs["at"] = np.array([at])
        np.testing.assert_allclose(module(**inputs), oracle.run(graph, inputs, states=memory)[0], atol=1e-5)
    with pytest.raises(InputError, match="wanted: at from 0 to 4\n  found:  5\n  nothing was changed"):
        module(**{**inputs, "at": np.array([5])})
    np.testing.assert_array_equal(module.state["past_0"], memory["past_0"])


def grown(mask: str = "past + 1") -> onnx.ModelProto:
    """A step of attention whose cache grows by concatenation, along its last axis but one."""
    nodes = [
        helper.make_node("Concat", ["past_0", "x"], ["present_0"], axis=-2),
        helper.make_node("Transpose", ["present_0"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "present_0"], ["y"]),
    ]
    inputs = {"past_0": ("batch", "past", 4), "x": ("batch", 1, 4), "mask": ("batch", 1, mask)}
    return model(nodes, inputs, ["y", "present_0"])


def test_a_cache_that_grows_by_concatenation_is_a_state() -> None:
    proto = grown()
    graph = from_onnx(proto, shapes={"x": (1, 1, 4)}, states=True, max_length=5)
    module, memory = tvm.build(graph), dict[str, np.ndarray]()
    past, rng = np.zeros((1, 0, 4), np.float32), np.random.default_rng(6)
    for length in range(1, 6):
        inputs = {"x": rng.standard_normal((1, 1, 4)), "mask": rng.integers(-1, 2, (1, 1, length))}
        inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
        wanted, past = ReferenceEvaluator(proto).run(None, {**inputs, "past_0": past})
        np.testing.assert_allclose(module(**inputs), wanted, atol=1e-6)
        np.testing.assert_allclose(oracle.run(graph, inputs, states=memory)[0], wanted, atol=1e-6)
        np.testing.assert_array_equal(module.state["past_0"][:, :length], past)
    with pytest.raises(InputError, match=r"operator Concat .* does not take these sizes: past_1 <= 5 must hold"):
        module(x=inputs["x"], mask=np.zeros((1, 1, 6), np.float32))
    np.testing.assert_array_equal(module.state["past_0"], past)
    executable = tvm.lower(graph, stop_at="executable")
    assert not any("state" in getattr(step, "operator", "") for step in executable.steps)


SHAPES = {"new": (1, 2, 1, 8)}
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (scattered, {"states": True, "max_length": 5}, "the state past_0 (batch, 2, length, 8) has 2 open dimensions:"
     " batch, length\n  try:    shapes={...}, which gives all but the length of the context a size"),
    (scattered, {"states": True, "shapes": SHAPES}, "the state past_0 (batch, 2, length, 8) is as long as the context,"
     " length\n  try:    max_length=2048: a bound for the context, for which the memory is reserved"),
    (scattered, {"states": {"past": "present_0"}}, "states: the model has no input past; did you mean past_0 or at?"),
    (scattered, {"states": {"past_0": "present"}}, "states: the model has no output present; did you mean present_0?"),
    (scattered, {"states": {"past_0": "y", "new": "y"}}, "states: the output y belongs to two states"),
    (lambda: grown("whole"), {"states": True, "max_length": 5, "shapes": {"x": (1, 1, 4)}}, "the state past_0 grows by "
     "Concat, and no input says how long it is: none has a dimension past + ...\n  try:    a model that updates"),
    (lambda: grown("past + n"), {"states": True, "max_length": 5, "shapes": {"x": (1, 1, 4)}}, "the state past_0 grows "
     "by n tokens a run\n  try:    shapes={...}, which gives that a size"),
    (grown, {"states": {"x": "y"}, "shapes": {"past_0": (1, 2, 4)}, "max_length": 0}, "max_length=0 is the size of"),
    (grown, {"states": {"x": "present_0"}, "shapes": {"past_0": (1, 2, 4)}}, "the state x: a run that begins with "
     "float32[1, 1, 4] leaves float32[1, 3, 4] in present_0\n  try:    a model that updates its caches where they lie"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "options", "text"), WRONG)
def test_states_that_do_not_fit_are_refused(make: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(MinitvmError) as caught:
        from_onnx(make(), **options)
    assert text in str(caught.value)


def test_states_are_not_for_graphs() -> None:
    with pytest.raises(InputError, match="states= goes with an ONNX model; a Graph has its own"):
        tvm.build(from_onnx(decoder(**SMALL)), states=True)


# ---- the decoder ----------------------------------------------------------------------------------------------------


class Interpreted:
    """The graph interpreter as a module with states."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.reset()

    def reset(self) -> None:
        self.states: dict[str, np.ndarray] = {}

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        return oracle.run(self.graph, inputs, states=self.states)[0]


def test_the_decoder_finds_the_tokens_of_the_interpreter_and_of_onnx_runtime() -> None:
    proto = decoder(**SMALL)
    step = tvm.build(proto, states=True, threads=1)
    prompt = np.random.default_rng(0).integers(0, 50, 11).tolist()
    tokens = greedy(step, prompt, 10)
    assert len(set(tokens)) > 3
    assert greedy(Interpreted(from_onnx(proto, states=True)), prompt, 10) == tokens
    assert greedy(_Session(proto), prompt, 10) == tokens


@pytest.mark.full
def test_a_prompt_goes_through_a_module_of_several_tokens() -> None:
    step, many = (tvm.build(decoder(tokens=n, **SMALL), states=True, threads=1) for n in (1, 8))
    for length in (3, 8, 11):
        prompt = np.random.default_rng(length).integers(0, 50, length).tolist()
        assert greedy(step, prompt, 10, many) == greedy(step, prompt, 10)
    with pytest.raises(InputError, match="wanted: seqlens_k from 7 to 23\n  found:  6\n  nothing was changed"):
        many(np.zeros((1, 8), np.int64), np.array([6], np.int32), np.array([7], np.int32))


class _Session:
    """ONNX Runtime as a module with states."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        onnxruntime.set_default_logger_severity(3)
        self.session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        self.reset()

    def reset(self) -> None:
        past = [i for i in self.session.get_inputs() if i.name.startswith("past")]
        self.states = {i.name: np.zeros(i.shape, np.float32) for i in past}

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        logits, *present = self.session.run(None, {**inputs, **self.states})
        self.states = dict(zip(self.states, present, strict=True))
        result: np.ndarray = logits
        return result


def test_a_decoder_moves_no_cache() -> None:
    from minitvm.executable import Copy

    executable = tvm.lower(from_onnx(decoder(**SMALL), states=True), stop_at="executable")
    assert len(executable.states) == 2
    assert not any(isinstance(step, Copy) for step in executable.steps)
