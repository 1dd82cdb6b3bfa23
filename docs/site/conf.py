"""The site's configuration for Sphinx; `docs/site/build.py` writes the folder that Sphinx reads (`make site`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import minitvm

project = "minitvm"
author = "the minitvm authors"
version = release = minitvm.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_design"]
html_theme = "pydata_sphinx_theme"
html_title = "minitvm"
html_static_path = ["_static"]
html_extra_path = ["_extra"]  # pages of `minitvm explore`
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_show_copyright = False
smartquotes = False  # the quotes of programs
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}
html_sidebars = {"index": []}

nb_execution_mode = "off"  # build.py has executed the lessons
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # blocks that hold programs of our languages, or excerpts
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"

_SPECIAL = re.compile(r"([*_|\\])")
_ITEM = re.compile(r"- |\d\. ")


def as_rest(lines: list[str]) -> list[str]:
    """A docstring of minitvm as reStructuredText: paragraphs, lists, code between backticks, and indented code."""
    result: list[str] = []
    for code, block in groupby(lines, lambda line: line.startswith("    ") or None if line.strip() else ""):
        text = list(block)
        if code == "":
            result += text
        elif code:
            result += ["", ".. code-block:: text", "", *(f"    {line}" for line in text), ""]
        else:
            first = next((k for k in range(len(text)) if _begins_list(text, k)), len(text))
            result += _paragraph("\n".join(text[:first])).split("\n") if first else []
            result += ["", *_items(text[first:])] if first < len(text) else []
    return result


def _begins_list(text: list[str], k: int) -> bool:
    """Whether line k begins a list: it is the first one, or the line before it ends with a colon."""
    return bool(_ITEM.match(text[k])) and (k == 0 or text[k - 1].endswith(":"))


def _items(text: list[str]) -> Iterator[str]:
    """The lines of a list. A line without a marker continues the item before it."""
    starts = [k for k, line in enumerate(text) if _ITEM.match(line)]
    for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
        width = len(text[start]) - len(_ITEM.sub("", text[start], count=1))
        body = [text[start][width:], *(line.strip() for line in text[start + 1 : stop])]
        shown = _paragraph("\n".join(body)).split("\n")
        yield text[start][:width] + shown[0]
        yield from (" " * width + line for line in shown[1:])


def _paragraph(text: str) -> str:
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick that closes nothing
        parts = [text.replace("`", "\\`")]
    shown = []
    for k, part in enumerate(parts):
        if k % 2 == 0:
            # Code ends before a character that belongs to no word.
            shown.append("\\ " * bool(k and re.match(r"\w", part)) + _SPECIAL.sub(r"\\\1", part))
        else:
            shown.append(f"``{part}``")
    # A line that looks like a list or a directive stays a line.
    return re.sub(r"(?m)^(?=[-+#.:=])", r"\\", "".join(shown))


def _docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rest(lines)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _docstring)
