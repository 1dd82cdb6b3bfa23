"""Run every benchmark, one after the other. One that fails, for want of a peer say, does not stop the others."""

from __future__ import annotations

import sys
import traceback

from . import (
    artifact,
    builds,
    c_export,
    cases,
    decoder,
    layers,
    matmul,
    networks,
    opensizes,
    operators,
    oracle,
    quantized,
    resnet50,
    runtime_overhead,
    schedule,
    tflite,
    wasm,
)

BENCHMARKS = (
    matmul, layers, cases, operators, networks, opensizes, quantized, decoder, artifact, builds, c_export,
    resnet50, runtime_overhead, schedule, oracle, tflite, wasm,
)  # fmt: skip


def main() -> int:
    """The number of benchmarks that failed."""
    failed = []
    for module in BENCHMARKS:
        try:
            module.main()
        except Exception:
            traceback.print_exc()
            failed.append(module.__name__)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
