"""Pointer-generator: a BiLSTM encoder and an LSTM decoder that copies words of the source."""
