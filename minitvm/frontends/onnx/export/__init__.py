"""Graphs written as ONNX models, with the computed sizes, loops and recurrent layers that they have."""
