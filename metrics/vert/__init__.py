"""VERT: a sentence encoder's cosine similarity, less the word mover's distance."""
