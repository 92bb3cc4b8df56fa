"""Parts of passes over graphs."""
