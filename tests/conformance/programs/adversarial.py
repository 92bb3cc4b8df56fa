"""Two networks against each other: a gradient penalty, two optimizers, parameters that freeze."""


def train(lib, compiled):
    nn = lib.nn
    lib.manual_seed(2)
    generator = nn.Sequential(
        nn.Linear(4, 8, bias=False),
        nn.BatchNorm1d(8),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Linear(8, 2),
    )
    critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 1))

    def init(module):
        if module.__class__.__name__.find("Linear") != -1:
            nn.init.normal_(module.weight.data, 0.0, 0.2)
            if module.bias is not None:
                nn.init.constant_(module.bias.data, 0)

    generator.apply(init)
    critic.apply(init)
    optimizer_g = lib.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.5, 0.9))
    optimizer_c = lib.optim.Adam(critic.parameters(), lr=1e-2, betas=(0.5, 0.9))

    def penalty(real, fake, mix):
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        scores = critic(between)
        (slopes,) = lib.autograd.grad(
            scores, between, grad_outputs=lib.ones_like(scores), create_graph=True
        )
        return ((slopes.norm(2, dim=1) - 1) ** 2).mean()

    def criticize(real, noise, mix):
        for parameter in critic.parameters():
            parameter.requires_grad = True
        optimizer_c.zero_grad()
        with lib.no_grad():
            fake = generator(noise)
        distance = critic(fake).mean() - critic(real).mean()
        loss = distance + 10 * penalty(real.data, fake.data, mix)
        loss.backward()
        optimizer_c.step()
        return distance, loss

    def generate(noise):
        for parameter in critic.parameters():
            parameter.requires_grad = False
        optimizer_g.zero_grad()
        loss = -critic(generator(noise)).mean()
        loss.backward()
        optimizer_g.step()
        return loss

    criticize, generate, seen = compiled(criticize), compiled(generate), []
    for number in range(4):
        real = 0.5 * lib.randn(6, 2) + lib.tensor([1.0, -1.0])
        seen += criticize(real, lib.randn(6, 4), lib.rand(6, 1))
        if number % 2:
            seen.append(generate(lib.randn(6, 4)))
    return [*seen, generator[1].running_mean.sum()]
