"""A CUDA device beside PyTorch (cuBLAS, cuDNN) on the same device: products, rows, layers, networks, launches.

    python -m benchmarks.gpu [matmul candidates rows layers networks launch]

Arrays lie on the device before and after; a call returns when its result is there, ours and PyTorch's alike. PyTorch's
networks are CUDA graphs, as ours are. TF32 is off but where a line says so. Without a device or without PyTorch it
prints what is missing and measures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import minitvm
from minitvm import strategy
from minitvm.errors import MinitvmError
from minitvm.graph import Graph, GraphBuilder

from . import harness
from .layers import CONVOLUTIONS, DEPTHWISE, layer

NETWORKS = (
    "alexnet", "densenet121", "inception_v3", "mobilenet", "mobilenet_v2", "resnet18", "resnet50", "squeezenet1_0",
    "squeezenet1_1", "vgg16",
)  # fmt: skip
_QUICK = {"inception_v3": {"init_weights": False}}  # its weights take half a minute to draw
ELEMENTS = 64 << 20
COPY_WANTED, LAUNCH_WANTED = 0.85, 20e-6
Run = Callable[[], Any]


def missing() -> str:
    """What keeps this machine from measuring; "" for nothing."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed (pip install 'minitvm[torch]')"
    if not torch.cuda.is_available():
        return "PyTorch finds no CUDA device"
    from minitvm.machines.cuda.runtime import devices

    try:
        device = devices.current()
    except MinitvmError as error:
        return str(error).partition("\n")[0]
    return "" if device.dlpack is not None and device.dlpack[0] == 2 else f"{device.name} is no CUDA device"


def ours(graph: Graph, inputs: dict[str, Any]) -> Run:
    """A call of the compiled graph on tensors of the device, whose result stays there."""
    from minitvm.machines.cuda.runtime import devices

    module = minitvm.build(graph, target=devices.current().target)
    here = [minitvm.from_dlpack(inputs[value.name]) for value in graph.inputs]
    return lambda: module(*here, out="device")


def theirs(function: Callable[..., Any], *tensors: Any) -> Run:
    """A call of PyTorch that waits for its result."""
    import torch

    def run() -> Any:
        result = function(*tensors)
        torch.cuda.synchronize()
        return result

    return run


def captured(module: Any, tensor: Any) -> Run:
    """A PyTorch network as one CUDA graph: a run is a launch."""
    import torch

    still = tensor.clone()
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            module(still)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(recorded):
        result = module(still)

    def run() -> Any:
        recorded.replay()
        torch.cuda.synchronize()
        return result

    return run


def compared(name: str, mine: Run, peer: Run, peer_name: str, wanted: float, tolerance: float = 1e-3) -> harness.Row:
    """Medians of both, after a check that they agree."""
    import torch

    found, expected = torch.from_dlpack(mine()).float(), peer().float()
    difference = float((found.reshape(expected.shape) - expected).abs().max())
    if not difference <= tolerance * float(expected.abs().max()):
        raise RuntimeError(f"{name}: minitvm and {peer_name} differ by {difference}: nothing to measure")
    medians = harness.interleaved({"ours": mine, "peer": peer}, at_least=0.01)
    return harness.Row(name, 1, medians["ours"], medians["peer"], peer_name, wanted)


def _in_float32() -> None:
    """PyTorch multiplies floats of 32 bits as such, and takes the convolutions that it finds fastest."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


def product(n: int, dtype: str) -> Graph:
    """An n x n product, summed in float32."""
    b = GraphBuilder("product")
    x, y = b.input("x", (n, n), dtype), b.input("y", (n, n), dtype)
    attrs = {} if dtype == "float32" else {"out_dtype": "float32"}
    return b.build(b.op("nn.matmul", x, y, **attrs))


def matmul(n: int = 4096) -> Iterator[harness.Row]:
    """Square products: on the multiply-add units, and on tensor cores."""
    import torch

    _in_float32()
    for dtype, wanted in (("float32", 0.85), ("float16", 0.5), ("bfloat16", 0.5)):
        x, y = (torch.randn(n, n, device="cuda", dtype=getattr(torch, dtype)) for _ in "xy")
        mine = ours(product(n, dtype), {"x": x, "y": y})
        yield compared(f"{dtype} {n}^3", mine, theirs(torch.matmul, x, y), "cuBLAS", wanted, 1e-2)


CANDIDATES = 6  # of each rule and way to fetch


def ways(graph: Graph, target: str, most: int = CANDIDATES) -> list[Any]:
    """The candidates for a graph of one operator: of each rule, and each way in which it fetches, the cheapest."""
    (func,) = minitvm.lower(graph, target=target, stop_at="tir").values()
    groups: dict[Any, list[Any]] = {}
    for one in strategy.candidates(func, minitvm.target.Target(target)):
        groups.setdefault((one.rule, one.knobs.get("fetch")), []).append(one)
    return [(func, one) for group in groups.values() for one in group[:most]]


def candidate_seconds(func: Any, candidate: Any, target: str, arrays: list[Any], expected: Any) -> float:
    """Seconds of a candidate's kernels by the device's clock, the least of five. Its result must be as expected."""
    function = minitvm.build(candidate.schedule(func).func, target=target)
    there = [function.to_device(array) for array in (*arrays, np.zeros_like(expected))]
    clock = function.clock([there])
    assert clock is not None
    seconds = min(clock(k) for k in range(5))
    harness.require_agreement(str(dict(candidate.knobs)), "NumPy", there[-1].numpy(), expected)
    return seconds


def candidates(n: int = 4096) -> Iterator[harness.Row]:
    """The candidates for square products, kernels alone, beside cuBLAS: what costs choose is the first of its rule."""
    import torch

    from minitvm.machines.cuda.runtime import devices

    _in_float32()
    target = devices.current().target
    for dtype, wanted in (("float32", 0.85), ("float16", 0.5)):
        x, y = (torch.randn(n, n, device="cuda", dtype=getattr(torch, dtype)) for _ in "xy")
        expected = (x.float() @ y.float()).cpu().numpy()
        peer = kernel_seconds(lambda x=x, y=y: torch.matmul(x, y))
        for func, one in ways(product(n, dtype), target):
            name = " ".join([dtype, one.rule, *map(str, one.knobs.values()), f"{one.cost.cycles:.3g}"])
            try:
                seconds = candidate_seconds(func, one, target, [x.cpu().numpy(), y.cpu().numpy()], expected)
            except MinitvmError as error:
                print(f"  {name}: {str(error).partition(chr(10))[0]}")
                continue
            yield harness.Row(name, 1, seconds, peer, "cuBLAS, kernel", wanted)


def kernel_seconds(run: Run, rounds: int = 20) -> float:
    """Seconds of what PyTorch queues, by the device's clock, the least of some rounds."""
    import torch

    found = []
    for _ in range(rounds):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        run()
        events[0].record()
        run()
        events[1].record()
        torch.cuda.synchronize()
        found.append(events[0].elapsed_time(events[1]) * 1e-3)
    return min(found)


ROWS = ("softmax", "layer norm", "gelu")


def row_graph(name: str, rows: int, columns: int) -> Graph:
    """A function of `ROWS`, bound by memory: it reads and writes all elements once."""
    b = GraphBuilder("rows")
    x = b.input("x", (rows, columns))
    if name == "layer norm":
        ones, zeros = np.ones(columns, np.float32), np.zeros(columns, np.float32)
        return b.build(b.op("nn.layer_norm", x, ones, zeros, axis=-1, epsilon=1e-5))
    return b.build(b.op("nn.softmax", x, axis=-1) if name == "softmax" else b.op("nn.gelu", x))


def row_function(name: str) -> Callable[[Any], Any]:
    """The same in PyTorch."""
    from torch.nn import functional

    if name == "layer norm":
        return lambda x: functional.layer_norm(x, x.shape[-1:])
    return (lambda x: functional.softmax(x, -1)) if name == "softmax" else functional.gelu


def rows(elements: int = ELEMENTS) -> Iterator[harness.Row]:
    """Rows and elements, beside PyTorch and beside a copy of as many bytes."""
    import torch

    columns = 4096
    x = torch.randn(elements // columns, columns, device="cuda")
    y = torch.empty_like(x)
    copy = harness.interleaved({"copy": theirs(y.copy_, x)}, at_least=0.01)["copy"]
    for name in ROWS:
        mine, peer = ours(row_graph(name, *x.shape), {"x": x}), theirs(row_function(name), x)
        row = compared(f"{name}, {elements >> 20}M", mine, peer, "PyTorch", 1.0)
        yield row
        yield harness.Row(f"{name}, of a copy's rate", 1, row.ours, copy, "copy", COPY_WANTED)


def layers() -> Iterator[harness.Row]:
    """C1 to C12 and D1 to D9 beside cuDNN."""
    import torch

    _in_float32()
    for name in (*CONVOLUTIONS, *DEPTHWISE):
        graph, inputs = layer(name)
        data = torch.from_numpy(inputs["data"]).cuda()
        weight = torch.from_numpy(next(item.data for item in graph.constants).copy()).cuda()
        stride = (CONVOLUTIONS[name] if name in CONVOLUTIONS else DEPTHWISE[name])[-1]
        attrs = {"stride": stride, "padding": weight.shape[-1] // 2, "groups": data.shape[1] // weight.shape[1]}
        call = theirs(lambda d=data, w=weight, a=attrs: torch.nn.functional.conv2d(d, w, **a))
        yield compared(name, ours(graph, {"data": data}), call, "cuDNN", 0.9)


def mobilenet() -> Any:
    """MobileNet v1, which torchvision has not, with the layers of `tools.models.mobilenet`."""
    from torch import nn

    def layer(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> list[Any]:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers, width = layer(3, 32, 3, 2), 32
    pairs = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for channels, stride in pairs:
        layers += [*layer(width, width, 3, stride, groups=width), *layer(width, channels, 1, 1)]
        width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


def peer_network(name: str) -> Any:
    """The network of torchvision of this name, with weights of its own."""
    import torchvision

    if name == "mobilenet":
        return mobilenet()
    return getattr(torchvision.models, name)(weights=None, **_QUICK.get(name, {}))


def networks() -> Iterator[harness.Row]:
    """Ten networks beside torchvision's, in one CUDA graph each; results are those of our builds for the CPU."""
    import torch

    from minitvm.tools import models

    _in_float32()
    for name in NETWORKS:
        network = models.get(name)
        (value,) = network.inputs
        x = torch.randn(*value.shape, device="cuda")
        mine, peer = ours(network, {value.name: x}), captured(peer_network(name).cuda().eval(), x)
        expected = minitvm.build(network, target="cpu")(x.cpu().numpy())
        harness.require_agreement(name, "the build for the CPU", mine().numpy(), expected)
        medians = harness.interleaved({"ours": mine, "peer": peer}, at_least=0.01)
        yield harness.Row(name, 1, medians["ours"], medians["peer"], "PyTorch, CUDA graph", 1.0)


def launch() -> Iterator[harness.Row]:
    """What a run of a tiny captured network costs from Python, beside the 20 us that were asked."""
    import torch

    b = GraphBuilder("tiny")
    x = b.input("x", (64,))
    graph = b.build(b.op("nn.relu", b.op("add", x, x)))
    mine = ours(graph, {"x": torch.randn(64, device="cuda")})
    taken = harness.interleaved({"ours": mine}, rounds=51, at_least=0.001)["ours"]
    yield harness.Row("launch of a captured network", 1, taken, LAUNCH_WANTED, "20 us", 1.0)


PARTS: dict[str, Callable[[], Iterator[harness.Row]]] = {
    "matmul": matmul, "candidates": candidates, "rows": rows, "layers": layers, "networks": networks, "launch": launch,
}  # fmt: skip


def main(names: list[str] | None = None) -> None:
    """Measure the parts given, or all of them; a part that fails does not stop the others."""
    lacking = missing()
    if lacking:
        print(f"gpu: not measured: {lacking}")
        return
    measured: list[harness.Row] = []
    for name in names or PARTS:
        part: list[harness.Row] = []
        try:
            part.extend(PARTS[name]())
        except (MinitvmError, RuntimeError) as error:
            print(f"  {name}: {error}")
        harness.table(f"CUDA, {name}", part)
        measured += part
    harness.save("gpu", measured)


if __name__ == "__main__":
    main(sys.argv[1:])
