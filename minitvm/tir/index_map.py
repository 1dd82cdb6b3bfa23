"""`IndexMap`: a map from indices to indices in another layout, such as `lambda i, j: (j // 4, i, j % 4)`.

It follows TVM's class of the same name. A map is injective on a shape if no two elements are mapped to the same
location. Locations of the new shape that stay empty are *padding*. Both properties are decided from the quasi-affine
form of the map (`arith.iter_map`). If the map does not have this form (for example, because it contains an exclusive
or), we enumerate the elements, provided that the shape is constant.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .. import expr as ex
from ..arith import Analyzer, iter_check, iter_map, simplify
from ..arith.affine import Affine
from ..errors import InputError
from .conditions import all_of, is_const
from .index_sums import padded_edges, with_remainders, with_unit_places
from .python_text import python
from .values import NotAnIndex, values

LARGEST = 1 << 20  # the most elements of a shape that are checked one by one


def _inside(dims: Sequence[ex.Expr], extents: Mapping[ex.Var, ex.Expr]) -> Analyzer:
    """Return an analyzer that knows that each variable is in [0, extent), and that sizes are not negative."""
    analyzer = Analyzer()
    for dim in dims:
        if isinstance(dim, ex.Var):
            analyzer.bind(dim, (0, None))
    for var, extent in extents.items():
        analyzer.bind(var, ex.Range(ex.const(0, extent.dtype), extent))
    return analyzer


class NotInjective(InputError):
    """Raised if two elements are mapped to the same location, or if the map could not be proved injective."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndexMap:
    """A function from indices to indices: `final_indices` are expressions over the variables `initial_indices`.

    If the inverse cannot be computed, you can pass it as `inverse_index_map`. Indices may have any integer dtype, as
    long as it is the same for all. Other variables are sizes, such as n in `lambda i, j: (j * n + i,)`.
    """

    initial_indices: tuple[ex.Var, ...]
    final_indices: tuple[ex.Expr, ...]
    inverse_index_map: IndexMap | None = None
    shapes: dict[tuple[Any, ...], list[ex.Expr]] = field(default_factory=dict)  # the results of `map_shape`

    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str | Sequence[str] = "int32",
    ) -> IndexMap:
        """Build a map from a Python function of index variables that returns an expression or a list. `ndim` is
        required if the function has `*args`.

        Raises `InputError` if the function returns axis separators; use `from_func_with_separators` for these.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise InputError("the map has axis separators\n  try:    IndexMap.from_func_with_separators")
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str | Sequence[str] = "int32",
    ) -> tuple[IndexMap, list[int]]:
        """Return the map and the list of positions at which the function returned `IndexMap.AXIS_SEPARATOR`."""
        variables = index_variables(mapping_function, ndim, index_dtype)
        returned = checked_indices(mapping_function(*variables))
        results = list(returned) if isinstance(returned, list | tuple) else [returned]
        finals: list[ex.Expr] = []
        separators: list[int] = []
        for result in results:
            if _is_separator(result):
                separators.append(len(finals))
                continue
            value = ex.as_expr(result)
            if not value.dtype.is_int:
                raise InputError(f"an index map gives integers; found {value} of dtype {value.dtype}")
            finals.append(value)
        inverse = inverse_index_map
        if inverse is None and hasattr(mapping_function, "parameters"):  # a function from a trace
            inverse = getattr(mapping_function, "inverse", None)
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, ndim=len(finals), index_dtype=index_dtype)
        return IndexMap(variables, tuple(finals), inverse), separators

    def simplified(self) -> IndexMap:
        """Return the map with simplified expressions, as traces store it. An index that has no influence, such as i in
        `i % 1`, disappears.
        """
        finals = tuple(map(simplify, self.final_indices))
        return IndexMap(self.initial_indices, finals, self.inverse_index_map, self.shapes)

    # ------------------------------------------------------------------ applying it

    def map_indices(self, indices: Sequence[Any]) -> list[ex.Expr]:
        """Return the new indices of the element at `indices`.

        An index of a narrower dtype is widened to the dtype of the map's variables.
        """
        if len(indices) != len(self.initial_indices):
            raise InputError(f"{self}: wanted {len(self.initial_indices)} indices, found {len(indices)}")
        values = {
            var: _widened(ex.as_expr(index), var) for var, index in zip(self.initial_indices, indices, strict=True)
        }
        if all(var.dtype == value.dtype for var, value in values.items()):
            return [ex.substitute(e, values) for e in self.final_indices]
        return [_retyped(e, values) for e in self.final_indices]

    def __call__(self, *indices: Any) -> list[ex.Expr]:
        return self.map_indices(indices)

    def map_shape(self, shape: Sequence[Any], analyzer: Analyzer | None = None) -> list[ex.Expr]:
        """Return the shape of the new layout: it holds all elements of `shape` after the map, possibly with padding.
        Constants stay `IntImm`s.

        It is the smallest such shape, except that the remainder of a division by a constant always gets its full range.
        For example, 3 elements in tiles of 4 need 4 locations, as in TVM.

        Raises `InputError` if an index may become negative, or if its largest value is not known.
        """
        dims = tuple(map(ex.as_expr, shape))
        key = tuple(d.value if isinstance(d, ex.IntImm) else d for d in dims)
        if key not in self.shapes:
            self.shapes[key] = self._mapped_shape(dims, analyzer or Analyzer())
        return list(self.shapes[key])

    def _mapped_shape(self, dims: tuple[ex.Expr, ...], analyzer: Analyzer) -> list[ex.Expr]:
        extents = [self._extent(row, dims, analyzer) for row in range(len(self.final_indices))]
        if all(e is not None for e in extents):
            whole = [_divisor(final) for final in self.final_indices]
            return [
                e if c is None else ex.const(c, e.dtype) for e, c in zip(extents, whole, strict=True) if e is not None
            ]
        table = self._table(dims)
        if table is None:
            unknown = self.final_indices[extents.index(None)]
            raise InputError(f"{self}: the range of {unknown} is not known for the shape ({_listed(dims)})")
        if table.size and table.min() < 0:
            raise InputError(f"{self}: an index becomes {int(table.min())}, below zero")
        tops = table.max(axis=1) + 1 if table.shape[1] else np.zeros(len(table), np.int64)
        return [ex.const(int(top), self._dtype(dims)) for top in tops]

    def map_ndarray(self, array: Any) -> Any:
        """Rearrange a NumPy array into the new layout, with zeros as padding. Raises `InputError` if the map depends on
        a size.
        """
        others = self._others()
        if others:
            raise InputError(f"{self}: it depends on {', '.join(v.name for v in others)}, which has no value here")
        shape = [int(d) for d in self.map_shape([ex.const(n) for n in array.shape]) if isinstance(d, ex.IntImm)]
        places = self._places(np.indices(array.shape).reshape(array.ndim, -1))
        moved = np.zeros(shape, array.dtype)
        moved[tuple(places)] = array.reshape(-1)
        return moved

    # ------------------------------------------------------------------ the way back

    def why_not_injective(self, shape: Sequence[Any]) -> str | None:
        """Return None if no two elements of a shape are mapped to the same location. Otherwise return an example of two
        that are, or why this could not be decided.
        """
        dims = tuple(map(ex.as_expr, shape))
        form = self._form(dims)
        if form is not None and form[0]:
            return None
        table = self._table(dims)
        if table is None:
            return form[0].errors[0] if form is not None else "it could not be shown"
        _, first, inverse = np.unique(table, axis=1, return_index=True, return_inverse=True)
        if len(first) == table.shape[1]:
            return None
        counted = np.bincount(inverse.reshape(-1), minlength=len(first))
        pair = np.flatnonzero(inverse.reshape(-1) == int(np.argmax(counted > 1)))[:2]
        sizes = tuple(int(d) for d in dims if isinstance(d, ex.IntImm))
        one, other = (tuple(int(x) for x in np.unravel_index(p, sizes)) for p in pair)
        return f"{_point(one)} and {_point(other)} both go to {_point([int(x) for x in table[:, pair[0]]])}"

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, ex.Expr]:
        """Return (the inverse map, the condition under which a location is padding), both in terms of the new indices.

        The inverse is correct at every location that is not padding. Raises `NotInjective` if two elements are mapped
        to the same location, or if no inverse can be found.
        """
        dims = tuple(map(ex.as_expr, shape))
        reason = self.why_not_injective(dims)
        if reason is not None:
            raise NotInjective(f"{self} has no inverse: {reason}")
        dtype = self._dtype(dims)
        places = tuple(ex.Var(f"axis{k}", dtype) for k in range(len(self.final_indices)))
        back = self._way_back(dims, places)
        if back is None:
            raise NotInjective(f"{self}: its inverse is not known\n  try:    give inverse_index_map")
        return IndexMap(places, back), self._padding(dims, places, back)

    def image(self, shape: Sequence[Any], places: IndexMap) -> list[ex.Expr]:
        """Return the conditions under which a location of the new shape is not padding, in terms of the indices of the
        inverse map.
        """
        dims = tuple(map(ex.as_expr, shape))
        return self._filled(dims, places.initial_indices, places.final_indices)

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """Return the inverse map; raise `NotInjective` if the new shape has padding."""
        back, padding = self.non_surjective_inverse(shape)
        if not is_const(padding, 0):
            raise NotInjective(f"{self} leaves padding where {padding}\n  try:    non_surjective_inverse")
        return back

    def _padding(self, dims: tuple[ex.Expr, ...], places: tuple[ex.Var, ...], back: tuple[ex.Expr, ...]) -> ex.Expr:
        # A place y is in the image exactly if back(y) is inside the shape and f(back(y)) = y. If y = f(x), then back(y)
        # = x, which is inside. Conversely, y is then the image of back(y).
        conditions = self._filled(dims, places, back)
        if not conditions:
            return ex.const(False)
        if (edges := padded_edges(dims, self.map_shape(dims), places, back, len(conditions))) is not None:
            return edges
        inside = _inside(dims, dict(zip(places, self.map_shape(dims), strict=True)))
        filled: ex.Expr = inside.simplify(all_of(conditions))
        padding: ex.Expr = inside.simplify(ex.Not(filled))
        return padding

    def _filled(
        self, dims: tuple[ex.Expr, ...], places: tuple[ex.Var, ...], back: tuple[ex.Expr, ...]
    ) -> list[ex.Expr]:
        if self.fills(dims):
            return []
        inside = _inside(dims, dict(zip(places, self.map_shape(dims), strict=True)))
        conditions: list[ex.Expr] = []
        for value, dim in zip(back, dims, strict=True):
            conditions += [c for c in (value >= 0, value < dim) if not inside.can_prove(c)]
        with inside.constraint(*conditions):
            for place, value in zip(places, self.map_indices(back), strict=True):
                if not inside.can_prove_equal(place, value):
                    conditions.append(ex.EQ(*_matched(inside.simplify(value), place)))
        return conditions

    def fills(self, shape: Sequence[Any]) -> bool:
        """Return whether this map, which must be injective, provably leaves no padding: every element of
        `map_shape(shape)` is the image of an element of `shape`.
        """
        dims = tuple(map(ex.as_expr, shape))
        before, after = (
            math.prod(d.value for d in s if isinstance(d, ex.IntImm)) for s in (dims, self.map_shape(dims))
        )
        if all(isinstance(d, ex.IntImm) for d in (*dims, *self.map_shape(dims))):
            return before == after
        form = self._form(dims, level="bijective")
        if form is None or not form[0]:
            return False
        normal, moved = form
        # The map is bijective onto a box; the box begins at zero if nothing is added before or after.
        return not any(shift for _, shift in moved.values()) and all(row.base == Affine({}) for row in normal.sums)

    def _way_back(self, dims: tuple[ex.Expr, ...], places: tuple[ex.Var, ...]) -> tuple[ex.Expr, ...] | None:
        if self.inverse_index_map is not None:
            return self._given_back(dims, places)
        form = self._form(dims)
        if form is None or not form[0]:
            return None
        normal, moved = form
        inside = _inside(dims, dict(zip(places, self.map_shape(dims), strict=True)))
        try:
            values = iter_check.inverse(normal, places, inside)
        except ValueError:  # it is not known which digit is the lower one
            return None
        back: list[ex.Expr] = []
        for var, dim in zip(self.initial_indices, dims, strict=True):
            shift = moved[var]
            value = values.get(shift[0], ex.const(shift[1], dim.dtype))
            back.append(with_remainders(inside.simplify(value.astype(dim.dtype) - shift[1])))
        return with_unit_places(back, self.initial_indices, self.final_indices, places, self.map_shape(dims))

    def _given_back(self, dims: tuple[ex.Expr, ...], places: tuple[ex.Var, ...]) -> tuple[ex.Expr, ...] | None:
        """Return the inverse that the caller passed if it really is an inverse, otherwise None."""
        assert self.inverse_index_map is not None
        domains = {v: ex.Range(ex.const(0, d.dtype), d) for v, d in zip(self.initial_indices, dims, strict=False)}
        analyzer = _inside(dims, {v: r.extent for v, r in domains.items()})
        again = self.inverse_index_map.map_indices(self.final_indices)
        if len(again) != len(dims):
            return None
        if not all(analyzer.can_prove_equal(v, e) for v, e in zip(self.initial_indices, again, strict=False)):
            table = self._table(dims)
            if table is None or self.inverse_index_map._others():
                return None
            sizes = tuple(int(d) for d in dims if isinstance(d, ex.IntImm))
            if not np.array_equal(self.inverse_index_map._places(table), np.indices(sizes).reshape(len(sizes), -1)):
                return None
        return tuple(self.inverse_index_map.map_indices(places))

    # ------------------------------------------------------------------ how it is seen

    def _dtype(self, dims: Sequence[ex.Expr]) -> ex.DType:
        return ex.DType("int64" if any(d.dtype == "int64" for d in dims) else "int32")

    def _form(
        self, dims: tuple[ex.Expr, ...], level: str = "injective"
    ) -> tuple[iter_map.IterMap, dict[ex.Var, tuple[ex.Var, int]]] | None:
        """Return the quasi-affine form of the map over shifted variables: each index is replaced by a variable s =
        index + c with a constant c.

        For example, `(i + 5) // 4` is a quotient of s = i + 5, so its form needs a variable that starts at 5.
        """
        if len(dims) != len(self.initial_indices):
            raise InputError(f"{self}: wanted a shape of {len(self.initial_indices)} dimensions, found {len(dims)}")
        for shifts in (dict.fromkeys(self.initial_indices, 0), self._shifts()):
            moved = {v: (ex.Var(v.name, d.dtype), shifts[v]) for v, d in zip(self.initial_indices, dims, strict=True)}
            domains = {
                moved[v][0]: ex.Range(ex.const(0, d.dtype), d + moved[v][1]) for v, d in zip(moved, dims, strict=True)
            }
            inside = _inside(dims, {v: r.extent for v, r in domains.items()})
            rows = self.map_indices([s - c if c else s for s, c in moved.values()])
            normal = iter_map.detect([inside.simplify(r) for r in rows], domains, level=level)
            if normal or not any(self._shifts().values()):
                break
        return normal, moved

    def _shifts(self) -> dict[ex.Var, int]:
        shifts = dict.fromkeys(self.initial_indices, 0)
        for part in (p for e in self.final_indices for p in ex.walk(e)):
            if not isinstance(part, ex.FloorDiv | ex.FloorMod):
                continue
            inner = Analyzer().simplify(part.a)
            used = [v for v in ex.free_vars(inner) if v in shifts]
            if len(used) == 1:
                offset = Analyzer().simplify(inner - used[0])
                if isinstance(offset, ex.IntImm) and offset.value > 0:
                    shifts[used[0]] = offset.value
        return shifts

    def _extent(self, row: int, dims: tuple[ex.Expr, ...], analyzer: Analyzer) -> ex.Expr | None:
        """Return the extent that the final index number `row` needs: its largest value plus one. Return None if the
        value is unknown, or if the index may be negative.
        """
        domains = {v: ex.Range(ex.const(0, d.dtype), d) for v, d in zip(self.initial_indices, dims, strict=True)}
        (value,) = (self.map_indices(list(self.initial_indices))[row],)
        dtype = self._dtype(dims)
        inside = _inside(dims, {v: r.extent for v, r in domains.items()})
        low, high = inside.bounds(value)
        if any(not isinstance(d, ex.IntImm) for d in dims):
            normal = iter_map.detect([inside.simplify(value)], domains, level="none")
            if not normal or not all(inside.domain.nonnegative(s.scale) for s in normal.sums[0].args):
                return None
            total = normal.sums[0].base + 1
            for split in normal.sums[0].args:
                reach = iter_check.multiply(split.scale, split.extent - 1)
                if reach is None:
                    return None
                total = total + reach
            if not inside.domain.nonnegative(normal.sums[0].base):
                return None
            extent: ex.Expr = analyzer.simplify(analyzer.to_expr(total, dtype))
            return extent
        if not all(isinstance(d, ex.IntImm) and d.value > 0 for d in dims):
            return None
        exact = iter_map.detect([inside.simplify(value)], domains, level="none") or bool(self._others())
        if not exact or low is None or high is None or int(low) < 0:
            return None
        return ex.const(int(high) + 1, dtype)

    def _table(self, dims: tuple[ex.Expr, ...]) -> np.ndarray[Any, Any] | None:
        """Return the new location of each element of a constant shape, with one row per final index.

        Returns None if the shape is too large or not constant, or if the map depends on variables other than
        the indices.
        """
        sizes = [d.value for d in dims if isinstance(d, ex.IntImm)]
        if len(sizes) < len(dims) or math.prod(sizes) > LARGEST or self._others():
            return None
        return self._places(np.indices(sizes).reshape(len(sizes), -1))

    def _others(self) -> list[ex.Var]:
        """Return the variables of the map that are not among its indices."""
        used = dict.fromkeys(v for e in self.final_indices for v in ex.free_vars(e))
        return [v for v in used if v not in self.initial_indices]

    def _places(self, points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        at = dict(zip(self.initial_indices, points.astype(np.int64), strict=True))
        count = points.shape[1]
        try:
            with np.errstate(divide="raise"):
                rows = [np.broadcast_to(np.asarray(values(e, at), np.int64), (count,)) for e in self.final_indices]
        except (FloatingPointError, ZeroDivisionError):
            raise InputError(f"{self} divides by zero") from None
        except NotAnIndex as part:
            raise InputError(
                f"{part} is no index expression: only sums, products, //, %, min, max and bit operations are"
            ) from None
        return np.stack(rows) if rows else np.zeros((0, count), np.int64)

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Return whether two maps are equal after simplification, apart from the names of their indices."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        mine = [Analyzer().simplify(e) for e in self.final_indices]
        theirs = [Analyzer().simplify(e) for e in other.map_indices(self.initial_indices)]
        return ex.structural_equal(tuple(mine), tuple(theirs))

    def __repr__(self) -> str:
        names = ", ".join(v.name for v in self.initial_indices)
        return f"lambda{' ' if names else ''}{names}: ({_listed([*map(python, self.final_indices)], trailing=True)})"


def checked_indices(result: Any) -> Any:
    """Check the result of a caller's index function; raise `InputError` unless it is an expression, or nested lists of
    expressions.
    """
    if isinstance(result, list | tuple):
        return type(result)(map(checked_indices, result))
    if isinstance(result, ex.Expr | str | int | float | np.generic):
        return result
    raise InputError(f"a function of indices gives expressions, or lists of them; found {result!r}")


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of an index function; raise `InputError` if Python cannot determine them, as for `type`."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InputError(f"an index map is a function of indices, found {function!r}") from None


def index_variables(
    function: Callable[..., Any], ndim: int | None, dtype: str | Sequence[str] = "int32"
) -> tuple[ex.Var, ...]:
    """Create the variables for calling an index function. If it has `*indices`, `ndim` is their number. Raises
    `InputError` if the function cannot be called this way.

    `dtype` is a common dtype for all variables, or a list with one for each.
    """
    names: list[str] = []
    parameters = getattr(function, "parameters", None)  # of a function from a trace
    if parameters is not None:
        names = [v.name for v in parameters]
    else:
        for parameter in _parameters(function):
            if parameter.kind is parameter.VAR_POSITIONAL:
                if ndim is None:
                    raise InputError(f"an index map that takes *{parameter.name} needs ndim")
                names += [f"i{k}" for k in range(len(names), ndim)]
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(parameter.name)
            else:
                raise InputError(f"an index map takes indices by position; found {parameter}")
    if ndim is not None and len(names) != ndim:
        raise InputError(f"an index map of {ndim} indices: its function takes {len(names)}")
    dtypes = [dtype] * len(names) if isinstance(dtype, str) else dtype
    return tuple(ex.Var(name, ex.DType(one)) for name, one in zip(names, dtypes, strict=True))


def _divisor(e: ex.Expr) -> int | None:
    """Return the constant c if an index has the form `x % c`; None otherwise."""
    return e.b.value if isinstance(e, ex.FloorMod) and isinstance(e.b, ex.IntImm) and e.b.value > 0 else None


def _is_separator(value: Any) -> bool:
    text = value.value if isinstance(value, ex.StringImm) else value
    return isinstance(text, str) and text == IndexMap.AXIS_SEPARATOR


def _matched(a: ex.Expr, b: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
    dtype = "int64" if "int64" in (a.dtype, b.dtype) else a.dtype
    return a.astype(dtype), b.astype(dtype)


def _widened(index: ex.Expr, var: ex.Var) -> ex.Expr:
    """Widen an index to the dtype of a variable. For example, `129 - i0` does not fit into an int8 index."""
    narrow = index.dtype.is_int and index.dtype.bits < var.dtype.bits
    return index.astype(var.dtype) if narrow else index


def _retyped(e: ex.Expr, values: dict[ex.Var, ex.Expr]) -> ex.Expr:
    """Rebuild an expression with variables of another dtype, so that its constants take on this dtype too."""
    if isinstance(e, ex.Var):
        return values.get(e, e)
    if isinstance(e, ex.BinaryOp):
        return ex.binary(type(e), _retyped(e.a, values), _retyped(e.b, values))
    if isinstance(e, ex.Cast):
        return _retyped(e.value, values).astype(e.dtype)
    if isinstance(e, ex.Call):
        args = [_retyped(a, values) for a in e.args]
        dtype = "int64" if any(a.dtype == "int64" for a in args) else e.dtype
        return ex.Call(
            args[0].dtype.__class__(dtype), e.op, tuple(a.astype(dtype) if a.dtype.is_int else a for a in args)
        )
    return e


def _listed(items: Sequence[Any], trailing: bool = False) -> str:
    return ", ".join(map(str, items)) + ("," if trailing and len(items) == 1 else "")


def _point(point: Sequence[int]) -> str:
    return f"({_listed(point, trailing=True)})"
