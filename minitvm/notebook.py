"""How programs and verdicts look in a notebook: HTML that needs no style sheet."""

from __future__ import annotations

import html

_PRE = "line-height: 1.3; overflow-x: auto; padding-left: 0.6em; border-left: 3px solid"


def program_html(text: str) -> str:
    """The text of a program, Python by its letters, in colours that are readable on light and dark pages."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(text, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True, prestyles=f"{_PRE} #888"))


def verdict_html(text: str, good: bool) -> str:
    """The text of a verdict, beside a green or a red line."""
    return f'<pre style="{_PRE} {"#2a2" if good else "#c33"}">{html.escape(text)}</pre>'
