"""One changed model: what minitvm makes of it, and what others do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

import minitvm
from minitvm.errors import InternalError, MinitvmError
from minitvm.reference import graph as interpreter

from .changes import Model
from .fences import Fences
from .verdicts import (
    CRASH,
    DISPUTED,
    INVENTED,
    OUTSIDE,
    REFUSED,
    RIGHT,
    UNCLEAR,
    UNKNOWN,
    VALID_REFUSED,
    WRONG,
    Judgement,
)
from .workers import judged

PEER_LIMIT = 30  # seconds for one model

# Words of other levels than the model's, which say nothing to a person with a model.
FOREIGN_WORDS = re.compile(
    r"all\(\) needs|any\(\) needs|reduce_axis|\bT_\w+|Tensor\(|TensorLoad|IterVar|PrimFunc|SizeVar|Traceback"
    r"|\bblock\b.*\biterator|\btoken\b|object has no attribute|list index|unsupported operand|NoneType"
)


def judge(model: Model, at_end: bool = True, interpret: bool = False) -> Judgement:
    """The verdict for a model; `interpret` has the interpreter of graphs run it instead of compiled kernels."""
    try:
        results = _interpreted(model) if interpret else _run(model, at_end)
    except InternalError as error:
        return Judgement(CRASH, f"InternalError: {error}"[:600])
    except MinitvmError as error:
        return _refused(model, f"{type(error).__name__}: {error}")
    except Exception as error:
        return Judgement(CRASH, f"{type(error).__name__}: {error}"[:600])
    if results is None:
        return Judgement(OUTSIDE, "a byte beside an array was written")
    theirs, other = _onnxruntime(model), _evaluator(model)
    texts = [difference(results, peer) for peer in (theirs, other) if isinstance(peer, list)]
    if "" in texts:
        return Judgement(RIGHT)
    if theirs is None or (theirs is UNKNOWN and other is None):
        if not any(r.size for r in results):
            return Judgement(DISPUTED, "only a shape, and no number, that others refuse")
        # The evaluator takes many sizes that the standard does not allow.
        return Judgement(INVENTED, f"{[(r.shape, r.reshape(-1)[:3].tolist()) for r in results]}; others: {texts}")
    agree = isinstance(theirs, list) and isinstance(other, list) and not difference(theirs, other)
    return Judgement(WRONG if agree else DISPUTED, "; ".join(texts))


def _refused(model: Model, text: str) -> Judgement:
    if not plain(model, text):
        return Judgement(UNCLEAR, text[:600])
    theirs, other = _onnxruntime(model), _evaluator(model)
    if isinstance(theirs, list) and isinstance(other, list) and not difference(theirs, other):
        return Judgement(VALID_REFUSED, text[:600])
    return Judgement(REFUSED, text[:300])


def plain(model: Model, text: str) -> bool:
    """Whether a refusal names the operator, or an input, and has no words of another level."""
    return not FOREIGN_WORDS.search(text) and (model.op in text or any(f" {n}" in text for n in (*model.inputs, "y0")))


def _run(model: Model, at_end: bool) -> list[np.ndarray] | None:
    fences = Fences(at_end)
    with fences.around_everything():
        module = minitvm.build(model.proto(), threads=1)
        results = module(**{name: fences.copy(a) for name, a in model.arrays.items()})
    own = [np.array(r) for r in (results if isinstance(results, tuple | list) else [results])]
    return None if fences.written() else own


def _interpreted(model: Model) -> list[np.ndarray]:
    from minitvm.frontends import from_onnx

    return [np.asarray(r) for r in interpreter.run(from_onnx(model.proto()), model.arrays)]


def _onnxruntime(model: Model) -> Any:
    """The results of ONNX Runtime; None if it refuses it, UNKNOWN if it has no such operator, or crashes."""
    import onnxruntime  # noqa: F401  # once, and not in each process

    return _in_another_process(_run_by_onnxruntime, model)


def _in_another_process(run: Callable[[Model], Any], model: Model) -> Any:
    """The result of another system; UNKNOWN for a crash, or the end of its time: these say nothing about minitvm."""
    ((_, result),) = judged([model], run, limit=PEER_LIMIT)
    return UNKNOWN if isinstance(result, Judgement | str) else result  # a copied UNKNOWN is not the same object


def _run_by_onnxruntime(model: Model) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(r) for r in session.run(None, model.arrays)]
    except Exception as error:
        text = str(error)
        return UNKNOWN if "NOT_IMPLEMENTED" in text or "is not a registered" in text else None


def _evaluator(model: Model) -> Any:
    """The results of ONNX's evaluator; None if it fails, UNKNOWN if it crashes, or has no such operator."""
    return UNKNOWN if model.domain else _in_another_process(_run_by_evaluator, model)


def _run_by_evaluator(model: Model) -> list[np.ndarray] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.asarray(y) for y in ReferenceEvaluator(model.proto()).run(None, model.arrays)]
    except Exception:
        return None


def accepted(model: Model) -> bool:
    """Whether others run the model: if they do not, their refusals say nothing."""
    return _onnxruntime(model) not in (None, UNKNOWN) or isinstance(_evaluator(model), list)


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str:
    """Where results differ; "" for nowhere."""
    if len(ours) < len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for a, b in zip(ours, theirs, strict=False):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        x, y = (_float(v) for v in (a, b))
        # A quotient between two bytes may be rounded to either of them.
        near = {"rtol": 2e-3, "atol": 1 if a.dtype in (np.int8, np.uint8) else 2e-3, "equal_nan": True}
        if not np.allclose(x, y, **near):
            at = tuple(int(k) for k in np.argwhere(~np.isclose(x, y, **near))[0])
            return f"{x[at]} instead of {y[at]} at {at} of {list(a.shape)}"
    return ""


def _float(values: Any) -> np.ndarray:
    return np.asarray(values).astype(np.float64)
