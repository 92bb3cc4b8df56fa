"""an equivariant network of molecules: loss; turned and moved inputs, neighbours, tokens, edges"""

import io

import numpy as np
import torch

PACKAGE = "egnn-pytorch"


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def chain(length=6):
    places = torch.arange(length)
    return (places[:, None] - places).abs() <= 1


def build():
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(
        num_tokens=5, num_positions=6, dim=8, depth=2, m_dim=4, num_nearest_neighbors=3,
        norm_coors=True, coor_weights_clamp_value=2.0,
    )  # fmt: skip
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 5, (2, 6)))
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False

    def loss(model, tokens, places, mask):
        features, moved = model(tokens, places, mask=mask)
        return features.square().mean() + (moved - places).square().mean()

    return model, (tokens, drawn(2, 6, 3), mask), loss


def more(model, inputs):
    import driver
    from egnn_pytorch import EGNN, EGNN_Network

    tokens, places, mask = inputs
    found = {}
    features, moved = model(tokens, places, mask=mask)
    turn = torch.linalg.qr(drawn(3, 3, seed=1))[0]
    same, turned = model(tokens, places @ turn + 5, mask=mask)
    found["same"] = torch.stack([features, same])
    found["turned"] = torch.stack([moved @ turn + 5, turned])

    given, edges = drawn(2, 6, 8, seed=2), drawn(2, 6, 6, 3, seed=3)
    for name, options, more in (
        ("plain", {}, {}),
        ("edges", {"edge_dim": 3, "soft_edges": True, "m_pool_method": "mean"}, {"edges": edges}),
        ("waves", {"fourier_features": 2, "norm_feats": True, "norm_coors": True}, {}),
        ("radius", {"num_nearest_neighbors": 4, "valid_radius": 2.0}, {"mask": mask}),
        ("bonds", {"only_sparse_neighbors": True}, {"adj_mat": chain()}),
        ("still", {"update_coors": False}, {}),
        ("moves", {"update_feats": False, "coor_weights_clamp_value": 1.0}, {}),
    ):
        layer = EGNN(dim=8, m_dim=4, **options)
        driver.fill(layer)
        where = places.clone().requires_grad_()
        out, there = layer(given, where, **more)
        (out.square().sum() + there.square().sum()).backward()
        grads = [each.grad.norm() for each in layer.parameters() if each.grad is not None]
        found[name] = torch.cat([out, there], -1)
        found[f"gradients of {name}"] = torch.stack([where.grad.norm(), *grads])

    for name, options, more in (
        ("degrees", {"num_adj_degrees": 3, "adj_dim": 2, "only_sparse_neighbors": True},
         {"adj_mat": chain()}),
        ("bonds of kinds", {"num_edge_tokens": 4, "edge_dim": 3},
         {"edges": torch.from_numpy(np.random.default_rng(4).integers(0, 4, (2, 6, 6)))}),
        ("attention", {"global_linear_attn_every": 1, "global_linear_attn_heads": 2,
                       "global_linear_attn_dim_head": 4, "num_global_tokens": 2}, {}),
    ):  # fmt: skip
        network = EGNN_Network(num_tokens=5, dim=8, depth=2, m_dim=4, **options)
        driver.fill(network)
        out, there, steps = network(tokens, places, mask=mask, return_coor_changes=True, **more)
        (out.square().sum() + there.square().sum()).backward()
        grads = [each.grad.norm() for each in network.parameters() if each.grad is not None]
        found[name] = torch.cat([out, *steps], -1)
        found[f"gradients of {name}"] = torch.stack(grads)
        file = io.BytesIO()
        torch.save(network.state_dict(), file)
        file.seek(0)
        other = EGNN_Network(num_tokens=5, dim=8, depth=2, m_dim=4, **options)
        other.load_state_dict(torch.load(file))
        found[f"loaded {name}"] = other(tokens, places, mask=mask, **more)[1]
    return found
