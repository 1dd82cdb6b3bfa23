"""Questions to answer before a lesson prints the number.

predict("How many loads does the second order save?", 0)

`minitvm lesson NN --step` waits for your guess, and says how far off it was. Elsewhere the question is printed, and on
the site it is a note above the code.
"""

from __future__ import annotations

import math
import textwrap

ASKING = False  # `minitvm lesson NN --step` sets it


def predict(question: str, answer: float | str) -> None:
    """Print a question whose answer comes next; with --step, wait for a guess and compare it with the answer."""
    print(textwrap.fill(f"Predict first: {question}", 110))
    if not ASKING:
        return
    try:
        guess = input("your guess: ").strip()
    except EOFError:
        return
    if guess:
        print(verdict(guess, answer))


def verdict(guess: str, answer: float | str) -> str:
    """The message about a guess: right, too small or too large and by how much, or just the answer."""
    shown = answer if isinstance(answer, str) else f"{answer:,.4g}" if isinstance(answer, float) else f"{answer:,}"
    try:
        number, truth = float(guess.replace(",", "").rstrip(" %")), float(answer)
        if not math.isfinite(number):
            raise ValueError("not a number")
    except ValueError:
        return "Right." if guess.casefold() == str(answer).casefold() else f"It is {shown}."
    if abs(number - truth) <= 0.005 * abs(truth):
        return f"Right: {shown}."
    size = "small" if number < truth else "large"
    if number > 0 and truth > 0:
        ratio = max(number / truth, truth / number)
        return f"It is {shown}: your guess is too {size}, by a factor of {ratio:.3g}."
    return f"It is {shown}: your guess is too {size}, by {abs(number - truth):,.4g}."
