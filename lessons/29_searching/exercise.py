"""Exercise 29: the plane through a few points that does not believe them too much.

`x` has a row for each point and a column for each feature, `y` has a number for each point: NumPy arrays of floats.
Write

    plane(x, y, penalty) -> (constant, weights)

the number c and the vector w, one weight for each feature, for which

    sum over the points of (y - c - x w)^2   +   penalty * sum of w^2

is the least. The penalty is above 0. The constant is not penalised: points that are all a factor slower move it and
nothing else. There may be fewer points than features, and there may be one point. Leave `x` and `y` as they are.

    plane(np.array([[0.0], [2.0]]), np.array([1.0, 5.0]), 2.0)   ->   (2.0, array([1.]))
        without the penalty: (1.0, array([2.])), through both points

A hint: with the mean of each column taken from x, and the mean of y from y, the best constant is 0. What is left is a
system of equations.

Check it with: minitvm lesson 29 --check
"""

from __future__ import annotations

import numpy as np


def plane(x: np.ndarray, y: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """The constant, and the weight of each feature."""
    raise NotImplementedError("plane(x, y, penalty): the text at the top says what is wanted")
