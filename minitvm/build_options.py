"""The options of `build` and `lower`, beside a model and a target: one frozen value, which the stages hand on."""

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
    """How a model is compiled. Raises `InputError` for a value that an option cannot have.

    Of the model: `params` gives inputs a constant value by name. `shapes` gives the dimensions of inputs that an ONNX
    model leaves open: {"x": ("b", 3, None)}, a size, a name (equal ones are one dimension) or None. `stop_before`
    compiles the model up to a node or operator of that name, or up to what is not supported ("unsupported"). `states`
    are inputs of an ONNX model that are outputs of the run before, {"past": "present"}, or True for the usual names;
    `max_length` bounds the context that they hold (see `frontends.onnx.from_onnx`).

    Of the passes: `accuracy="strict"` allows only algorithms that round no worse than the sums as written: no Winograd
    convolution, which also spreads NaN and infinity to a whole tile of up to 4 x 4 results. `tuned` is the database
    from which a model's operators take the schedules that won when they were tuned (`minitvm tune`): its path or URL,
    None for none, or "auto", the user's own (MINITVM_RECORDS) if there is one. `checked=True` ends a run with an error
    when an index that data decide is out of range; otherwise such an index stands for the nearest element
    (docs/semantics.md). `only` keeps one fused operator, by its name.

    Of the work: `progress(stage, done, total)` is called during it, `callback(name, before, after)` after every pass.

    Of the result: `threads` is the size of the thread team (default: MINITVM_NUM_THREADS, or the cores this process may
    run on). `device` is the number of a GPU, or a part of its name, if there are several of the target's kind.
    """

    params: Mapping[str, np.ndarray] | None = None
    shapes: Shapes | None = None
    stop_before: str | None = None
    states: Mapping[str, str] | bool | None = None
    max_length: int | None = None
    accuracy: str = "fast"
    tuned: str | None = None
    checked: bool = False
    only: str | None = None
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
        """The options that say what the model is, by the names that frontends have for them."""
        return {
            "shapes": self.shapes, "values": self.params, "stop_before": self.stop_before, "states": self.states,
            "max_length": self.max_length,
        }  # fmt: skip


class ModelOptions(TypedDict, total=False):
    """For type checkers: the options that `build` and `lower` share."""

    params: Mapping[str, np.ndarray] | None
    shapes: Shapes | None
    stop_before: str | None
    states: Mapping[str, str] | bool | None
    max_length: int | None
    accuracy: str
    tuned: str | None
    progress: Progress | None


class ForBuild(ModelOptions, total=False):
    """For type checkers: the options of `build`."""

    threads: int | None
    device: str | int | None
    checked: bool


class ForLower(ModelOptions, total=False):
    """For type checkers: the options of `lower`."""

    callback: PassCallback | None
    only: str | None


def options_of(function: str, options: Mapping[str, Any], kind: type) -> BuildOptions:
    """The options of a call of a function that has those of a kind (`ForBuild`, `ForLower`).

    Raises `TypeError` for an option that the function does not have, with the nearest that it has.
    """
    names = kind.__annotations__
    for name in options:
        if name not in names:
            raise TypeError(f"{function} has no option {name!r}: {nearest(name, list(names))}")
    return BuildOptions(**options)
