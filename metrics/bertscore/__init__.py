"""BERTScore: greedy matching of contextual token vectors."""
