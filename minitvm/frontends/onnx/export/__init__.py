"""Write graphs as ONNX models, including their computed sizes, loops and recurrent layers."""
