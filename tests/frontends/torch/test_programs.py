"""Programs of torch.export as graphs: inputs, constants, open dimensions, outputs, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

import torch
from torch import nn
from torch.export import Dim

import minitvm
from minitvm.errors import InputError, ModelError, UnsupportedOperator
from minitvm.expr import SizeVar
from minitvm.graph import Graph
from minitvm.reference import graph as interpreter
from minitvm.tools.cli import main

pytestmark = pytest.mark.filterwarnings("ignore")


class Function(nn.Module):
    """A module without weights."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def agrees(graph: Graph, module: nn.Module, *inputs: torch.Tensor) -> None:
    """The graph, interpreted and compiled, computes what the module does."""
    with torch.no_grad():
        expected = [t.numpy() for t in torch.utils._pytree.tree_leaves(module(*inputs))]
    arrays = [t.numpy() for t in inputs]
    compiled = minitvm.build(graph, threads=1)(*arrays)
    for results in (interpreter.run(graph, arrays), compiled if isinstance(compiled, tuple) else [compiled]):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


# --- what is taken ---


def test_a_program_its_file_and_its_module_are_the_same_graph(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(4, 3), nn.GELU()).eval(), torch.randn(2, 4)
    program = torch.export.export(module, (x,))
    torch.export.save(program, tmp_path / "model.pt2")
    graphs = [minitvm.from_torch(p) for p in (program, tmp_path / "model.pt2", str(tmp_path / "model.pt2"))]
    graphs.append(minitvm.from_torch(module, (x,)))
    assert len({graph.script() for graph in graphs}) == 1
    agrees(graphs[0], module, x)


@pytest.mark.parametrize(
    ("program", "args", "text"),
    [
        (3, None, "found int"),
        (nn.Linear(2, 2), None, "exported on example inputs"),
        (nn.Linear(2, 2), torch.zeros(1, 2), "args is a tuple of inputs, found one tensor"),
        ("model.pt2", (1,), "go with an nn.Module"),
    ],
)
def test_what_is_no_program_is_refused(program: Any, args: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        minitvm.from_torch(program, args)


def test_files_that_are_no_programs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.pt2").write_text("no archive")
    for path, text in ((tmp_path / "text.pt2", "is not a program"), (tmp_path, "folder"), ("gone.pt2", "no such file")):
        with pytest.raises(ModelError, match=text):
            minitvm.from_torch(path)


def test_what_torch_cannot_export_is_a_model_error() -> None:
    with pytest.raises(ModelError, match=r"torch.export refuses Function: ."):
        minitvm.from_torch(Function(lambda x: x if x.sum() > 0 else -x), (torch.ones(2),))
    with pytest.raises(ModelError, match=r"aten.allclose.default returns a Python value that depends on the contents"):
        minitvm.from_torch(Function(lambda x: x * torch.allclose(x, x)), (torch.ones(2),))


# --- inputs, constants, outputs ---


def test_inputs_have_their_names_and_numbers_are_constants() -> None:
    class Scaled(nn.Module):
        def forward(self, image: torch.Tensor, factor: float, *, offset: torch.Tensor) -> torch.Tensor:
            return image * factor + offset

    graph = minitvm.from_torch(Scaled(), (torch.ones(2), 3.0), {"offset": torch.ones(2)})
    assert [v.name for v in graph.inputs] == ["image", "offset"]
    assert interpreter.run(graph, [np.ones(2, np.float32)] * 2)[0].tolist() == [4, 4]


def test_outputs_are_flat_and_named_by_keys() -> None:
    def forward(x: torch.Tensor) -> Any:
        return {"boxes": x + 1, "scores": (x * 2, [x * 3])}, x - 1

    graph = minitvm.from_torch(Function(forward), (torch.ones(2),))
    assert [v.name for v in graph.outputs] == ["boxes", "scores_0", "scores_1_0", "sub"]
    agrees(graph, Function(forward), torch.ones(2))


def test_shared_weights_are_one_constant_in_the_memory_of_the_parameter() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(x))

    module = Tied().eval()
    graph = minitvm.from_torch(module, (torch.arange(3),))
    (constant,) = graph.constants
    assert np.shares_memory(constant.data, module.table.weight.detach().numpy())
    agrees(graph, module, torch.arange(3))


def test_lifted_constants_and_inputs_that_are_returned() -> None:
    def forward(x: torch.Tensor) -> Any:
        return x, x + torch.tensor([1.0, 2.0]), torch.ones(3)

    agrees(minitvm.from_torch(Function(forward), (torch.ones(2),)), Function(forward), torch.zeros(2))


def test_modes_around_a_part_of_the_model_are_transparent() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.exp()
        return y + x

    agrees(minitvm.from_torch(Function(forward), (torch.ones(2),)), Function(forward), torch.zeros(2))


# --- open dimensions ---


def _attention(x: torch.Tensor) -> torch.Tensor:
    batch, length, width = x.shape
    q, k, v = (x.view(batch, length, 2, width // 2).transpose(1, 2) for _ in range(3))
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(1, 2).reshape(batch, length, width) + torch.arange(length)[:, None]


OPEN = {
    "attention": _attention,
    "neighbours": lambda x: x[:, 1:] + x[:, :-1],
    "ends": lambda x: (x[:, -1], x[:, 0], x[:, 2:], x[:, ::2]),
    "joined": lambda x: torch.cat([x, x], 1).flatten(1),
    "reduced": lambda x: (x.mean(1), x.var(1), x.softmax(1), x.cumsum(1), x.amax((0, 1))),
    "clamped": lambda x: ((x * 9).clamp(0, x.shape[1]), (x * 9).clamp(max=x.shape[0] - 1), (x * 9).clamp(-1, 2)),
    "normalised": lambda x: (  # without weights, of open extents
        nn.functional.group_norm(x, 1),
        nn.functional.instance_norm(x),
        nn.functional.layer_norm(x.mT, x.shape[1:2]),
    ),
    "padded": lambda x: nn.functional.pad(x, (1, 2, 3, 0)).repeat(1, 2, 1),
}
OPEN_SIZES = {0: Dim("batch", max=64), 1: Dim("length", min=4, max=64)}


@pytest.mark.parametrize("name", OPEN)
def test_open_dimensions_stay_open(name: str) -> None:
    module = Function(OPEN[name])
    graph = minitvm.from_torch(module, (torch.randn(2, 5, 4),), dynamic_shapes=((OPEN_SIZES,),))
    batch, length, four = graph.inputs[0].shape
    assert isinstance(batch, SizeVar) and isinstance(length, SizeVar) and four == 4
    assert (batch.name, length.name) == ("batch", "length")
    for shape in ((2, 5, 4), (3, 8, 4)):
        agrees(graph, module, torch.randn(shape))


def test_numbers_computed_from_sizes() -> None:
    module = Function(lambda x: x.flatten(1) * (x.shape[1] // 2 + 1) / x.shape[0])
    graph = minitvm.from_torch(module, (torch.randn(2, 5, 4),), dynamic_shapes=((OPEN_SIZES,),))
    agrees(graph, module, torch.randn(3, 8, 4))


def test_sizes_outside_the_programs_ranges_are_refused() -> None:
    program = (Function(lambda x: x[:, 1:] + x[:, :-1]), (torch.randn(2, 5, 4),))
    graph = minitvm.from_torch(*program, dynamic_shapes=((OPEN_SIZES,),))
    run = minitvm.build(graph, threads=1)
    for shape, text in (((65, 5, 4), "batch <= 64"), ((2, 3, 4), "length >= 4"), ((2, 65, 4), "length <= 64")):
        x = np.ones(shape, np.float32)
        with pytest.raises(InputError, match=f"input args_0 does not take these sizes: {text}"):
            run(x)
        with pytest.raises(InputError, match="input args_0"):
            interpreter.run(graph, [x])
    assert run(np.ones((1, 4, 4), np.float32)).shape == (1, 3, 4)


def test_dimensions_that_are_multiples() -> None:
    """Two levels of a pyramid: the sizes of the picture are multiples of what its parts have in common."""
    down = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = down

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = self.first(x)
            return wide + nn.functional.interpolate(self.second(wide), scale_factor=2.0)

    sizes = {2: 4 * Dim("rows", min=2, max=50), 3: 4 * Dim("columns", max=50)}
    graph = minitvm.from_torch(Pyramid().eval(), (torch.randn(2, 3, 16, 24),), dynamic_shapes=(sizes,))
    agrees(graph, Pyramid().eval(), torch.randn(2, 3, 20, 12))
    with pytest.raises(InputError, match="dimension 2 is 18, wanted 16"):
        minitvm.build(graph, threads=1)(np.ones((2, 3, 18, 12), np.float32))


def test_sizes_that_the_program_does_not_allow_are_named() -> None:
    with pytest.raises(ModelError, match=r"Constraints violated \(length\)(.|\n)*length = "):
        minitvm.from_torch(
            Function(lambda x: x[:, 3:]), (torch.randn(2, 5, 4),),
            dynamic_shapes=(({0: Dim("batch"), 1: Dim("length")},),),
        )  # fmt: skip


def test_shapes_fix_open_dimensions() -> None:
    module = Function(_attention)
    program = torch.export.export(module, (torch.randn(2, 5, 4),), dynamic_shapes=((OPEN_SIZES,),))
    graph = minitvm.from_torch(program, shapes={"args_0": (3, None, 4)})
    assert graph.inputs[0].shape[0] == 3 and isinstance(graph.inputs[0].shape[1], SizeVar)
    run = minitvm.build(program, shapes={"args_0": (3, 6, 4)}, threads=1)
    x = torch.randn(3, 6, 4)
    np.testing.assert_allclose(run(x.numpy()), module(x).numpy(), rtol=1e-5, atol=1e-5)
    for shape, text in (((65, 5, 4), "dimension 0: wanted 0 to 64"), ((2, 5), "3 dimensions"), ((2, 5, 3), "wanted 4")):
        with pytest.raises(InputError, match=text):
            minitvm.from_torch(program, shapes={"args_0": shape})
    with pytest.raises(InputError, match="no input arg_0; did you mean args_0"):
        minitvm.from_torch(program, shapes={"arg_0": (2, 5, 4)})


def test_the_command_line_runs_a_saved_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = torch.export.export(nn.Linear(4, 3), (torch.ones(2, 4),), dynamic_shapes=({0: Dim("batch")},))
    torch.export.save(program, tmp_path / "model.pt2")
    path = str(tmp_path / "model.pt2")
    assert main(["run", path, "--shape", "input=5,4", "--check", "--threads", "1"]) == 0
    assert "float32[5, 3]" in capsys.readouterr().out
    assert main(["run", path]) == 2
    assert "give --shape input=SIZE,4" in capsys.readouterr().err


def test_a_saved_program_keeps_its_open_dimensions(tmp_path: Path) -> None:
    program = torch.export.export(nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim("batch")},))
    torch.export.save(program, tmp_path / "model.pt2")
    (x,) = minitvm.from_torch(tmp_path / "model.pt2").inputs
    assert isinstance(x.shape[0], SizeVar) and x.shape[1] == 3


def test_bfloat16_weights_and_inputs() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).bfloat16().eval()
    x = torch.randn(3, 8).bfloat16()
    graph = minitvm.from_torch(module, (x,))
    with torch.no_grad():
        wanted = module(x).float().numpy()
    bits = x.view(torch.int16).numpy().view("bfloat16")
    for found in (interpreter.run(graph, [bits])[0], minitvm.build(graph, threads=1)(x)):
        assert found.dtype.name == "bfloat16"
        np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2**-6, atol=2**-6)


# --- what is refused ---


def refusal(module: nn.Module, *inputs: Any) -> str:
    """The text of the error for a module that is not supported."""
    with pytest.raises(UnsupportedOperator) as caught:
        minitvm.from_torch(module, inputs)
    return str(caught.value)


def test_all_unsupported_operators_are_listed_with_their_lines() -> None:
    def forward(x: torch.Tensor) -> Any:
        return torch.i0(x), torch.fft.fft(x), torch.i0(x + 1), torch.unique(x)

    text = refusal(Function(forward), torch.randn(4))
    assert text.startswith("3 operators are not supported\n")
    line = forward.__code__.co_firstlineno + 1
    assert f"operator aten.i0.default (node i0, test_programs.py:{line} and 1 more)" in text
    assert "_fft_r2c.default" in text and "complex numbers are not supported" in text
    assert "aten._unique2.default" in text and "the shape of its output depends on the data" in text


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda x: torch.rand_like(x), "it is random"),
        (lambda x: x * x.max().item(), "reads an element as a number"),
        (lambda x: torch.linalg.inv(x.diag()), "linalg_inv_ex.default .* no linear algebra"),
        (lambda x: torch.linalg.svd(x.diag())[1], "_linalg_svd.default .* no linear algebra"),
        (lambda x: torch.linalg.solve(x.diag(), x), "_linalg_solve_ex.default .* no linear algebra"),
        (lambda x: x.to(torch.float8_e4m3fn), "dtype float8_e4m3fn is not supported"),
        (lambda x: x.to(torch.complex64), "dtype complex64 is not supported"),
        (lambda x: nn.functional.avg_pool1d(x[None].long(), 2), "means of integers"),
        (lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5)[1], "the statistics as results"),
        (lambda x: (x, 3), "the output .* is 3, wanted a tensor"),
    ],
)
def test_a_refusal_says_why(forward: Any, text: str) -> None:
    assert re.search(text, refusal(Function(forward), torch.randn(4)))


def test_training_is_refused() -> None:
    assert "module.eval() before the export" in refusal(nn.Dropout(0.5).train(), torch.ones(3))
    assert "module.eval() before the export" in refusal(nn.BatchNorm1d(3).train(), torch.ones(2, 3))


def test_what_the_program_changes_is_named() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.count

    assert "the program changes count when it runs" in refusal(Counting(), torch.ones(2))
    assert "the program changes" in refusal(Function(lambda x: x.add_(1)), torch.ones(2))


def test_custom_operators_are_named() -> None:
    @torch.library.custom_op("minitvm_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    assert "operator minitvm_tests.twice.default (node twice, " in refusal(Function(twice), torch.ones(2))


class Counted(nn.Module):
    """Places, elements under masks, sums of them, and their number as a number."""

    def forward(self, x: torch.Tensor) -> Any:
        places = torch.nonzero(x > 0)
        rows = x[x.sum(1) > 0]
        left = x.clone()
        left[x < 0] = 0.0
        picked = torch.masked_select(x, x > 0) * 2
        count = places.shape[0] + torch.zeros(1)
        return places, picked, torch.relu(rows) @ torch.ones(4, 2), torch.where(x > 0), left, count


@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_that_data_decide(is_open: bool) -> None:
    model, x = Counted(), torch.tensor([[1.0, -2, 3, 0], [-1, -1, -1, -1], [2, 2, 0, 1]])
    dynamic = ({0: torch.export.Dim("rows", max=9)},) if is_open else None
    graph = minitvm.from_torch(torch.export.export(model, (x,), dynamic_shapes=dynamic))
    module = minitvm.build(graph, threads=1)
    for given in (x, -x, torch.zeros(3, 4), *([torch.cat([x, x])] if is_open else [])):
        wanted = torch.utils._pytree.tree_leaves(model(given))
        for found in (interpreter.run(graph, [given.numpy()]), module(given.numpy())):
            for ours, theirs in zip(found, wanted, strict=True):
                assert ours.shape == tuple(theirs.shape)
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-6)
