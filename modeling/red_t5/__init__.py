"""RED around T5: the Reformer's attention in T5's encoder."""
