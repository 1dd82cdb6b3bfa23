"""TVMScript: programs of level 3 and of the kernel level as Python text, both ways.

`printer.script(node)` writes it, `parser.parse(text)` reads it back; `builtins` is what the name `T` stands for.
"""
