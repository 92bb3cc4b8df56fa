"""groups of channels by what depends on what: 7 importances, pruned networks trained, and saved"""

import os
import tempfile

import numpy as np
import torch

PACKAGE = "torch-pruning"


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(channels)
        self.grouped = torch.nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, given):
        return given + self.grouped(torch.relu(self.norm(self.first(given))))


class Net(torch.nn.Module):
    """With sums, branches that are joined, and channels that are flattened."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(2, 8, 3, padding=1)
        self.blocks = torch.nn.Sequential(Block(8), Block(8))
        self.left, self.right = torch.nn.Conv2d(8, 4, 1), torch.nn.Conv2d(8, 6, 1)
        self.norm = torch.nn.GroupNorm(1, 10)
        self.hidden, self.head = torch.nn.Linear(40, 12), torch.nn.Linear(12, 3)

    def forward(self, given):
        hidden = self.blocks(torch.relu(self.stem(given)))
        hidden = torch.cat([self.left(hidden), torch.relu(self.right(hidden))], 1)
        hidden = torch.nn.functional.max_pool2d(self.norm(hidden), 2)
        return self.head(torch.relu(self.hidden(hidden.flatten(1))))


def network():
    import driver

    model = Net().eval()
    driver.fill(model)
    return model


def sizes(model):
    return torch.tensor([number for each in model.parameters() for number in each.shape])


def main():
    import driver
    import torch_pruning as tp

    found, images, labels = {}, drawn(0, 6, 2, 4, 4), torch.arange(6) % 3

    def pruned(importance, kind=None, **options):
        model = network()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        pruner = (kind or tp.pruner.BasePruner)(
            model, images, importance=importance, ignored_layers=[model.head], **options
        )
        return model, pruner

    kinds = {
        "magnitude": tp.importance.GroupMagnitudeImportance(p=2),
        "first norm": tp.importance.GroupMagnitudeImportance(
            p=1, group_reduction="first", normalizer="max"
        ),
        "LAMP": tp.importance.LAMPImportance(), "FPGM": tp.importance.FPGMImportance(),
        "Taylor": tp.importance.GroupTaylorImportance(),
        "Hessian": tp.importance.GroupHessianImportance(),
        "scale": tp.importance.BNScaleImportance(),
    }  # fmt: skip
    for name, importance in kinds.items():
        for everywhere in (False, True):
            model, pruner = pruned(importance, pruning_ratio=0.5, global_pruning=everywhere)
            if name == "Hessian":
                losses = torch.nn.functional.cross_entropy(model(images), labels, reduction="none")
                importance.zero_grad()
                for each in losses:
                    model.zero_grad()
                    each.backward(retain_graph=True)
                    importance.accumulate_grad(model)
            pruner.step()
            found[f"{name} {everywhere}, sizes"] = sizes(model)
            found[f"{name} {everywhere}, said"] = model(images)
    counts = tp.utils.count_ops_and_params(network(), images)
    found["counts"] = torch.tensor([float(each) for each in counts])

    # What is pruned by hand, with what depends on it.
    model = network()
    graph = tp.DependencyGraph().build_dependency(model, example_inputs=images)
    group = graph.get_pruning_group(model.stem, tp.prune_conv_out_channels, idxs=[1, 4])
    found["group"] = torch.tensor([len(each.idxs) for each in group])
    assert graph.check_pruning_group(group)
    group.prune()
    found["by hand"] = model(images)
    # Of the model's layers: PyTorch's graph also has the transposed weights of linear layers.
    layers = list(model.modules())
    found["groups"] = torch.tensor([
        sum(any(each.dep.target.module is layer for layer in layers) for each in part)
        for part in graph.get_all_groups(ignored_layers=[model.head])
    ])  # fmt: skip

    # Steps with a penalty on whole groups, of which some are pruned after each.
    for kind in (tp.pruner.GroupNormPruner, tp.pruner.BNScalePruner, tp.pruner.GrowingRegPruner):
        model, pruner = pruned(
            kinds["magnitude"], kind, pruning_ratio=0.5, iterative_steps=2, round_to=2, reg=1e-2
        )
        losses = []
        for _ in range(2):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            pruner.update_regularizer()
            for _ in range(3):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                pruner.regularize(model)
                optimizer.step()
                losses.append(loss.item())
            for part in pruner.step(interactive=True):
                part.prune()
        found[f"losses of {kind.__name__}"] = torch.tensor(losses)
        found[f"sizes of {kind.__name__}"] = sizes(model)
        found[f"said after {kind.__name__}"] = model(images)

    history = pruner.pruning_history()
    again, other = pruned(kinds["magnitude"], pruning_ratio=0.5)
    other.load_pruning_history(history)
    found["sizes again"] = sizes(again)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "pruned.pt")
        torch.save(model, file)
        found["the whole module"] = torch.load(file, weights_only=False)(images)
        torch.save(tp.state_dict(model), file)
        fresh = network()
        tp.load_state_dict(fresh, torch.load(file, weights_only=False))
        found["its attributes"] = fresh(images)

    attending = torch.nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    driver.fill(attending)
    words = drawn(1, 2, 5, 8)
    graph = tp.DependencyGraph().build_dependency(attending, example_inputs=words)
    graph.get_pruning_group(attending.linear1, tp.prune_linear_out_channels, idxs=[0, 3]).prune()
    found["fewer in between"] = attending(words)
    return found
