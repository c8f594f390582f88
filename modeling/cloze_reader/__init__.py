"""The attentive reader: cloze questions about entities, answered from a passage."""
