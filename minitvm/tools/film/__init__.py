"""Films: an animated picture of what a loop program touches, in the order in which it runs.

film = Film.of(program, *arrays)       runs the program in the reference interpreter and records it
film.save("film.svg")                  or the last value of a notebook's cell

film.py             `Film`: the run, what the race detector says of it, and the picture
recording.py        a listener that writes down the steps; iterations of parallel loops happen at the same time
cache_contents.py   the lines that a cache holds at each step
layout.py           where buffers and loops are on the picture
canvas.py           SVG whose parts appear at a time, without a script
"""

from .canvas import Canvas
from .film import Film

__all__ = ["Canvas", "Film"]
