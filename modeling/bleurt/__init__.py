"""BLEURT: a regression on an encoder that reads the reference and the candidate together."""
