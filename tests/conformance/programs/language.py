"""A language model: rotary positions, grouped queries, tied weights, checkpoints, a cache."""

import math


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional

    class RMSNorm(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(lib.ones(dim))

        def forward(self, x):
            scale = lib.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
            return (x.float() * scale).type_as(x) * self.weight

    def rotate(x, rotations):
        pairs = lib.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return lib.view_as_real(pairs * rotations[None, :, None]).flatten(3).type_as(x)

    class Attention(nn.Module):
        def __init__(self, dim=16, heads=4, shared=2):
            super().__init__()
            self.heads, self.shared, self.size = heads, shared, dim // heads
            self.wq = nn.Linear(dim, dim, bias=False)
            self.wkv = nn.Linear(dim, 2 * shared * self.size, bias=False)
            self.wo = nn.Linear(dim, dim, bias=False)
            cache = lib.zeros(2, 2, 8, shared, self.size)
            self.register_buffer("cache", cache, persistent=False)

        def forward(self, x, start, rotations):
            batch, length, _ = x.shape
            q = rotate(self.wq(x).view(batch, length, self.heads, -1), rotations)
            k, v = self.wkv(x).view(batch, length, 2 * self.shared, -1).chunk(2, dim=2)
            k = rotate(k, rotations)
            if not self.training:
                self.cache[0, :batch, start : start + length] = k
                self.cache[1, :batch, start : start + length] = v
                k, v = self.cache[:, :batch, : start + length]
            k, v = (each.repeat_interleave(self.heads // self.shared, dim=2) for each in (k, v))
            q, k, v = (each.transpose(1, 2) for each in (q, k, v))
            scores = q @ k.transpose(2, 3) / math.sqrt(self.size)
            if length > 1:
                scores = scores + lib.full((length, length), float("-inf")).triu(1)
            mixed = F.softmax(scores.float(), dim=-1).type_as(q) @ v
            return self.wo(mixed.transpose(1, 2).contiguous().view(batch, length, -1))

    class Block(nn.Module):
        def __init__(self, dim=16):
            super().__init__()
            self.attention, self.norms = Attention(dim), nn.ModuleList([RMSNorm(dim), RMSNorm(dim)])
            self.w1, self.w2, self.w3 = (nn.Linear(dim, dim, bias=False) for _ in range(3))

        def forward(self, x, start, rotations):
            x = x + self.attention(self.norms[0](x), start, rotations)
            y = self.norms[1](x)
            return x + self.w2(F.silu(self.w1(y)) * self.w3(y))

    class Model(nn.Module):
        def __init__(self, words=13, dim=16):
            super().__init__()
            self.words, self.block, self.norm = nn.Embedding(words, dim), Block(dim), RMSNorm(dim)
            self.output = nn.Linear(dim, words, bias=False)
            self.output.weight = self.words.weight
            self.apply(self._init)
            frequencies = 1.0 / 10000 ** (lib.arange(0, 4, 2).float() / 4)
            angles = lib.outer(lib.arange(8).float(), frequencies)
            self.register_buffer("rotations", lib.polar(lib.ones_like(angles), angles))

        def _init(self, module):
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.2)

        def forward(self, tokens, start=0):
            rotations = self.rotations[start : start + tokens.size(1)]
            x = self.words(tokens)
            if self.training:
                call = lib.utils.checkpoint.checkpoint
                x = call(self.block, x, start, rotations, use_reentrant=False)
            else:
                x = self.block(x, start, rotations)
            return self.output(self.norm(x))

    lib.manual_seed(1)
    model = Model()
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)

    def step(tokens):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss, norm

    step, seen = compiled(step), []
    for number in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (number + 1) / 4
        seen += step(lib.randint(0, 13, (2, 7)))

    model.eval()
    tokens = lib.randint(0, 13, (2, 6))
    with lib.no_grad():
        logits = model(tokens)[:, -1]
        logits[logits < logits.topk(5).values[:, [-1]]] = -float("inf")
        drawn = lib.multinomial(F.softmax(logits / 0.8, dim=-1), 1)
        seen += model(drawn, tokens.size(1))[0, -1]
    return [*seen, *drawn.flatten(), sum(each.numel() for each in model.parameters())]
