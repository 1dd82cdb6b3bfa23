"""Compile kernel source to LLVM in one walk over its syntax tree, with Numba's types and Numba's code for each
operation.

Numba's own front end compiles any Python: it analyses bytecode, finds live variables, and infers types until nothing
changes any more. In kernel source (`simd`), the first assignment of a variable comes before its uses and gives it its
type, so the type of each expression is known when the walk reaches it. Numba supplies the typing of calls, casts and
code, which are cached for each operation and argument types. The resulting instructions are the same, in a third of the
time.

The walk raises `Untranslatable` for other Python constructs, which generated source does not contain.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeGuard

from llvmlite import ir
from numba.core import types
from numba.core.errors import NumbaError

_BINARY: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_EXTREMES: dict[Any, Callable[..., Any]] = {min: operator.lt, max: operator.gt}
_UNARY: dict[type[ast.unaryop], Callable[..., Any]] = {
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


class Untranslatable(Exception):
    """The source contains something that kernel source must not contain. The message gives the line if it is known."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text if line is None else f"line {line}: {text}")
        self.line = line


@dataclass(frozen=True, slots=True)
class _Slot:
    """The memory of a variable that is assigned more than once. `block` is the list of statements with its first
    assignment.
    """

    type: types.Type
    address: ir.Value
    block: Sequence[ast.stmt]


@dataclass(frozen=True, slots=True)
class Typed:
    """An LLVM value with its Numba type. The type of an integer literal includes its value."""

    type: types.Type
    llvm: ir.Value

    @property
    def literal(self) -> Any:
        """The value of a literal, or None for anything else."""
        return self.type.literal_value if isinstance(self.type, types.Literal) else None


class Operations:
    """The operations that kernel source may call, as Numba's contexts for one kind of machine define them."""

    def __init__(self, typing_context: Any, target_context: Any) -> None:
        self.typing_context = typing_context
        self.target_context = target_context
        self._found: dict[Any, tuple[Any, Any]] = {}

    def refresh(self) -> None:
        """Load new registrations. The types of vectors are created when they are first named."""
        self.typing_context.refresh()
        self.target_context.refresh()

    def signature(self, function: Any, args: Sequence[types.Type]) -> Any:
        """Return Numba's signature of a call. Raises `Untranslatable` if it has none."""
        context = self.typing_context
        found = context.resolve_function_type(context.resolve_value_type(function), tuple(args), {})
        if found is None:
            raise Untranslatable(f"{function} of {', '.join(map(str, args))}")
        return found

    def call(self, builder: ir.IRBuilder, function: Any, operands: Sequence[Typed]) -> Typed:
        """Emit a call, converting the operands to the types of the signature."""
        given = tuple([o.type for o in operands])
        known = self._found.get((function, given))
        if known is None:
            signature = self.signature(function, given)
            key = self.typing_context.resolve_value_type(function)
            known = signature, self.target_context.get_function(key, signature)
            self._found[function, given] = known
        signature, code = known
        args = [
            o.llvm if o.type is wanted else self.cast(builder, o, wanted)
            for o, wanted in zip(operands, signature.args, strict=True)
        ]
        return Typed(signature.return_type, code(builder, args))

    def attribute(self, builder: ir.IRBuilder, value: Typed, name: str) -> Typed:
        """Emit `value.name`."""
        key = (value.type, name)
        if key not in self._found:
            kind = self.typing_context.resolve_getattr(value.type, name)
            if kind is None:
                raise Untranslatable(f"{value.type} has no {name}")
            self._found[key] = kind, self.target_context.get_getattr(value.type, name)
        kind, code = self._found[key]
        return Typed(kind, code(self.target_context, builder, value.type, value.llvm, name))

    def tuple(self, builder: ir.IRBuilder, items: Sequence[Typed]) -> Typed:
        """Emit a tuple of values."""
        kind = types.BaseTuple.from_types(tuple(types.unliteral(item.type) for item in items))
        values = [self.cast(builder, item, to) for item, to in zip(items, kind.types, strict=True)]
        return Typed(kind, self.target_context.make_tuple(builder, kind, values))

    def cast(self, builder: ir.IRBuilder, value: Typed, to: types.Type) -> ir.Value:
        """Convert a value to another type, as Numba does."""
        return self.target_context.cast(builder, value.llvm, value.type, to)

    def constant(self, builder: ir.IRBuilder, value: Any) -> Typed:
        """Emit a Python number as a constant. The type of an integer includes its value."""
        plain = self.typing_context.resolve_value_type(value)
        llvm = self.target_context.get_constant_generic(builder, types.unliteral(plain), value)
        return Typed(types.maybe_literal(value) or plain, llvm)


class Translator:
    """Translates one function of kernel source into the block of `builder`. `parameters` maps names to values."""

    def __init__(
        self, operations: Operations, builder: ir.IRBuilder, namespace: Mapping[str, Any], parameters: dict[str, Typed]
    ) -> None:
        self.operations = operations
        self.builder = builder
        self.namespace = namespace
        self.seen: dict[str, Typed | _Slot] = dict(parameters)  # variables, by their names
        self.often: set[str] = set()  # the variables that are assigned more than once
        self.block: Sequence[ast.stmt] = ()
        self.around: list[tuple[ir.Block, ir.Block]] = []  # of loops: where they go on, what stands behind them

    def run(self, function: ast.FunctionDef) -> None:
        """Emit the function's body. Raises `Untranslatable`."""
        stored = Counter(
            item.id for item in ast.walk(function) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        )
        loops = Counter(
            item.target.id for item in ast.walk(function) if isinstance(item, ast.For) and _is_name(item.target)
        )
        # A loop variable is visible only in its loop, even if other loops have a variable of the same name.
        self.often = {name for name, count in stored.items() if count > 1 and loops[name] < count}
        if stored.keys() & self.seen.keys():
            raise Untranslatable("a parameter is assigned")
        self.statements(function.body)
        if not self.builder.block.is_terminated:
            self.builder.ret_void()

    # -- statements

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Emit the statements of a block. Variables that are defined in it are not visible after it."""
        outer, self.block, seen = self.block, body, dict(self.seen)
        for stmt in body:
            if self.builder.block.is_terminated:
                break  # nothing behind a `return`, `break` or `continue` runs
            try:
                self.statement(stmt)
            except (Untranslatable, NumbaError, NotImplementedError, TypeError) as error:
                if isinstance(error, Untranslatable) and error.line is not None:
                    raise
                raise Untranslatable(str(error), stmt.lineno) from error
        self.block, self.seen = outer, seen

    def statement(self, stmt: ast.stmt) -> None:
        emit = _STATEMENTS.get(type(stmt))
        if emit is None:
            raise Untranslatable(f"a statement {type(stmt).__name__}")
        emit(self, stmt)

    def iterations(self, body: Sequence[ast.stmt], again: ir.Block, behind: ir.Block) -> None:
        """Emit the statements of a loop, and the branch after them."""
        self.around.append((again, behind))
        self.statements(body)
        self.around.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(again)

    def assign(self, stmt: ast.Assign) -> None:
        if len(stmt.targets) != 1:
            raise Untranslatable("an assignment to several places")
        target = stmt.targets[0]
        if isinstance(target, ast.Name):
            self.define(target.id, self.value(stmt.value))
        elif isinstance(target, ast.Tuple) and isinstance(stmt.value, ast.Tuple):
            values = [self.value(item) for item in stmt.value.elts]
            for item, value in zip(target.elts, values, strict=True):
                if not _is_name(item):
                    raise Untranslatable(f"an assignment to {ast.unparse(target)}")
                self.define(item.id, value)
        elif isinstance(target, ast.Subscript):
            places = [self.value(target.value), self.value(target.slice)]
            self.operations.call(self.builder, operator.setitem, [*places, self.value(stmt.value)])
        else:
            raise Untranslatable(f"an assignment to {ast.unparse(target)}")

    def update(self, stmt: ast.AugAssign) -> None:
        """Emit an augmented assignment such as `x += 1`."""
        function, target = self.operator(stmt.op), stmt.target
        if isinstance(target, ast.Name):
            old = self.name(target)
            self.define(target.id, self.operations.call(self.builder, function, [old, self.value(stmt.value)]))
        elif isinstance(target, ast.Subscript):
            place = [self.value(target.value), self.value(target.slice)]
            old = self.operations.call(self.builder, operator.getitem, place)
            new = self.operations.call(self.builder, function, [old, self.value(stmt.value)])
            self.operations.call(self.builder, operator.setitem, [*place, new])
        else:
            raise Untranslatable(f"an update of {ast.unparse(target)}")

    def define(self, name: str, value: Typed) -> None:
        if name not in self.often:
            self.seen[name] = value
            return
        kind = types.unliteral(value.type)
        slot = self.seen.get(name)
        if not isinstance(slot, _Slot) or (slot.type != kind and slot.block is self.block):
            # In one block, a name that gets another type is another variable from here on.
            with self.builder.goto_entry_block():
                room = self.builder.alloca(self.operations.target_context.get_value_type(kind), name=name)
            slot = self.seen[name] = _Slot(kind, room, self.block)
        if slot.type != kind:
            raise Untranslatable(f"{name} is {slot.type}, and here {kind}")
        self.builder.store(self.operations.cast(self.builder, value, kind), slot.address)

    def loop(self, stmt: ast.For) -> None:
        call, target = stmt.iter, stmt.target
        if not (isinstance(call, ast.Call) and _is_name(call.func) and self.named(call.func.id) is range):
            raise Untranslatable("a loop over something other than a range")
        if stmt.orelse or call.keywords or not _is_name(target):
            raise Untranslatable("a loop with an else, several variables or keywords")
        name = target.id
        if name in self.often or name in self.seen:
            raise Untranslatable(f"{name}, the variable of a loop, is used for something else too")
        builder, bounds = self.builder, [self.value(a) for a in call.args]
        signature = self.operations.signature(range, [b.type for b in bounds])
        kind = signature.return_type.dtype
        ends = [self.operations.cast(builder, b, kind) for b in bounds]
        step = bounds[2].literal if len(bounds) == 3 else 1
        if not isinstance(step, int) or step < 1:
            raise Untranslatable("a loop whose step is not a number from 1")
        start, stop = (ir.Constant(ends[0].type, 0), ends[0]) if len(ends) == 1 else ends[:2]
        before = builder.block
        head, body, following, behind = self.blocks(name, "head", "body", "next", "end")
        builder.branch(head)
        builder.position_at_end(head)
        at = builder.phi(start.type, name)
        at.add_incoming(start, before)
        compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
        builder.cbranch(compare("<", at, stop), body, behind)
        builder.position_at_end(body)
        self.seen[name] = Typed(kind, at)
        self.iterations(stmt.body, following, behind)
        del self.seen[name]
        builder.position_at_end(following)
        at.add_incoming(builder.add(at, ir.Constant(at.type, step), flags=["nsw"] if kind.signed else []), following)
        builder.branch(head)
        builder.position_at_end(behind)

    def blocks(self, name: str, *parts: str) -> list[ir.Block]:
        return [self.builder.append_basic_block(f"{name}_{part}") for part in parts]

    def while_loop(self, stmt: ast.While) -> None:
        if stmt.orelse:
            raise Untranslatable("a loop with an else")
        builder = self.builder
        head, body, behind = self.blocks("while", "head", "body", "end")
        builder.branch(head)
        builder.position_at_end(head)
        builder.cbranch(self.truth(stmt.test), body, behind)
        builder.position_at_end(body)
        self.iterations(stmt.body, head, behind)
        builder.position_at_end(behind)

    def leave_loop(self, stmt: ast.Break | ast.Continue) -> None:
        again, behind = self.around[-1]
        self.builder.branch(behind if isinstance(stmt, ast.Break) else again)

    def leave(self, stmt: ast.Return) -> None:
        if stmt.value is not None:
            raise Untranslatable("a kernel that returns a value")
        self.builder.ret_void()

    def condition(self, stmt: ast.If) -> None:
        test = self.truth(stmt.test)
        if not stmt.orelse:
            with self.builder.if_then(test):
                self.statements(stmt.body)
            return
        with self.builder.if_else(test) as (true, false):
            with true:
                self.statements(stmt.body)
            with false:
                self.statements(stmt.orelse)

    def effect(self, stmt: ast.Expr) -> None:
        if not isinstance(stmt.value, ast.Constant):
            self.value(stmt.value)

    # -- expressions

    def value(self, e: ast.expr) -> Typed:
        emit = _EXPRESSIONS.get(type(e))
        if emit is None:
            raise Untranslatable(f"an expression {type(e).__name__}")
        return emit(self, e)

    def constant(self, e: ast.Constant) -> Typed:
        if not isinstance(e.value, bool | int | float):
            raise Untranslatable(f"a literal {e.value!r}")
        return self.operations.constant(self.builder, e.value)

    def named(self, name: str) -> Any:
        """Return the object that a name refers to in the module's text if it is not a variable."""
        found = self.namespace.get(name, getattr(builtins, name, None))
        if found is None:
            raise Untranslatable(f"{name} has no value here")
        return found

    def name(self, e: ast.Name) -> Typed:
        known = self.seen.get(e.id)
        if isinstance(known, _Slot):
            return Typed(known.type, self.builder.load(known.address))
        if known is not None:
            return known
        number = self.named(e.id)
        if not isinstance(number, bool | int | float):
            raise Untranslatable(f"{e.id} as a value")
        return self.operations.constant(self.builder, number)

    def call(self, e: ast.Call) -> Typed:
        if e.keywords:
            raise Untranslatable(f"the call {ast.unparse(e)}")
        function, args = self.function(e.func), [self.value(a) for a in e.args]
        if function in _EXTREMES and len(args) == 2:
            return self.extreme(_EXTREMES[function], *args)
        return self.operations.call(self.builder, function, args)

    def function(self, e: ast.expr) -> Any:
        """Return the function that a call names: a name in the module's text, or in a module that it imports."""
        if _is_name(e):
            return self.named(e.id)
        if isinstance(e, ast.Attribute) and _is_name(e.value):
            return getattr(self.named(e.value.id), e.attr, None)
        raise Untranslatable(f"a call of {ast.unparse(e)}")

    def attribute(self, e: ast.Attribute) -> Typed:
        """Emit an attribute of a value, or of a machine's module, such as `cuda.threadIdx.x`."""
        if _is_name(e.value) and isinstance(module := self.named(e.value.id), ModuleType):
            of = Typed(types.Module(module), self.operations.target_context.get_dummy_value())
        else:
            of = self.value(e.value)
        return self.operations.attribute(self.builder, of, e.attr)

    def several(self, e: ast.Tuple) -> Typed:
        return self.operations.tuple(self.builder, [self.value(item) for item in e.elts])

    def extreme(self, compare: Callable[..., Any], a: Typed, b: Typed) -> Typed:
        """Emit Python's `min` or `max` of two numbers, in the wider of their types. Numba implements these as Python
        functions.
        """
        kind = types.unliteral(
            self.operations.typing_context.unify_pairs(types.unliteral(a.type), types.unliteral(b.type))
        )
        first, second = (Typed(kind, self.operations.cast(self.builder, x, kind)) for x in (a, b))
        better = self.operations.call(self.builder, compare, [second, first])
        return Typed(kind, self.builder.select(better.llvm, second.llvm, first.llvm))

    def operator(self, op: ast.operator) -> Callable[..., Any]:
        if type(op) not in _BINARY:
            raise Untranslatable(f"the operator {type(op).__name__}")
        return _BINARY[type(op)]

    def binary(self, e: ast.BinOp) -> Typed:
        function = self.operator(e.op)
        a, b = self.value(e.left), self.value(e.right)
        if isinstance(e.left, ast.Constant) and isinstance(e.right, ast.Constant):  # as Python's own compiler does
            return self.operations.constant(self.builder, function(e.left.value, e.right.value))
        return self.operations.call(self.builder, function, [a, b])

    def unary(self, e: ast.UnaryOp) -> Typed:
        if isinstance(e.operand, ast.Constant) and isinstance(e.op, ast.USub):
            return self.constant(ast.Constant(-e.operand.value))  # type: ignore[operator]
        function = _UNARY.get(type(e.op))
        if function is None:
            raise Untranslatable(f"the operator {type(e.op).__name__}")
        return self.operations.call(self.builder, function, [self.value(e.operand)])

    def compare(self, e: ast.Compare) -> Typed:
        function = _COMPARE.get(type(e.ops[0]))
        if function is None or len(e.ops) > 1:
            raise Untranslatable(f"the comparison {ast.unparse(e)}")
        return self.operations.call(self.builder, function, [self.value(e.left), self.value(e.comparators[0])])

    def logical(self, e: ast.BoolOp) -> Typed:
        """Emit `and` or `or` of booleans. The right operand is evaluated only if the left one does not decide the
        result.
        """
        builder, decided = self.builder, isinstance(e.op, ast.Or)
        behind = builder.append_basic_block("decided")
        arrived = []
        for number, part in enumerate(e.values):
            value = self.boolean(part)
            arrived.append((value, builder.block))
            if number + 1 < len(e.values):
                further = builder.append_basic_block("further")
                builder.cbranch(value, *((behind, further) if decided else (further, behind)))
                builder.position_at_end(further)
        builder.branch(behind)
        builder.position_at_end(behind)
        return Typed(types.boolean, self._merged(arrived))

    def choice(self, e: ast.IfExp) -> Typed:
        """Emit `a if test else b`, which evaluates only one of the two."""
        builder, test = self.builder, self.truth(e.test)
        blocks = [builder.append_basic_block(part) for part in ("true", "false", "chosen")]
        builder.cbranch(test, *blocks[:2])
        arrived, kinds = [], set()
        for block, part in zip(blocks, (e.body, e.orelse), strict=False):
            builder.position_at_end(block)
            value = self.value(part)
            kind = types.unliteral(value.type)
            kinds.add(kind)
            arrived.append((self.operations.cast(builder, value, kind), builder.block))
            builder.branch(blocks[2])
        if len(kinds) > 1:
            raise Untranslatable(f"a choice between {' and '.join(sorted(map(str, kinds)))}")
        builder.position_at_end(blocks[2])
        return Typed(kinds.pop(), self._merged(arrived))

    def _merged(self, arrived: Sequence[tuple[ir.Value, ir.Block]]) -> ir.Value:
        phi = self.builder.phi(arrived[0][0].type)
        for value, block in arrived:
            phi.add_incoming(value, block)
        return phi

    def boolean(self, e: ast.expr) -> ir.Value:
        """Return a boolean value. Raises `Untranslatable` for other types; `truth` also converts numbers."""
        value = self.value(e)
        if types.unliteral(value.type) != types.boolean:
            raise Untranslatable(f"{ast.unparse(e)} as a boolean")
        return self.operations.cast(self.builder, value, types.boolean)

    def truth(self, e: ast.expr) -> ir.Value:
        """Return the truth value of an expression."""
        value = self.value(e)
        if types.unliteral(value.type) != types.boolean:
            value = self.operations.call(self.builder, bool, [value])
        return self.operations.cast(self.builder, value, types.boolean)

    def element(self, e: ast.Subscript) -> Typed:
        value, index = self.value(e.value), self.value(e.slice)
        if isinstance(value.type, types.BaseTuple):
            if index.literal is None:
                raise Untranslatable(f"{ast.unparse(e)}, an element of a tuple that no number names")
            return Typed(value.type.types[index.literal], self.builder.extract_value(value.llvm, index.literal))
        return self.operations.call(self.builder, operator.getitem, [value, index])


def _is_name(e: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(e, ast.Name)


_STATEMENTS: dict[type, Callable[..., None]] = {
    ast.Assign: Translator.assign,
    ast.AugAssign: Translator.update,
    ast.Expr: Translator.effect,
    ast.For: Translator.loop,
    ast.While: Translator.while_loop,
    ast.If: Translator.condition,
    ast.Break: Translator.leave_loop,
    ast.Continue: Translator.leave_loop,
    ast.Return: Translator.leave,
    ast.Pass: lambda _self, _stmt: None,
}
_EXPRESSIONS: dict[type, Callable[..., Typed]] = {
    ast.Constant: Translator.constant,
    ast.Name: Translator.name,
    ast.Call: Translator.call,
    ast.BinOp: Translator.binary,
    ast.UnaryOp: Translator.unary,
    ast.Compare: Translator.compare,
    ast.BoolOp: Translator.logical,
    ast.IfExp: Translator.choice,
    ast.Subscript: Translator.element,
    ast.Attribute: Translator.attribute,
    ast.Tuple: Translator.several,
}


def translated(
    operations: Operations, builder: ir.IRBuilder, function: Any, source: str, parameters: Sequence[Typed]
) -> None:
    """Emit a function of kernel source into the block of `builder`. `source` is the text of its module.

    Raises `Untranslatable`, with the line in the text.
    """
    code = function.__code__
    tree = next(
        item for item in ast.parse(source).body if isinstance(item, ast.FunctionDef) and item.name == code.co_name
    )
    names = code.co_varnames[: code.co_argcount]
    Translator(operations, builder, function.__globals__, dict(zip(names, parameters, strict=True))).run(tree)
