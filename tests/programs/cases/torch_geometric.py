"""GCN, GAT and SAGE on a graph: loss; six other layers, pooling, batches, sparse adjacency"""

import numpy as np
import torch

PACKAGE = "torch-geometric"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from torch_geometric import nn

        self.first = nn.GCNConv(5, 8)
        self.second = nn.GATConv(8, 4, heads=2)
        self.third = nn.SAGEConv(8, 3)

    def forward(self, features, edges):
        features = self.first(features, edges).relu()
        features = self.second(features, edges).relu()
        return self.third(features, edges)


def graph():
    rng = np.random.default_rng(0)
    features = torch.from_numpy(rng.standard_normal((10, 5)).astype("float32"))
    return features, torch.from_numpy(rng.integers(0, 10, (2, 24)))


def build():
    features, edges = graph()

    def loss(model, features, edges, labels):
        return torch.nn.functional.cross_entropy(model(features, edges), labels)

    return Net(), (features, edges, torch.arange(10) % 3), loss


def more(model, inputs):
    import driver
    from torch_geometric import data, loader, nn, transforms, utils

    features, edges, labels = inputs
    one = data.Data(x=features, edge_index=edges, y=labels)
    one = transforms.Compose([transforms.ToUndirected(), transforms.AddSelfLoops()])(one)
    two = data.Data(x=features[:4] + 1, edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    two.y = labels[:4]
    (batch,) = loader.DataLoader([one, two], batch_size=2)
    outputs = model(batch.x, batch.edge_index)
    found = {
        "edges": batch.edge_index,
        "batch": outputs,
        "mean": nn.global_mean_pool(outputs, batch.batch),
        "maximum": nn.global_max_pool(outputs, batch.batch),
        "sum": nn.global_add_pool(outputs, batch.batch),
        "laplacian": utils.get_laplacian(one.edge_index, normalization="sym")[1],
        "softmax": utils.softmax(one.edge_index[0].float(), one.edge_index[1]),
        "adjacency": utils.to_dense_adj(batch.edge_index, batch.batch),
        "dense": utils.to_dense_batch(batch.x, batch.batch)[0],
        "degrees": utils.degree(one.edge_index[0]),
    }
    for name in ("GINConv", "TransformerConv", "GATv2Conv", "ChebConv", "EdgeConv"):
        orders = {"K": 2} if name == "ChebConv" else {}
        if name in ("GINConv", "EdgeConv"):
            width = 10 if name == "EdgeConv" else 5
            layer = getattr(nn, name)(torch.nn.Linear(width, 3))
        else:
            layer = getattr(nn, name)(5, 3, **orders)
        driver.fill(layer)
        found[name] = layer(features, edges)
    pooling = nn.TopKPooling(5, ratio=0.5)
    driver.fill(pooling)
    found["kept"], found["kept edges"] = pooling(features, edges)[:2]
    # Each edge once: a sparse matrix has one value for each position.
    once = utils.coalesce(edges)
    adjacency = torch.sparse_coo_tensor(once.flip(0), torch.ones(once.shape[1]), (10, 10))
    adjacency = adjacency.coalesce()
    # Not by a layer that multiplies by the matrix: that takes a CSR layout.
    layer = nn.TransformerConv(5, 3)
    driver.fill(layer)
    found["by edges"] = layer(features, once)
    found["by sparse matrix"] = layer(features, adjacency)
    return found
