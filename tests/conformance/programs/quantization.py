"""Gradients of one's own: rounding that lets them through, and an adjoint method."""


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional

    class Round(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Sign(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            grad = grad.clone()
            grad[x.abs() > 0.3] = 0
            return grad

    class Adjoint(lib.autograd.Function):
        """Euler's method, whose gradient is that of the equation solved backwards."""

        @staticmethod
        def forward(ctx, x, weights, field):
            ctx.field = field
            with lib.no_grad():
                for _ in range(3):
                    x = x + field(x) / 3
            ctx.save_for_backward(x, weights)
            return x

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, grad):
            x, weights = ctx.saved_tensors
            total = lib.zeros_like(weights)
            for _ in range(3):
                with lib.enable_grad():
                    x = x.detach().requires_grad_(True)
                    change = ctx.field(x)
                    slopes = lib.autograd.grad(change, (x, *ctx.field.parameters()), grad)
                x = x - change / 3
                grad = grad + slopes[0] / 3
                total = total + lib.cat([each.reshape(-1) for each in slopes[1:]]) / 3
            return grad, total, None

    class FakeQuantize(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("low", lib.tensor(float("inf")))
            self.register_buffer("high", lib.tensor(float("-inf")))
            self.enabled = True

        def forward(self, x):
            if not self.enabled:
                return x
            if self.training:
                low, high = lib.aminmax(x.detach())
                self.low.copy_(lib.minimum(self.low, low))
                self.high = lib.max(self.high, high)
            scale = (self.high - self.low).clamp(min=1e-8) / 15
            zero = (-self.low / scale).round()
            return (lib.clamp(Round.apply(x / scale) + zero, 0, 15) - zero) * scale

    class Binary(nn.Linear):
        def forward(self, x):
            scale = self.weight.abs().mean(dim=1, keepdim=True)
            return F.linear(x, Sign.apply(self.weight) * scale, self.bias)

    lib.manual_seed(9)
    field = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    first, quantize, last = Binary(6, 4), FakeQuantize(), nn.Linear(4, 3)
    layers = nn.ModuleList([field, first, quantize, last])
    optimizer = lib.optim.SGD(layers.parameters(), lr=0.05, momentum=0.5)

    def step(x, target):
        flow = Adjoint.apply(first(x), nn.utils.parameters_to_vector(field.parameters()), field)
        loss = F.multi_margin_loss(last(quantize(flow)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step, seen = compiled(step), []
    for number in range(5):
        quantize.enabled = number < 3
        seen.append(step(lib.randn(4, 6), lib.randint(0, 3, (4,))))
    return [*seen, quantize.low, quantize.high, *last.weight.mul(8).round().to(lib.int8).flatten()]
