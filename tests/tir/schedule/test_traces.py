"""Traces: nothing half done, damaged data refused, dead steps dropped, and the errors that say where."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.compat.tvm.schedule import testing
from minitvm.compat.tvm.schedule.testing import replayed_at_the_end, verify_trace_roundtrip
from minitvm.errors import ArtifactError, InternalError, ScheduleError
from minitvm.expr import structural_equal
from minitvm.script import ir as I
from minitvm.script import tir as T
from minitvm.tir import IndexMap
from minitvm.tir.schedule import Schedule, Trace
from tests.compat.tvm.schedule.test_sampling import tiled
from tests.fewer import examples

from . import programs


def scheduled() -> Schedule:
    sch = tiled(1)
    copy = sch.cache_read("C", 0, "local")
    sch.compute_at(copy, sch.get_loops("C")[2])
    sch.annotate_buffer_access(copy, 0, "read", lambda a, b: ((a, a + 2), b))
    return sch


def test_a_trace_that_does_not_fit_says_where_and_leaves_the_schedule_alone() -> None:
    sch = Schedule(programs.chain(), seed=1)
    sch.compute_inline("B")
    before, text, seed = sch.mod, sch.trace.as_python(), sch.copy().fork_seed()
    with pytest.raises(ScheduleError) as caught:
        tiled(1).trace.apply_to_schedule(sch)
    assert str(caught.value).startswith("the trace does not fit: step 2 of 11 is refused, l1, l2, l3 = sch.get_loops(")
    assert "get_loops gives 2 results here, 3 where it was recorded" in str(caught.value)
    assert sch.mod is before
    assert sch.trace.as_python() == text
    assert sch.copy().fork_seed() != seed  # only the two copies took numbers
    sch.undo()  # what was done before can still be undone
    assert [b.block.name for b in sch.state.tree().blocks.values()] == ["root", "B", "C", "D"]


def test_a_trace_whose_last_step_is_illegal_changes_nothing() -> None:
    source = Schedule(programs.chain(20, 16))
    i, _ = source.get_loops("C")
    source.split(i, [None, 6])
    source.split(source.get_loops("B")[0], [None, 2])
    other = Schedule(programs.chain(20, 16))
    other.bind(other.get_loops("B")[0], "blockIdx.x")
    before = other.mod
    with pytest.raises(ScheduleError, match=r"step 6 of 6 is refused, [^\n]*sch\.split[\s\S]*plain_loops"):
        source.trace.apply_to_schedule(other)
    assert other.mod is before
    assert len(other.trace) == 3


def test_tvm_spellings_are_read() -> None:
    """Rows as TVM 0.27 prints them for this program."""
    rows = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l1"], [2, 16], ["v4", "v5"]],
        ["Split", ["l1", "v4", "v5"], [True, False], ["l6", "l7"]],
        ["Split", ["l2", "None", 2], [True], ["l8", "l9"]],  # before disable_predication
        ["Reorder", ["l8", "l6"], [], []],
        ["Annotate", ["b0", '"word"'], ["key"], []],
        ["Annotate", ["b0", ["v4", {"k": '"x"'}]], ["list"], []],
        ["ReorderBlockIterVar", ["b0", [1, 0, 2]], [], []],
    ]
    sch = Schedule(programs.matmul())
    Trace.apply_json_to_schedule([rows, [[2, [4, 2]]]], sch)
    assert sch.get(sch.get_block("C")).annotations == {"key": "word", "list": [4, {"k": "x"}]}
    assert [sch.get(l).var.name for l in sch.get_loops("C")] == ["j_0", "i_1", "i_0", "j_1", "k"]
    verify_trace_roundtrip(sch, programs.matmul())


BAD_ROWS = {
    "lacks its name": ["GetBlock", [], [], ["b0"]],
    "is one argument too many": ["GetBlock", [], ["C", None, 3], ["b0"]],
    "did you mean split": ["Spilt", ["l1"], [], []],
    "wanted outputs named": ["GetBlock", [], ["C", None], ["block"]],
    "name is a str, found 3": ["GetBlock", [], [3, None], ["b0"]],
    "'b7' is not defined before it is used": ["GetLoops", ["b7"], [], ["l1"]],
    "wanted [kind, inputs, attributes, outputs]": ["GetBlock", []],
    "wanted lists of inputs": ["GetBlock", {}, [], []],
    "is no function of indices": ["AnnotateBufferAccess", ["b9"], [0, "read", "lambda: open('x')"], []],
    "factors is a list of (int | expression | None)": ["Split", ["l9", 1.5, '"a"'], [True, False], []],
}


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_each_kind_of_damage_has_its_text(reason: str) -> None:
    first = [["GetBlock", [], ["C", None], ["b9"]], ["GetLoops", ["b9"], [], ["l9", "l10", "l11"]]]
    sch = Schedule(programs.matmul())
    with pytest.raises(ArtifactError) as caught:
        Trace.apply_json_to_schedule([[*first, BAD_ROWS[reason]], []], sch)
    assert str(caught.value).startswith("not a saved trace: step 3: ")
    assert reason in str(caught.value)
    assert len(sch.trace) == 0


@pytest.mark.parametrize(
    "decisions", [[[0, 1]], [[99, 1]], [[2, "x"]], [[2, [2, 2]], [2, [2, 2]]], [3], [[2.0, [1, 1]]], [[True, 1]]]
)
def test_damaged_decisions(decisions: Any) -> None:
    sch = Schedule(programs.matmul(), seed=1)
    i, *_ = sch.get_loops("C")
    sch.sample_perfect_tile(i, 2)
    rows, _ = sch.trace.as_json()
    with pytest.raises(ArtifactError, match="not a saved trace"):
        Trace.from_json([rows, decisions])


_SAVED = scheduled().trace.dumps()
_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just("None"), st.just('"'),
    st.just("v4 * 2"), st.just("l1"), st.just("b0"), st.just("lambda i: i"), st.just([]), st.just({}), st.just([[]]),
    st.just(10**30), st.just("v4 // 0"), st.just("(" * 300),
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    return [path, *(place for key, item in items for place in _places(item, (*path, key)))]


def _damaged(value: Any, path: tuple[Any, ...], junk: Any, how: str) -> Any:
    """The value with what stands at a path replaced, left out or doubled."""
    if not path:
        return junk
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if how == "replace" or isinstance(holder, dict):
        holder[path[-1]] = junk
    elif how == "drop":
        del holder[path[-1]]
    else:
        holder.insert(path[-1], holder[path[-1]])
    return value


@examples(65, 200)
@given(st.data())
def test_damaged_traces_never_crash(data: Any) -> None:
    """Every damage is an `ArtifactError`, or leaves another trace, which fits the program or does not."""
    saved: Any = json.loads(_SAVED)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_places(saved)))
        saved = _damaged(saved, path, data.draw(_JUNK), data.draw(st.sampled_from(["replace", "drop", "double"])))
    sch = Schedule(programs.matmul(48, 64, 32))
    before = sch.mod
    try:
        Trace.apply_json_to_schedule(saved, sch)
    except (ArtifactError, ScheduleError):
        assert sch.mod is before
        assert len(sch.trace) == 0


@given(st.integers(0, len(_SAVED)), st.text(max_size=3), st.integers(0, 20))
def test_damaged_text_never_crashes(at: int, put: str, cut: int) -> None:
    sch = Schedule(programs.matmul(48, 64, 32))
    try:
        Trace.apply_json_to_schedule(_SAVED[:at] + put + _SAVED[at + cut :], sch)
    except (ArtifactError, ScheduleError):
        assert len(sch.trace) == 0


def test_names_of_everything_unknown_are_answered_with_the_nearest() -> None:
    sch = Schedule(programs.chain())
    with pytest.raises(AttributeError, match="a Schedule has no 'spilt'; did you mean split"):
        sch.spilt
    with pytest.raises(ScheduleError, match="no schedule primitive 'fuze'; did you mean fuse"):
        sch.call("fuze", {})
    with pytest.raises(ScheduleError, match="no schedule primitive 'fuze'"):
        sch.space("fuze")
    with pytest.raises(ScheduleError, match="no block 'BB'"):
        sch.compute_inline("BB")
    with pytest.raises(ScheduleError, match=r"split: factors must be a list of \(int \| expression \| None\), found 4"):
        sch.split(sch.get_loops("B")[0], 4)
    with pytest.raises(ScheduleError, match=r"split: got an unexpected keyword argument 'factor'; it takes \(loop,"):
        sch.split(sch.get_loops("B")[0], factors=[4, None], factor=[4])


def test_a_function_worked_on_is_named_in_the_trace() -> None:
    @I.ir_module
    class Two:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = 1.0

        @T.prim_func
        def second(A: T.Buffer((4,), "float32")):
            for j in range(4):
                with T.block("A"):
                    vj = T.axis.spatial(4, j)
                    A[vj] = 2.0

    sch = Schedule(Two)
    sch.work_on("second")
    sch.vectorize(sch.get_loops("A")[0])
    verify_trace_roundtrip(sch, Two)
    assert 'func_name="second"' in str(sch.trace)
    with pytest.raises(Exception, match="no function 'secnd' in the module; did you mean second"):
        sch.work_on("secnd")


def test_every_schedule_is_replayed_at_the_end() -> None:
    """The check behind every test of this suite sees a step that a replay does differently."""
    with pytest.raises(InternalError, match="does not survive JSON"), replayed_at_the_end():
        sch = Schedule(programs.matmul())
        sch.parallel(sch.get_loops("C")[0])
        last = sch.trace.pop()
    assert last is not None
    sch.trace.append(last)  # for the same check of this test
    with replayed_at_the_end():
        sch = Schedule(programs.matmul())
        sch.parallel(sch.get_loops("C")[0])


def test_a_schedule_whose_forms_of_instructions_are_known_is_not_replayed() -> None:
    """Another loop is the same form; an argument of another type is not."""
    testing._FORMS.clear()  # what other tests of this process have replayed

    def without_its_last_step(value: Any) -> None:
        try:
            with replayed_at_the_end(of_a_form=1):
                sch = Schedule(programs.matmul())
                sch.annotate(sch.get_loops("C")[1], "key", value)
                last = sch.trace.pop()
        finally:
            assert last is not None
            sch.trace.append(last)  # for the same check of this test

    with replayed_at_the_end(of_a_form=1):
        sch = Schedule(programs.matmul())
        sch.annotate(sch.get_loops("C")[0], "key", 1)
        sch.annotate(sch.get_loops("C")[0], "other", "text")
    without_its_last_step(2)  # the trace that is left has known forms only
    testing._FORMS.clear()
    with pytest.raises(InternalError, match="does not survive JSON"):
        without_its_last_step(3)


def test_replay_from_memory_copies_nothing() -> None:
    sch = scheduled()
    other = Schedule(programs.matmul(48, 64, 32))
    sch.trace.apply_to_schedule(other)
    assert structural_equal(sch.mod, other.mod)
    assert str(other.trace) == str(sch.trace)


def test_the_inverse_of_a_map_is_in_the_trace() -> None:
    """A large swizzle has no inverse that is found, so the layout is legal only with the one given, here and there."""

    @T.prim_func
    def copy(A: T.Buffer((2048, 1024), "float32"), B: T.Buffer((2048, 1024), "float32")):
        for i, j in T.grid(2048, 1024):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    with pytest.raises(ScheduleError, match="bijective_map"):
        Schedule(copy).transform_block_layout("B", lambda i, j: (i, j ^ (i % 1024)))
    sch = Schedule(copy)
    index_map = IndexMap.from_func(lambda i, j: (i, j + 0), inverse_index_map=lambda i, j: (i, j))
    sch.transform_block_layout("B", index_map)
    text = "tir.IndexMap.from_func(lambda i, j: (i, j), inverse_index_map=lambda i, j: (i, j))"
    assert text in str(sch.trace) and text in sch.trace.dumps()
    loaded = Trace.from_json(sch.trace.dumps()).insts[-1].arguments["index_map"]
    assert str(loaded.inverse) == "lambda i, j: (i, j)"
    verify_trace_roundtrip(sch, copy)


@pytest.mark.parametrize("arguments", ["lambda i: i", "1, inverse_index_map=2"])
def test_a_damaged_map_is_refused(arguments: str) -> None:
    sch = Schedule(programs.chain())
    sch.transform_block_layout("B", lambda i, j: (j, i))
    data = sch.trace.as_json()
    data[0][-1][2][0] = f"tir.IndexMap.from_func({arguments})"
    with pytest.raises(ArtifactError, match="no function of indices"):
        Trace.from_json(data)


def test_an_index_that_plays_no_part_decides_no_kind() -> None:
    """`k % 1` is 0, and spatial: before the trace was written as after it was read."""
    sch = Schedule(programs.matmul())
    sch.transform_block_layout("C", lambda i, j, k: (i, j, k, k % 1))
    assert "SSRS" in sch.func.script()
    verify_trace_roundtrip(sch, programs.matmul())


def test_a_trace_without_a_query_is_refused_at_once() -> None:
    func = programs.matmul()
    sch = Schedule(func)
    i, *_ = sch.get_loops(sch.get_block("C"))
    sch.parallel(i)
    steps = list(sch.trace)
    told = r"^the trace cannot be replayed: step {} of 2 uses what no step before it gives, "
    for left_out, gap in ((0, 1), (1, 2)):
        trace = Trace(steps[:left_out] + steps[left_out + 1 :])
        other = Schedule(func)  # the very function: its loops are those that the handles mean
        for use in (partial(trace.apply_to_schedule, other), trace.dumps, trace.as_python):
            with pytest.raises(ScheduleError, match=told.format(gap)):
                use()
        assert len(other.trace) == 0
        assert f"# step {gap} cannot be replayed" in str(trace)
    whole = Trace(steps)
    whole.apply_to_schedule(Schedule(func))
    assert "cannot be replayed" not in str(whole)


def test_a_query_that_gives_again_what_is_known_is_dead() -> None:
    sch = Schedule(programs.matmul())
    block = sch.get_block("C")
    sch.get_child_blocks(sch.get_block("root"))
    sch.parallel(sch.get_loops(block)[0])
    sch.get_loops(block)
    assert [inst.primitive.name for inst in sch.trace.simplified()] == ["get_block", "get_loops", "parallel"]
    (again,) = sch.get_child_blocks(sch.get_block("root"))
    assert again == block
    only = Schedule(programs.matmul())
    (child,) = only.get_child_blocks(only.get_block("root"))
    only.parallel(only.get_loops(child)[0])
    assert len(only.trace.simplified()) == 4  # there it is what gives the block


def test_instructions_have_the_parts_that_tvm_gives_them() -> None:
    sch = Schedule(programs.matmul())
    i, j, _ = sch.get_loops("C")
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    outer, inner = sch.split(i, [None, v])
    fused = sch.fuse(inner, j)
    sch.annotate(fused, "width", v)
    sampling, split, fusing, annotation = sch.trace.insts[-4:]
    assert (sampling.kind.name, sampling.inputs, sampling.attrs) == ("SampleCategorical", [], [[2, 4], [0.5, 0.5]])
    assert (split.kind.name, split.inputs, split.attrs) == ("Split", [i, None, v], [True, False])
    assert (fusing.inputs, fusing.attrs) == ([inner, j], [True])
    assert annotation.inputs == [fused, v]
    assert annotation.attrs == ["width"]
    assert [inst.outputs for inst in (sampling, split, fusing, annotation)] == [[v], [outer, inner], [fused], []]
    assert split.kind == "Split"


@T.prim_func
def rows(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 16))
    C = T.match_buffer(c, (n, 16))
    B = T.alloc_buffer((n, 16))
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i in range(n):
        with T.block("C"):
            row = T.axis.spatial(n, i)
            T.reads(B[row, 0:16])
            T.writes(C[row, 0:16])
            D = T.alloc_buffer((16,))
            for j in range(16):
                with T.block("D"):
                    vj = T.axis.spatial(16, j)
                    D[vj] = B[row, vj]
            for j in range(16):
                with T.block("E"):
                    vj = T.axis.spatial(16, j)
                    C[row, vj] = D[vj] + 1.0


def test_maps_with_variables_from_outside_replay_from_their_text() -> None:
    """A size of the function, and an iterator around; the text names them, and the function has one of each name."""
    sch = Schedule(rows)
    size = rows.params[2]
    sch.transform_layout("B", ("write", 0), lambda i, j: (j * size + i,))
    row = sch.get(sch.get_block("C")).iter_vars[0].var
    sch.transform_layout("D", ("write", 0), lambda j: ((j + row) % 16,), assume_injective_transform=True)
    assert 'lambda i, j: (j * tir.Var("n", "int32") + i,)' in str(sch.trace)
    verify_trace_roundtrip(sch, rows)


def test_a_name_that_two_variables_have_stands_for_none() -> None:
    """`vj` is an iterator of three blocks: replayed from its text, the map uses a variable that nobody has."""
    sch = Schedule(rows)
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    text = json.dumps(sch.trace.as_json()).replace("(j, i)", '(j + tir.Var(\\"vj\\", \\"int32\\"), i)')
    with pytest.raises(ScheduleError, match=r"found: .*uses vj"):
        Trace.apply_json_to_schedule(text, Schedule(rows))


def test_a_query_is_recorded_once_until_a_step_changes_the_program() -> None:
    sch = Schedule(programs.chain())
    i, j = sch.get_loops("B")
    assert sch.get_loops("B") == [i, j]
    sch.get_producers(sch.get_block("B"))
    sch.get_producers(sch.get_block("B"))  # there are none
    text = sch.trace.as_python()
    assert len(text) == len(set(text)) == 3
    sch.reorder(j, i)
    assert sch.get_loops("B") == [j, i]
    text = sch.trace.as_python()
    assert text[-1] == "l2, l1 = sch.get_loops(block=b0)" and len(text) == 5
    verify_trace_roundtrip(sch, programs.chain())
