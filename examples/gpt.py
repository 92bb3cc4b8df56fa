"""Train a small GPT on the characters of a novel, then let it write.

The model reads characters and predicts the next one; it is a Transformer as one writes it for
PyTorch. What to take from this file for your own work:

- The whole training step (drawing the batch, forward, backward, clipping the gradients, AdamW) is
  one function under `flambeau.compile`, so one XLA program. Only its first call traces it.
- The learning rate is a tensor that the scheduler writes to, so a schedule causes no recompilation.
- Writing text is compiled too. A step reads one character and writes its keys and values into a
  cache. The text, the position in it and the cache are tensors of a fixed size that the step
  changes in place, so all steps are one program.

The text is most of Pride and Prejudice; `examples/data/README.md` says where it comes from. You can
give any other plain text with `--text`.
"""

import argparse
import math
import textwrap
import time
from pathlib import Path

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

TEXT = Path(__file__).parent / "data" / "pride-and-prejudice.txt"


class Cache:
    """The keys and values ``[N, heads, context, width]`` of the characters that a block has read.

    The tensors have room for a whole context from the start, and how much is used is a tensor too:
    so no shape and no Python number changes from step to step.
    """

    def __init__(self, n, heads, context, width):
        self.keys = flambeau.zeros(n, heads, context, width)
        self.values = flambeau.zeros(n, heads, context, width)
        self.length = flambeau.tensor(0)

    def append(self, key, value):
        """Write those of L more characters; give all, and which ones each of the L may see."""
        places = self.length + flambeau.arange(key.size(2))
        self.keys[:, :, places] = key
        self.values[:, :, places] = value
        self.length.add_(key.size(2))
        seen = flambeau.arange(self.keys.size(2)) <= places[:, None]
        return self.keys, self.values, seen


class Attention(nn.Module):
    """Causal attention of several heads, with rotary position embeddings (Su et al., 2021)."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        pairs = width // heads // 2
        frequencies = 10_000.0 ** (-flambeau.arange(pairs) / pairs)
        angles = flambeau.arange(context)[:, None] * frequencies
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x, start=0):
        """Turn each pair of features by an angle that grows with the position."""
        positions = start + flambeau.arange(x.size(-2))
        left, right = x.chunk(2, dim=-1)
        cos, sin = self.cos[positions], self.sin[positions]
        return flambeau.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)

    def forward(self, x, cache=None):
        n, length, width = x.shape
        heads = self.inputs(x).view(n, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        start = 0 if cache is None else cache.length
        query, key = self.rotate(query, start), self.rotate(key, start)
        if cache is None:
            y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            key, value, seen = cache.append(key, value)
            y = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self.output(y.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    """Attention, then two layers that look at each position alone; both add to their input."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, context)
        self.norm2 = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)

    def forward(self, x, cache=None):
        x = x + self.attention(self.norm1(x), cache)
        return x + self.output(F.gelu(self.hidden(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Characters ``[N, L]`` to the scores of each next one ``[N, L, vocabulary]``; L <= context.

    With caches (`make_caches`) the characters come after those that were read before.
    """

    def __init__(self, vocabulary, context=128, width=128, layers=3, heads=4):
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, context) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        self.scores.weight = self.embedding.weight
        # As GPT-2 does: small weights, smaller still where 2 * layers outputs add up.
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                adds_up = name.endswith("output.weight")
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers if adds_up else 1))

    def make_caches(self, n=1):
        """An empty cache for each block, for N texts."""
        heads = self.blocks[0].attention.heads
        width = self.embedding.embedding_dim // heads
        return [Cache(n, heads, self.context, width) for _ in self.blocks]

    def forward(self, characters, caches=None):
        x = self.embedding(characters)
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x, cache)
        return self.scores(self.norm(x))


class Text:
    """A text as tensors of numbers: the first nine tenths to train on, the rest to test."""

    def __init__(self, text):
        self.vocabulary = sorted(set(text))
        self.numbers = {character: i for i, character in enumerate(self.vocabulary)}
        characters = self.encode(text)
        self.train, self.test = characters.tensor_split([len(text) * 9 // 10])

    def encode(self, text):
        """Numbers ``[len(text)]``; ValueError for a character that the text does not have."""
        if unknown := set(text) - set(self.vocabulary):
            raise ValueError(f"the model has never seen {sorted(unknown)}")
        return flambeau.tensor([self.numbers[character] for character in text])

    def decode(self, characters):
        return "".join(self.vocabulary[i] for i in characters.tolist())


def prediction_loss(model, characters, starts):
    """Mean cross-entropy, in nats, of the characters in a window from each start on ``[N]``."""
    windows = characters[starts[:, None] + flambeau.arange(model.context + 1)]
    scores = model(windows[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())


def make_optimizer(model, steps, rate, warm_up=60):
    """AdamW that decays matrices only, and its schedule: a linear rise, then a cosine to a 20th."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = flambeau.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0.1)
    warm_up = min(warm_up, steps // 2)
    rise = LinearLR(optimizer, start_factor=0.02, total_iters=warm_up)
    fall = CosineAnnealingLR(optimizer, steps - warm_up, eta_min=rate / 20)
    return optimizer, SequentialLR(optimizer, [rise, fall], milestones=[warm_up])


def train(model, text, steps, batch, rate):
    """Train; give what is reported now and then: characters seen, training loss, test loss."""
    optimizer, schedule = make_optimizer(model, steps, rate)

    @flambeau.compile
    def step():
        starts = flambeau.randint(0, len(text.train) - model.context, (batch,))
        loss = prediction_loss(model, text.train, starts)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    @flambeau.compile
    @flambeau.no_grad()
    def test():
        last = len(text.test) - model.context - 1
        return prediction_loss(model, text.test, flambeau.linspace(0, last, 128).long())

    history, losses, start = [], [], time.perf_counter()
    for i in range(1, steps + 1):
        losses.append(step())
        schedule.step()
        if i == 1:
            print(f"the first step, compiling included: {time.perf_counter() - start:.1f} s")
            start = time.perf_counter()
        elif i % max(steps // 10, 1) == 0:
            loss = flambeau.stack(losses).mean().item()
            speed = len(losses) * batch * model.context / (time.perf_counter() - start)
            history.append((i * batch * model.context, loss, test().item()))
            report = f"training loss {loss:.3f}   test loss {history[-1][2]:.3f}"
            print(f"step {i:,}/{steps:,}   {report}   {speed:,.0f} characters/s", flush=True)
            losses, start = [], time.perf_counter()
    print(f"programs compiled for {steps:,} training steps: {step.program_count}")
    return history


def write(model, text, prompt, length, temperature):
    """The prompt and `length` characters; a low temperature keeps to the likely ones."""
    written = flambeau.full((len(prompt) + length,), -1)
    written[: len(prompt)] = text.encode(prompt)
    position = flambeau.tensor(0)
    caches = model.make_caches()

    @flambeau.compile
    @flambeau.no_grad()
    def step():
        # Read the character at the position, and draw the next one unless the text has it.
        scores = model(written[position].view(1, 1), caches)[0, -1]
        drawn = flambeau.multinomial(F.softmax(scores / temperature, dim=0), 1)[0]
        position.add_(1)
        written[position] = flambeau.where(written[position] < 0, drawn, written[position])

    done, last = 0, len(written) - 1
    while done < last:
        # Full caches are emptied, and the last half of a context is read again.
        start = max(0, done + 1 - (model.context + 1) // 2)
        position.fill_(start)
        for cache in caches:
            cache.length.zero_()
        done = min(start + model.context, last)
        for _ in range(start, done):
            step()
    return text.decode(written)


def draw(history, path):
    """The learning curves, as a picture."""
    import matplotlib.pyplot as plt

    characters, losses, test_losses = zip(*history, strict=True)
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.plot(characters, losses, ".-", label="training")
    axes.plot(characters, test_losses, ".-", label="test")
    axes.set(xlabel="characters seen", ylabel="loss (nats per character)", title="Learning curves")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:.1f} M")
    axes.legend()
    figure.savefig(path, dpi=110)


def main(arguments=None):
    """The whole job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--text", type=Path, default=TEXT, help="a file of plain text")
    add("--steps", type=int, default=2600, help="training steps")
    add("--batch", type=int, default=4, help="windows of text per step")
    add("--context", type=int, default=128, help="characters that the model sees at once")
    add("--width", type=int, default=128, help="features per character, a multiple of 8")
    add("--layers", type=int, default=3, help="blocks of attention and a hidden layer")
    add("--rate", type=float, default=3e-3, help="learning rate after the warm-up")
    add("--prompt", default="It is a truth universally acknowledged, that", help="how it begins")
    add("--length", type=int, default=600, help="characters to write")
    add("--temperature", type=float, default=0.5, help="how freely they are drawn")
    add("--seed", type=int, default=0, help="the same seed gives the same run")
    add("--output", type=Path, default=Path("gpt-output"), help="folder for the results")
    options = parser.parse_args(arguments)

    flambeau.manual_seed(options.seed)
    text = Text(options.text.read_text(encoding="utf-8"))
    if not text.encode(options.prompt).numel():  # said before the training
        parser.error("--prompt must have at least one character")
    model = GPT(len(text.vocabulary), options.context, options.width, options.layers)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters, {len(text.train):,} characters to train on")

    history = train(model, text, options.steps, options.batch, options.rate)

    start = time.perf_counter()
    sample = write(model, text, options.prompt, options.length, options.temperature)
    for paragraph in sample.split("\n"):
        print(textwrap.fill(paragraph, 80))
    print(f"wrote {options.length:,} characters in {time.perf_counter() - start:.1f} s")

    options.output.mkdir(exist_ok=True)
    flambeau.save(model.state_dict(), options.output / "model.safetensors")
    draw(history, options.output / "gpt.png")
    print(f"picture: {options.output / 'gpt.png'}")


if __name__ == "__main__":
    main()
