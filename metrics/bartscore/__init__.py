"""BARTScore: matching on the vectors of an encoder-decoder, or the likelihood it gives a text."""
