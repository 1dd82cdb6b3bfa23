"""Other tools' interfaces: ONNX's backend tests."""
