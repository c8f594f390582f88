"""The training engine of every model here: recipes, corpora, collators, tokenizers and one loop."""
