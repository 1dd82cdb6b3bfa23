"""TVMScript: print loop programs (with blocks) and lowered programs (without) as Python text, and parse such text.

`printer.script(node)` returns the text, and `parser.parse(text)` reads it back. In the text, `T` is the module
`builtins` of this package.
"""
