"""The steps of an executable as C statements: calls of kernels, copies, sizes and loops, in the order of the program.

A step ends before the next one begins, which is more than barriers require. The threads share one kernel call at a
time, through the function that the caller plugs in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ... import executable as exe
from ...errors import Unsupported
from ...executable.nodes import BUFFER
from ...expr import DType, Expr, Var, free_vars
from .checks import TOO_LARGE, check_guard
from .failures import Failures
from .interface import Interface, ctype, dim_text, plus
from .kernels import CKernel
from .names import comment
from .sizes import SizeWriter

_NARROW = ("int8_t", "int16_t", "int32_t", "uint8_t", "uint16_t", "uint32_t")  # integers that may not hold a size


@dataclass
class StepWriter:
    """Writes the steps of one program. `kernels` are its kernels as C, and `shared` the numbers of those of the jobs
    that threads share.
    """

    api: Interface
    writer: SizeWriter
    failures: Failures
    offsets: Mapping[int, int]
    kernels: Sequence[CKernel]
    shared: set[int] = field(default_factory=set)

    @property
    def _x(self) -> exe.Executable:
        return self.api.executable

    def check_sizes(self) -> None:
        """Write the checks of the sizes that every run uses, as far as the sizes that the caller sets decide them.

        The plan and the run both begin with them, so a plan is refused exactly if a run is. Steps in a loop are left
        out: data decide whether they run.
        """
        at = 0
        while at < len(self._x.steps):
            step = self._x.steps[at]
            if isinstance(step, exe.CallKernel):
                for a, p in zip(step.args, self._x.kernels[step.kernel].params, strict=True):
                    if not isinstance(a, exe.Location):
                        self._check(a, scalar_type(p.dtype))
                    elif isinstance(a, exe.ArenaSlice):
                        self._check(a.offset)
            elif isinstance(step, exe.Copy):
                self._check(step.nbytes)
            elif isinstance(step, exe.BindSize):
                self._check(step.most)
            at += 1 + (step.steps if isinstance(step, exe.Loop) else 0)

    def _check(self, x: exe.Dim | float, kind: str = "int64_t") -> None:
        """Write the checks of a number that only depends on the caller's sizes: it exists, and fits the type."""
        if isinstance(x, Expr) and self.api.sizes.keys() >= set(free_vars(x)):
            self._fits(self.writer.number(x), kind)

    def _fits(self, number: str, kind: str) -> None:
        if kind in _NARROW:
            self.writer.once(f"if ({number} != ({kind}){number}) {self.failures.returns(*TOO_LARGE)}")

    def write(self, first: int = 0, last: int | None = None) -> None:
        """Write the steps from `first` up to but not including `last`."""
        at = first
        while at < (len(self._x.steps) if last is None else last):
            step = self._x.steps[at]
            if isinstance(step, exe.CallKernel):
                self._call(step)
            elif isinstance(step, exe.Copy):
                self._copy(step)
            elif isinstance(step, exe.BindSize):
                self._bind(step)
            elif isinstance(step, exe.Loop):
                self._loop(at, step)
                at += step.steps
            at += 1

    def _call(self, step: exe.CallKernel) -> None:
        kernel = self._x.kernels[step.kernel]
        function, is_shared = self.kernels[step.kernel].name, self.kernels[step.kernel].is_shared
        arguments = [self._argument(a, p.dtype) for a, p in zip(step.args, kernel.params, strict=True)]
        about = f"  /* {comment(step.operator)} */" if step.operator else ""
        if not step.parallel or not is_shared:
            self.writer.line(f"{function}({', '.join([*arguments, *(('0', '1') if is_shared else ())])});{about}")
            return
        self.shared.add(step.kernel)
        job = f"struct {function}_job job = {{{', '.join(arguments) or '0'}}};"
        self.writer.line(f"{{ {job} share(arguments, share_{function}, &job); }}{about}")

    def _copy(self, step: exe.Copy) -> None:
        dst, src = self._place(step.dst), self._place(step.src)
        self.writer.line(f"copy_bytes({dst}, {src}, {self.writer.number(step.nbytes)});")

    def _bind(self, step: exe.BindSize) -> None:
        name = f"n_{self.api.late_sizes[step.var]}"
        most = self.writer.number(step.most)
        self.writer.line(f"const int64_t {name} = load_int64({self._place(step.place)});")
        self.writer.names[step.var] = name
        where = step.where or step.operator
        text = f"{where}: the size {step.var.name}, which data decide, is not between 0 and {dim_text(step.most)}"
        if step.reason:
            text = f"{where}: {step.reason.format(found='i', most=dim_text(step.most))}"
        failure = self.failures.returns("DATA", text)
        self.writer.line(f"if ({name} < 0 || {name} > {most}) {failure}")
        for guard in self._x.guards:
            late = guard.sizes() & self.api.late_sizes.keys()
            if late and self._last(late) is step.var:
                check_guard(self.writer, self.failures, guard)

    def _last(self, late: set[Var]) -> Var:
        """Return the variable that is bound last."""
        order = list(self.api.late_sizes)
        return max(late, key=order.index)

    def _loop(self, at: int, step: exe.Loop) -> None:
        number, limit = self._place(step.number), self._place(step.limit)
        going = f" && load_bool({self._place(step.going)})" if step.going is not None else ""
        i = f"i{at}"
        self.writer.line(f"store_int64({number}, 0);  /* {comment(step.operator or 'loop')} */")
        head = f"for (int64_t {i} = 0; {i} < load_int64({limit}){going}; store_int64({number}, ++{i})) {{"
        self.writer.line(head)
        with self.writer.block():
            if step.most is not None:
                text = (
                    f"{step.where or step.operator}: the loop would go on beyond the memory for its results; wanted: "
                    f"0 to {dim_text(step.most)} iterations"
                )
                failure = self.failures.returns("LOOP", text)
                self.writer.line(f"if ({i} >= {self.writer.number(step.most)}) {failure}")
            self.write(at + 1, at + 1 + step.steps)
        self.writer.line("}")

    def _argument(self, a: exe.Argument, dtype: str) -> str:
        if isinstance(a, exe.Location):
            return self._place(a)
        number = self.writer.number(a)
        kind = scalar_type(dtype)
        if isinstance(a, Expr):
            self._fits(number, kind)
        return f"({kind}){number}"

    def _place(self, place: exe.Location) -> str:
        """Return the address of a location."""
        if isinstance(place, exe.ConstantRef):
            return f"(const void *)(weights + {self.offsets[place.index]})"
        if isinstance(place, exe.ArenaSlice):
            start = plus(self.api.arena_offsets[place.arena], place.offset)
            return f"(void *)(arena + {self.writer.number(start)})"
        if isinstance(place, exe.State):
            return f"(void *)arguments->state->{self.api.tensor(place).name}"
        kind = {exe.Input: "input", exe.Output: "output"}[type(place)]
        tensor = self.api.tensor(place)
        pointer = f"{'const ' if kind == 'input' else ''}void *"
        if tensor.is_open or tensor.elements == 0:
            return f"({pointer})present(arguments->{kind}.{tensor.name})"
        return f"({pointer})arguments->{kind}.{tensor.name}"


def scalar_type(dtype: str) -> str:
    """Return the C type of a scalar parameter. Raises `Unsupported` for 16-bit floats."""
    kind = DType(dtype)
    if kind.is_half:
        raise Unsupported(f"a scalar of dtype {kind} as an argument of a C function")
    return "_Bool" if kind.is_bool else ctype(kind)


def job_text(kernel: exe.Kernel, function: str) -> str:
    """Return the struct of a kernel's arguments, and the task that calls the kernel with them."""
    members, arguments = [], []
    for number, param in enumerate(kernel.params):
        const = "const " if "w" not in param.access else ""
        kind = f"{const}void *" if param.role == BUFFER else f"{scalar_type(param.dtype)} "
        members.append(f"    {kind}p{number};")
        arguments.append(f"job->p{number}, ")
    return "\n".join(
        [
            f"struct {function}_job {{",
            *(members or ["    int none;"]),
            "};",
            "",
            f"static void share_{function}(void *context, int64_t thread, int64_t threads)",
            "{",
            f"    const struct {function}_job *job = context;",
            *([] if members else ["    (void)job;"]),
            f"    {function}({''.join(arguments)}thread, threads);",
            "}",
        ]
    )
