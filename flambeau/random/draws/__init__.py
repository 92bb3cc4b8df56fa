"""Random arrays as PyTorch's CPU operators draw them from an MT19937 generator.

Every draw takes the generator first, then the arguments of PyTorch's operator, returns a new NumPy
array, and advances the generator by exactly the words that PyTorch's operator consumes for a
contiguous tensor, so that any sequence of draws matches PyTorch's. `skip` advances without drawing.

Uniforms, integers, permutations, Bernoulli and geometric draws equal PyTorch's bit for bit, and so
do normals in float32 from 16 on. The others use a logarithm, a sine, a tangent or an exponential,
whose last bits depend on the library; each docstring states the error bounds. PyTorch's own last
bits depend on the processor; the reference is a processor with fused multiply-add, such as x86-64
with AVX2.
"""

from flambeau.random.draws.choice import multinomial, permutation
from flambeau.random.draws.discrete import bernoulli, bernoulli_probabilities, geometric, integers
from flambeau.random.draws.real import cauchy, exponential, log_normal, normal, slopes, uniform
from flambeau.random.draws.skip import skip

__all__ = [
    "bernoulli",
    "bernoulli_probabilities",
    "cauchy",
    "exponential",
    "geometric",
    "integers",
    "log_normal",
    "multinomial",
    "normal",
    "permutation",
    "skip",
    "slopes",
    "uniform",
]
