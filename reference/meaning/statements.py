"""What statements do in the slow and in the fast mode alike: one after the other, with names for values."""

from __future__ import annotations

from minitvm.errors import Unsupported
from minitvm.tir import nodes as t

from .scalar import Environment, Execute, ScalarCompiler
from .settings import Settings, endless
from .steps import spend, statements

# The method that compiles a statement; the modes have those that are not here.
_METHODS: dict[type, str] = {
    t.BufferStore: "store", t.For: "loop", t.While: "while_", t.If: "if_", t.Seq: "seq", t.LetStmt: "let_stmt",
    t.Assert: "assert_", t.Evaluate: "evaluate", t.Prefetch: "prefetch", t.Allocate: "allocate",
    t.BlockRealize: "block", t.Instruction: "instruction", t.Async: "begun", t.KernelCall: "kernel_call",
}  # fmt: skip


class Statements(ScalarCompiler):
    """Compiles statements to closures over an environment."""

    settings: Settings

    def stmt(self, s: t.Stmt) -> Execute:
        """The closure that runs a statement: once in the slow mode, at all points in the fast one."""
        method = _METHODS.get(type(s))
        if method is None:
            raise Unsupported(f"the reference interpreter has no meaning for {type(s).__name__}")
        execute: Execute = getattr(self, method)(s)
        return execute

    def seq(self, s: t.Seq) -> Execute:
        """One statement after the other."""
        parts = tuple(self.stmt(one) for one in s.stmts)

        def run(env: Environment) -> None:
            for part in parts:
                part(env)

        return run

    def let_stmt(self, s: t.LetStmt) -> Execute:
        """A name for a value in what follows."""
        value = self.expr(s.value)
        slot = self.define(s.var)
        body = self.stmt(s.body)

        def run(env: Environment) -> None:
            env[slot] = value(env)
            body(env)

        return run

    def while_(self, s: t.While) -> Execute:
        """As long as a condition holds. No loop of a grid contains one: the condition is one value there too."""
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
        """An expression for its effect."""
        value = self.expr(s.value)

        def run(env: Environment) -> None:
            value(env)

        return run

    def prefetch(self, s: t.Prefetch) -> Execute:
        """A hint: it means nothing."""
        return lambda env: None

    def instruction(self, s: t.Instruction) -> Execute:
        """What its description says; once, however many threads run it together."""
        return self.stmt(s.body)

    def kernel_call(self, s: t.KernelCall) -> Execute:
        """Calls belong to host functions; `reference.kernel` gives them their meaning."""
        raise Unsupported(f"the call of {s.kernel} in a level-3 function; kernels are called by host functions")
