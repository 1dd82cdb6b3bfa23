"""Programs on a CUDA device: `runtime.device` with the commands of NVIDIA's driver, or of the simulator."""

from __future__ import annotations

from ....runtime.device.device import Device
from ....runtime.device.program import DeviceProgram
from .devices import current


class CudaProgram(DeviceProgram):
    """An executable whose kernels Numba CUDA compiles. If the device has graphs, a run is a single launch."""

    def open_device(self, wanted: str) -> Device:
        device: Device = current(wanted)
        return device
