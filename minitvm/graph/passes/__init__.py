"""Passes from graph to graph, one pass per file; `pipeline.py` lists them in order."""
