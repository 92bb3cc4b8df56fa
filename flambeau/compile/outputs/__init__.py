"""The outputs of a program: results, stored values, other effects, and gradients.

`effects.py` and `keeping.py` write them as two functions of Python, which ``program.source`` shows,
so nothing is interpreted at a call. `look` finds the objects that the call returns or changes
before anything is overwritten. `write` makes new tensors and containers, stores them, and returns
the result of the function; after an interrupt it runs again.

If results require grad, the trace continues backwards over the tape from these results, with
placeholders for the cotangents (`passing.py`). The part that depends on a placeholder becomes the
backward program; the rest is the forward program, which hands the residuals over (`split.py`). All
results of a call share one node. Second derivatives are JAX's, of the first.
"""
