"""Modules of PyTorch's that are private and that packages import even so, under the name torch.

What is called does what it is called for; what is only named stands there to be named.
"""
