"""Sentence and word mover's similarity: exp(-EMD) between bags that hold both words and sentences."""
