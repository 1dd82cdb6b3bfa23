"""The meaning of statements that is common to the slow and the fast mode: sequences, names, loops."""

from __future__ import annotations

from minitvm.errors import Unsupported
from minitvm.tir import nodes as t

from .scalar import Environment, Execute, ScalarCompiler
from .settings import Settings, endless
from .steps import spend, statements

# The method that compiles each kind of statement; some are defined in the modes.
_METHODS: dict[type, str] = {
    t.BufferStore: "store", t.For: "loop", t.While: "while_", t.If: "if_", t.Seq: "seq", t.LetStmt: "let_stmt",
    t.Assert: "assert_", t.Evaluate: "evaluate", t.Prefetch: "prefetch", t.Allocate: "allocate",
    t.BlockRealize: "block", t.Instruction: "instruction", t.Async: "begun", t.KernelCall: "kernel_call",
}  # fmt: skip


class Statements(ScalarCompiler):
    """Compiles statements to closures over an environment."""

    settings: Settings

    def stmt(self, s: t.Stmt) -> Execute:
        """Return the closure that runs a statement: once in the slow mode, at all points in the fast mode."""
        method = _METHODS.get(type(s))
        if method is None:
            raise Unsupported(f"the reference interpreter has no meaning for {type(s).__name__}")
        execute: Execute = getattr(self, method)(s)
        return execute

    def seq(self, s: t.Seq) -> Execute:
        """Compile a sequence of statements."""
        parts = tuple(self.stmt(one) for one in s.stmts)

        def run(env: Environment) -> None:
            for part in parts:
                part(env)

        return run

    def let_stmt(self, s: t.LetStmt) -> Execute:
        """Compile a let, which binds a name to a value for its body."""
        value = self.expr(s.value)
        slot = self.define(s.var)
        body = self.stmt(s.body)

        def run(env: Environment) -> None:
            env[slot] = value(env)
            body(env)

        return run

    def while_(self, s: t.While) -> Execute:
        """Compile a `while`. In the fast mode its condition is a single value, because no grid loop contains a
        `while`.
        """
        condition, body, limit = self.expr(s.condition), self.stmt(s.body), self.settings.while_limit
        each = statements(s.body)

        def run(env: Environment) -> None:
            count = 0
            while bool(condition(env)):
                count += 1
                if count > limit:
                    raise endless(s, limit)
                spend(each)
                body(env)

        return run

    def evaluate(self, s: t.Evaluate) -> Execute:
        """Compile the evaluation of an expression for its effect."""
        value = self.expr(s.value)

        def run(env: Environment) -> None:
            value(env)

        return run

    def prefetch(self, s: t.Prefetch) -> Execute:
        """Compile a prefetch, which does nothing."""
        return lambda env: None

    def instruction(self, s: t.Instruction) -> Execute:
        """Compile an instruction: its description runs once, however many threads execute it together."""
        return self.stmt(s.body)

    def kernel_call(self, s: t.KernelCall) -> Execute:
        """Refuse the call of a kernel; `reference.kernel` overrides this for host functions."""
        raise Unsupported(f"the call of {s.kernel} outside a host function; only host functions call kernels")
