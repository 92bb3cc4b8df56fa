"""Helpers of operators: checks of arguments, derivatives that differ from JAX's, loops."""
