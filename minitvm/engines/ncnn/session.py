"""A network of ncnn that is ready to run on our memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...executable.alignment import address, aligned_empty
from ..engine import Arrays
from .memory import COUNT_BYTES, BlockPlan, library, pointer, recorder_class, replayer_class
from .network import NcnnNetwork


def loaded(network: NcnnNetwork, constants: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Any:
    """Return ncnn's object for a network. Raises `ValueError` if ncnn does not accept it."""
    ncnn: Any = library()

    class Reader(ncnn.DataReader):
        """Reads the weights from our memory, without a file."""

        def __init__(self, pieces: Sequence[Any]) -> None:
            super().__init__()
            self.pieces, self.number, self.at = pieces, 0, 0

        def read(self, buffer: Any, size: int) -> int:
            target, done = pointer(buffer), 0
            while done < size and self.number < len(self.pieces):
                piece = self.pieces[self.number]
                part = bytes(piece[self.at : self.at + size - done])
                ctypes.memmove(target + done, part, len(part))
                done, self.at = done + len(part), self.at + len(part)
                if self.at == len(piece):
                    self.number, self.at = self.number + 1, 0
            return done

    net = ncnn.Net()
    option = net.opt
    option.use_vulkan_compute = False
    option.num_threads = threads
    option.openmp_blocktime = 0  # threads that wait for work would take the cores from our kernels
    for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage", "use_bf16_packed"):
        if hasattr(option, name):
            setattr(option, name, False)  # as the graph says: float32
    reader = Reader(network.bytes(constants))
    if net.load_param_mem(network.text) or net.load_model(reader) or reader.number != len(reader.pieces):
        raise ValueError("ncnn does not accept the network")
    return net


def recorded(network: NcnnNetwork, constants: Mapping[str, np.ndarray[Any, Any]], threads: int) -> BlockPlan:
    """Return the plan of a network's allocations."""
    allocator, outputs = dry_run(network, loaded(network, constants, threads))
    plan: BlockPlan = allocator.plan(outputs)
    return plan


def dry_run(network: NcnnNetwork, net: Any) -> tuple[Any, list[int]]:
    """Run a network on zeros; return the allocator that recorded its blocks, and the addresses of the results."""
    ncnn = library()
    arrays = [np.zeros(shape, np.float32) for _, shape in network.inputs]
    mats = [ncnn.Mat(array) if _is_dense(array.shape) else _padded(array.shape) for array in arrays]
    allocator = recorder_class()()
    results, extractor = _extracted(network, net, mats, allocator)
    outputs = [address(np.array(mat, copy=False)) for mat in results]
    # ncnn's objects must die before the allocator that owns their memory.
    del results, extractor
    return allocator, outputs


def _extracted(network: NcnnNetwork, net: Any, mats: Sequence[Any], allocator: Any) -> tuple[list[Any], Any]:
    """Run a network; return the results, and the object that computed them."""
    ncnn = library()
    extractor = net.create_extractor()
    extractor.set_light_mode(network.light)
    extractor.set_blob_allocator(allocator)
    extractor.set_workspace_allocator(allocator)
    for (name, _), mat in zip(network.inputs, mats, strict=True):
        extractor.input(name, mat)
    results = []
    for name, _ in network.outputs:
        result = ncnn.Mat()
        if extractor.extract(name, result):
            raise ValueError(f"ncnn cannot compute {name}")
        results.append(result)
    return results, extractor


def _is_dense(shape: Sequence[int]) -> bool:
    """Return whether ncnn has no padding between the channels of a value of this shape."""
    return len(shape) < 3 or shape[0] == 1 or math.prod(shape[1:]) % 4 == 0


def _padded(shape: Sequence[int]) -> Any:
    """Return a new tensor of ncnn with this shape, in ncnn's memory, filled with zeros."""
    ncnn = library()
    mat = ncnn.Mat(*reversed(shape))
    np.array(mat, copy=False)[...] = 0
    return mat


class Session:
    """A network with its plan. `copies` counts the inputs and results that were copied.

    ncnn begins each channel at a multiple of 16 bytes. So an input is read in its place if its channels do, and a
    result is computed in its place if its channels do and there is room behind it for ncnn's count of references
    (`rooms`).
    """

    def __init__(
        self, network: NcnnNetwork, constants: Mapping[str, np.ndarray[Any, Any]], threads: int, plan: BlockPlan,
        rooms: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.network, self.copies = network, 0
        self.net = loaded(network, constants, threads)
        recorder, outputs = dry_run(network, self.net)
        # Another processor may choose other algorithms, with other blocks: they get a workspace of their own.
        follows = tuple(recorder.sizes) == plan.sizes
        self.plan = plan if follows else recorder.plan(outputs)
        self.own = None if follows else aligned_empty(self.plan.size)
        self.allocator = replayer_class()(self.plan)
        self.direct = [
            room >= COUNT_BYTES and number >= 0 and self.plan.sizes[number] == 4 * math.prod(shape) + COUNT_BYTES
            for (_, shape), number, room in zip(
                network.outputs, self.plan.outputs, rooms or [0] * len(network.outputs), strict=True
            )
        ]
        self.places: list[int] = []
        self.mats: list[Any] = []
        self.staged = [None if _is_dense(shape) else _padded(shape) for _, shape in network.inputs]

    def __call__(self, inputs: Arrays, outputs: Arrays, workspace: np.ndarray[Any, Any] | None) -> None:
        ncnn = library()
        places = [address(array) for array in inputs]
        if places != self.places:
            shapes = [shape for _, shape in self.network.inputs]
            self.mats = [
                ncnn.Mat(array.reshape(shape)) if mat is None else mat
                for array, shape, mat in zip(inputs, shapes, self.staged, strict=True)
            ]
            self.places = places
        for array, mat in zip(inputs, self.staged, strict=True):
            if mat is not None:
                copy = np.array(mat, copy=False)
                copy[...] = array.reshape(copy.shape)
                self.copies += 1
        memory = workspace if self.own is None else self.own
        pairs = zip(self.direct, self.plan.outputs, outputs, strict=True)
        elsewhere = {number: address(array) for direct, number, array in pairs if direct}
        self.allocator.begin(0 if memory is None else address(memory), elsewhere)
        results, extractor = _extracted(self.network, self.net, self.mats, self.allocator)
        for result, array in zip(results, outputs, strict=True):
            computed = np.array(result, copy=False)
            if address(computed) != address(array):
                array.reshape(computed.shape)[...] = computed
                self.copies += 1
            del computed
        del results, extractor
        if self.allocator.strayed:
            raise ValueError("ncnn allocated other blocks than in the run that was planned")
