"""The Space that shows what each position may see under each attention mechanism, and what that costs."""
