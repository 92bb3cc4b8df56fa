"""attention by entmax with a learned exponent and a sparse loss; all mappings, their gradients"""

import numpy as np
import torch

PACKAGE = "entmax"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = torch.nn.Linear(6, 8), torch.nn.Linear(6, 8, bias=False)
        self.head = torch.nn.Linear(6, 4)
        self.exponent = torch.nn.Parameter(torch.ones(1))

    def forward(self, values):
        import entmax

        scores = self.query(values) @ self.key(values).mT / 8**0.5
        # Between 1 and 2, as for softmax and sparsemax.
        attended = entmax.entmax_bisect(scores, 1 + torch.sigmoid(self.exponent))
        return self.head((entmax.entmax15(scores, dim=-1) + attended) @ values).mean(1)


def build():
    import entmax

    values = np.random.default_rng(0).standard_normal((3, 5, 6)).astype("float32")
    criterion = entmax.Entmax15Loss()

    def loss(model, values, labels):
        return criterion(model(values), labels)

    return Net(), (torch.from_numpy(values), torch.tensor([0, 2, 3])), loss


def more(model, inputs):
    import entmax

    scores = np.random.default_rng(1).standard_normal((4, 7)).astype("float32")
    weights = torch.arange(7.0)
    labels = torch.tensor([1, 0, 6, 3])
    found = {}

    def note(name, function):
        given = (2 * torch.from_numpy(scores)).requires_grad_()
        found[name] = function(given)
        product = found[name] * weights if found[name].ndim == 2 else found[name]
        (found[f"gradient of {name}"],) = torch.autograd.grad(product.sum(), given)

    note("sparsemax", entmax.sparsemax)
    note("sparsemax of the best 3", lambda x: entmax.sparsemax(x, k=3))
    note("entmax15", entmax.entmax15)
    note("entmax15 along columns", lambda x: entmax.entmax15(x, dim=0))
    note("sparsemax_bisect", entmax.sparsemax_bisect)
    note("entmax_bisect", lambda x: entmax.entmax_bisect(x, alpha=1.3))
    note("normmax_bisect", lambda x: entmax.normmax_bisect(x, alpha=3))
    note("budget_bisect", lambda x: entmax.budget_bisect(x, budget=2))
    for name in ("SparsemaxLoss", "SparsemaxBisectLoss", "Entmax15Loss", "EntmaxBisectLoss"):
        note(name, lambda x, name=name: getattr(entmax, name)(reduction="none")(x, labels))
    note("NormmaxBisectLoss", lambda x: entmax.NormmaxBisectLoss(alpha=3)(x, labels))
    return found
