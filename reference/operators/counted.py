"""Operators whose number of results depends on data; the results are padded with zeros to the maximum size."""

from __future__ import annotations

import numpy as np

from .table import operator


@operator("bind_size")
def bind_size(count: np.ndarray, size: int, most: int, where: str, reason: str) -> np.ndarray:
    return count


@operator("leading")
def leading(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    return np.take(x, np.arange(size), axis)


def _padded(rows: np.ndarray, length: int) -> np.ndarray:
    result = np.zeros((length, *rows.shape[1:]), np.int64)
    result[: len(rows)] = rows
    return result


@operator("argwhere")
def argwhere(x: np.ndarray) -> list[np.ndarray]:
    places = np.argwhere(x)
    return [_padded(places, x.size), np.array(len(places), np.int64)]


@operator("unique")
def unique(rows: np.ndarray, sorted: bool) -> list[np.ndarray]:
    """Find distinct rows. Rows with equal numbers are equal, also with NaN; 0.0 equals -0.0."""
    numbers: dict[tuple[object, ...], int] = {}
    found: list[np.ndarray] = []
    first, inverse, counts = [], [], []
    for place, row in enumerate(rows):
        number = numbers.setdefault(tuple(None if v != v else v for v in row.reshape(-1).tolist()), len(found))
        if number == len(found):
            found.append(row)
            first.append(place)
            counts.append(0)
        inverse.append(number)
        counts[number] += 1
    order = list(range(len(found)))
    if sorted:
        # NaN is greater than every number.
        order.sort(key=lambda k: [(bool(v != v), 0 if v != v else v) for v in np.atleast_1d(found[k]).tolist()])
    place_of = {old: new for new, old in enumerate(order)}
    columns = [[first[k] for k in order], [place_of[k] for k in inverse], [counts[k] for k in order]]
    return [*(_padded(np.array(c, np.int64), len(rows)) for c in columns), np.array(len(found), np.int64)]


def _box(box: np.ndarray, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the low and the high corner of a box."""
    if center:
        half = box[2:] / np.float32(2)
        return box[:2] - half, box[:2] + half
    return np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])


def _overlap(a: np.ndarray, b: np.ndarray, center: bool) -> np.float32:
    """Return the intersection over union of two boxes; 0 for an empty box."""
    (low_a, high_a), (low_b, high_b) = _box(a, center), _box(b, center)
    sides = np.minimum(high_a, high_b) - np.maximum(low_a, low_b)
    areas = np.prod(high_a - low_a), np.prod(high_b - low_b)
    both = np.prod(sides)
    union = areas[0] + areas[1] - both
    if not (np.all(sides > 0) and areas[0] > 0 and areas[1] > 0 and union > 0):
        return np.float32(0)
    return np.float32(both / union)


@operator("vision.all_class_non_max_suppression")
def non_max_suppression(
    boxes: np.ndarray, scores: np.ndarray, limit: np.ndarray, iou: np.ndarray, least: np.ndarray, most: int,
    box_format: str,
) -> list[np.ndarray]:  # fmt: skip
    images, classes, _ = scores.shape
    most_of_class = min(int(limit.reshape(())), most)
    rows = []
    for b in range(images):
        for c in range(classes):
            best_first = np.argsort(-scores[b, c], kind="stable")
            candidates = [int(k) for k in best_first if scores[b, c, k] > least.reshape(())]
            kept: list[int] = []
            for k in candidates:
                if len(kept) >= most_of_class:
                    break
                overlaps = [_overlap(boxes[b, k], boxes[b, other], box_format == "center") for other in kept]
                if not any(value > iou.reshape(()) for value in overlaps):
                    kept.append(k)
            rows += [(b, c, k) for k in kept]
    selected = np.array(rows, np.int64).reshape(-1, 3)
    return [_padded(selected, images * classes * most), np.array(len(rows), np.int64)]
