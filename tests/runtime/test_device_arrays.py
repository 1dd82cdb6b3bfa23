"""Arrays on devices: they are used where they lie, results stay there, nobody's memory is lost or used too long."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import minitvm
from minitvm.errors import ExecutionError, InputError, TypeMismatch
from minitvm.executable.alignment import aligned_array
from minitvm.expr import DType, SizeVar
from minitvm.graph import GraphBuilder
from minitvm.machines.cuda.runtime import driver
from minitvm.machines.cuda.runtime.devices import SimulatedDevice
from minitvm.runtime import DeviceArray, dlpack, from_dlpack
from tests.machines.cuda.runtime import fake_cuda
from tests.machines.cuda.runtime.fake_cuda import STREAM, FakeDriver, Tensor
from tests.runtime.test_devices import network
from tests.runtime.test_states import log, row

pytest.importorskip("numba_cuda")
DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64")


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_cuda.plugged("sm_80") as plugged:
        yield plugged


def doubled(n: Any = 8) -> Any:
    b = GraphBuilder("doubled")
    x = b.input("x", (n, 3))
    return b.build(b.op("add", x, x))


def numbers(n: int = 8, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


# -- capsules


@given(st.data(), st.sampled_from(DTYPES), arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0))
def test_an_array_is_shared_with_numpy_and_back(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    values = data.draw(arrays_of.arrays(np.dtype(dtype), shape))
    memory = aligned_array(shape, np.dtype(dtype))
    memory[...] = values
    device = SimulatedDevice()
    array = DeviceArray(device, device.over_host(memory.ctypes.data, memory.nbytes), DType(dtype), shape, memory)
    seen = np.from_dlpack(array)
    assert seen.dtype == dtype and seen.shape == shape
    np.testing.assert_array_equal(
        seen.view(np.uint8) if seen.ndim else seen, memory.view(np.uint8) if seen.ndim else memory
    )
    if seen.size:
        assert np.shares_memory(seen, memory)
    back = dlpack.described(array)
    assert (back.dtype, back.shape, back.is_contiguous) == (dtype, shape, True)
    np.testing.assert_array_equal(array.numpy(), values)


def test_memory_lives_as_long_as_somebody_uses_it(collect: Callable[[], int]) -> None:
    device = SimulatedDevice()
    others = dict(dlpack._alive)  # of tests before this one; they may go meanwhile, but no address is used again

    def alive() -> int:
        collect()
        return len(dlpack._alive.keys() - others.keys())

    array = DeviceArray(device, device.allocated(16), DType("float32"), (4,))
    first, second = np.from_dlpack(array), array.__dlpack__()
    assert alive() == 2
    del second  # nobody took its tensor
    assert alive() == 1
    del array
    first.sum()
    assert alive() == 1
    del first
    assert alive() == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_consumer_that_refuses_frees_the_tensor(dtype: str, collect: Callable[[], int]) -> None:
    """NumPy drops the capsule while its own error is set: the caller gets that error, and the memory is freed."""
    device = SimulatedDevice()
    device.dlpack = (1, 0) if dtype == "bfloat16" else (2, 0)
    array = DeviceArray(device, device.allocated(16), DType(dtype), (4,))
    before = set(dlpack._alive)
    with pytest.raises((BufferError, RuntimeError), match="(?i)unsupported"):
        np.from_dlpack(array)
    collect()
    assert set(dlpack._alive) <= before


def test_a_tensor_is_taken_once() -> None:
    capsule = SimulatedDevice()
    array = DeviceArray(capsule, capsule.allocated(16), DType("float32"), (4,))

    class Same:
        """It gives one capsule again and again."""

        taken = array.__dlpack__()

        def __dlpack__(self, **options: Any) -> Any:
            return self.taken

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes, rename.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
    rename(Same.taken, b"used_dltensor")
    with pytest.raises(BufferError, match="not one of DLPack that is still to be used"):
        dlpack.described(Same())


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((2, 1, 3), (3, 9, 1), True),
        ((0, 5), (7, 2), True),
        ((4,), (2,), False),
    ],
)
def test_what_is_dense(shape: tuple[int, ...], strides: tuple[int, ...], dense: bool) -> None:
    memory = np.zeros(64, np.float32)
    view = np.lib.stride_tricks.as_strided(memory, shape, tuple(4 * s for s in strides))
    assert dlpack.described(view).is_contiguous == dense


# -- inputs and outputs that lie on the device


def test_tensors_of_another_library_are_used_where_they_lie(fake: FakeDriver) -> None:
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    there, out = Tensor(fake, x), Tensor(fake, np.zeros_like(x))
    before = len(fake.memory)
    for _ in range(3):
        module(there, out=out)
    np.testing.assert_array_equal(out.numpy(), x + x)
    copies = [name for name in fake.commands if "Memcpy" in name]
    assert not copies and len(fake.memory) == before
    assert there.streams == [STREAM] * 3  # what they queued before is done when our queue comes to it
    assert fake.commands.count("cuGraphLaunch") == 2


def test_results_stay_on_the_device_where_the_caller_asks_so(fake: FakeDriver) -> None:
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    result = module(x, out="device")
    assert isinstance(result, DeviceArray) and result.__dlpack_device__() == (2, 0)
    assert "cuMemcpyDtoHAsync" not in fake.commands
    again = module(result, out="device")
    np.testing.assert_array_equal(again.numpy(), 4 * x)
    np.testing.assert_array_equal(result.numpy(), 2 * x)  # it has memory of its own
    np.testing.assert_array_equal(module(again), 8 * x)


def test_the_memory_of_results_is_used_again_and_so_is_their_graph(fake: FakeDriver) -> None:
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    there = module.to_device(x)
    for _ in range(5):
        result = module(there, out="device")
        del result
    assert fake.commands.count("cuGraphInstantiate") == 1 and fake.commands.count("cuGraphLaunch") == 4
    kept = [module(there, out="device") for _ in range(3)]
    assert len({array.address for array in kept}) == 3


def test_every_kind_of_argument_gives_the_same(fake: FakeDriver) -> None:
    module = minitvm.build(doubled(SizeVar("n")), target="cuda")
    for seed, n in enumerate((2, 5, 2)):
        x = numbers(n, seed)
        ways = [x, Tensor(fake, x), Tensor(fake, x, skip=4), module.to_device(x), np.asfortranarray(x)]
        for value in ways:
            for out in (None, "device", np.zeros_like(x), Tensor(fake, np.zeros_like(x)), Tensor(fake, x * 0, skip=8)):
                result = module(value, out=out)
                found = result if isinstance(result, np.ndarray) else result.numpy()
                np.testing.assert_array_equal(found, x + x)
                if isinstance(out, Tensor):
                    np.testing.assert_array_equal(out.numpy(), x + x)


def test_a_function_takes_tensors_too(fake: FakeDriver) -> None:
    from minitvm.script import tir as T

    @T.prim_func
    def first_half(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:  # type: ignore[valid-type]
        for i in range(4):
            with T.block("y"):
                v = T.axis.spatial(8, i)
                y[v] = x[v] * T.float32(2)  # type: ignore[index]

    x = np.arange(8, dtype=np.float32)
    there, out = Tensor(fake, x), Tensor(fake, np.full(8, 7, np.float32))
    minitvm.build(first_half, target="cuda")(there, out)
    np.testing.assert_array_equal(out.numpy(), [0, 2, 4, 6, 7, 7, 7, 7])
    with pytest.raises(InputError, match="y is written, and shares memory with x"):
        minitvm.build(first_half, target="cuda")(there, there)


def test_inputs_that_are_set_may_lie_there(fake: FakeDriver) -> None:
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    module.set_input("x", Tensor(fake, x))
    module.run()
    np.testing.assert_array_equal(module.get_output(0), x + x)


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_results_stay_on_every_device(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    module, x = minitvm.build(network(), target=target), np.ones((2, 2, 5, 6), np.float32)
    wanted, there = module(x), module.to_device(x)
    result = module(there, out="device")
    assert isinstance(result, DeviceArray) and isinstance(there, DeviceArray)
    np.testing.assert_array_equal(result.numpy(), wanted)


def test_on_the_cpu_results_are_there_already() -> None:
    module, x = minitvm.build(doubled()), numbers()
    assert module.to_device(x) is x
    np.testing.assert_array_equal(module(x, out="device"), x + x)


def test_arrays_of_torch_are_used_where_they_lie() -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    module, x = minitvm.build(doubled(), target="cuda"), torch.arange(24, dtype=torch.float32).reshape(8, 3)
    out = torch.zeros(8, 3)
    module(x, out=out)
    assert torch.equal(out, x + x)
    result = module(x, out="device")
    assert torch.equal(torch.from_dlpack(result).cpu(), x + x)
    assert torch.from_dlpack(result).data_ptr() == result.address


def test_data_decide_how_much_of_a_result_there_is() -> None:
    b = GraphBuilder("found")
    x = b.input("x", (6, 4))
    places, count = b.op("argwhere", x)
    size = SizeVar("found")
    b.op("bind_size", count, size=size, most=24, where="found")
    module = minitvm.build(b.build(b.op("leading", places, size=size)), target="cuda")
    data = np.eye(6, 4, dtype=np.float32)
    result = module(data, out="device")
    assert result.shape == (4, 2)
    np.testing.assert_array_equal(result.numpy(), np.argwhere(data))


# -- what is refused


def test_an_array_on_another_device_is_refused(fake: FakeDriver) -> None:
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    with pytest.raises(InputError, match="doubled: x, a Tensor: it is on CUDA device 1, and programs run on NVIDIA P"):
        module(Tensor(fake, x, device=(2, 1)))
    with pytest.raises(InputError, match="is on ROCm device 0, and programs run on NVIDIA Pretended"):
        module(x, out=Tensor(fake, x, device=(10, 0)))
    with pytest.raises(InputError, match="x is on CUDA device 0, and the program runs on the CPU\n  try:"):
        minitvm.build(doubled())(Tensor(fake, x))


def test_an_array_of_another_program_s_device_is_refused() -> None:
    pytest.importorskip("pyopencl")
    there = minitvm.build(doubled(), target="opencl").to_device(numbers())
    with pytest.raises(InputError, match="x, a DeviceArray: it is on .*, and programs run on simulator of CUDA"):
        minitvm.build(doubled(), target="cuda")(there)
    with pytest.raises(InputError, match="and the program runs on the CPU"):
        minitvm.build(doubled())(there)


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (
            np.zeros((8, 3), np.float64),
            TypeMismatch,
            r"wanted: x: float32\(8, 3\)\n  found:  an array of float64 on NVIDIA",
        ),
        (np.zeros((8, 4), np.float32), InputError, "x"),
    ],
)
def test_what_does_not_fit_is_refused(fake: FakeDriver, array: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        minitvm.build(doubled(), target="cuda")(Tensor(fake, array))


def test_from_dlpack(fake: FakeDriver) -> None:
    x = numbers()
    assert np.shares_memory(from_dlpack(x), x)
    there = Tensor(fake, x)
    array = from_dlpack(there)
    assert isinstance(array, DeviceArray) and array.address == there.base and from_dlpack(array) is array
    np.testing.assert_array_equal(minitvm.build(doubled(), target="cuda")(array), x + x)
    with pytest.raises(TypeMismatch, match="a list has no __dlpack__"):
        from_dlpack([1.0])
    with pytest.raises(InputError, match="is on Metal device 0, on which no programs run here"):
        from_dlpack(Tensor(fake, x, device=(8, 0)))
    with pytest.raises(minitvm.TVMError, match="is on CUDA device 3(.|\n)*MINITVM_CUDA_DEVICE=3"):
        from_dlpack(Tensor(fake, x, device=(2, 3)))


def test_a_capsule_for_another_device_is_refused(fake: FakeDriver) -> None:
    array = minitvm.build(doubled(), target="cuda").to_device(numbers())
    for options in ({"dl_device": (1, 0)}, {"copy": True}):
        with pytest.raises(BufferError, match=r"shared in place; numpy\(\) copies it"):
            array.__dlpack__(**options)


# -- states


def test_states_are_not_copied_between_runs(fake: FakeDriver) -> None:
    module = minitvm.build(log(), target="cuda")
    inputs = {name: module.to_device(value) for name, value in row(3, 1).items()}
    module(**inputs, out="device")
    del fake.commands[:]
    assert module(**inputs, out="device").numpy().tolist() == [[3, 3]]
    read = [name for name in fake.commands if "Memcpy" in name]
    assert read.count("cuMemcpyHtoDAsync") == 0
    assert module.state["rows"][0, :, 0].tolist() == [3, 0, 0, 0]


def test_a_state_that_a_failed_run_left_is_not_used(fake: FakeDriver) -> None:
    module = minitvm.build(log(), target="cuda")
    module(**row(3, 1))
    fake.fails = {"cuLaunchKernel"}
    with pytest.raises(ExecutionError, match="found:  rows may be partly changed, all else is as before"):
        module(**row(4, 2))
    fake.fails = set()
    for use in (lambda: module(**row(4, 2)), lambda: module.state["rows"]):
        with pytest.raises(ExecutionError, match=r"may have changed rows\n  try:    module.reset\(\)"):
            use()
    module.reset()
    assert module(**row(5, 4)).tolist() == [[5, 5]]


def test_outputs_in_place_are_named_after_a_failure(fake: FakeDriver) -> None:
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    fake.fails = {"cuLaunchKernel"}
    with pytest.raises(ExecutionError, match="found:  .* may be partly changed"):
        module(x, out=Tensor(fake, x))
    untouched = np.full((8, 3), 7, np.float32)
    with pytest.raises(ExecutionError, match="its outputs are as they were before"):
        module(x, out=untouched)
    assert (untouched == 7).all()


def test_another_thread_may_run_and_read(fake: FakeDriver) -> None:
    from concurrent.futures import ThreadPoolExecutor

    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(module, x, out="device").result()
        entered = fake.commands.count("cuCtxSetCurrent")
        np.testing.assert_array_equal(pool.submit(result.numpy).result(), x + x)
        assert fake.commands.count("cuCtxSetCurrent") > entered


def test_the_driver_is_the_real_one_where_there_is_a_device() -> None:
    if not driver.found():
        pytest.skip("there is no CUDA device")
    module, x = minitvm.build(doubled(), target="cuda"), numbers()
    np.testing.assert_array_equal(module(module.to_device(x), out="device").numpy(), x + x)
