"""Run every benchmark, one after the other."""

from . import matmul, resnet50, runtime_overhead


def main() -> None:
    for module in (matmul, resnet50, runtime_overhead):
        module.main()


main()
