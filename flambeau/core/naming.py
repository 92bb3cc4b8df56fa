"""The name that types show: `flambeau.float32`, or `torch.float32` where flambeau stands in."""

#: The name of the package in texts; `flambeau.as_torch` sets it.
package = "flambeau"
