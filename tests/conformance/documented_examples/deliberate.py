"""Where PyTorch's examples come out differently on purpose, and why."""

from __future__ import annotations

from typing import NamedTuple

from tests.conformance.documented_examples.comparing import NODES
from tests.conformance.documented_examples.lockstep import Difference


class Deliberate(NamedTuple):
    """Differences with one reason.

    Attributes:
        reason: Why flambeau does something else.
        where: By documented name, a word of the examples that differ, or of what differs in them.
        always: Whether they differ on every processor.
    """

    reason: str
    where: dict[str, str]
    always: bool = True


_COARSE = """
    nn.Bilinear nn.CTCLoss nn.CrossEntropyLoss nn.GRU nn.GRUCell nn.InstanceNorm1d
    nn.InstanceNorm2d nn.InstanceNorm3d nn.KLDivLoss nn.LSTM nn.LSTMCell
    nn.LinearCrossEntropyLoss nn.Module.to nn.RMSNorm nn.RNN nn.RNNCell
    nn.functional.cross_entropy nn.functional.ctc_loss nn.utils.parametrizations.orthogonal
    nn.utils.parametrizations.spectral_norm
"""

DELIBERATE = [
    Deliberate(
        "a jax.Array never changes, so memory is not shared with what does",
        {
            "as_tensor": "-1",
            "asarray": "array.__array_interface__",
            "from_dlpack": "-1",
            "from_numpy": "-1",
            "frombuffer": "-1",
        },
    ),
    Deliberate(
        "conjugates and negatives are computed at once",
        {"conj": "is_conj", "resolve_conj": "is_conj", "resolve_neg": "is_neg"},
    ),
    Deliberate(
        "a class is shown with the module that it is written in",
        {"nn.Module.buffers": "print(type(buf)"},
    ),
    Deliberate("there is no complex32", {"set_default_dtype": "3j"}),
    Deliberate(
        "XLA takes subnormal numbers for zero whatever it is told",
        {"set_flush_denormal": "set_flush_denormal(False)"},
    ),
    Deliberate(
        "the seed comes from the machine's own randomness", {"Generator.seed": "g_cpu.seed()"}
    ),
    Deliberate(
        "streams, events and storages are shown by what they are, without numbers of their own",
        {
            "Event": "event", "Event.elapsed_time": "s_cuda", "Event.query": "s_cuda",
            "Event.record": "e_cuda", "Event.synchronize": "s_cuda",
            "Event.wait": "_cuda = torch.Stream",
            "Stream": "s_cuda", "Stream.is_capturing": "s_cuda", "Stream.query": "s_cuda",
            "Stream.record_event": "s_cuda", "Stream.synchronize": "s_cuda",
            "Stream.wait_event": "_cuda = torch.Stream",
            "Stream.wait_stream": "_cuda = torch.Stream",
            "is_storage": "storage",
        },
    ),
    Deliberate(
        "few operators take sparse tensors, whose layouts are those of matrices of numbers",
        {
            "narrow_copy": "narrow_copy(s",
            "Tensor.to_sparse": "layout=torch.sparse_",
            "Tensor.to_sparse_csc": "dense_dim=2",
            "Tensor.to_sparse_csr": "dense_dim=2",
        },
    ),
    Deliberate("a batch is not cut up for several devices", {"nn.DataParallel": "device_ids"}),
    Deliberate("threads are numbered in their order", {"jit.Future.set_result": "Thread-"}),
    Deliberate("any function may be called", {"compiler.substitute_in_graph": "Unsupported"}),
    Deliberate(
        "an operator and the method of its name are one function",
        {"overrides.is_tensor_method_or_property": "torch.add"},
    ),
    Deliberate("every sort is a stable one", {"sort": "x.sort()"}),
    Deliberate("JAX orders the work on a device itself", {"accelerator.synchronize": "Event"}),
    Deliberate(
        "an argument stays as it is, which PyTorch transposes in place",
        {"nn.utils.rnn.unpad_sequence": "padded_sequences: "},
    ),
    Deliberate(
        "the last bits of a computation come out differently",
        {
            "cholesky_inverse": "torch.dist",
            "fft.hfft2": "torch.allclose",
            "fft.hfftn": "torch.allclose",
            "linalg.lu_solve": "torch.allclose",
            "linalg.solve_triangular": "torch.allclose",
        },
        always=False,
    ),
    Deliberate(
        "one operator here is several in PyTorch, of which the last gives the name",
        dict.fromkeys(_COARSE.split(), NODES),
    ),
    Deliberate(
        "the gradient of an operator is one operator",
        dict.fromkeys(
            ["autograd.functional.hvp", "autograd.functional.jvp", "autograd.functional.vhp",
             "autograd.functional.vjp"],
            NODES,
        ),
    ),
    Deliberate(
        "a transformed function is one node",
        dict.fromkeys(["func.grad", "vmap"], NODES),
    ),
    Deliberate(
        "what a transformed function passes through is a result of its own",
        {"func.grad": "requires_grad=True"},
    ),
]  # fmt: skip


def unexplained(name: str, found: list[Difference]) -> list[Difference]:
    """The differences of a name that are no deliberate ones, nor come of such."""
    words = [each.where[name] for each in DELIBERATE if name in each.where]
    return [each for each in found if not (each.follows or any(_has(each, word) for word in words))]


def outdated(name: str, found: list[Difference]) -> list[str]:
    """The words of the table that no difference of a name has, though it always should."""
    words = [each.where[name] for each in DELIBERATE if each.always and name in each.where]
    return [word for word in words if not any(_has(each, word) for each in found)]


def _has(difference: Difference, word: str) -> bool:
    return word in difference.source or word in difference.what
