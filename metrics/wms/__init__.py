"""Word mover's similarity: exp(-EMD) between the bags of words of two texts."""
