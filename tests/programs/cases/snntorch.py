"""leaky neurons over time: loss; other neurons and their gradients, surrogates, codes by spikes"""

import numpy as np
import torch

PACKAGE = "snntorch"


class Net(torch.nn.Module):
    def __init__(self):
        import snntorch
        from snntorch import surrogate

        super().__init__()
        slope = surrogate.fast_sigmoid(slope=25)
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.first = snntorch.Leaky(beta=0.9, spike_grad=slope, learn_beta=True)
        self.head = torch.nn.Linear(64, 3)
        self.last = snntorch.Leaky(
            beta=0.8, spike_grad=slope, reset_mechanism="zero", learn_threshold=True
        )

    def forward(self, images):
        first, last = self.first.init_leaky(), self.last.init_leaky()
        spikes, potentials = [], []
        for image in images:
            out, first = self.first(self.conv(image), first)
            out, last = self.last(self.head(out.flatten(1)), last)
            spikes.append(out)
            potentials.append(last)
        return torch.stack(spikes), torch.stack(potentials)


def build():
    from snntorch import functional

    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random((5, 4, 1, 6, 6)).astype("float32"))
    labels = torch.arange(4) % 3
    rate, membrane = functional.ce_rate_loss(), functional.ce_max_membrane_loss()

    def loss(model, images, labels):
        spikes, potentials = model(images)
        return rate(spikes, labels) + membrane(potentials, labels)

    return Net(), (images, labels), loss


def more(model, inputs):
    import driver
    import snntorch
    from snntorch import functional, spikegen, surrogate, utils

    images, labels = inputs
    spikes, potentials = model(images)
    found = {"spikes": spikes, "potentials": potentials}
    found["accuracy"] = torch.tensor(functional.accuracy_rate(spikes, labels))
    soft = spikes + 0.1 * potentials
    for name, value in {
        "count": functional.ce_count_loss()(soft, labels),
        "temporal": functional.ce_temporal_loss()(spikes, labels),
        "rates": functional.mse_count_loss(0.8, 0.2)(soft, labels),
        "membrane": functional.mse_membrane_loss()(potentials, labels),
        "L1": functional.l1_rate_sparsity(0.1)(spikes),
    }.items():
        found[f"loss by {name}"] = value

    rng = np.random.default_rng(1)
    values = torch.from_numpy(rng.standard_normal((6, 2, 5)).astype("float32")) * 2
    for neuron in (
        snntorch.Leaky(0.7, init_hidden=True), snntorch.Synaptic(0.9, 0.8, init_hidden=True),
        snntorch.Alpha(0.9, 0.8, init_hidden=True), snntorch.Lapicque(0.9, init_hidden=True),
        snntorch.RLeaky(0.7, all_to_all=False, init_hidden=True),
        snntorch.RSynaptic(0.9, 0.8, linear_features=5, init_hidden=True),
        snntorch.Leaky(0.7, init_hidden=True, reset_mechanism="none", graded_spikes_factor=2.0),
    ):  # fmt: skip
        driver.fill(neuron)
        current = values.clone().requires_grad_()
        utils.reset(neuron)
        outputs = torch.stack([neuron(each) for each in current])
        outputs.sum().backward()
        name = f"{type(neuron).__name__} {neuron.reset_mechanism}"
        found[name], found[f"gradient of {name}"] = outputs, current.grad
    long = snntorch.SLSTM(5, 4, spike_grad=surrogate.atan())
    driver.fill(long)
    synapse, state = long.init_slstm()
    for each in values:
        out, synapse, state = long(each, synapse, state)
    (out.sum() + state.square().sum()).backward()
    found["SLSTM"] = state
    found["gradients of SLSTM"] = torch.stack([each.grad.norm() for each in long.parameters()])

    for name, slope in {
        "triangular": surrogate.triangular(), "straight": surrogate.straight_through_estimator(),
        "sigmoid": surrogate.sigmoid(5), "atan": surrogate.atan(2.0),
        "fast sigmoid": surrogate.fast_sigmoid(10),
        "heaviside": surrogate.heaviside(),
    }.items():  # fmt: skip
        x = torch.linspace(-1, 1, 9).requires_grad_()
        torch.manual_seed(0)
        slope(x).sum().backward()
        found[f"slope of {name}"] = x.grad

    chances = torch.linspace(0, 1, 12).reshape(2, 6)
    torch.manual_seed(0)
    found["code by rate"] = spikegen.rate(chances, num_steps=4)
    found["code by latency"] = spikegen.latency(chances, num_steps=6, tau=3, normalize=True)
    found["code by changes"] = spikegen.delta(values[:, 0], threshold=0.5, off_spike=True)
    found["targets"] = spikegen.to_one_hot(labels, 3)
    sequence = torch.nn.Sequential(
        torch.nn.Linear(5, 4), snntorch.Leaky(0.9, init_hidden=True),
        torch.nn.Linear(4, 3), snntorch.Leaky(0.9, init_hidden=True, output=True),
    )  # fmt: skip
    driver.fill(sequence)
    from snntorch import backprop

    optimizer = torch.optim.Adam(sequence.parameters(), lr=0.01)
    dataset = torch.utils.data.TensorDataset(values.transpose(0, 1)[:, 0], labels[:2])
    loader = torch.utils.data.DataLoader(dataset, batch_size=2)
    average = backprop.BPTT(
        sequence, loader, optimizer=optimizer, criterion=functional.ce_count_loss(),
        num_steps=5, time_var=False, device="cpu",
    )  # fmt: skip
    found["through time"] = average
    return found
