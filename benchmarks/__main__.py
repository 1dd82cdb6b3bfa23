"""Run every benchmark, one after the other. One that fails, for want of a peer say, does not stop the others."""

from __future__ import annotations

import sys
import traceback

from . import artifact, cases, layers, matmul, networks, oracle, resnet50, runtime_overhead, schedule


def main() -> int:
    """The number of benchmarks that failed."""
    failed = []
    for module in (matmul, layers, cases, networks, artifact, resnet50, runtime_overhead, schedule, oracle):
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
