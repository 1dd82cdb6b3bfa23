"""Faults in the primitives that move, inline, stage and take apart blocks."""

from tests.tir.schedule.bound_programs import partly_bound
from tests.tir.schedule.test_reductions import rows_that_shrink

from ..patch import Faults
from ..streams import by_hand
from ..workloads import families, schedules

PRIMITIVES = "minitvm.tir.schedule.primitives."
CHAIN = families("chain")
SEQUENCES = families("sequences", "branches", "chain")

AT = Faults(
    "compute_at",
    PRIMITIVES + "compute_at",
    [
        schedules("compute_at", of=CHAIN, prepare=("split",)),
        schedules("compute_at"),
        schedules("compute_at", of=SEQUENCES, wild=True),
    ],
)
AT.edit("what consumers miss is not looked at", "_move", "if failure is not None:", "if False:")
AT.edit(
    "a block whose domain is larger than what it ran through", "_move", "if reason is not None:", "if False:",
    by=[schedules("compute_at", of=partly_bound, prepare=())],
)  # fmt: skip
AT.drop("under a condition that decides whether it runs", "compute_at", "only_loops_around")
AT.drop("a block that gives something else each time", "compute_at", "complete_or_reduction")
AT.drop("inputs that are overwritten before", "compute_at", "inputs_settled")

BACK = Faults(
    "reverse_compute_at",
    PRIMITIVES + "compute_at",
    [
        schedules("reverse_compute_at", of=CHAIN, prepare=("split",)),
        schedules("reverse_compute_at"),
        schedules("reverse_compute_at", of=SEQUENCES, wild=True),
    ],
)
BACK.drop(
    "producers with gaps", "reverse_compute_at", "producers_fill",
    by=[schedules("reverse_compute_at", of=families("gaps"), prepare=())],
)  # fmt: skip
BACK.edit(
    "iterations that read beyond what is produced run nowhere",
    "_check_reach",
    "if not regions.covers(produced, reached, analyzer):",
    "if False:",
)

PLACE = Faults("placement", "minitvm.tir.schedule.moving", [
    schedules("compute_at", of=CHAIN, prepare=("split",)),
    schedules("reverse_compute_at", of=CHAIN, prepare=("split",)),
    schedules("compute_at", "reverse_compute_at"),
])  # fmt: skip
PLACE.edit("iterations outside of the domain", "nest_for", "if not analyzer.can_prove(condition):", "if False:")
PLACE.edit("a halo one short, and nobody looks", "uncovered", "if not shared:", "if True:")
PLACE.edit("the first that meets a box with a stride", "solve", "(stride - 1 - reach)", "(stride - reach)")

INLINE = Faults(
    "compute_inline",
    PRIMITIVES + "inline",
    [
        schedules("compute_inline"),
        schedules("compute_inline", of=SEQUENCES),
        schedules("compute_inline", of=families("folds", "contraction", "sequences"), wild=True),
    ],
)
INLINE.edit(
    "the reader's indices in reverse",
    "compute_inline",
    "zip(store.indices, load.indices, strict=True)",
    "zip(store.indices, load.indices[::-1], strict=True)",
)
INLINE.edit(
    "the value as it stands",
    "compute_inline",
    "ex.substitute(store.value, places)",
    "ex.substitute(store.value, {})",
)
INLINE.drop("a producer whose inputs change before its readers", "compute_inline", "inputs_settled")

BACKWARD = Faults(
    "reverse_compute_inline",
    PRIMITIVES + "inline",
    [
        schedules("reverse_compute_inline"),
        schedules("reverse_compute_inline", of=SEQUENCES),
        schedules("reverse_compute_inline", of=CHAIN, prepare=()),
    ],
)
BACKWARD.edit(
    "the producer's value is lost",
    "_replaced",
    "return value if isinstance(node, BufferLoad) and node.buffer is buffer else None",
    "return value.a if isinstance(node, BufferLoad) and node.buffer is buffer and hasattr(value, 'a') else None",
)
BACKWARD.drop("a consumer that reads other points", "reverse_compute_inline", "reads_its_own_point")

DECOMPOSE = Faults(
    "decompose_reduction",
    PRIMITIVES + "decompose_reduction",
    [
        schedules("decompose_reduction"),
        schedules(
            "decompose_reduction",
            of=families("contraction", "reduction", "folds"),
            prepare=("split", "split", "reorder", "fuse"),
        ),
        schedules("decompose_reduction", of=families("contraction", "folds"), wild=True),
    ],
)
DECOMPOSE.edit(
    "the init is lost",
    "decompose_reduction",
    "state.replace({again: Seq.of(nest, again)})",
    "state.replace({again: Seq.of(again, nest)})",
)
DECOMPOSE.drop("iterations that start more than one sum", "decompose_reduction", "each_point_once")
DECOMPOSE.drop("an init in loops whose ends are elsewhere", "decompose_reduction", "fixed_domains",
               by=[by_hand("rows that shrink", rows_that_shrink)])  # fmt: skip
DECOMPOSE.drop("a sum that does not start first", "decompose_reduction", "started_first")
DECOMPOSE.edit(
    "the init without its predicate",
    "decompose_reduction",
    "predicate = all_of(substitute(c, renamed) for c in conditions)",
    "predicate = all_of([])",
)

NOTES = "annotations={**target.annotations, ann_key: plain(ann_val)}"
ANNOTATE = Faults("annotate", PRIMITIVES + "annotate", [schedules("annotate"), schedules("annotate", wild=True)])
ANNOTATE.edit(
    "the loop becomes parallel",
    "annotate",
    NOTES,
    NOTES + ", **({'kind': type(target.kind)('parallel')} if isinstance(target, For) else {})",
)
ANNOTATE.edit(
    "the loop is one shorter, the block has no init",
    "annotate",
    NOTES,
    NOTES + ", **({'extent': target.extent - 1} if isinstance(target, For) else {'init': None})",
)
UNANNOTATE = Faults(
    "unannotate",
    PRIMITIVES + "annotate",
    [schedules("unannotate", prepare=("annotate", "annotate"), depth=4)],
)
UNANNOTATE.edit(
    "the loop becomes parallel",
    "unannotate",
    "annotations=kept)",
    "annotations=kept, kind=type(target.kind)('parallel'))",
)
UNANNOTATE.edit(
    "the loop is one shorter", "unannotate", "annotations=kept)", "annotations=kept, extent=target.extent - 1)"
)
