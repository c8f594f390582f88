"""APES: how many questions about a reference a summary can answer."""
