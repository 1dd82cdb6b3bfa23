"""Real models that the project is tested on, none of them of its own making.

    rapidocr    PP-OCRv4: a text recogniser and a direction classifier with their trained weights
    light       nine image classifiers out of the onnx package, with seeded random weights

The packages that carry the models are located, never imported.
"""
