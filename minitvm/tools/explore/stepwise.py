"""A schedule as a list of steps: the lines of each, the program after it, its cost, and the oracle's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ...errors import InternalError, MinitvmError, MissingExtra, ScheduleError
from ...target import Target
from ...tir.nodes import IRModule, PrimFunc
from ...tir.schedule import Schedule, Trace
from .costs import LINES, Costs, arguments, costs
from .readable_names import grouped

# "equal", "different", "unknown" if the oracle cannot judge a step, or "" if there is nothing to judge.
Agreement = str
FILMED = 150_000  # loads and stores of the longest program that is filmed
FILMS = 600_000  # characters of all films of a page


@dataclass(frozen=True, slots=True)
class Refusal:
    """A step that a schedule refused: its line of Python, and the whole error text."""

    line: str
    error: str

    @staticmethod
    def of(error: ScheduleError, statement: str) -> Refusal:
        """The refusal that an error tells of, raised by a `statement` of the user's file.

        The line names loops as the error does, which are the names in the program.
        """
        call, named, _ = str(error).split("\n")[0].partition(f": {error.requirement}")
        return Refusal(f"sch.{call}" if error.requirement and named else statement, str(error))


@dataclass(frozen=True, slots=True)
class Subject:
    """A program and the steps that change it.

    `trace` has the steps that were applied to `before`, and `refusal` the refused step after them, if there is one.
    If `after` is given, there is no trace: `before` and `after` are two programs to compare.
    """

    name: str
    before: IRModule
    trace: Trace
    refusal: Refusal | None = None
    after: IRModule | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its lines of Python, the program after it, what that costs, and the verdict of the oracle.

    A refused step has the text of its `error`, and the program as it was before. `func` is the program's only function,
    and `film` the SVG of what it touches.
    """

    title: str
    lines: tuple[str, ...]
    program: str
    costs: Costs
    agreement: Agreement = ""
    verdict: str = ""
    error: str = ""
    func: PrimFunc | None = field(default=None, repr=False, compare=False)
    film: str = field(default="", repr=False)


def filmed(rows: Iterable[Step], room: int = FILMS, most: int = FILMED) -> Iterator[Step]:
    """The steps, each with its film as SVG while there is room: `room` is the number of characters for all films.

    A program with more than `most` loads and stores is not filmed.
    """
    for row in rows:
        shot = _film(row, most) if room > 0 and not row.error else ""
        room -= len(shot)
        yield replace(row, film=shot)


def _film(step: Step, most: int) -> str:
    """The film of a step's program; "" if it is not a single function that was counted."""
    from ..film import Film

    if step.func is None or step.costs.loads is None or step.costs.loads + (step.costs.stores or 0) > most:
        return ""
    try:
        inputs, inout = arguments(step.func)
        return Film.of(step.func, *inputs, inout=inout, cache_lines=LINES, line_bytes=64).svg()
    except (InternalError, MissingExtra):
        raise
    except MinitvmError:  # for example, too many buffers for one picture
        return ""


def steps(subject: Subject, target: Target, draft: bool = False) -> Iterator[Step]:
    """The steps of a subject, the first of which is the program as it was before any step.

    A `draft` has no costs and no verdicts yet, and takes milliseconds.
    """
    counted = None if draft else target
    before, sch = subject.before, Schedule(subject.before)
    step = _after("The program", (), None, before, counted, False)
    yield step
    judged = step.costs.loads is not None  # the oracle interprets a program as often as the counts do
    if subject.after is not None:
        yield _after("The other program", (), before, subject.after, counted, judged)
        return
    queries: tuple[str, ...] = ()
    for lines, changes in grouped(subject.trace, sch):
        if changes:
            step = _after(title(lines[-1]), lines, before, sch.mod, counted, judged)
            yield step
        else:
            queries = lines
    if subject.refusal is not None:
        lines = tuple(line for line in (*queries, subject.refusal.line) if line)
        yield replace(
            step, title=title(subject.refusal.line), lines=lines, agreement="", verdict="", error=subject.refusal.error
        )
    elif queries:
        yield replace(step, title="Queries", lines=queries)


def title(line: str) -> str:
    """The name of the primitive that a line calls."""
    call = line.partition(" = ")[2] or line
    return call.partition("(")[0].rpartition(".")[2] or "step"


def text(module: IRModule) -> str:
    """A module as TVMScript, without the imports; a single function without the class around it."""
    functions = list(module.functions.values())
    return script_of(functions[0] if len(functions) == 1 else module)


def script_of(node: IRModule | PrimFunc) -> str:
    """A program as TVMScript, without the imports."""
    return node.script(with_header=False).rstrip("\n")


def module_costs(module: IRModule, target: Target) -> Costs:
    """The costs of a module's only function."""
    func = only_function(module)
    if func is not None:
        return costs(func, target)
    return Costs(reason=f"not counted: the module has {len(module.functions)} functions")


def only_function(module: IRModule) -> PrimFunc | None:
    """The function of a module that has one; None for other modules."""
    functions = list(module.functions.values())
    return functions[0] if len(functions) == 1 and isinstance(functions[0], PrimFunc) else None


def _after(
    name: str, lines: tuple[str, ...], before: IRModule | None, after: IRModule, target: Target | None, judged: bool
) -> Step:
    """A step, `judged` by the oracle or not, which compares its program with the first one, if there is one."""
    shown, func = text(after), only_function(after)
    if target is None:
        return Step(name, lines, shown, Costs(reason="counting ..."), func=func)
    key = (text(before) if before is not None else "", shown, str(target), judged)
    if key not in _ANSWERS:
        if len(_ANSWERS) >= REMEMBERED:
            _ANSWERS.pop(next(iter(_ANSWERS)))
        agreement, verdict = "", ""
        if before is not None:
            agreement, verdict = (
                _verdict(before, after) if judged else ("unknown", "it makes too many loads and stores")
            )
        wrong = agreement == "different"  # it may do something undefined, which ends a count
        cost = Costs(reason="not counted: the program is wrong") if wrong else module_costs(after, target)
        _ANSWERS[key] = cost, agreement, verdict
    return Step(name, lines, shown, *_ANSWERS[key], func=func)


# The costs and the verdict of programs by their texts: whoever edits a schedule asks for the same ones again.
_ANSWERS: dict[tuple[str, str, str, bool], tuple[Costs, Agreement, str]] = {}
REMEMBERED = 500


def _verdict(before: IRModule, after: IRModule) -> tuple[Agreement, str]:
    from ...reference import check

    agreement, texts = "equal", []
    pairs = [(func, after.functions.get(name)) for name, func in before.items()]
    if len(before.functions) == len(after.functions) == 1:
        pairs = list(zip(before.functions.values(), after.functions.values(), strict=True))
    for func, changed in pairs:
        if changed is None or changed is func:
            continue
        try:
            verdict = check(func, changed)
        except (InternalError, MissingExtra):
            raise
        except MinitvmError as error:
            texts.append(str(error))
            agreement = agreement if agreement == "different" else "unknown"
            continue
        texts.append(str(verdict))
        if not verdict:
            agreement = "different"
    return agreement, "\n".join(texts) or "nothing changed"
