"""TVMScript: programs of level 3 and of the kernel level as Python text, written and read.

`printer.script(node)` writes the text, and `parser.parse(text)` reads it back. The name `T` in a text means the module
`builtins`.
"""
