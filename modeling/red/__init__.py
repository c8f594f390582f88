"""RED: BART with the Reformer's attention in the encoder."""
