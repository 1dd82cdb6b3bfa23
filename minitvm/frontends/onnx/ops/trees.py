"""Convert ensembles of decision trees, such as gradient boosting and random forests: all trees are walked in parallel.

The walk has as many steps as the deepest tree has levels. Each step looks up a node's feature, threshold and children.
A leaf is its own child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import ModelError
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter

ML = "ai.onnx.ml"
COMPARISONS = {
    "BRANCH_LEQ": "less_equal", "BRANCH_LT": "less", "BRANCH_GTE": "greater_equal", "BRANCH_GT": "greater",
    "BRANCH_EQ": "equal", "BRANCH_NEQ": "not_equal",
}  # fmt: skip
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER = MODES.index("BRANCH_MEMBER")


@dataclass(frozen=True)
class Forest:
    """All nodes of all trees, including leaves. `weights` (node, output) holds the weights of leaves, and `spoken`
    which exist.

    `modes` holds indices into `MODES`, with -1 for a leaf. `members` (node, value) holds the sets of nodes that test
    membership, padded with NaN.
    """

    roots: np.ndarray
    features: np.ndarray
    modes: np.ndarray
    thresholds: np.ndarray
    members: np.ndarray
    missing_is_true: np.ndarray
    taken: np.ndarray
    other: np.ndarray
    weights: np.ndarray
    spoken: np.ndarray

    def always(self) -> np.ndarray:
        """Return for each output whether some tree has a weight for it in all of its leaves, so that every row has a
        score.
        """
        each = [np.logical_and.reduce([self.spoken[leaf] for leaf in self._leaves(root)]) for root in self.roots]
        found: np.ndarray = np.logical_or.reduce(each)
        return found

    def _leaves(self, node: int) -> list[int]:
        if self.modes[node] < 0:
            return [node]
        return self._leaves(int(self.taken[node])) + self._leaves(int(self.other[node]))

    @property
    def depth(self) -> int | None:
        """The number of steps from a root to the deepest leaf, or None if a path returns to its own node."""
        deepest, level = 0, set(self.roots.tolist())
        while True:
            inner = [k for k in level if self.modes[k] >= 0]
            if not inner:
                return deepest
            if deepest > len(self.modes):
                return None
            level, deepest = {int(c) for k in inner for c in (self.taken[k], self.other[k])}, deepest + 1


def leaves(n: NodeContext, x: Operand, forest: Forest) -> Operand:
    """Return the node (row, tree) at which each walk ends."""
    rows = x.shape[0]
    at = n.op("broadcast_to", forest.roots[None].astype(np.int64), shape=(rows, len(forest.roots)))
    assert forest.depth is not None
    for _ in range(forest.depth):
        value = n.op("gather", x, _looked_up(n, forest.features, at), axis=1)
        goes = _answers(n, forest, value, at)
        if forest.missing_is_true.any():
            goes = n.op(
                "logical_or", goes, n.op("logical_and", n.op("isnan", value), _looked_up(n, forest.missing_is_true, at))
            )
        at = n.op("where", goes, _looked_up(n, forest.taken, at), _looked_up(n, forest.other, at))
    return at


def _looked_up(n: NodeContext, table: np.ndarray, at: Operand) -> Operand:
    found: Operand = n.op("take", table, at, axis=0)
    return found


def _answers(n: NodeContext, forest: Forest, value: Operand, at: Operand) -> Operand:
    """Return the result of each node's test for its value."""
    used = sorted(set(forest.modes[forest.modes >= 0].tolist()))
    threshold = _looked_up(n, forest.thresholds, at)
    answers: Operand | None = None
    for mode in used:
        if mode == MEMBER:
            sets = n.op("take", forest.members, at, axis=0)
            one = n.op("equal", n.op("expand_dims", value, axis=(2,)), sets)
            found = n.op("any", one, axis=(2,))
        else:
            found = n.op(COMPARISONS[MODES[mode]], value, threshold)
        if len(used) > 1:
            found = n.op("logical_and", found, _looked_up(n, forest.modes == mode, at))
        answers = found if answers is None else n.op("logical_or", answers, found)
    assert answers is not None
    return answers


def scores(n: NodeContext, x: Operand, forest: Forest, aggregate: str, plain: bool = False) -> Operand:
    """Return the combined result of all trees as (row, output). With `plain`, a sum of nothing is 0."""
    if x.ndim != 2:
        n.refuse(f"trees over {x} are not supported: wanted rows of features")
    operators = {"SUM": "sum", "AVERAGE": "mean", "MIN": "min", "MAX": "max"}
    most = int(forest.features.max(initial=0))
    if int(forest.features.min(initial=0)) < 0:
        n.refuse(f"a node asks for feature {forest.features.min()}")
    x = n.enough(x, x.shape[1], min(most, 2**31 - 2) + 1, f"a node asks for feature {most} of {x}")
    if aggregate not in operators:
        n.refuse(f"aggregate_function={aggregate} is not known")
    if forest.depth is None:
        n.refuse("a path through a tree comes back to its own node")
    silent = np.flatnonzero(~forest.always())
    if len(silent) and not (
        plain and aggregate in ("SUM", "AVERAGE")
    ):  # what such a row gets, the standard does not say
        n.refuse(f"a row may reach no leaf with a weight for output {silent[0]}")
    missing = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    weights = np.where(forest.spoken, forest.weights, np.asarray(missing, forest.weights.dtype))
    each = n.op("take", weights, leaves(n, x, forest), axis=0)  # (row, tree, output)
    result: Operand = n.op(operators[aggregate], each, axis=(1,))
    return result


def transformed(n: NodeContext, total: Operand, post: str) -> Operand:
    """Return the scores, converted to probabilities if that is requested."""
    if post == "NONE":
        return total
    if post == "LOGISTIC":
        return n.op("sigmoid", total)
    if post == "SOFTMAX":
        return n.op("nn.softmax", total, axis=1)
    if post == "SOFTMAX_ZERO":
        zero = n.op("equal", total, 0.0)
        e = n.op("where", zero, np.zeros((1, 1), total.dtype.numpy), n.op("exp", total))
        return n.op("divide", e, n.op("sum", e, axis=(1,), keepdims=True))
    n.refuse(f"post_transform={post} is not supported")


@converter("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(n: NodeContext) -> Any:
    """Convert an ensemble of trees whose leaves have separate attributes: a child is a leaf if nodes_trueleafs says
    so.
    """
    x = n[0]
    inner = len(n.attr("nodes_featureids"))
    ids, leaf_weights = n.attr("leaf_targetids"), np.asarray(n.attr("leaf_weights"))
    outputs = n.attr("n_targets")
    modes = np.asarray(n.attr("nodes_modes")).astype(np.int64)
    splits = np.asarray(n.attr("nodes_splits")).astype(x.dtype.numpy)
    n.ignore("nodes_hitrates")
    _require_equal_lengths(n, inner, "nodes_modes", "nodes_splits", "nodes_truenodeids", "nodes_trueleafs",
                            "nodes_falsenodeids", "nodes_falseleafs")  # fmt: skip
    _require_equal_lengths(n, len(ids), "leaf_weights")
    _require_places(n, "leaf_targetids", ids, outputs)
    _require_places(n, "tree_roots", n.attr("tree_roots"), inner)
    tracks = n.attr("nodes_missing_value_tracks_true", (0,) * inner)
    if len(tracks) != inner:
        _require_equal_lengths(n, inner, "nodes_missing_value_tracks_true")
    children = []
    for side in ("true", "false"):
        nodes, are_leaves = n.attr(f"nodes_{side}nodeids"), n.attr(f"nodes_{side}leafs")
        for leaf, count, what in ((0, inner, "nodes"), (1, len(ids), "leaves")):
            own = [c for c, flag in zip(nodes, are_leaves, strict=True) if bool(flag) == bool(leaf)]
            _require_places(n, f"nodes_{side}nodeids", own, count, what)
        children.append([c + inner if leaf else c for c, leaf in zip(nodes, are_leaves, strict=True)])
    count = inner + len(ids)
    weights = np.zeros((count, outputs), x.dtype.numpy)
    weights[inner + np.arange(len(ids)), list(ids)] = leaf_weights
    spoken = np.zeros(weights.shape, bool)
    spoken[inner + np.arange(len(ids)), list(ids)] = True
    own = list(range(inner, count))
    forest = Forest(
        roots=np.asarray(n.attr("tree_roots")),
        features=np.asarray([*n.attr("nodes_featureids"), *[0] * len(ids)]),
        modes=np.asarray([*modes, *[-1] * len(ids)]),
        thresholds=np.concatenate([splits, np.zeros(len(ids), splits.dtype)]),
        members=_member_sets(n, modes, count, x.dtype.numpy),
        missing_is_true=np.asarray([*tracks, *[0] * len(ids)]) != 0,
        taken=np.asarray([*children[0], *own]),
        other=np.asarray([*children[1], *own]),
        weights=weights,
        spoken=spoken,
    )
    aggregates = ("AVERAGE", "SUM", "MIN", "MAX")
    posts = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    aggregate, post = n.attr("aggregate_function", 1), n.attr("post_transform", 0)
    _require_places(n, "aggregate_function", [aggregate], len(aggregates), "functions")
    _require_places(n, "post_transform", [post], len(posts), "functions")
    total = scores(n, x, forest, aggregates[aggregate], plain=True)
    return transformed(n, total, posts[post])


def _require_equal_lengths(n: NodeContext, count: int, *names: str) -> None:
    """Raise `ModelError` for attribute lists without exactly one entry per node, or per leaf."""
    for name in names:
        if len(n.attr(name)) != count:
            raise ModelError(f"{n.where}: {name} has {len(n.attr(name))} entries, wanted {count}")


def _require_places(n: NodeContext, name: str, places: Sequence[int], count: int, what: str = "entries") -> None:
    """Raise `ModelError` for an attribute that refers to an entry that a table does not have."""
    for place in places:
        if not 0 <= place < count:
            raise ModelError(f"{n.where}: {name} has {place}, which is none of {count} {what}")


def _member_sets(n: NodeContext, modes: np.ndarray, count: int, dtype: Any) -> np.ndarray:
    """Return the sets in membership_values, which are separated by NaN, in the order of their nodes."""
    values = np.asarray(n.attr("membership_values", np.zeros(0))).astype(dtype)
    sets: list[list[float]] = [[]]
    for value in values.tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    asking = np.flatnonzero(modes == MEMBER)
    table = np.full((count, max(1, *map(len, sets))), np.nan, dtype)
    for node, members in zip(asking, sets, strict=False):
        table[node, : len(members)] = members
    return table


@converter("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(n: NodeContext) -> Any:
    x = n.cast(n[0], "float32")
    outputs = n.attr("n_targets", 1)
    total = scores(n, x, _by_names(n, "target", outputs), n.attr("aggregate_function", "SUM"))
    base = n.attr("base_values", ())
    if len(base):
        total = n.op("add", total, np.asarray(base, np.float32)[None])
    return transformed(n, total, n.attr("post_transform", "NONE"))


@converter("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(n: NodeContext) -> Any:
    """Return the label with the highest score (the lower one if equal). Two classes may share one column of scores."""
    x = n.cast(n[0], "float32")
    if n.has("classlabels_strings"):
        n.refuse("labels that are strings are not supported")
    labels = np.asarray(n.attr("classlabels_int64s"), np.int64)
    base = n.attr("base_values", ())
    post = n.attr("post_transform", "NONE")
    ids = set(n.attr("class_ids"))
    if len(labels) == 2 and len(ids) == 1:
        return _of_one_column(n, scores(n, x, _by_names(n, "class", 1, ids.pop()), "SUM"), labels, base, post)
    total = scores(n, x, _by_names(n, "class", len(labels)), "SUM")
    if len(base):
        total = n.op("add", total, np.asarray(base, np.float32)[None])
    best = n.op("argmax", total, axis=(1,), keepdims=False)
    return n.op("take", labels, best, axis=0), transformed(n, total, post)


def _of_one_column(n: NodeContext, score: Operand, labels: np.ndarray, base: Sequence[float], post: str) -> Any:
    """Return the results for two classes if the trees only give the score of the second class."""
    if len(base):
        score = n.op("add", score, float(base[-1]))
    positive_only = min(n.attr("class_weights")) >= 0  # then the score is a probability
    if post == "LOGISTIC":
        sure = n.op("sigmoid", score)
        both = n.op("concatenate", n.op("subtract", np.ones((1, 1), np.float32), sure), sure, axis=1)
    elif positive_only:
        both = n.op("concatenate", n.op("subtract", np.ones((1, 1), np.float32), score), score, axis=1)
    elif post == "NONE":
        both = n.op("concatenate", n.op("negative", score), score, axis=1)
    else:
        n.refuse(f"post_transform={post} of two classes with one score is not supported")
    second = n.op("greater", n.op("squeeze", score, axis=(1,)), 0.5 if positive_only else 0.0)
    return n.op("take", labels, n.cast(second, "int64"), axis=0), both


def _by_names(n: NodeContext, kind: str, outputs: int, first: int = 0) -> Forest:
    """Return the forest from the attributes nodes_* and target_* or class_*, whose outputs count from `first`."""
    for name in ("nodes_values", f"{kind}_weights", "base_values"):
        if n.has(f"{name}_as_tensor"):
            n.refuse_attribute(f"{name}_as_tensor")
    n.ignore("nodes_hitrates")
    trees, ids = n.attr("nodes_treeids"), n.attr("nodes_nodeids")
    _require_equal_lengths(n, len(trees), "nodes_nodeids")
    number = {key: k for k, key in enumerate(zip(trees, ids, strict=True))}
    count = len(trees)
    _require_equal_lengths(n, count, "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids",
                           "nodes_featureids", "nodes_values")  # fmt: skip
    if n.has("nodes_missing_value_tracks_true"):
        _require_equal_lengths(n, count, "nodes_missing_value_tracks_true")
    leaves_of = [n.attr(f"{kind}_{name}") for name in ("treeids", "nodeids", "ids", "weights")]
    if len({len(each) for each in leaves_of}) > 1:
        raise ModelError(f"{n.where}: {kind}_treeids, {kind}_nodeids, {kind}_ids and {kind}_weights differ in length")
    _require_places(n, f"{kind}_ids", [output - first for output in leaves_of[2]], outputs)
    missing = [key for key in zip(leaves_of[0], leaves_of[1], strict=True) if key not in number]
    if missing:
        raise ModelError(
            f"{n.where}: {kind}_nodeids names node {missing[0][1]} of tree {missing[0][0]}, which is not there"
        )
    modes = np.asarray([-1 if mode == "LEAF" else MODES.index(mode) for mode in n.attr("nodes_modes")])

    def children(side: str) -> np.ndarray:
        given = zip(trees, n.attr(f"nodes_{side}nodeids"), modes, strict=True)
        places = [k if mode < 0 else number.get((tree, c), -1) for k, (tree, c, mode) in enumerate(given)]
        if -1 in places:
            child = n.attr(f"nodes_{side}nodeids")[places.index(-1)]
            raise ModelError(f"{n.where}: nodes_{side}nodeids names node {child}, which its tree does not have")
        return np.asarray(places)

    taken, other = children("true"), children("false")
    below = {int(c) for side in (taken, other) for k, c in enumerate(side) if c != k}
    weights, has_weight = np.zeros((count, outputs), np.float32), np.zeros((count, outputs), bool)
    spoken = [output - first for output in n.attr(f"{kind}_ids")]
    for key in zip(
        n.attr(f"{kind}_treeids"), n.attr(f"{kind}_nodeids"), spoken, n.attr(f"{kind}_weights"), strict=True
    ):
        weights[number[key[0], key[1]], key[2]] += np.float32(key[3])
        has_weight[number[key[0], key[1]], key[2]] = True
    forest = Forest(
        roots=np.asarray([k for k in range(count) if k not in below]),
        features=np.where(modes < 0, 0, np.asarray(n.attr("nodes_featureids"))),
        modes=modes,
        thresholds=np.asarray(n.attr("nodes_values"), np.float32),
        members=np.full((count, 1), np.nan, np.float32),
        missing_is_true=np.asarray(n.attr("nodes_missing_value_tracks_true", (0,) * count)) != 0,
        taken=taken,
        other=other,
        weights=weights,
        spoken=has_weight,
    )
    return forest
