"""Our small BLEURT: signals of other metrics, then people's ratings."""
