"""The options of `build` and `lower`, apart from the model and the target, as one frozen value that is passed to each
stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from .errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np

    from .expr import Expr

Progress = Callable[[str, int, int], None]
Shapes = Mapping[str, Sequence["int | Expr | str | None"]]
PassCallback = Callable[[str, Any, Any], None]

ACCURACIES = ("fast", "strict")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The options that decide how a model is compiled. Raises `InputError` for a value that an option cannot have.

    Model: `params` turns inputs into constants, by name. `shapes` gives the dimensions that an ONNX model leaves open:
    {"x": ("b", 3, None)}. Each is a size, a name (equal names mean equal dimensions) or None. `stop_before` compiles
    the model up to the node or operator with this name, or up to the first unsupported operator ("unsupported").
    `states` maps inputs of an ONNX model to the outputs of the previous run that they receive, {"past": "present"};
    True uses the usual names. `max_length` bounds the context that states hold (see `frontends.onnx.from_onnx`).
    `cache_dtype` is the dtype of the caches of a GGUF file or a folder of Hugging Face, and `slots` the number of texts
    that they hold (see `frontends.from_gguf`).

    Passes: `accuracy="strict"` allows only algorithms that round no worse than the sums as written. This excludes
    Winograd convolution, which also spreads NaN and infinity to a whole tile of up to 4 x 4 results. `tuned` is the
    database with the fastest schedules that `minitvm tune` measured: its path or URL, None for no database, or "auto"
    for the user's own (MINITVM_RECORDS) if it exists. With `checked=True`, a run ends with an error if a data-dependent
    index is out of range; otherwise such an index is moved to the nearest element (docs/semantics.md). `only` keeps the
    fused operator with this name. `replace` maps names of operators to programs that compute them instead,
    {"nn.softmax": my_softmax}: a `PrimFunc`, a function `f(sch)` that schedules the operator's own loops, or a te
    function like that of the operator (`graph.replacing`).

    Engines: `engines` names libraries that compute all operators that they support, instead of our kernels: one name, a
    list of names, of which earlier ones choose first, or "auto" for those that are measured to be faster
    (docs/howto/engine.md).

    Callbacks: `progress(stage, done, total)` is called during the build, and `callback(name, before, after)` after
    every pass.

    Result: `threads` is the number of threads (default: MINITVM_NUM_THREADS, or the cores that this process may use).
    `device` selects one of several GPUs, by its number or by a part of its name.
    """

    params: Mapping[str, np.ndarray] | None = None
    shapes: Shapes | None = None
    stop_before: str | None = None
    states: Mapping[str, str] | bool | None = None
    max_length: int | None = None
    cache_dtype: str | None = None
    slots: int | None = None
    accuracy: str = "fast"
    tuned: str | None = None
    checked: bool = False
    only: str | None = None
    replace: Mapping[str, Any] | None = None
    engines: str | Sequence[str] = ()
    progress: Progress | None = None
    callback: PassCallback | None = None
    threads: int | None = None
    device: str | int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise InputError(f"threads={self.threads}: wanted a number from 1")
        if self.accuracy not in ACCURACIES:
            raise InputError(f"accuracy={self.accuracy!r}: wanted {' or '.join(ACCURACIES)}")

    @property
    def of_model(self) -> dict[str, Any]:
        """Return the options that describe the model, under the names that frontends use for them."""
        return {
            "shapes": self.shapes, "values": self.params, "stop_before": self.stop_before, "states": self.states,
            "max_length": self.max_length, "cache_dtype": self.cache_dtype, "slots": self.slots,
        }  # fmt: skip


class ModelOptions(TypedDict, total=False):
    """The options that `build` and `lower` share, for type checkers."""

    params: Mapping[str, np.ndarray] | None
    shapes: Shapes | None
    stop_before: str | None
    states: Mapping[str, str] | bool | None
    max_length: int | None
    cache_dtype: str | None
    slots: int | None
    accuracy: str
    tuned: str | None
    engines: str | Sequence[str]
    progress: Progress | None


class ForBuild(ModelOptions, total=False):
    """The options of `build`, for type checkers."""

    threads: int | None
    device: str | int | None
    checked: bool
    replace: Mapping[str, Any] | None


class ForLower(ModelOptions, total=False):
    """The options of `lower`, for type checkers."""

    callback: PassCallback | None
    only: str | None
    replace: Mapping[str, Any] | None


def options_of(function: str, options: Mapping[str, Any], kind: type) -> BuildOptions:
    """Return the options of a call of `function`. `kind` (`ForBuild` or `ForLower`) lists the options that it accepts.

    Raises `TypeError` for any other option, and suggests the nearest name.
    """
    names = kind.__annotations__
    for name in options:
        if name not in names:
            raise TypeError(f"{function} has no option {name!r}: {nearest(name, list(names))}")
    return BuildOptions(**options)
