"""Operators that arrange elements: views, joining, splitting, repeating and turning."""
