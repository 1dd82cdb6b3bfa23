"""The configuration of the course's slides for Sphinx; `docs/site/build.py` copies it to their folder."""

from __future__ import annotations

project = "minitvm"
extensions = ["myst_parser", "sphinx_revealjs"]
smartquotes = False  # the quotes of programs
suppress_warnings = ["misc.highlighting_failure"]  # blocks of text that hold excerpts of programs
html_show_sourcelink = html_copy_source = False

revealjs_static_path = ["_static"]
revealjs_css_files = ["revealjs/plugin/highlight/monokai.css", "slides.css"]
revealjs_style_theme = "white"
revealjs_script_plugins = [{"name": "RevealHighlight", "src": "revealjs/plugin/highlight/highlight.js"}]
# A slide has an address, so that a reader can link to it, and stands at the top: long and short ones alike.
revealjs_script_conf = {
    "hash": True,
    "slideNumber": "c/t",
    "center": False,
    "transition": "none",
    "width": 1100,
    "height": 700,
}
