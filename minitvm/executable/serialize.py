"""Executables on disk: `<path>.json` contains everything except the weights. `<path>.bin` contains these, each at a
multiple of 64 bytes.

The JSON contains SHA-256 checksums of itself and of the weights. Loading a file that is truncated, altered or of
another version raises `ArtifactError`. Loading unpickles and executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import expr as ex
from ..errors import ArtifactError, Unsupported
from . import nodes as n
from .alignment import ALIGNMENT, aligned_empty

VERSION = 13
_FORMAT = "minitvm-executable"

_BINARY = {
    c.__name__: c
    for c in (
        ex.Add, ex.Sub, ex.Mul, ex.Div, ex.Mod, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max,
        ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE, ex.And, ex.Or,
    )
}  # fmt: skip
_LOCATIONS = {c.__name__: c for c in (n.Input, n.Output, n.State, n.ConstantRef)}


class _Writer:
    """Converts nodes to JSON values. Variables and expressions are numbered in the order in which they occur.

    Equal expressions have one row in `expressions`, in which operands are the numbers of earlier rows. The offsets in
    an arena are sums that contain each other: written as trees, they would be most of the file.
    """

    def __init__(self) -> None:
        self.variables: dict[ex.Var, int] = {}
        self.expressions: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[ex.Expr, int] = {}  # by identity

    def expr(self, x: Any) -> Any:
        return {"expr": self._number(x)} if isinstance(x, ex.Expr) else x

    def _number(self, x: ex.Expr) -> int:
        number = self._numbers.get(x)
        if number is None:
            number = self._numbers[x] = self.expressions.setdefault(self._row(x), len(self.expressions))
        return number

    def _row(self, x: ex.Expr) -> tuple[Any, ...]:
        if isinstance(x, ex.Var):
            return "var", self.variables.setdefault(x, len(self.variables))
        if isinstance(x, ex.IntImm):
            return "int", str(x.dtype), x.value
        if isinstance(x, ex.FloatImm):
            return "float", str(x.dtype), float(x.value).hex()
        if isinstance(x, ex.BinaryOp) and type(x).__name__ in _BINARY:
            return type(x).__name__, self._number(x.a), self._number(x.b)
        if isinstance(x, ex.Not):
            return "Not", self._number(x.a)
        if isinstance(x, ex.Select):
            return "Select", *map(self._number, (x.condition, x.true_value, x.false_value))
        if isinstance(x, ex.Cast):
            return "Cast", str(x.dtype), self._number(x.value)
        if isinstance(x, ex.Call):
            return "Call", str(x.dtype), x.op, *map(self._number, x.args)
        raise Unsupported(f"{type(x).__name__} in an executable cannot be saved: {x}")

    def argument(self, a: Any) -> Any:
        if type(a).__name__ in _LOCATIONS:
            return {"at": type(a).__name__, "index": a.index}
        if isinstance(a, n.ArenaSlice):
            return {"at": "ArenaSlice", "arena": a.arena, "offset": self.expr(a.offset), "nbytes": self.expr(a.nbytes)}
        return {"float": a.hex()} if isinstance(a, float) else self.expr(a)

    def spec(self, s: n.TensorSpec | n.ScalarSpec | None) -> Any:
        if s is None:
            return None
        if isinstance(s, n.ScalarSpec):
            return {"name": s.name, "dtype": str(s.dtype), "scalar": self.expr(s.var)}
        about = {"name": s.name, "dtype": str(s.dtype), "shape": [self.expr(d) for d in s.shape]}
        return {**about, "inout": s.inout, "room": s.room}

    def step(self, s: n.Step) -> Any:
        if isinstance(s, n.Barrier):
            return {"step": "barrier"}
        if isinstance(s, n.Copy):
            places = {"dst": self.argument(s.dst), "src": self.argument(s.src)}
            return {"step": "copy", **places, "nbytes": self.expr(s.nbytes), "operator": s.operator}
        if isinstance(s, n.BindSize):
            bound = {"var": self.expr(s.var), "place": self.argument(s.place), "most": self.expr(s.most)}
            return {"step": "bind", **bound, "where": s.where, "operator": s.operator, "reason": s.reason}
        if isinstance(s, n.Loop):
            places = {"number": self.argument(s.number), "limit": self.argument(s.limit)}
            going = None if s.going is None else self.argument(s.going)
            about = {"going": going, "most": self.expr(s.most), "where": s.where, "operator": s.operator}
            return {"step": "loop", "steps": s.steps, **places, **about}
        args = [self.argument(a) for a in s.args]
        if isinstance(s, n.CallKernel):
            call = {"step": "call", "kernel": s.kernel, "args": args}
            return {**call, "parallel": s.parallel, "operator": s.operator, "grid": [self.expr(d) for d in s.grid]}
        specs = [self.spec(p) for p in s.specs]
        return {
            "step": "external", "engine": s.engine, "args": args, "access": list(s.access), "specs": specs,
            "attrs": dict(s.attrs),
        }  # fmt: skip

    def arena(self, a: n.Arena) -> Any:
        rows = [[r.name, self.expr(r.offset), self.expr(r.nbytes), r.first, r.last] for r in a.residents]
        about = {"name": a.name, "size": self.expr(a.size), "alignment": a.alignment}
        return {**about, "residents": rows, "target": a.target}

    def kernel(self, k: n.Kernel) -> Any:
        params = [[p.name, str(p.dtype), p.role, p.access] for p in k.params]
        return {
            "name": k.name, "language": k.language, "source": k.source, "entry": k.entry, "params": params,
            "script": k.script, "shared_bytes": k.shared_bytes, "target": k.target, "refusal": k.refusal,
            "tasks": k.tasks,
        }  # fmt: skip


def to_json(executable: n.Executable) -> dict[str, Any]:
    """Return an executable as a JSON value, without the bytes of its constants, which `blob` returns."""
    w, x = _Writer(), executable
    body = {
        "name": x.name,
        "target": x.target,
        "inputs": [w.spec(s) for s in x.inputs],
        "outputs": [w.spec(s) for s in x.outputs],
        "constants": [
            {"name": c.name, "dtype": str(c.dtype), "shape": list(c.shape), "offset": offset}
            for c, offset in zip(x.constants, _offsets(x), strict=False)
        ],
        "arenas": [w.arena(a) for a in x.arenas],
        "kernels": [w.kernel(k) for k in x.kernels],
        "steps": [w.step(s) for s in x.steps],
        "calling": [w.argument(c) for c in x.calling],
        "states": [{**w.spec(s), "first": s.first} for s in x.states],
        "bounds": [[w.argument(b.place), w.expr(b.low), w.expr(b.high), b.where] for b in x.bounds],
        "guards": [[w.expr(g.left), w.expr(g.right), g.where] for g in x.guards],
        "model_nodes": {operator: list(names) for operator, names in x.model_nodes.items()},
    }
    body["variables"] = [[type(v).__name__, v.name, str(v.dtype)] for v in w.variables]
    body["expressions"] = list(map(list, w.expressions))
    return body


def _offsets(executable: n.Executable) -> list[int]:
    """Return the offset of each constant in the blob, followed by the length of the blob."""
    offsets, end = [], 0
    for c in executable.constants:
        offsets.append(-(-end // ALIGNMENT) * ALIGNMENT)
        end = offsets[-1] + c.data.nbytes
    return [*offsets, end]


def blob(executable: n.Executable) -> tuple[int, Iterator[bytes | memoryview]]:
    """Return the total size, and an iterator over the bytes of all constants, each aligned to a multiple of 64.

    The bytes come in pieces, because weights are large.
    """
    offsets = _offsets(executable)

    def pieces() -> Iterator[bytes | memoryview]:
        end = 0
        for c, offset in zip(executable.constants, offsets, strict=False):
            yield bytes(offset - end)
            yield np.ascontiguousarray(c.data).reshape(-1).view(np.uint8).data
            end = offset + c.data.nbytes

    return offsets[-1], pieces()


class _Reader:
    def __init__(self, variables: list[list[str]], expressions: list[list[Any]]) -> None:
        kinds = {"Var": ex.Var, "SizeVar": ex.SizeVar, "DataVar": ex.DataVar}
        self.variables = [kinds[kind](name, ex.DType(dtype)) for kind, name, dtype in variables]
        self.expressions: list[ex.Expr] = []
        for kind, *about in expressions:
            self.expressions.append(self._row(kind, about))

    def expr(self, j: Any) -> Any:
        return self.expressions[j["expr"]] if isinstance(j, dict) else j

    def _row(self, kind: str, about: list[Any]) -> ex.Expr:
        rows = self.expressions
        if kind in _BINARY:
            a, b = about
            return _BINARY[kind](rows[a], rows[b])
        if kind == "var":
            return self.variables[about[0]]
        if kind == "int":
            return ex.IntImm(about[1], ex.DType(about[0]))
        if kind == "float":
            return ex.FloatImm(float.fromhex(about[1]), ex.DType(about[0]))
        if kind == "Cast":
            return ex.Cast(ex.DType(about[0]), rows[about[1]])
        if kind == "Call":
            return ex.Call(ex.DType(about[0]), about[1], tuple(rows[number] for number in about[2:]))
        others: dict[str, Callable[..., ex.Expr]] = {"Not": ex.Not, "Select": ex.Select}
        return others[kind](*(rows[number] for number in about))

    def argument(self, j: Any) -> Any:
        if isinstance(j, dict) and j.get("at") in _LOCATIONS:
            return _LOCATIONS[j["at"]](j["index"])
        if isinstance(j, dict) and j.get("at") == "ArenaSlice":
            return n.ArenaSlice(j["arena"], self.expr(j["offset"]), self.expr(j["nbytes"]))
        return float.fromhex(j["float"]) if isinstance(j, dict) and j.keys() == {"float"} else self.expr(j)

    def spec(self, j: Any) -> Any:
        if j is None:
            return None
        if "scalar" in j:
            return n.ScalarSpec(j["name"], ex.DType(j["dtype"]), self.expr(j["scalar"]))
        shape = tuple(map(self.expr, j["shape"]))
        return n.TensorSpec(j["name"], ex.DType(j["dtype"]), shape, j["inout"], j["room"])

    def state(self, j: Any) -> n.StateSpec:
        return n.StateSpec(j["name"], ex.DType(j["dtype"]), tuple(j["shape"]), first=j["first"])

    def step(self, j: Any) -> n.Step:
        if j["step"] == "barrier":
            return n.Barrier()
        if j["step"] == "copy":
            return n.Copy(self.argument(j["dst"]), self.argument(j["src"]), self.expr(j["nbytes"]), j["operator"])
        if j["step"] == "bind":
            var, place, most = self.expr(j["var"]), self.argument(j["place"]), self.expr(j["most"])
            return n.BindSize(var, place, most, j["where"], j["operator"], j.get("reason", ""))
        if j["step"] == "loop":
            number, limit = self.argument(j["number"]), self.argument(j["limit"])
            going = None if j["going"] is None else self.argument(j["going"])
            return n.Loop(j["steps"], number, limit, going, self.expr(j["most"]), j["where"], j["operator"])
        args = tuple(map(self.argument, j["args"]))
        if j["step"] == "call":
            return n.CallKernel(j["kernel"], args, j["parallel"], j["operator"], tuple(map(self.expr, j["grid"])))
        return n.CallExternal(j["engine"], args, tuple(j["access"]), tuple(map(self.spec, j["specs"])), j["attrs"])

    def arena(self, j: Any) -> n.Arena:
        rows = (n.Resident(name, self.expr(at), self.expr(size), a, b) for name, at, size, a, b in j["residents"])
        return n.Arena(j["name"], self.expr(j["size"]), j["alignment"], tuple(rows), j["target"])

    def kernel(self, j: Any) -> n.Kernel:
        params = tuple(n.KernelParam(name, ex.DType(dtype), role, access) for name, dtype, role, access in j["params"])
        about = (j["shared_bytes"], j["target"], j["refusal"], j["tasks"])
        return n.Kernel(j["name"], j["language"], j["source"], j["entry"], params, j["script"], None, *about)


def from_json(body: Mapping[str, Any], data: bytes | bytearray | memoryview) -> n.Executable:
    """Rebuild an executable from the results of `to_json` and `blob`.

    Constants are read-only views of `data`, and `Kernel.func` is None.
    """
    r = _Reader(body["variables"], body["expressions"])
    constants = []
    for c in body["constants"]:
        dtype, shape = ex.DType(c["dtype"]), tuple(c["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(data, dtype.numpy, count, c["offset"]) if count else np.empty(0, dtype.numpy)
        values = values.reshape(shape)
        values.flags.writeable = False
        constants.append(n.Constant(c["name"], dtype, shape, values))
    return n.Executable(
        name=body["name"],
        target=body["target"],
        inputs=tuple(map(r.spec, body["inputs"])),
        outputs=tuple(map(r.spec, body["outputs"])),
        constants=tuple(constants),
        arenas=tuple(map(r.arena, body["arenas"])),
        kernels=tuple(map(r.kernel, body["kernels"])),
        steps=tuple(map(r.step, body["steps"])),
        calling=tuple(map(r.argument, body["calling"])),
        states=tuple(map(r.state, body["states"])),
        bounds=tuple(
            n.Bound(r.argument(place), r.expr(low), r.expr(high), where) for place, low, high, where in body["bounds"]
        ),
        guards=tuple(n.Guard(r.expr(left), r.expr(right), where) for left, right, where in body["guards"]),
        model_nodes={operator: tuple(names) for operator, names in body.get("model_nodes", {}).items()},
    )


def _paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    base = Path(path)
    base = base.with_suffix("") if base.suffix in (".json", ".bin") else base
    return base.with_name(base.name + ".json"), base.with_name(base.name + ".bin")


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def save(executable: n.Executable, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write `<path>.json` and `<path>.bin`, and return both paths. Each file is written completely or not at all."""
    body, data = to_json(executable), b"".join(blob(executable)[1])
    head = {
        "format": _FORMAT,
        "version": VERSION,
        "body_sha256": hashlib.sha256(_text(body).encode()).hexdigest(),
        "blob_sha256": hashlib.sha256(data).hexdigest(),
        "body": body,
    }
    json_path, blob_path = _paths(path)
    for target, content in ((blob_path, data), (json_path, json.dumps(head, indent=1).encode())):
        partial = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        partial.write_bytes(content)
        os.replace(partial, target)
    return json_path, blob_path


def _read_aligned(path: Path) -> memoryview:
    """Read a file into memory at an aligned address, so that the runtime can use the constants without a copy."""
    with path.open("rb") as file:
        blob = aligned_empty(os.fstat(file.fileno()).st_size)
        count = file.readinto(blob.data)
    return blob[:count].data


def load(path: str | os.PathLike[str]) -> n.Executable:
    """Read an executable that `save` wrote.

    Raises `ArtifactError` if a file is missing, damaged, or from another version.
    """
    json_path, blob_path = _paths(path)
    try:
        head = json.loads(json_path.read_text(encoding="utf-8"))
        data = _read_aligned(blob_path)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArtifactError(f"{json_path}: not a readable executable: {error}") from None
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise ArtifactError(f"{json_path} is not an executable of minitvm")
    if head.get("version") != VERSION:
        raise ArtifactError(f"{json_path} has version {head.get('version')}; this minitvm reads version {VERSION}")
    body = head.get("body")
    if not isinstance(body, dict):
        raise ArtifactError(f"{json_path} has no body")
    if hashlib.sha256(_text(body).encode()).hexdigest() != head.get("body_sha256"):
        raise ArtifactError(f"{json_path} was altered: its checksum does not match")
    if hashlib.sha256(data).hexdigest() != head.get("blob_sha256"):
        raise ArtifactError(f"{blob_path} is truncated or altered: its checksum does not match")
    return from_json(body, data)
