"""Elements that a mask picks inside a compiled program: tensors of unknown length."""
