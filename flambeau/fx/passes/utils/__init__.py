"""What passes over graphs are made of."""
