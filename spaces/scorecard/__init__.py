"""The Space that scores up to four systems' summaries and explains every number."""
