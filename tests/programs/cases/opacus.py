"""gradients by sample of convolutions and norms: loss; private steps with noise, budgets, layers"""

import tempfile

import numpy as np
import torch

PACKAGE = "opacus"


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.Tanh(), torch.nn.Flatten(),
        torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3),
    )  # fmt: skip


def data():
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((8, 1, 6, 6)).astype("float32"))
    return images, torch.arange(8) % 3


def build():
    from opacus import GradSampleModule

    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return GradSampleModule(network()), data(), loss


def optimizer(model):
    from opacus.optimizers import DPOptimizer

    return DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        noise_multiplier=0.0,
        max_grad_norm=0.8,
        expected_batch_size=8,
    )


def by_sample(model, *inputs):
    """The gradients by sample of a module."""
    import driver
    from opacus import GradSampleModule

    driver.fill(model)
    wrapped = GradSampleModule(model)
    found = wrapped(*inputs)
    (found[0] if isinstance(found, tuple) else found).square().sum().backward()
    norms = [each.grad_sample.flatten(1).norm(dim=1) for each in wrapped.parameters()]
    return torch.stack(norms)


def more(model, inputs):
    import driver
    from opacus import PrivacyEngine, layers
    from opacus.accountants.utils import get_noise_multiplier
    from opacus.data_loader import DPDataLoader
    from opacus.utils.batch_memory_manager import BatchMemoryManager
    from opacus.validators import ModuleValidator

    images, labels = inputs
    found = {}
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels, reduction="sum").backward()
    for name, each in model.named_parameters():
        found[name] = each.grad_sample
    rng = np.random.default_rng(1)
    sequence = torch.from_numpy(rng.standard_normal((4, 5, 6)).astype("float32"))
    tokens = torch.from_numpy(rng.integers(0, 9, (4, 5)))
    for each in (
        torch.nn.Linear(6, 3), torch.nn.LayerNorm(6), torch.nn.Conv1d(5, 4, 3, padding=1),
        torch.nn.InstanceNorm1d(5, affine=True), layers.DPLSTM(6, 4, batch_first=True),
        layers.DPGRU(6, 4, batch_first=True), layers.DPRNN(6, 4, batch_first=True),
        torch.nn.RMSNorm(6),
    ):  # fmt: skip
        found[f"by sample of {type(each).__name__}"] = by_sample(each, sequence)
    found["by sample of Embedding"] = by_sample(torch.nn.Embedding(9, 4), tokens)
    attention = layers.DPMultiheadAttention(6, 2, batch_first=True)
    found["attention"] = by_sample(attention, sequence, sequence, sequence)

    for kind in ("hooks", "functorch", "ghost"):
        torch.manual_seed(0)
        plain = network()
        driver.fill(plain)
        engine = PrivacyEngine()
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(images, labels), batch_size=4
        )
        loss = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        private, optimizer, *loss_of, loader = engine.make_private(
            module=plain, optimizer=optimizer, data_loader=loader, criterion=loss,
            noise_multiplier=0.7, max_grad_norm=1.0, poisson_sampling=False,
            clipping="flat",
            grad_sample_mode=kind,
            noise_generator=torch.Generator().manual_seed(3),
        )  # fmt: skip
        loss = loss_of[0] if loss_of else loss
        losses = []
        for _ in range(2):
            for values, classes in loader:
                optimizer.zero_grad()
                value = loss(private(values), classes)
                value.backward()
                optimizer.step()
                losses.append(value.item())
        found[f"{kind} losses"] = torch.tensor(losses)
        found[f"{kind} spent"] = torch.tensor(engine.get_epsilon(1e-5))
        found[f"{kind} weights"] = torch.stack([each.norm() for each in private.parameters()])
        with tempfile.TemporaryDirectory() as folder:
            if kind == "hooks":
                engine.save_checkpoint(path=f"{folder}/private.pt", module=private)
                again = PrivacyEngine()
                fresh = type(private)(network())
                again.load_checkpoint(path=f"{folder}/private.pt", module=fresh)
                found["loaded"] = fresh(images)
                found["spent before"] = torch.tensor(again.get_epsilon(1e-5))

    # Batches that are divided, and batches of a random size.
    torch.manual_seed(0)
    plain = network()
    driver.fill(plain)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=8
    )
    private, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=plain, optimizer=torch.optim.Adam(plain.parameters(), lr=0.01), data_loader=loader,
        target_epsilon=5.0, target_delta=1e-4, epochs=2, max_grad_norm=1.0,
        poisson_sampling=False, noise_generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=3, optimizer=optimizer
    ) as divided:
        for values, classes in divided:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(private(values), classes).backward()
            optimizer.step()
    found["divided"] = torch.stack([each.norm() for each in private.parameters()])
    drawn = DPDataLoader(
        torch.utils.data.TensorDataset(images, labels), sample_rate=0.5,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    found["sizes"] = torch.tensor([len(classes) for _, classes in drawn])
    for kind in ("rdp", "prv", "gdp"):
        found[f"noise by {kind}"] = torch.tensor(
            get_noise_multiplier(
                target_epsilon=3.0, target_delta=1e-5, sample_rate=0.1, epochs=2, accountant=kind
            )
        )
    normed = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
    found["errors"] = torch.tensor(len(ModuleValidator.validate(normed, strict=False)))
    fixed = ModuleValidator.fix(normed)
    driver.fill(fixed)
    found["fixed"] = fixed(images)
    return found
