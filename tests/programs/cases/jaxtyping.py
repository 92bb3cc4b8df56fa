"""attention whose annotated shapes `jaxtyping` and `beartype` check; which tensors they refuse"""

# Shapes in quotes are no annotations of Python.
# ruff: noqa: F722

import numpy as np
import torch

PACKAGE = "jaxtyping"
REQUIRES = ["beartype"]


def build():
    from beartype import beartype
    from jaxtyping import Float, Int, jaxtyped

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.key = torch.nn.Linear(6, 4)
            self.value = torch.nn.Linear(6, 3)

        @jaxtyped(typechecker=beartype)
        def forward(
            self, words: Float[torch.Tensor, "batch words 6"]
        ) -> Float[torch.Tensor, "batch words 3"]:
            key = self.key(words)
            return (key @ key.mT).softmax(-1) @ self.value(words)

    @jaxtyped(typechecker=beartype)
    def loss(
        model: torch.nn.Module,
        words: Float[torch.Tensor, "batch words 6"],
        targets: Int[torch.Tensor, "batch words"],
    ) -> Float[torch.Tensor, ""]:
        found = model(words)
        return torch.nn.functional.cross_entropy(found.flatten(0, 1), targets.flatten())

    rng = np.random.default_rng(0)
    words = torch.from_numpy(rng.standard_normal((4, 5, 6)).astype("float32"))
    return Attention(), (words, torch.from_numpy(rng.integers(0, 3, (4, 5)))), loss


def more(model, inputs):
    from beartype import beartype
    from jaxtyping import Bool, Float, Float16, Integer, Num, Shaped, TypeCheckError, jaxtyped

    words, targets = inputs
    kinds = [
        Float[torch.Tensor, "..."], Float[torch.Tensor, "4 5 6"], Float[torch.Tensor, "4 5"],
        Float16[torch.Tensor, "..."], Bool[torch.Tensor, "..."], Integer[torch.Tensor, "a a+1"],
        Num[torch.Tensor, "*all"], Shaped[torch.Tensor, "_ _"], Float[torch.nn.Parameter, "..."],
    ]  # fmt: skip
    tensors = [words, targets, words > 0, words.half(), words.bfloat16(), model.key.weight]
    fits = [[float(isinstance(each, kind)) for kind in kinds] for each in tensors]

    @jaxtyped(typechecker=beartype)
    def add(
        one: Float[torch.Tensor, "a b"], other: Float[torch.Tensor, "*#a b"]
    ) -> Float[torch.Tensor, "a b"]:
        return one + other

    @beartype
    def plain(one: torch.Tensor, kind: torch.dtype, where: torch.device | None = None) -> tuple:
        return one.to(where, kind), one.shape

    refused = []
    for call in (
        lambda: model(words[0]),
        lambda: model(words.double()),
        lambda: model(words.long()),
        lambda: add(words[0], words[0].mT),
        lambda: plain(1.0, torch.float32),
        lambda: plain(words, 32),
    ):
        try:
            call()
        except Exception as error:  # noqa: BLE001 (which kind it is, is compared)
            kind = type(error)
            refused.append([kind is TypeCheckError, "eartype" in kind.__module__])
    return {
        "fits": torch.tensor(fits),
        "refused": torch.tensor(refused),
        "added": add(words[0], words[0, :1].expand(5, 6)),
        "plain": plain(words, torch.float64, torch.device("cpu"))[0],
    }
