"""Reading and writing by indices and masks: subscripts, `gather`, `scatter` and their like."""
