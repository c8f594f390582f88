"""Pointer-generators that learn to copy from news: where the other studies start."""
