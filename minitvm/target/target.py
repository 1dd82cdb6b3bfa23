"""`Target`: a kind of machine and its description, read from text, from JSON, or from the host.

Target("cpu")                                   this machine
Target("cpu -width=256 -cores=4")               the same with other figures
Target("cpu -model=znver3"), Target("cpu -arch=cortex-a76"), Target("cuda -model=h100"), Target("accel -model=vdla")
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import TargetError, nearest
from .isas import find_isa
from .machines import IMPLIED, SCALAR_BITS, Cache, Kind, find_kind
from .tvm_options import as_ours

_CURRENT: ContextVar[Target | None] = ContextVar("target", default=None)
_BITS = {"bool": 8}
DEFAULT_CAPABILITY = 80  # for a CUDA target that names no architecture


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Target:
    """The machine that a program is compiled for.

    A target is immutable and hashable, and the fields of its `description` are attributes too. `kind` is "cpu", "cuda",
    "opencl", "accel", or the name of a plug-in's kind. `host` is the target of the host code of a device program.
    Raises `TargetError` for an unknown kind, model or option; the message lists the known ones.
    """

    kind: str
    description: Any
    host: Target | None

    def __init__(self, spec: str | Mapping[str, Any] | Target = "cpu", host: Any = None) -> None:
        if isinstance(spec, Target):
            kind, description = spec.kind, spec.description
            host = spec.host if host is None else host
        else:
            name, options = _parse(spec) if isinstance(spec, str) else _from_mapping(spec)
            name, options = as_ours(name, options)
            host = options.pop("host", None) if host is None else host
            row = find_kind(name)
            kind, description = row.names[0], _describe(row, options)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "host", None if host is None else Target.of(host))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("kind", "description", "host"):
            raise AttributeError(name)
        try:
            return getattr(self.description, name)
        except AttributeError:
            raise AttributeError(f"a {self.kind} target has no attribute {name!r}") from None

    @staticmethod
    def of(target: str | Mapping[str, Any] | Target | None) -> Target:
        """Return the target that a `Target`, text or dictionary describes. None means the current target."""
        if isinstance(target, Target):
            return target
        return Target.current() if target is None else Target(target)

    @staticmethod
    def current(allow_none: bool = False) -> Any:
        """Return the target of the innermost `with target:`, or else the host's CPU (None if `allow_none`, as in
        TVM).
        """
        innermost = _CURRENT.get()
        return innermost if innermost is not None or allow_none else Target("cpu")

    @contextmanager
    def _scope(self) -> Iterator[Target]:
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    def __enter__(self) -> Target:
        scope = self._scope()
        _SCOPES.set((*_SCOPES.get(), scope))
        return scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        *outer, scope = _SCOPES.get()
        _SCOPES.set(tuple(outer))
        scope.__exit__(*error)

    @property
    def device(self) -> str:
        """The device that runs the target's code, such as "cpu" or "cuda"."""
        return find_kind(self.kind).device

    def vector_lanes(self, dtype: str) -> int:
        """Return how many values of a dtype fit in a vector register (on a GPU: in the widest load). It is at least
        1.
        """
        bits = getattr(self.description, "vector_bits", 0)
        if self.is_scalar:
            return 1
        return max(1, int(bits) // _element_bits(str(dtype)))

    @property
    def is_scalar(self) -> bool:
        """Return whether this is a CPU without vectors: one of 32 bits has no vectors of bytes either."""
        return self.kind == "cpu" and self.description.vector_bits <= SCALAR_BITS

    @property
    def has_threads(self) -> bool:
        """Return whether several threads can share a loop. A CPU without an operating system has only one."""
        return self.kind != "cpu" or not self.description.instruction_set.is_bare

    def multiplies_matrices(self, dtype: str) -> bool:
        """Return whether the machine has tensor cores that multiply matrices of a dtype and sum in float32."""
        return str(dtype) in getattr(self.description, "matrix_dtypes", ())

    @property
    def multiplies_pairs(self) -> bool:
        """Return whether the CPU can multiply pairs of bfloat16 and sum in float32.

        The instruction may flush denormal numbers.
        """
        return "avx512_bf16" in getattr(self.description, "features", ())

    @property
    def capability(self) -> int:
        """The number in the name of a CUDA architecture: 90 for sm_90 and sm_90a, or `DEFAULT_CAPABILITY` if none is
        named.
        """
        number = re.match(r"sm_(\d+)", getattr(self.description, "arch", ""))
        return int(number[1]) if number else DEFAULT_CAPABILITY

    @property
    def copies_asynchronously(self) -> bool:
        """Return whether threads can start copies to shared storage and wait for them later.

        This is CUDA's `cp.async`, which exists from sm_80 on.
        """
        return self.kind == "cuda" and self.capability >= 80

    @property
    def rounds_to_tf32(self) -> bool:
        """Return whether products of float32 round their operands to 10 bits of mantissa, which `allow_tf32` must
        permit.
        """
        return getattr(self.description, "allow_tf32", False) and self.multiplies_matrices("tfloat32")

    def __str__(self) -> str:
        """Return text that `Target` can read back."""
        parts = [self.kind]
        for f in dataclasses.fields(self.description):
            value = getattr(self.description, f.name)
            parts.append(f"-{f.name}={shlex.quote(_option_text(value))}")
        if self.host is not None:
            parts.append(f"-host={shlex.quote(str(self.host))}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    @property
    def own_host(self) -> Target:
        """The target of the code around the kernels: `host`, or this machine's CPU if there is none."""
        return self.host or Target("cpu")

    def on(self, machine: str) -> Target:
        """Return the target that `machine` describes, with the options in which this target differs from its kind's
        default.
        """
        base = find_kind(self.kind).default()
        values = {f.name: getattr(self.description, f.name) for f in dataclasses.fields(base)}
        options = {name: value for name, value in values.items() if value != getattr(base, name)}
        return Target({**Target(machine).export(), **options}, self.host)

    @property
    def brief(self) -> str:
        """The shortest text that `Target` reads as this target: its model, and the options that differ from the
        model's.

        A bare name means the default of the kind. For "cpu", that is the machine on which the text is read.
        """
        row, parts = find_kind(self.kind), [self.kind]
        name = getattr(self.description, "name", "")
        base = row.default()
        if base != self.description and name in row.presets:
            base = row.preset(name)
            is_implied = row.model_of and getattr(base, row.model_of) == name
            parts.append(f"-{row.model_of if is_implied else 'model'}={name}")
        for f in dataclasses.fields(self.description):
            value = getattr(self.description, f.name)
            if value != getattr(base, f.name):
                parts.append(f"-{f.name}={shlex.quote(_option_text(value))}")
        if self.host is not None:
            parts.append(f"-host={shlex.quote(self.host.brief)}")
        text = " ".join(parts)
        return text if Target(text) == self else str(self)  # an option may name a model with its own figures

    def code_identity(self) -> str:
        """Return a text that is equal for two targets if the same code is generated for both."""
        parts = [self.kind]
        for f in dataclasses.fields(self.description):
            value = getattr(self.description, f.name)
            if not f.metadata.get("for people") and value != f.metadata.get(IMPLIED, dataclasses.MISSING):
                parts.append(f"{f.name}={value!r}")
        return " ".join(parts if self.host is None else [*parts, f"host=({self.host.code_identity()})"])

    def to_json(self) -> str:
        """Return the target as a JSON object with `kind`, the fields of the description, and `host` if there is one."""
        return json.dumps(self.export(), sort_keys=True)

    def export(self) -> dict[str, Any]:
        """Return the target as a dictionary with the contents of `to_json` (TVM's name for this method)."""
        data = {"kind": self.kind, **dataclasses.asdict(self.description)}
        return data if self.host is None else {**data, "host": self.host.export()}

    @staticmethod
    def from_json(text: str) -> Target:
        """Read a target that `to_json` wrote. Raises `TargetError` for any other text."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise TargetError(f"not a target in JSON: {error}") from None
        if not isinstance(data, dict):
            raise TargetError(f"not a target in JSON: wanted an object with a kind, found {text[:40]!r}")
        return Target(data)


_SCOPES: ContextVar[tuple[Any, ...]] = ContextVar("scopes", default=())


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"target {text!r} cannot be read: {error}") from None
    if not words:
        raise TargetError(f"target {text!r} is empty: wanted a kind, such as 'cpu', and its options")
    name, *rest = words
    options: dict[str, Any] = {}
    for part in rest:
        key, equals, value = part.lstrip("-").partition("=")
        if not part.startswith("-") or not equals:
            raise TargetError(f"target {text!r}: {part!r} is no option\n  wanted: -name=value, as in {name} -width=256")
        options[key] = value
    return name, options


def _from_mapping(spec: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if "kind" not in spec:
        raise TargetError(f"a target needs a kind, found the options {', '.join(spec) or '(none)'}")
    options = {k: v for k, v in spec.items() if k not in ("kind", "keys", "tag") and (k != "libs" or v)}
    return str(spec["kind"]), options


def _describe(row: Kind, options: dict[str, Any]) -> Any:
    options = {row.short.get(key, key): value for key, value in options.items()}
    implied = options.get(row.model_of)
    model = options.pop("model", implied if implied in row.presets else None)
    if model is None:
        base = row.default()
    elif model in row.presets:
        base = row.preset(model)
    else:
        hint = nearest(str(model), list(row.presets))
        guess = f"; {hint}" if hint.startswith("did you mean") else ""
        raise TargetError(f"unknown {row.names[0]} model {model!r}{guess}\n  known: {', '.join(row.presets)}")
    fields = {f.name: f for f in dataclasses.fields(row.description)}
    for key in options:
        if key not in fields:
            raise TargetError(f"{row.names[0]} has no option {key!r}; {nearest(key, ['model', *fields, *row.short])}")
    changes = {key: _convert(key, value, getattr(base, key)) for key, value in options.items()}
    if "vector_bits" in changes and row.names[0] == "cpu":
        bits = changes["vector_bits"]
        if bits not in (32, 64, 128, 256, 512, 1024, 2048):
            raise TargetError(
                f"vector_bits={bits}\n  wanted: 32 (no vectors), 64, 128 (SSE, NEON), 256 (AVX2) or 512 (AVX-512)"
            )
        # Narrower vectors on a wide machine use the encoding of the narrower instruction set.
        if "vector_registers" not in changes and base.vector_bits != bits and base.vector_bits + bits > 512:
            changes["vector_registers"] = 32 if bits >= 512 else 16
    if "isa" in changes:
        find_isa(changes["isa"])
    return dataclasses.replace(base, **changes)


def _convert(key: str, value: Any, like: Any) -> Any:
    try:
        if isinstance(like, Cache):
            return Cache(**value) if isinstance(value, Mapping) else Cache(*map(int, str(value).split(":")))
        if isinstance(like, bool):
            return (
                value
                if isinstance(value, bool)
                else {"1": True, "true": True, "0": False, "false": False}[value.lower()]
            )
        if isinstance(like, tuple):
            items = [p for p in value.split(",") if p] if isinstance(value, str) else list(value)
            return tuple(int(p) if str(p).isdigit() else str(p) for p in items)
        return type(like)(value)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise TargetError(f"option {key}={value!r}: wanted a value like {_option_text(like)!r}") from None


def _option_text(value: Any) -> str:
    if isinstance(value, Cache):
        return ":".join(map(str, (value.size, value.ways, value.line, value.shared_by)))
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _element_bits(dtype: str) -> int:
    name = dtype.split("x", 1)[0]
    if name in _BITS:
        return _BITS[name]
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    if not digits.isdigit():
        raise TargetError(f"{dtype!r} is not a dtype")
    return int(digits)
