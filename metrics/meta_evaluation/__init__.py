"""Which metric to trust: agreement of metrics with people."""

LIMITS = {"paraphrase": 2_000, "corruption": 100, "benchmark": 200, "profile": 50}
"""How many rows of the large sets `summarily meta all` takes, from the first on."""
