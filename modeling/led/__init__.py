"""LED: BART with sliding-window attention and global tokens in the encoder."""
