"""The cross reader: a pretrained encoder reads a passage and all its cloze questions in one pass."""
