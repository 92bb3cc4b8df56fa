"""factorized convolutions, a contraction, a regression: loss; layers, complex tensors, fits"""

import io
import warnings

import numpy as np
import torch

PACKAGE = "tensorly-torch"
REQUIRES = ["tensorly", "packaging", "opt_einsum"]


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def begun(module):
    """With numbers in the factors, which the package leaves empty."""
    for each in module.parameters():
        torch.nn.init.normal_(each)
    return module


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import tltorch

        self.first = tltorch.FactorizedConv(
            2, 6, (3, 3), order=2, padding=1, has_bias=True, rank=4, factorization="cp"
        )
        self.second = tltorch.FactorizedConv(
            6, 6, (3, 3), order=2, padding=1, has_bias=True, rank=0.5, factorization="tucker"
        )
        self.contracted = tltorch.TCL((6, 5, 5), rank=(4, 3, 3))
        self.regressed = tltorch.TRL((4, 3, 3), (3,), rank=2, factorization="tucker", bias=True)

    def forward(self, images):
        hidden = torch.tanh(self.second(torch.tanh(self.first(images))))
        return self.regressed(torch.tanh(self.contracted(hidden)))


def build():
    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return begun(Net()), (drawn(0, 4, 2, 5, 5), torch.arange(4) % 3), loss


def ran(layer, *inputs):
    """What a layer gives, and the norms of its gradients."""
    import driver

    driver.fill(begun(layer))
    result = layer(*inputs)
    result.square().mean().backward()
    norms = [each.grad.norm() for each in layer.parameters() if each.grad is not None]
    return torch.cat([result.flatten(), torch.stack(norms)])


def of_layers():
    import tltorch

    found = {}
    for kind in ("cp", "tucker", "blocktt"):
        for how in ("factorized", "reconstructed"):
            layer = tltorch.FactorizedLinear(
                (3, 4), (2, 3), factorization=kind, rank=3, implementation=how
            )
            found[f"linear by {kind}, {how}"] = ran(layer, drawn(1, 5, 12))
        words = tltorch.FactorizedEmbedding(12, 8, factorization=kind, rank=3)
        found[f"embedding by {kind}"] = ran(words, torch.tensor([[0, 3, 11], [7, 3, 2]]))
    for kind in ("cp", "tucker", "tt"):
        for how in ("factorized", "reconstructed"):
            layer = tltorch.FactorizedConv(
                3, 4, (3, 3), order=2, stride=2, padding=1, factorization=kind, rank=3,
                implementation=how,
            )  # fmt: skip
            found[f"convolution by {kind}, {how}"] = ran(layer, drawn(2, 2, 3, 6, 6))
        head = tltorch.TRL((3, 4), (2,), factorization=kind, rank=2)
        found[f"regression by {kind}"] = ran(head, drawn(3, 5, 3, 4))
    longer = tltorch.FactorizedConv(3, 4, (3,), order=1, factorization="cp", rank=3)
    longer = longer.transduct(3, padding=1)
    found["transduced"] = ran(longer, drawn(2, 2, 3, 6, 6))
    shared = tltorch.FactorizedLinear((3, 4), (2, 3), factorization="cp", rank=3, n_layers=2)
    found["second of two"] = ran(shared.get_linear(1), drawn(1, 5, 12))

    # Layers that are decomposed, with all that they hold.
    linear, conv = torch.nn.Linear(12, 6), torch.nn.Conv2d(3, 4, 3)
    words = torch.nn.Embedding(12, 8)
    for each in (linear, conv, words):
        torch.nn.init.uniform_(each.weight).data.copy_(drawn(4, *each.weight.shape))
    torch.nn.init.zeros_(linear.bias), torch.nn.init.zeros_(conv.bias)
    given = tltorch.FactorizedLinear.from_linear(
        linear, rank="same", in_tensorized_features=(3, 4), out_tensorized_features=(2, 3),
        auto_tensorize=False, factorization="blocktt",
    )  # fmt: skip
    found["from a linear layer"] = given(drawn(1, 5, 12))
    begin = {"init": "random", "random_state": 0, "n_iter_max": 9}
    for kind in ("tucker", "tt", "cp"):
        given = tltorch.FactorizedConv.from_conv(
            conv, rank=0.5, factorization=kind, implementation="factorized",
            decomposition_kwargs=begin if kind == "cp" else {},
        )  # fmt: skip
        found[f"from a convolution by {kind}"] = given(drawn(2, 2, 3, 6, 6))
    given = tltorch.FactorizedEmbedding.from_embedding(words, rank=4, factorization="blocktt")
    found["from an embedding"] = given(torch.arange(12))
    return found


def of_factors():
    import driver
    import tensorly
    import tltorch
    from tensorly import decomposition

    found = {}
    for kind in ("CP", "Tucker", "TT", "Dense"):
        whole = tltorch.FactorizedTensor.new((4, 3, 5), rank=0.5, factorization=kind)
        driver.fill(begun(whole))
        found[kind] = whole.to_tensor()
        found[f"part of {kind}"] = whole[1, :, 2:].to_tensor()
        found[f"rank of {kind}"] = torch.tensor(whole.rank if kind != "Dense" else 0)
        found[f"{kind} times a matrix"] = torch.matmul(drawn(5, 2, 4), whole.to_tensor().flatten(1))
        mixed = tltorch.FactorizedTensor.new((4, 3, 5), rank=0.5, factorization=f"Complex{kind}")
        driver.fill(begun(mixed))
        result = mixed.to_tensor()
        result.abs().square().sum().backward()
        found[f"complex {kind}"] = torch.view_as_real(result)
        found[f"gradients of complex {kind}"] = torch.stack(
            [each.grad.abs().norm() for each in mixed.parameters()]
        )
        if kind != "Dense":
            decomposed = tltorch.FactorizedTensor.from_tensor(
                drawn(6, 4, 3, 5), rank=0.6, factorization=kind
            )
            found[f"decomposed by {kind}"] = decomposed.to_tensor()
    for kind in ("CP", "Tucker", "BlockTT"):
        matrix = tltorch.TensorizedTensor.new(((2, 3), (3, 2)), rank=0.7, factorization=kind)
        driver.fill(begun(matrix))
        found[f"matrix of {kind}"] = matrix.to_matrix()
        found[f"product with {kind}"] = tltorch.functional.factorized_linear(drawn(7, 4, 6), matrix)
    for kind in ("CP", "Tucker", "TT"):
        whole = tltorch.FactorizedTensor.new((4, 4, 4), rank=3, factorization=kind)
        driver.fill(begun(whole))
        lasso = tltorch.tensor_lasso(kind, penalty=0.1)
        lasso.apply(whole)
        total = whole.to_tensor().square().mean() + whole().to_tensor().square().mean() + lasso.loss
        total.backward()
        found[f"lasso of {kind}"] = torch.stack(
            [total, *(each.grad.norm() for each in whole.parameters() if each.grad is not None)]
        )
        tltorch.remove_tensor_lasso(whole)
        tltorch.tensor_dropout(whole, p=1e-7, min_dim=1, drop_test=True)
        found[f"{kind}, nothing dropped"] = whole().to_tensor()
        tltorch.remove_tensor_dropout(whole)
    given = drawn(8, 4, 5, 6).abs()
    found["Tucker"] = decomposition.tucker(given, [2, 3, 2]).to_tensor()
    found["parallel factors"] = decomposition.parafac(given, 3, init="svd").to_tensor()
    found["not negative"] = decomposition.non_negative_parafac(given, 3, init="svd").to_tensor()
    found["robust"] = torch.stack(list(decomposition.robust_pca(given, n_iter_max=5)))
    found["train"] = decomposition.tensor_train(given, [1, 2, 2, 1]).to_tensor()
    found["ring"] = decomposition.tensor_ring(given, [2, 2, 3, 2]).to_tensor()
    found["unfolded"] = tensorly.unfold(given, 1)
    found["Khatri-Rao"] = tensorly.tenalg.khatri_rao([drawn(9, 3, 2), drawn(10, 4, 2)])
    return found


def more(model, inputs):
    warnings.simplefilter("ignore")
    with io.BytesIO() as file:
        torch.save(model.state_dict(), file)
        file.seek(0)
        other = Net()
        other.load_state_dict(torch.load(file))
    return {"loaded elsewhere": other(inputs[0])} | of_layers() | of_factors()
