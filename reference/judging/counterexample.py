"""Write a difference as a Python file that runs and shows it: both programs, the arguments, and the two results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, MinitvmError
from minitvm.expr.dtypes import is_floating
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from .inputs.arguments import copies
from .programs import Program, execute, parameters

LISTED = 16  # elements up to which an array is written as a list
FEW = 64  # elements up to which those that differ from most others are set one by one


def script(verdict: Any) -> str:
    """Return the text of the file; raises `InputError` for an equal verdict, or one whose programs are not known."""
    if verdict.equal or verdict.programs is None:
        raise InputError("only the verdict of a check that found a difference prints as a program")
    before, after = verdict.programs
    lines = [f'"""{verdict.message.splitlines()[0]}."""', "", "import numpy as np", "from numpy import inf, nan", ""]
    tensors = any(not isinstance(one, t.PrimFunc | t.IRModule) for one in verdict.programs)
    lines += ["from minitvm import reference, te" if tensors else "from minitvm import reference"]
    lines += ["from minitvm.errors import ExecutionError", "from minitvm.reference.judging.equivalence import execute"]
    lines += ["from minitvm.script import from_source", ""]
    lines += [*_program("before", before), "", *_program("after", after), ""]
    shows = bool(verdict.inputs) and _shows(verdict)
    lines += _runs(verdict) if shows else _checks(verdict)
    return "\n".join(lines) + "\n"


def _shows(verdict: Any) -> bool:
    """Return whether plain runs on the inputs differ; modes with another meaning of floats may see more differences."""
    names = [p.name for p in parameters(verdict.programs[0])]
    results: list[Any] = []
    for program in verdict.programs:
        args = copies(verdict.inputs)
        try:
            execute(program, args, True, verdict.sizes)
        except ExecutionError:
            results.append(None)
        except MinitvmError:
            return False
        else:
            results.append(args[names.index(verdict.output)] if verdict.output in names else None)
    if results[0] is None or results[1] is None:
        return (results[0] is None) != (results[1] is None)
    one, other = (result[verdict.index] for result in results)
    return bool(np.asarray(one).tobytes() != np.asarray(other).tobytes())


def _runs(verdict: Any) -> list[str]:
    before = verdict.programs[0]
    every = parameters(before)
    lines = ["", "def arguments():"]
    names = [f"a{k}" for k in range(len(every))]
    for name, p, value in zip(names, every, verdict.inputs, strict=False):
        lines += [f"    {line}" for line in _argument(name, p.name, value)]
    lines += [f"    return [{', '.join(names)}]", "", ""]
    place = next((k for k, p in enumerate(every) if p.name == verdict.output), None)
    lines += ['for name, program in (("before", before), ("after", after)):', "    args = arguments()", "    try:"]
    lines += [f"        execute(program, args, True, {_sizes(verdict.sizes)})"]
    lines += ["    except ExecutionError as error:", '        print(f"{name}: {error}")', "    else:"]
    if place is None:
        return [*lines, '        print(f"{name}: nothing undefined happens")']
    index = "".join(f"{i}, " for i in verdict.index)
    shown = f"{verdict.output}[{', '.join(map(str, verdict.index))}]"
    return [*lines, f'        print(f"{{name}}: {shown} = {{args[{place}][({index})]!r}}")']


def _checks(verdict: Any) -> list[str]:
    """Return lines that call `reference.check` again, for a difference that a plain run does not show."""
    modes = "" if verdict.mode == "signature" else f"modes={verdict.mode!r}, "
    return [f"print(reference.check(before, after, {modes}seed={verdict.seed}, sizes={_sizes(verdict.sizes)}))"]


def _program(name: str, program: Program) -> list[str]:
    if isinstance(program, t.PrimFunc | t.IRModule):
        return [f"{name} = from_source(r'''", program.script().strip(), "''')"]
    from minitvm.te.printer import statements

    scalars = [one for one in program if isinstance(one, x.Var)]
    lines = [f'{v.name} = te.var("{v.name}", "{v.dtype}")' for v in scalars]
    text, names = statements([one for one in program if isinstance(one, te.Tensor)])
    order = [one.name if isinstance(one, x.Var) else names[one] for one in program]
    return [*lines, *text, f"{name} = [{', '.join(order)}]"]


def _argument(name: str, parameter: str, value: Any) -> list[str]:
    """Return the statements that make an argument."""
    note = f"  # {parameter}"
    if not isinstance(value, np.ndarray):
        kind = f"np.{value.dtype}({value.item()!r})" if isinstance(value, np.generic) else repr(value)
        return [f"{name} = {kind}{note}"]
    array, kind = value, f'"{value.dtype}"'
    if array.size and (array.size > LISTED or _uniform(array)):
        most = _most_frequent(array)
        lines = [f"{name} = np.full({array.shape}, {most.item()!r}, {kind}){note}"]
        others = np.argwhere(~_equal(array, most))
        if len(others) <= FEW:
            places = (tuple(int(i) for i in at) for at in others)
            return [*lines, *(f"{name}[{at}] = {array[at].item()!r}" for at in places)]
    return [f"{name} = np.array({array.tolist()!r}, {kind}).reshape({array.shape}){note}"]


def _uniform(array: np.ndarray) -> bool:
    return bool(_equal(array, array.reshape(-1)[0]).all())


def _equal(array: np.ndarray, value: Any) -> np.ndarray:
    """Return where elements equal this value: bit by bit, but all NaNs are equal."""
    same = (array == value) & (np.signbit(array) == np.signbit(value) if is_floating(array.dtype) else True)
    return np.asarray(same | ((array != array) & (value != value)))


def _most_frequent(array: np.ndarray) -> Any:
    values, counts = np.unique(array.reshape(-1), return_counts=True)
    most = values[int(counts.argmax())]
    return array.dtype.type(0) if most == 0 else most


def _sizes(sizes: Mapping[str, int]) -> str:
    return repr({str(name): int(n) for name, n in sizes.items()})
