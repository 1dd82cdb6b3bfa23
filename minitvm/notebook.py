"""Display programs and verdicts in a notebook, as HTML that needs no style sheet."""

from __future__ import annotations

import html

_PRE = "line-height: 1.3; overflow-x: auto; padding-left: 0.6em; border-left: 3px solid"


def program_html(text: str) -> str:
    """Return a program as HTML, with Python's syntax highlighted in colours that are readable on light and dark
    pages.
    """
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(text, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True, prestyles=f"{_PRE} #888"))


def verdict_html(text: str, good: bool) -> str:
    """Return the text of a verdict as HTML, with a green or a red line at its left."""
    return f'<pre style="{_PRE} {"#2a2" if good else "#c33"}">{html.escape(text)}</pre>'
