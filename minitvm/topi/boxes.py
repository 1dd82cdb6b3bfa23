"""Non-maximum suppression: among boxes that overlap, only the one with the highest score is kept."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import Expr, Var, as_expr, const
from ..te import Tensor
from ..tir.nodes import PrimFunc
from .indices import nearest
from .lines import work, zeroed
from .registry import register
from .shapes import Dim, agree, dims, product

CORNER, CENTER = "corner", "center"

# With at least this many scores, classes are processed in parallel.
_PARALLEL = 1 << 13


@register("vision.all_class_non_max_suppression")
def all_class_non_max_suppression(
    boxes: Tensor, scores: Tensor, max_output_boxes_per_class: Tensor, iou_threshold: Tensor, score_threshold: Tensor,
    *, most: Dim, box_format: str = CORNER,
) -> list[Tensor]:  # fmt: skip
    """Return [selected, count]: the boxes that are kept, and their number.

    `selected` is [images * classes * most, 3]: one row [image, class, box] for each box that is kept, followed by rows
    of 0. `boxes` is [images, boxes, 4], `scores` [images, classes, boxes]; the other three tensors have one element,
    the first of them int64. For each image and class, boxes with a score above `score_threshold` are
    considered in descending order of their scores; boxes with equal scores keep their order. A box is dropped if its
    intersection over union with a box that was kept is above `iou_threshold`. `most` is an upper bound on the number of
    boxes kept per class. A box is given by any two opposite corners, or, in the format "center", as (x, y, width,
    height).
    """
    if boxes.ndim != 3 or scores.ndim != 3 or not agree(dims(boxes)[0], dims(scores)[0]):
        raise TypeMismatch(f"non_max_suppression: {boxes} and {scores} do not fit")
    if not agree(dims(boxes)[1], dims(scores)[2]) or not agree(dims(boxes)[2], 4):
        raise TypeMismatch(f"non_max_suppression: {boxes} and {scores} do not fit")
    if box_format not in (CORNER, CENTER):
        raise TypeMismatch(f"non_max_suppression: box_format is {CORNER!r} or {CENTER!r}, found {box_format!r}")
    images, classes, _ = scores.shape
    limits = [te.compute((1,), lambda _, t=t: t[(0,) * t.ndim], name=t.name) for t in
              (max_output_boxes_per_class, iou_threshold, score_threshold)]  # fmt: skip
    operands = [boxes, scores, *limits]
    _, kept, numbers = te.extern_primfunc(operands, zeroed(_suppress(operands, most, box_format), (5, 6)))
    total = product([*dims(scores)[:2], most])
    gathered = zeroed(_gather(images, classes, as_expr(most), as_expr(total)), (2,))
    selected, count = te.extern_primfunc([kept, numbers], gathered)
    return [selected, te.compute((), lambda: count[0], name="T_count")]


def _corners(box: Any, at: Any, form: str) -> list[tuple[Expr, Expr]]:
    """Return (low, high) of a box along both axes. `box(at, k)` returns the k-th of the four numbers of box `at`, and
    `form` is the box format.
    """
    if form == CENTER:
        half = const(2.0, "float32")
        return [(box(at, a) - box(at, a + 2) / half, box(at, a) + box(at, a + 2) / half) for a in (0, 1)]
    return [(te.minimum(box(at, a), box(at, a + 2)), te.maximum(box(at, a), box(at, a + 2))) for a in (0, 1)]


def _suppress(operands: list[Tensor], most: Dim, form: str) -> PrimFunc:
    """Return a function that selects the boxes of each class, best first from a heap, until enough boxes are kept.

    Its results are the heaps, the indices of the boxes that were kept, and their number for each image and class.
    """
    from ..tir.script import builtins as T

    shapes = [t.shape for t in operands]
    images, classes, extent = shapes[1]
    count = str(operands[2].dtype)
    loop = T.parallel if work([operands[1]]) >= _PARALLEL else T.serial

    def parent(place: Expr) -> Expr:
        return te.maximum(place - 1, 0) // 2

    def better(scores: Any, b: Var, c: Var, i: Expr, j: Expr) -> Expr:
        """Return whether box i has a higher score than box j, or an equal score and a lower index."""
        x, y = scores[b, c, i], scores[b, c, j]
        return te.any(x > y, te.all(~(y > x), i < j))

    def overlap(boxes: Any, b: Var, i: Expr, j: Expr, threshold: Expr) -> Expr:
        """Return whether the intersection over union of two boxes is above a threshold."""
        first, second = (_corners(lambda at, k: boxes[b, at, k], at, form) for at in (i, j))
        zero = const(0.0, "float32")
        sides = [te.minimum(p[1], q[1]) - te.maximum(p[0], q[0]) for p, q in zip(first, second, strict=True)]
        both = sides[0] * sides[1]
        one, other = ((box[0][1] - box[0][0]) * (box[1][1] - box[1][0]) for box in (first, second))
        union = one + other - both
        meets = te.all(sides[0] > zero, sides[1] > zero, one > zero, other > zero, union > zero)
        return te.all(meets, both / te.select(union > zero, union, const(1.0, "float32")) > threshold)

    @T.prim_func
    def suppress(
        boxes: T.Buffer(shapes[0], "float32"), scores: T.Buffer(shapes[1], "float32"), wanted: T.Buffer((1,), count),
        iou: T.Buffer((1,), "float32"), least: T.Buffer((1,), "float32"),
        heap: T.Buffer((images, classes, extent), "int32"), kept: T.Buffer((images, classes, most), "int32"),
        numbers: T.Buffer((images, classes), "int32"),
    ) -> None:  # fmt: skip
        for i in loop(images * classes):
            with T.block("suppress"):
                b = T.axis.spatial(images, i // classes)
                c = T.axis.spatial(classes, i % classes)
                size = T.alloc_buffer((1,), "int32", scope="local")
                at = T.alloc_buffer((1,), "int32", scope="local")
                child = T.alloc_buffer((1,), "int64", scope="local")  # may be more than twice a place
                box = T.alloc_buffer((1,), "int32", scope="local")
                last = T.alloc_buffer((1,), "int32", scope="local")
                other = T.alloc_buffer((1,), "int32", scope="local")
                limit = T.alloc_buffer((1,), "int64", scope="local")
                stays = T.alloc_buffer((1,), "int32", scope="local")
                limit[0] = T.Cast("int64", T.max(T.min(wanted[0], T.Cast(count, most)), T.Cast(count, 0)))
                size[0] = 0
                numbers[b, c] = 0
                for place in range(extent):
                    if size[0] < extent and scores[b, c, place] > least[0]:
                        at[0] = size[0]
                        while at[0] > 0 and better(scores, b, c, place, heap[b, c, parent(at[0])]):
                            heap[b, c, at[0]] = heap[b, c, parent(at[0])]
                            at[0] = parent(at[0])
                        heap[b, c, at[0]] = place
                        size[0] = size[0] + 1
                while size[0] > 0 and T.Cast("int64", numbers[b, c]) < limit[0]:
                    box[0] = heap[b, c, 0]
                    size[0] = size[0] - 1
                    last[0] = heap[b, c, size[0]]
                    at[0] = 0
                    child[0] = 1
                    while child[0] < size[0]:
                        if child[0] + 1 < size[0]:
                            if better(scores, b, c, heap[b, c, child[0] + 1], heap[b, c, child[0]]):
                                child[0] = child[0] + 1
                        if better(scores, b, c, heap[b, c, child[0]], last[0]):
                            heap[b, c, at[0]] = heap[b, c, child[0]]
                            at[0] = T.Cast("int32", child[0])
                            child[0] = 2 * child[0] + 1
                        else:
                            child[0] = T.Cast("int64", size[0])
                    heap[b, c, at[0]] = last[0]
                    stays[0] = 1
                    other[0] = 0
                    while other[0] < numbers[b, c] and stays[0] == 1:
                        if overlap(boxes, b, box[0], nearest(kept[b, c, other[0]], extent), iou[0]):
                            stays[0] = 0
                        other[0] = other[0] + 1
                    if stays[0] == 1:
                        kept[b, c, numbers[b, c]] = box[0]
                        numbers[b, c] = numbers[b, c] + 1

    return suppress


def _gather(images: Expr, classes: Expr, most: Expr, total: Expr) -> PrimFunc:
    """Return a function that lists the boxes that were kept, as rows [image, class, box] in this order, and counts
    them.
    """
    from ..tir.script import builtins as T

    @T.prim_func
    def gather(
        kept: T.Buffer((images, classes, most), "int32"), numbers: T.Buffer((images, classes), "int32"),
        selected: T.Buffer((total, 3), "int64"), count: T.Buffer((1,), "int64"),
    ) -> None:  # fmt: skip
        with T.block("gather"):
            size = T.alloc_buffer((1,), "int32", scope="local")
            size[0] = 0
            for b, c in T.grid(images, classes):
                for k in range(T.min(numbers[b, c], most)):
                    if T.And(size[0] >= 0, size[0] < total):  # always: one class has at most `most`
                        selected[size[0], 0] = T.Cast("int64", b)
                        selected[size[0], 1] = T.Cast("int64", c)
                        selected[size[0], 2] = T.Cast("int64", kept[b, c, k])
                        size[0] = size[0] + 1
            count[0] = T.Cast("int64", size[0])

    return gather
