"""Train a small residual network on real handwritten digits, save it, and load it again.

The data are the 1,797 images of 8x8 pixels that scikit-learn bundles. The model is written as for
PyTorch; the whole training step, augmentation and optimizer included, runs as one XLA program.
"""

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a way around them."""

    def __init__(self, channels_in, channels_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        if stride == 1 and channels_in == channels_out:
            self.shortcut = nn.Identity()
        else:
            self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class DigitNet(nn.Module):
    """Images ``[N, 1, 8, 8]`` to the scores of ten digits ``[N, 10]``."""

    def __init__(self, width=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            ResidualBlock(width, width),
            ResidualBlock(width, 2 * width, stride=2),
            ResidualBlock(2 * width, 2 * width),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.dropout = nn.Dropout(0.3)
        self.classifier = nn.Linear(2 * width, 10)

    def forward(self, x):
        return self.classifier(self.dropout(self.features(x)))


def load_data():
    """Images in [-1, 1] and labels, split once and for all into train and test."""
    digits = load_digits()
    images = digits.images[:, None].astype("float32") / 8 - 1
    parts = train_test_split(
        images, digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    return [flambeau.from_numpy(part) for part in parts]


def shift_at_random(images):
    """Each image moved by up to one pixel in both directions."""
    n, _, height, width = images.shape
    padded = F.pad(images, (1, 1, 1, 1), value=-1.0)
    rows = flambeau.randint(0, 3, (n, 1)) + flambeau.arange(height)
    columns = flambeau.randint(0, 3, (n, 1)) + flambeau.arange(width)
    image = flambeau.arange(n)
    return padded[image[:, None, None], 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


@flambeau.no_grad()
def predict(model, images):
    """The most probable digit for each image."""
    return model(images).argmax(1)


def train(model, images, labels, test_images, test_labels, epochs, batch_size, rate):
    """Train; give each epoch's mean loss and test accuracy."""
    optimizer = flambeau.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    steps_per_epoch = len(images) // batch_size
    schedule = flambeau.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps_per_epoch)

    @flambeau.compile
    def step(images, labels):
        loss = F.cross_entropy(model(shift_at_random(images)), labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    @flambeau.compile
    def accuracy(images, labels):
        return (predict(model, images) == labels).float().mean()

    history = []
    progress = tqdm(range(epochs), unit="epoch")
    for _ in progress:
        start, losses = time.perf_counter(), []
        order = flambeau.randperm(len(images))
        for batch in order[: steps_per_epoch * batch_size].view(steps_per_epoch, batch_size):
            losses.append(step(images[batch], labels[batch]))
            schedule.step()
        loss = flambeau.stack(losses).mean().item()
        speed = steps_per_epoch * batch_size / (time.perf_counter() - start)
        # Both programs stay; each call takes the one that was made for the model's mode.
        model.eval()
        history.append((loss, accuracy(test_images, test_labels).item()))
        model.train()
        progress.set_postfix(loss=f"{loss:.3f}", images_per_s=f"{speed:,.0f}")
    return history


def draw(history, images, labels, predictions, path):
    """The learning curves, and test digits with their predictions; mistakes are red."""
    figure = plt.figure(figsize=(12, 6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.4))
    draw_curves(left, history)
    # The mistaken ones first, so that every one of them is seen.
    order = flambeau.argsort((predictions == labels).int(), stable=True)[:60].tolist()
    for axes, i in zip(right.subplots(6, 10).flat, order, strict=True):
        wrong = bool(predictions[i] != labels[i])
        axes.imshow(images[i, 0], cmap="gray_r")
        axes.set_title(
            f"{predictions[i]:d}≠{labels[i]:d}" if wrong else f"{predictions[i]:d}",
            color="red" if wrong else "black",
            fontsize=9,
        )
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color="red" if wrong else "lightgray", linewidth=2 if wrong else 1)
    right.suptitle("Test digits and predictions (mistakes in red)")
    figure.savefig(path, dpi=110)


def draw_curves(figure, history):
    """Training loss and test accuracy by epoch."""
    losses, accuracies = zip(*history, strict=True)
    epochs = range(1, len(history) + 1)
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot(epochs, losses)
    top.set(ylabel="training loss", title="Learning curves")
    bottom.plot(epochs, [100 * each for each in accuracies], color="tab:green")
    bottom.set(xlabel="epoch", ylabel="test accuracy (%)", ylim=(90, 100.2))
    for axes in (top, bottom):
        axes.grid(alpha=0.3)


def main(arguments=None):
    """The whole job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--epochs", type=int, default=40, help="times that every training image is seen")
    add("--batch", type=int, default=64, help="images per step")
    add("--rate", type=float, default=3e-3, help="learning rate at the start")
    add("--seed", type=int, default=0, help="the same seed gives the same run")
    add("--output", type=Path, default=Path("digits-output"), help="folder for the results")
    options = parser.parse_args(arguments)

    flambeau.manual_seed(options.seed)
    train_images, test_images, train_labels, test_labels = load_data()
    model = DigitNet()
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters, {len(train_images)} training and {len(test_images)} test images")

    data = train_images, train_labels, test_images, test_labels
    history = train(model, *data, options.epochs, options.batch, options.rate)
    predictions = predict(model.eval(), test_images)
    mistakes = int((predictions != test_labels).sum())
    print(f"test accuracy: {1 - mistakes / len(test_labels):.2%} ({mistakes} mistakes)")

    options.output.mkdir(exist_ok=True)
    checkpoint = options.output / "model.safetensors"
    flambeau.save(model.state_dict(), checkpoint)
    restored = DigitNet()
    restored.load_state_dict(flambeau.load(checkpoint))
    with flambeau.no_grad():
        same = flambeau.equal(model(test_images), restored.eval()(test_images))
    print(f"saved and loaded again: predictions {'are' if same else 'ARE NOT'} the same to the bit")

    draw(history, test_images, test_labels, predictions, options.output / "digits.png")
    print(f"picture: {options.output / 'digits.png'}")


if __name__ == "__main__":
    main()
