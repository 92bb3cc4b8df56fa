"""Whether new memory is filled: it always is, with zeros, so the setting changes nothing."""

__all__ = ["fill_uninitialized_memory"]

#: PyTorch's setting; programs set it.
fill_uninitialized_memory = True
