"""New tensors: from sizes, from data, and as copies of another dtype or device."""
