"""The name under which programs use flambeau: its own, or torch, for which it stands in.

Types show it (`flambeau.float32`, `torch.float32`), and defaults that differ follow it.
"""

#: The name of the package; `flambeau.as_torch` sets it.
package = "flambeau"
