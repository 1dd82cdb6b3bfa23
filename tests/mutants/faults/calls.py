"""Faults in operators that only some attributes or data show: in te, and in the graph interpreter beside it."""

from ..patch import Faults
from ..siblings import called

Faults("topi pool: calls", "minitvm.topi.pool", [called("pool")]).edit(
    "the mean of negative integers rounds down",
    "_avg_pool",
    "te.truncdiv(value, divisor)",
    "value // divisor",
)

Faults("topi reduce: calls", "minitvm.topi.reduce", [called("arg")]).edit(
    "of several NaN any may be the greatest",
    "_arg",
    "equal = te.any(equal, te.all(te.isnan(a[1]), te.isnan(b[1])))",
    "pass",
)

Faults("topi matmul: calls", "minitvm.topi.matmul", [called("products")]).edit(
    "products of a dense layer wrap before they are summed",
    "dense",
    "te.sum(factor(data[(*rows, k.var)], dtype) * factor(weight[j, k.var], dtype), axis=k)",
    "te.sum((data[(*rows, k.var)] * weight[j, k.var]).astype(dtype), axis=k)",
)

NORMS = Faults("topi norm: calls", "minitvm.topi.norm", [called("norm")])
NORMS.edit("lanes number channels first", "_number", "number * extent + place", "number + extent * place")
NORMS.edit("a group is a channel", "_by_channel", "_places(g * size", "_places(g")
NORMS.edit(
    "an even number of neighbours has its middle one place on",
    "lrn",
    "front = (size - 1) // 2",
    "front = size // 2",
)

Faults("topi pad: calls", "minitvm.topi.pad", [called("pad")]).edit(
    "an axis of one element is reflected with a period of 0",
    "pad",
    "if isinstance(extent, int) and extent == 1:",
    "if False:",
)

Faults("topi pad: symbolic calls", "minitvm.topi.pad", [called("pad")]).edit(
    "one element alone is reflected with the period 0",
    "pad",
    "last if isinstance(last, int) else te.maximum(last, 1)",
    "last",
)

Faults("topi slices: calls", "minitvm.topi.slices", [called("slice")]).edit(
    "a bound before the front of a symbolic axis is kept",
    "_clamped",
    "else shapes.simple(te.maximum(extent + bound, 0))",
    "else shapes.simple(extent + bound)",
)

Faults("topi backwards: calls", "minitvm.topi.slices", [called("slice")]).edit(
    "a walk backwards ends before the first element, not at it",
    "_clamped_behind",
    "-1 if bound <= -_UNBOUNDED",
    "0 if bound <= -_UNBOUNDED",
)

Faults("topi slices fold: calls", "minitvm.topi.slices", [called("slice")]).edit(
    "a fold backwards to the first element takes that, too",
    "_fold_strided_slice",
    "last < -x.shape[a]",
    "last <= -x.shape[a]",
)

Faults("topi sampling: calls", "minitvm.topi.sampling", [called("sample")]).edit(
    "without align_corners samples reflect at the centres",
    "_reflected",
    "low = const(0.0 if align_corners else -0.5, p.dtype)",
    "low = const(0.0, p.dtype)",
)

BLOCKED = Faults("topi blocked: calls", "minitvm.machines.simd.topi.blocked", [called("blocked")])
BLOCKED.edit("all lanes are summed", "SummedChannels.of", "min(channels or lanes, lanes)", "lanes")
BLOCKED.edit(
    "the lane is the block", "SummedChannels.of", "c.var // lanes, c.var % lanes", "c.var % lanes, c.var // lanes"
)
BLOCKED.edit(
    "rows below the image are read where nothing is padded above",
    "padded_blocks",
    "inside += [at < extent + first] if behind else []",
    "inside += [at < extent + first] if first else []",
)

ROWS = Faults("topi window_rows: calls", "minitvm.machines.simd.topi.window_rows", [called("blocked")])
ROWS.edit("windows begin behind the padding", "_padded_rows", "plus(i, -margin) for", "i for")
ROWS.edit("what fills a row may be the largest", "max_pool_rows", "lowest(data.dtype)", "const(99, data.dtype)")
ROWS.edit("vectors that stick out read neighbours' rows", "_padded_rows", "[i < extent + margin] if", "[i < end] if")

WINOGRAD = Faults("topi winograd: calls", "minitvm.machines.simd.topi.winograd", [called("blocked")])
WINOGRAD.edit(
    "the right end of Winograd's strips goes by the right padding",
    "_strips",
    "te.all(y >= top, y < height + top, x >= left, x < width + left)",
    "te.all(y >= top, y < height + top, x >= left, x < width + top)",
)
WINOGRAD.edit("all phases are the first one of a line", "_images", "x * bx + image % bx", "x * bx")
WINOGRAD.edit("phases of lines and of columns are swapped", "_images", "_over(image, bx) % by", "image % by")
WINOGRAD.edit(
    "an image has room for the tiles of undilated pixels",
    "_Grid.of",
    "simple((size + l * tile - 1) // (l * tile))",
    "simple(size // (l * tile))",
)
WINOGRAD.edit(
    "a pixel's column is that of its neighbour's phase", "_Grid.place", "_over(x, bx) % tile", "(x + 1) // bx % tile"
)

Faults("reference operators pooling: calls", "minitvm.reference.operators.pooling", [called("pool")]).edit(
    "the graph interpreter's mean of integers rounds down",
    "avg_pool",
    "return np.asarray((sums - np.fmod(sums, counts)) // counts)",
    "return np.asarray(sums // counts)",
)

Faults("reference operators normalization: calls", "minitvm.reference.operators.normalization", [called("norm")]).edit(
    "the graph interpreter's even neighbourhood is one place off",
    "lrn",
    "before, after = (size - 1) // 2, size - 1 - (size - 1) // 2",
    "before, after = size // 2, size - 1 - size // 2",
)

Faults("reference operators indexing: calls", "minitvm.reference.operators.indexing", [called("sort")]).edit(
    "the graph interpreter sorts equals backwards",
    "_sorted_places",
    "np.flip(data.shape[axis] - 1 - turned, axis)",
    "np.flip(np.argsort(data, axis, kind='stable'), axis)",
)

Faults("reference operators convolution: calls", "minitvm.reference.operators.convolution", [called("conv")]).edit(
    "the graph interpreter's filters go round the channels",
    "_depthwise",
    "repeated = np.repeat(np.arange(groups), w.shape[0] // groups)",
    "repeated = np.tile(np.arange(groups), w.shape[0] // groups)",
)
