"""What a mask picks inside a compiled program: tensors whose length no one knows yet."""
