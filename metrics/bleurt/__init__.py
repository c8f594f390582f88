"""BLEURT."""
