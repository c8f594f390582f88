"""Sentence mover's similarity: exp(-EMD) between the bags of sentences of two texts."""
