"""Random arrays as PyTorch's CPU operators draw them from an MT19937 generator.

Every draw takes the generator first, then what the operator of PyTorch takes, returns a new NumPy
array, and moves the generator on by exactly the words that PyTorch's operator takes on a contiguous
tensor, so that any sequence of draws stays in step with PyTorch. `skip` moves on without drawing.

Uniforms, integers, permutations, Bernoulli and geometric draws equal PyTorch's bit for bit, and so
do normals in float32 from 16 on. The others go through a logarithm, a sine, a tangent or an
exponential, whose last bits depend on the library; each docstring states how close they come.
PyTorch's own last bits depend on the processor: meant are those of one that rounds a product and a
sum once, as x86-64 with AVX2 does.
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
