"""modules that read and write a `TensorDict`: loss; its shapes, a tensorclass, saved and stacked"""

import tempfile

import numpy as np
import torch

PACKAGE = "tensordict"


def build():
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    layers = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh())
    model = TensorDictSequential(
        TensorDictModule(layers, in_keys=["values"], out_keys=[("hidden", "first")]),
        TensorDictModule(
            torch.nn.Linear(16, 3), in_keys=[("hidden", "first")], out_keys=["logits"]
        ),
        TensorDictModule(
            lambda logits, values: logits.softmax(-1) * values[:, :1],
            in_keys=["logits", "values"],
            out_keys=["weighted"],
        ),
    )
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((8, 6)).astype("float32"))

    def loss(model, values, labels):
        data = TensorDict({"values": values, "labels": labels}, batch_size=[8])
        found = model(data)
        other = found["weighted"].square().mean()
        return torch.nn.functional.cross_entropy(found["logits"], found["labels"]) + other

    return model, (values, values[:, :3].argmax(1)), loss


def more(model, inputs):
    from tensordict import LazyStackedTensorDict, TensorDict, tensorclass
    from tensordict.nn import (
        CompositeDistribution,
        InteractionType,
        ProbabilisticTensorDictModule,
        ProbabilisticTensorDictSequential,
        TensorDictModule,
        TensorDictParams,
        set_interaction_type,
    )

    values, labels = inputs
    found = {}
    data = TensorDict(
        {"values": values, "inner": {"labels": labels, "twice": 2 * values}}, batch_size=[8]
    )
    chosen = data[labels == 1]
    found["masked"] = chosen["inner", "twice"]
    found["reshaped"] = data.reshape(2, 4).transpose(0, 1)["inner", "labels"]
    found["split"] = torch.stack([each["values"].sum() for each in data.split(3)])
    found["joined"] = torch.cat([data, data[:2]])["values"]
    found["gathered"] = data.gather(0, torch.tensor([3, 1]))["values"]
    found["flat"] = data.flatten_keys(".")["inner.twice"]
    found["applied"] = data.apply(lambda each: each.double() + 1)["inner", "labels"]
    found["arithmetic"] = (data.exclude(("inner", "labels")) * 3 + 1)["inner", "twice"]
    found["selected"] = data.select("values").mean(0)["values"]
    lazy = LazyStackedTensorDict(data[0], data[1].clone().update({"values": values[2]}))
    found["stacked"] = lazy["values"]
    data[0] = data[5]
    data.set_at_("values", 7.0, 1)
    found["written"] = data["values"]
    with tempfile.TemporaryDirectory() as folder:
        torch.save(data, f"{folder}/pickled.pt")
        again = torch.load(f"{folder}/pickled.pt", weights_only=False)
        found["pickled"] = again["values"]
    state = data.state_dict()
    fresh = data.apply(torch.zeros_like).load_state_dict(state)
    found["state"] = fresh["inner", "twice"]

    @tensorclass
    class Pictures:
        pixels: torch.Tensor
        labels: torch.Tensor
        name: str = "none"

    pictures = Pictures(pixels=values.reshape(8, 2, 3), labels=labels, batch_size=[8], name="some")
    assert pictures[:2].name == "some"
    found["pictures"] = torch.stack([pictures[:4], pictures[4:]]).pixels.flatten(2)
    found["of pictures"] = pictures.reshape(4, 2).labels

    # Parameters as a dictionary, and in the places of those of a module.
    weights = TensorDict.from_module(model)
    for part in ("batch", "lock"):
        found[part] = torch.stack([each.sum() for each in weights.flatten_keys().values()])
    halved = weights.data.apply(lambda each: each / 2)
    with halved.to_module(model):
        found["halved"] = model(TensorDict({"values": values}, [8]))["logits"]
    found["back"] = model(TensorDict({"values": values}, [8]))["logits"]
    held = TensorDictParams(weights.data.clone())
    held.zero_grad()
    with held.to_module(model):
        model(TensorDict({"values": values}, [8]))["logits"].square().sum().backward()
    found["held"] = torch.stack([each.grad.norm() for each in held.parameters()])

    policy = ProbabilisticTensorDictSequential(
        TensorDictModule(
            lambda values: (values[:, :2], values[:, 2:4].exp()),
            in_keys=["values"],
            out_keys=["loc", "scale"],
        ),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["action"],
            distribution_class=torch.distributions.Normal,
            return_log_prob=True,
        ),
    )
    for kind in ("MEAN", "RANDOM"):
        torch.manual_seed(0)
        with set_interaction_type(getattr(InteractionType, kind)):
            acted = policy(TensorDict({"values": values}, [8]))
        found[f"{kind} action"] = acted["action"]
        found[f"{kind} chance"] = acted["action_log_prob"]
    composite = CompositeDistribution(
        TensorDict({"a": {"logits": values}, "b": {"loc": values, "scale": values.exp()}}, [8]),
        distribution_map={
            "a": torch.distributions.Categorical,
            "b": torch.distributions.Normal,
        },
    )
    known = TensorDict({"a": labels, "b": values}, [8])
    for name, value in composite.log_prob(known).items():
        found[f"composite {name}"] = value
    return found
