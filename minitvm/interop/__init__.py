"""Other tools' interfaces: ONNX's backend tests, `torch.compile`, TVM's scripts."""
