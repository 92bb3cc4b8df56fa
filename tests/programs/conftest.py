"""What of this folder is no module of tests."""

# They import torch and packages that use it, in environments of their own.
collect_ignore = ["cases", "driver.py"]
