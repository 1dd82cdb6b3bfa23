"""`Film`: the steps of a program, recorded while the reference interpreter runs it, as an animated picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ExecutionError, InputError
from ...expr import Expr, IntImm, children, substitute, walk
from ...tir import nodes as t
from .cache_contents import Cache, Stay
from .drawing import draw
from .layout import Panel
from .recording import Recording, Touch, values

MOST_MOMENTS, MOST_BYTES = 320, 90_000


@dataclass
class Moment:
    """The part of a film that is shown at one time: the accesses in their order, those that missed the cache, the
    values of loops, and the lines of the program.
    """

    touches: list[Touch] = field(default_factory=list)
    missed: list[Touch] = field(default_factory=list)
    loops: set[tuple[int, int]] = field(default_factory=set)  # of a loop's line its identity; the value
    lines: set[int] = field(default_factory=set)


@dataclass
class Reel:
    """All moments of a film: each shows `steps` steps; `stays` are those of lines in the cache."""

    moments: list[Moment]
    steps: int
    cache: Cache | None
    stays: list[Stay]


@dataclass(frozen=True)
class Mark:
    """An element at which the program does something undefined, from a moment on; None if there is only a message."""

    moment: int
    touch: Touch | None


class Film(Recording):
    """An animated picture of what a program reads and writes, in the order in which it runs.

    `Film.of(program, *arrays)` runs the program and returns its film. A film is also a listener of the reference
    interpreter, for a run of your own: `reference.tir.run(program, *arrays, listeners=[film])`.

    A cache of `cache_lines` lines of `line_bytes` bytes is shown if there is one: the lines that it holds, and each
    access that misses it. `buffers` names the buffers to draw, by default all. `title` is the line above the picture.
    A program with more than `moments` steps shows several steps at a time.
    """

    def __init__(
        self,
        program: Any,
        *,
        cache_lines: int = 0,
        line_bytes: int = 16,
        buffers: Sequence[str] | None = None,
        title: str = "",
        moments: int = MOST_MOMENTS,
    ) -> None:
        functions = _functions(program)
        super().__init__(functions[0].name)
        if cache_lines < 0 or line_bytes < 1 or moments < 1:
            raise InputError(
                f"the film of {self.name} cannot be drawn\n"
                "  wanted: cache_lines of 0 or more, line_bytes and moments of 1 or more\n"
                f"  found:  cache_lines={cache_lines}, line_bytes={line_bytes}, moments={moments}"
            )
        self.title = title or self.name
        self.cache_lines, self.line_bytes, self.most_moments = cache_lines, line_bytes, moments
        self.buffers = None if buffers is None else list(buffers)
        self.error: ExecutionError | None = None
        self.shapes: dict[str, tuple[int, ...]] = {b.name: _extents(b) for f in functions for b in _buffers(f)}
        self.texts: dict[int, str] = dict(_statements(functions))
        self._functions = functions  # their nodes stay alive: `texts` knows them by their identity

    @classmethod
    def of(
        cls,
        program: Any,
        *arrays: Any,
        inout: Sequence[str] = (),
        sizes: Mapping[str, int] | None = None,
        **options: Any,
    ) -> Film:
        """Run a function, a lowered module or the result of a schedule on arrays, and return its film.

        Without arrays, random ones are made. The arrays are not changed. A first run looks for undefined behaviour:
        the film marks the place, and `error` is the message. `inout` names outputs that have values before the run,
        and `sizes` gives open dimensions by name.
        """
        from ...reference import random_inputs
        from ...reference.judging.programs import is_lowered
        from ...reference.tir import entry_function

        program = _runnable(program)
        film = cls(program, **options)
        if not is_lowered(program):
            # The interpreter runs this form, in which each thread's own storage and turns are written out.
            film.texts |= _statements([entry_function(program, None)])
        inputs = list(arrays or random_inputs(program, sizes=sizes))
        for parameter, array in zip(film._functions[0].params, inputs, strict=False):
            if isinstance(array, np.ndarray) and array.ndim:
                film.shapes[parameter.name] = array.shape
        for listeners in ((), (film,)):
            try:
                # The second run does not stop at the first fault: the film shows all iterations.
                _run(program, inputs, inout, sizes or {}, listeners)
            except ExecutionError as error:
                film.error = film.error or error
        return film

    # --- the film ----------------------------------------------------------------------------------------------------

    def reel(self, moments: int | None = None) -> Reel:
        """The film in at most so many moments."""
        self.close()
        limit = moments or self.most_moments
        steps = max(1, -(-len(self.groups) // limit))
        reel = Reel([], steps, Cache(self.cache_lines, self.line_bytes) if self.cache_lines else None, [])
        for number, group in enumerate(self.groups):
            if number % steps == 0:
                reel.moments.append(Moment())
            moment = reel.moments[-1]
            for step in group:
                moment.touches += step.touches
                moment.loops |= {(id(line), value) for line, value in step.loops}
                moment.lines.add(id(step.line))
                if reel.cache is not None:
                    moment.missed += [one for one in step.touches if self._misses(reel.cache, one, number // steps)]
        if reel.cache is not None:
            reel.stays = reel.cache.all_stays()
        return reel

    def marks(self, reel: Reel) -> list[Mark]:
        """Where the error of the run belongs: the elements of its accesses, from the last of them on."""
        finding = getattr(self.error, "finding", None)
        if self.error is None:
            return []
        last = max(0, len(reel.moments) - 1)
        spots = [self._spot(finding, access) for access in finding.accesses] if finding is not None else []
        places = [spot for spot in spots if spot is not None]
        if finding is None or not places or finding.kind not in ("conflict", "uninitialised read"):
            element = None
            if finding is not None and finding.kind == "output not written":
                element = Touch("written", finding.buffer, _flat(finding.index, self.shapes.get(finding.buffer, ())))
            return [Mark(last, element)]
        moment = max(group for group, _ in places) // reel.steps
        return [Mark(moment, touch) for touch in {touch.offset: touch for _, touch in places}.values()]

    def panels(self) -> list[Panel]:
        """The grids of the buffers: parameters first, then the others as they are first touched."""
        names = [name for name in dict.fromkeys([*self.shapes, *self.sizes]) if name in self.sizes]
        if self.buffers is not None:
            unknown = [name for name in self.buffers if name not in names]
            if unknown:
                raise InputError(
                    f"the film of {self.name} has no buffer {unknown[0]!r}\n  wanted: {', '.join(names) or 'none'}\n"
                    f"  found:  buffers={self.buffers}"
                )
            names = self.buffers
        return [Panel.of(name, self.shapes.get(name, ()), self.sizes[name][0]) for name in names]

    def svg(self) -> str:
        """The film as SVG, with as many moments as fit into 90,000 bytes."""
        moments = self.most_moments
        text = draw(self, self.reel(moments))
        while len(text.encode()) > MOST_BYTES and moments > 8:
            moments = max(8, min(moments, len(self.groups)) * 2 // 3)
            text = draw(self, self.reel(moments))
        return text

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a file and return its path."""
        Path(path).write_text(self.svg(), encoding="utf-8")
        return Path(path)

    def _misses(self, cache: Cache, touch: Touch, moment: int) -> bool:
        if not self.scopes[touch.buffer].startswith("global"):
            return False  # registers and scratchpads are not cached
        return not cache.access(touch.buffer, touch.offset, self.sizes[touch.buffer][1], moment)

    def _spot(self, finding: Any, access: Any) -> tuple[int, Touch] | None:
        """The step and the element of an access that an error names."""
        iteration, shape = dict(access.loops), self.shapes.get(finding.buffer, ())
        offset = _flat(finding.index, shape) if len(finding.index) == len(shape) else None
        for number, group in enumerate(self.groups):
            for step in group:
                at = values(step.loops)
                if all(at.get(name, value) == value for name, value in iteration.items()):
                    for touch in step.touches:
                        same = touch.buffer == finding.buffer and touch.verb == access.verb
                        if same and offset in (None, touch.offset):
                            return number, touch
        return None


def _functions(program: Any) -> list[t.PrimFunc]:
    """The functions of a program, the one that is called first in front."""
    program = getattr(program, "mod", program)  # of a schedule
    if isinstance(program, t.PrimFunc):
        return [program]
    if not isinstance(program, t.IRModule) or not program.functions:
        raise InputError(
            f"a film cannot be made of this\n  wanted: a PrimFunc, an IRModule or a Schedule\n"
            f"  found:  {type(program).__name__}"
        )
    functions = [function for _, function in program.items()]
    return sorted(functions, key=lambda function: not function.attrs.get("host"))


def _runnable(program: Any) -> t.PrimFunc | t.IRModule:
    """A function, or a host function with its kernels."""
    functions = _functions(program)
    if isinstance(program, t.PrimFunc) or len(functions) == 1:
        return functions[0]
    if not functions[0].attrs.get("host"):
        raise InputError(
            "a film shows one function\n"
            f"  found:  a module with {', '.join(f.name for f in functions)}\n"
            f"  try:    Film.of(module[{functions[0].name!r}])"
        )
    return getattr(program, "mod", program)


def _run(
    program: Any, inputs: Sequence[Any], inout: Sequence[str], sizes: Mapping[str, int], listeners: Sequence[Any]
) -> None:
    """Run on copies, with a look at what is undefined if nobody listens."""
    from ...reference import kernel, tir
    from ...reference.judging.programs import is_lowered

    copies = [one.copy() if isinstance(one, np.ndarray) else one for one in inputs]
    if is_lowered(program):  # flat buffers do not tell each dimension
        kernel.run(program, *copies, shadow=not listeners, listeners=listeners, inout=inout, sizes=sizes)
    else:
        tir.run(program, *copies, shadow=not listeners, listeners=listeners, inout=inout)


def _buffers(func: t.PrimFunc) -> Iterator[t.Buffer]:
    yield from func.buffers
    for node in walk(func.body):
        if isinstance(node, t.Block):
            yield from node.alloc_buffers
        elif isinstance(node, t.Allocate):
            yield node.buffer


def _extents(buffer: t.Buffer) -> tuple[int, ...]:
    """The shape, if it is known; a lone 0 otherwise."""
    constants = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
    return tuple(constants) if len(constants) == len(buffer.shape) else (0,)


def _statements(functions: Sequence[t.PrimFunc]) -> Iterator[tuple[int, str]]:
    """The text of each store, with the values that its block gives to its iterators."""
    from ...reference.meaning.text import statement_text

    def visit(node: Any, bound: Mapping[Any, Expr]) -> Iterator[tuple[int, str]]:
        if isinstance(node, t.BufferStore):
            yield id(node), statement_text(substitute(node, bound) if bound else node)
        elif isinstance(node, t.BlockRealize):
            inner = zip(node.block.iter_vars, node.iter_values, strict=True)
            yield from visit(node.block, {**bound, **{one.var: substitute(value, bound) for one, value in inner}})
        else:
            for child in children(node):
                if not isinstance(child, Expr):
                    yield from visit(child, bound)

    for function in functions:
        yield from visit(function.body, {})


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    """The offset of an element in a dense buffer."""
    offset = 0
    for position, extent in zip(index, shape, strict=False):
        offset = offset * extent + position
    return offset
