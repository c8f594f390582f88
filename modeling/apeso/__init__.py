"""APESO: a pointer-generator that also learns which words of the source belong to salient entities."""
