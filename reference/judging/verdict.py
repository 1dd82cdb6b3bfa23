"""`Verdict`: the result of a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating
from minitvm.notebook import verdict_html

from ..meaning.findings import Access, Finding

SIDES, WIDTH = 3, 70  # untaken sides that a verdict lists, and how long each may be
SHOWN = 4  # elements of an input that a message lists


@dataclass(frozen=True)
class Verdict:
    """The result of a check. It is true if the programs mean the same.

    `mode` is the mode that compared the outputs, or the mode that found the difference. `ran` lists the modes that ran,
    and `refused` has the reason for each other mode. `inout` names the parameters that the check treated as both input
    and output.

    If the programs differ:

    - `message` describes the difference. `output` and `index` are the place of the first element that differs, and
      `before` and `after` are its values (in the mode `field`, rationals as text).
    - `inputs` are the smallest arguments found that show the difference, in the order of the parameters, and `sizes`
      are the values of symbolic dimensions.
    - `finding` describes undefined behaviour, if that is the difference.
    - The mode "signature" means that one program writes a parameter that the other does not write.
    - `programs` and `seed` are kept for `script`.

    If the programs are equal:

    - `tried` has the sizes of symbolic dimensions at which they were compared.
    - `unjudged` says where the programs round to different dtypes, if no mode that ran judges rounding.
    - `excused` counts the inputs on which the results differ, which is allowed because one of the programs rounds
      there.
    - `short` has the tiles, by dimension, that fit less than three times into every tried size.
    - `unsized` lists the sides of conditions on dimensions that no tried size reached.
    - `untaken` lists the sides of comparisons and clips of data that no input reached.
    """

    equal: bool
    mode: str
    message: str = ""
    output: str = ""
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    inputs: Sequence[Any] = field(default=(), repr=False)
    ran: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    finding: Finding | None = None
    counterexample: str = ""  # the inputs as text
    tried: tuple[Mapping[str, int], ...] = ()
    unjudged: str = ""
    inout: tuple[str, ...] = ()
    excused: int = 0
    untaken: tuple[str, ...] = ()
    short: Mapping[str, int] = field(default_factory=dict)
    unsized: tuple[str, ...] = ()
    in_floats: bool = field(default=False, repr=False)  # a difference of floats, whatever the mode compares otherwise
    programs: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)
    seed: int = 0

    def __bool__(self) -> bool:
        return self.equal

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses that caused undefined behaviour. A conflict has two."""
        return self.finding.accesses if self.finding is not None else ()

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        return verdict_html(str(self), self.equal)

    def script(self) -> str:
        """Return a Python file that runs both programs and shows the difference. Raises `InputError` for an equal
        verdict.
        """
        from .counterexample import script

        return script(self)

    def __str__(self) -> str:
        if self.equal:
            modes = ", ".join(self.ran) if self.mode in self.ran else ", ".join((self.mode, *self.ran))
            lines = [f"equal ({modes or self.mode}){_at(self.tried)}"]
        else:
            lines = [self.message, *([self.counterexample] if self.counterexample else [])]
        if self.inout:
            lines.append(f"  in and out: {', '.join(self.inout)} (what the caller passes in is read)")
        if self.unjudged:
            lines.append(f"  rounding was not judged: {self.unjudged} (mode bound does)")
        for name, tile in self.short.items():
            lines.append(f"  no size of {name} was judged that goes round its tile of {tile} three times")
        if self.unsized:
            lines.append(f"  at no size that was judged: {_some(self.unsized)}")
        if self.excused:
            times = "1 input" if self.excused == 1 else f"{self.excused} inputs"
            lines.append(f"  on {times} they differ where one of them rounds, which was not judged (mode bound does)")
        if self.untaken:
            lines.append(f"  one side only: {_some(self.untaken)}")
        for name, why in self.refused.items():
            reason = why.removeprefix(f"{name} mode: ").splitlines()
            lines.append(f"  {name} did not run: {reason[0]}")
        return "\n".join(lines)


def _some(texts: Sequence[str]) -> str:
    """Return the first of several texts, each cut to fit on a line."""
    cut = [text if len(text) <= WIDTH else f"{text[: WIDTH // 2]} ... {text[-WIDTH // 2 :]}" for text in texts[:SIDES]]
    rest = f"; and {len(texts) - SIDES} others" if len(texts) > SIDES else ""
    return "; ".join(cut) + rest


def difference(mode: str, output: str, wrong: np.ndarray, first: np.ndarray, second: np.ndarray,
               inputs: Sequence[Any], how: str = "") -> Verdict:  # fmt: skip
    """Return the verdict on an output whose elements are `wrong` where the mask says; `how` describes the first of
    them.
    """
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    before, after = first[index], second[index]
    message = (
        f"the programs differ in {output}[{', '.join(map(str, index))}] ({mode} mode,{how}"
        f" {int(wrong.sum())} of {wrong.size} elements)\n  before: {before!r}\n  after:  {after!r}"
    )
    return Verdict(False, mode, message, output, index, before, after, inputs)


def _at(tried: Sequence[Mapping[str, int]]) -> str:
    """` for n = 1, 5, 8`, ` for (n, m) = (5, 1), (1, 8)`."""
    if not tried:
        return ""
    names = list(tried[0])
    values = sorted(tuple(sizes.values()) for sizes in tried)
    if len(names) == 1:
        return f" for {names[0]} = {', '.join(str(v) for (v,) in values)}"
    return f" for ({', '.join(names)}) = {', '.join(str(v) for v in values)}"


def described(names: Sequence[str], inputs: Sequence[Any], sizes: Mapping[str, int]) -> str:
    """Return arguments as text, a line each: all zero, all the same number, or the nonzero elements."""
    lines = [f"  sizes:  {', '.join(f'{name} = {size}' for name, size in sizes.items())}"] if sizes else []
    for name, value in zip(names, inputs, strict=True):
        lines.append(f"  {name} = {_array_text(np.asarray(value))}")
    return "\n".join(lines)


def _array_text(array: np.ndarray) -> str:
    if array.ndim == 0:
        return f"{array[()]:g}"
    shape = "x".join(map(str, array.shape))
    if not array.size:
        return f"nothing ({shape})"
    if (array == array.flat[0]).all():
        return f"{_number(array.flat[0])} everywhere ({shape})"
    if array.size <= SHOWN:
        return np.array2string(array, separator=", ", formatter={"all": _number}).replace("\n", "")
    places = np.argwhere(array != 0)
    entries = [f"{_number(array[tuple(at)])} at [{', '.join(map(str, at))}]" for at in places[:SHOWN]]
    rest = f" and {len(places) - SHOWN} others" if len(places) > SHOWN else ""
    return f"0 but {', '.join(entries)}{rest} ({shape})"


def _number(value: Any) -> str:
    return f"{float(value):g}" if is_floating(np.asarray(value).dtype) else str(int(value))
