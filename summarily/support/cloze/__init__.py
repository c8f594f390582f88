"""Cloze questions: entities, the names they have, and the questions made of them."""
