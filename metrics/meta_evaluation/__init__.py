"""Which metric to trust: agreement of metrics with people."""
