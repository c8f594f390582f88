"""Decoding: what all encoder-decoders share."""
