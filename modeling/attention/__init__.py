"""Attention kernels shared by the models, and the dense mask that each kernel must equal."""
