"""ROUGE: overlap of n-grams and longest common subsequences."""
