"""The Space that summarizes a text and shows where the model looked, and what it cost."""
