"""Private modules of PyTorch that packages import, under the name torch.

Functions that packages call are implemented; names that are only referenced are placeholders.
"""
