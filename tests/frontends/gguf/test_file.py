"""Reading GGUF files: all kinds of metadata, and damaged files, which are refused with the place of the fault."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.errors import InputError, MinitvmError, ModelError, UnsupportedOperator
from minitvm.frontends import from_gguf
from minitvm.frontends.gguf.file import read_gguf

from .models import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_model(path, kind="Q4_1", depth=1)
    return path.read_bytes()


def test_what_another_writer_wrote(tmp_path: Path) -> None:
    path = tmp_path / "all.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    values: dict[str, tuple[Any, Any]] = {
        "u8": (writer.add_uint8, 255), "i8": (writer.add_int8, -128), "u16": (writer.add_uint16, 65535),
        "i16": (writer.add_int16, -2), "u32": (writer.add_uint32, 2**32 - 1), "i32": (writer.add_int32, -3),
        "u64": (writer.add_uint64, 2**64 - 1), "i64": (writer.add_int64, -(2**63)), "f32": (writer.add_float32, 0.5),
        "f64": (writer.add_float64, 0.1), "flag": (writer.add_bool, True), "text": (writer.add_string, "Tür"),
        "texts": (writer.add_array, ["a", "", "ß"]), "numbers": (writer.add_array, [1, -2, 3]),
    }  # fmt: skip
    for name, (add, value) in values.items():
        add(name, value)
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer.add_tensor("t", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf(path)
    assert {name: file.metadata[name] for name in values} == {name: value for name, (_, value) in values.items()}
    assert file.tensors["t"].shape == (3, 4)
    np.testing.assert_array_equal(file.tensors["t"].data.reshape(3, -1).view("<f4"), array)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_refused(model: bytes, tmp_path: Path, data: st.DataObject) -> None:
    """A file with one wrong number, or an end that is missing, is refused in words, or is another correct model."""
    path = tmp_path / "damaged.gguf"
    header = model.index(b"output_norm.weight") + 800
    if data.draw(st.booleans(), "cut"):
        path.write_bytes(model[: data.draw(st.integers(1, len(model) - 33), "length")])
        with pytest.raises(MinitvmError):
            from_gguf(path, shapes={"tokens": (1, 1)})
        return
    at = data.draw(st.integers(0, header), "at")
    width = data.draw(st.sampled_from([1, 4, 8]), "width")
    limit = 1 << 8 * width
    number = data.draw(st.sampled_from([0, 1, limit - 1, limit // 2]) | st.integers(0, limit - 1), "number")
    path.write_bytes(model[:at] + number.to_bytes(width, "little") + model[at + width :])
    try:
        from_gguf(path, shapes={"tokens": (1, 1)})
    except MinitvmError as error:
        assert str(error)


def changed(model: bytes, old: bytes, new: bytes) -> bytes:
    assert model.count(old) == 1
    return model.replace(old, new)


def key(name: str, kind: int, value: bytes) -> bytes:
    """A piece of metadata as it is written."""
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


EPSILON = key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda m: b"GGML" + m[4:], "{path} is not a GGUF model: it begins with b'GGML', wanted b'GGUF'"),
        (lambda m: b"", "{path} is not a GGUF model: it is empty"),
        (
            lambda m: m[:4] + struct.pack("<I", 1) + m[8:],
            "{path}: found version 1, wanted version 2 or 3 of GGUF, with the least one first",
        ),
        (
            lambda m: m[:4] + struct.pack(">I", 3) + m[8:],
            "{path}: found numbers with the most significant byte first, wanted version 2 or 3 of GGUF, with the least "
            "one first",
        ),
        (
            lambda m: m[:30],
            "{path} is damaged: metadata 1 of 8: wanted 8 bytes at 24, found 6 until the end of the file",
        ),
        (
            lambda m: changed(m, EPSILON, key("llama.attention.layer_norm_rms_EPSILON", 6, struct.pack("<f", 1))),
            "{path}: the metadata have no 'llama.attention.layer_norm_rms_epsilon'",
        ),
        (
            lambda m: changed(m, EPSILON, EPSILON[:-4] + struct.pack("<f", -1.0)),
            "{path}: wanted a positive llama.attention.layer_norm_rms_epsilon, found -1.0",
        ),
        (
            lambda m: changed(m, b"blk.0.attn_q.weight", b"blk.0.attn_Q.weight"),
            "{path}: there is no weight 'blk.0.attn_q.weight', which the architecture needs",
        ),
    ],
)  # fmt: skip
def test_texts(model: bytes, tmp_path: Path, damage: Callable[[bytes], bytes], text: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(damage(model))
    with pytest.raises(ModelError) as caught:
        from_gguf(path)
    assert str(caught.value) == text.format(path=path)


def test_other_kinds_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, "mamba")
    with pytest.raises(UnsupportedOperator, match=r"the architecture 'mamba' is not supported\n  wanted: one of llama"):
        from_gguf(path)
    write_model(path, metadata={"expert_count": 8})
    with pytest.raises(UnsupportedOperator, match=r"a mixture of experts \(llama.expert_count\) is not supported"):
        from_gguf(path)
    write_model(path, metadata={"attention.sliding_window": 16})
    with pytest.raises(
        UnsupportedOperator, match="attention to a window of 16 tokens is not supported\n  try:    max_l"
    ):
        from_gguf(path)
    assert from_gguf(path, max_length=16).inputs
    write_model(path, metadata={"rope.scaling.type": "yarn"})
    with pytest.raises(UnsupportedOperator, match=r"positions scaled as 'yarn' \(llama.rope.scaling.type\)"):
        from_gguf(path)


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path)
    with pytest.raises(ModelError, match="wanted a context of 1 to 24 tokens, found 25"):
        minitvm.build(path, max_length=25)
    write_model(path, context=2**31)
    with pytest.raises(InputError, match="more memory than this machine has"):
        minitvm.build(path)
    write_model(path)
    for shape in (3, (1.5, 2), "ab", (1,), (1, 2, 3)):
        with pytest.raises(InputError, match=r"shapes: tokens has two dimensions \(batch, length\), found"):
            from_gguf(path, shapes={"tokens": shape})  # type: ignore[dict-item]
    for length in ("3", 2.5, True, 0):
        with pytest.raises(ModelError, match=rf"wanted a context of 1 to 24 tokens, found {length!r}"):
            from_gguf(path, max_length=length)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"shapes: 'x' has no open size; wanted {'tokens': \(batch, length\)}"):
        minitvm.build(path, shapes={"x": (1,)})
    with pytest.raises(ModelError, match=r"nothing.gguf: no such file"):
        minitvm.build(tmp_path / "nothing.gguf")
