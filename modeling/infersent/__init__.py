"""InferSent: sentence embeddings by a BiLSTM with max pooling."""
