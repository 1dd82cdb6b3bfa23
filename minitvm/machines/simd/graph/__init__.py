"""Graph passes that bring tensors into blocked layouts, where a vector holds neighbouring channels."""
