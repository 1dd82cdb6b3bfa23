"""Print an executable as readable, Python-like text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..expr import Expr, format_expr
from . import nodes

__all__ = ["memory_of", "script", "step_text"]


def script(executable: nodes.Executable, mark: int | None = None, note: str = "") -> str:
    """Return the program as text. If `mark` is given, underline that step and print `note` below it."""
    x = executable
    parameters = ", ".join(f"{p.name}: {_spec(p)}" for p in x.inputs)
    results = ", ".join(f"{p.name}: {_spec(p)}{' (in and out)' if p.inout else ''}" for p in x.outputs)
    lines = [f"def {x.name}({parameters}) -> ({results}):  # for {x.target}"]
    for s in x.states:
        first = "" if s.first is None else f", first={_argument(x, nodes.ConstantRef(s.first))}"
        lines.append(f'    {s.name} = state({_shape(s.shape)}, "{s.dtype}"{first})')
    for c in x.constants:
        lines.append(f'    {c.name} = constant({_shape(c.shape)}, "{c.dtype}")  # {c.data.nbytes} bytes')
    for a in x.arenas:
        lines.append(f"    {a.name} = arena({_number(a.size)}, alignment={a.alignment}){_on(a.target)}")
    for k in x.kernels:
        params = ", ".join(f"{p.name}: {p.dtype} {p.access if p.role == 'buffer' else 'scalar'}" for p in k.params)
        lines.append(f'    {k.name} = kernel("{k.language}", {k.entry}({params})){_on(k.target, k.refusal, x.target)}')
    for guard in x.guards:
        lines.append(f"    guard({_number(guard.left)} == {_number(guard.right)})  # {guard.where}".rstrip(" #"))
    for bound in x.bounds:
        name = _argument(x, bound.place)
        lines.append(
            f"    bound({_number(bound.low)} <= {name} <= {_number(bound.high)})  # {bound.where}".rstrip(" #")
        )
    ends: list[int] = []  # the ends of the loops around a step
    for i, step in enumerate(x.steps):
        ends = [end for end in ends if end > i]
        text = f"{'    ' * (1 + len(ends))}{step_text(x, step)}"
        lines.append(f"{text}  # {i}")
        if i == mark:
            lead = len(text) - len(text.lstrip())
            lines.append(f"{' ' * lead}{'^' * (len(text) - lead)} {note}".rstrip())
        ends += [i + 1 + step.steps] if isinstance(step, nodes.Loop) else []
    if not x.steps:
        lines.append("    pass")
    return "\n".join(lines) + "\n"


def step_text(x: nodes.Executable, step: nodes.Step) -> str:
    """Return one step as a statement."""
    if isinstance(step, nodes.Barrier):
        return "barrier()"
    if isinstance(step, nodes.Copy):
        copy = f"copy({_argument(x, step.dst)}, {_argument(x, step.src)}, {_number(step.nbytes)})"
        src, dst = (memory_of(x, place) for place in (step.src, step.dst))
        return copy if src == dst else f"{copy}  # from {_machine(x, src)} to {_machine(x, dst)}"
    if isinstance(step, nodes.BindSize):
        return f"{step.var.name} = bind_size({_argument(x, step.place)}, most={_number(step.most)})"
    if isinstance(step, nodes.Loop):
        going = "" if step.going is None else f", while {_argument(x, step.going)}"
        most = "" if step.most is None else f", most={_number(step.most)}"
        return f"for {_argument(x, step.number)} in loop({_argument(x, step.limit)}{going}{most}):"
    args = [_argument(x, a) for a in step.args]
    if isinstance(step, nodes.CallExternal):
        # The attributes that describe a region are for its engine.
        attrs = [f"{k}={v!r}" for k, v in step.attrs.items() if k == "region" or "region" not in step.attrs]
        return f"external({', '.join([repr(step.engine), *args, *attrs])})"
    assert isinstance(step, nodes.CallKernel)
    name = _name(x.kernels, step.kernel, "kernel", lambda k: k.name)
    if step.grid:
        args.append(f"grid=({', '.join(map(_number, step.grid))})")
    target = x.kernels[step.kernel].target if 0 <= step.kernel < len(x.kernels) else ""
    return f"{name}({', '.join(args)}){'' if step.parallel or step.grid else '  # thread 0'}{_on(target)}"


def memory_of(x: nodes.Executable, place: nodes.Location) -> str:
    """Return the target whose memory holds a location, or "" for the executable's own memory.

    A constant is in the memory of the step that reads it.
    """
    return (
        x.arenas[place.arena].target if isinstance(place, nodes.ArenaSlice) and 0 <= place.arena < len(x.arenas) else ""
    )


def _machine(x: nodes.Executable, target: str) -> str:
    return (target or x.target).split()[0]


def _on(target: str, refusal: str = "", own: str = "") -> str:
    """Return a comment that names the machine of a kernel or arena, with the reason if the kernel was refused.

    Returns "" if it is the machine of the executable and nothing was refused.
    """
    if refusal:
        return f"  # on {(target or own).split()[0]}: {refusal}"
    return f"  # on {target.split()[0]}" if target else ""


def _name(table: Sequence, index: int, what: str, name: Callable) -> str:
    """Return the name of entry `index` in a table.

    The index may be out of range, because the verifier also prints invalid programs.
    """
    return str(name(table[index])) if 0 <= index < len(table) else f"{what}[{index}]"


def _argument(x: nodes.Executable, a: nodes.Argument) -> str:
    if isinstance(a, nodes.Input):
        return _name(x.inputs, a.index, "input", lambda s: s.name)
    if isinstance(a, nodes.Output):
        return _name(x.outputs, a.index, "output", lambda s: s.name)
    if isinstance(a, nodes.State):
        return _name(x.states, a.index, "state", lambda s: s.name)
    if isinstance(a, nodes.ConstantRef):
        return _name(x.constants, a.index, "constant", lambda c: c.name)
    if isinstance(a, nodes.ArenaSlice):
        arena = _name(x.arenas, a.arena, "arena", lambda r: r.name)
        return f"{arena}[{_number(a.offset)}:{_number(a.offset)} + {_number(a.nbytes)}]"
    return _number(a)


def _number(n: int | float | Expr) -> str:
    return format_expr(n) if isinstance(n, Expr) else repr(n)


def _shape(shape: Sequence[int | Expr]) -> str:
    inner = ", ".join(map(_number, shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _spec(p: nodes.TensorSpec | nodes.ScalarSpec) -> str:
    return str(p.dtype) if isinstance(p, nodes.ScalarSpec) else f'Tensor({_shape(p.shape)}, "{p.dtype}")'
