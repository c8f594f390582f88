"""The attention-variant transformer of Krantz & Kalita (2018): one architecture, seven self-attention mechanisms."""
