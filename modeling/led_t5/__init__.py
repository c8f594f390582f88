"""LED around T5: sliding-window attention with global tokens in T5's encoder."""
