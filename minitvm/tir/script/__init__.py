"""TVMScript: write and read programs of level 3 and of the kernel level as Python text.

`printer.script(node)` writes the text, and `parser.parse(text)` reads it back. The name `T` in the text refers to the
module `builtins`.
"""
