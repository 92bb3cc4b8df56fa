"""Forecast the temperature of the sea off Peru with an LSTM, and see what the forecast is worth.

Every few years that water grows several degrees warmer than usual: El Niño. The network reads three
years of months and says how warm each of the next six will be. It learns from 1950 to 1991 and is
judged on 1992 to 2010, beside forecasts that need no network. Over all it beats the naive ones. A
regression that is told what is usual for each month, and learns only how a deviation from it fades,
is better still: forty years of one series are little for a network, and the table says so.

What to take from this file for your own work:

- The training step is one function under `flambeau.compile`: drawing the batch, forward, backward
  through time, clipping, AdamW. Its windows are views of one tensor, picked by their numbers.
- The network is asked for a forecast after every month that it reads, not only after the last one:
  the months are few, and this way each window teaches many times.

The data are NOAA's; `examples/data/README.md` says more.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

DATA = Path(__file__).parent / "data" / "elnino.csv"
FIRST_YEAR, TEST_YEAR = 1950, 1992
PAST, HORIZON = 36, 6
# A forecast after fewer months than this is not asked for in training.
FEWEST = 12


class Forecaster(nn.Module):
    """Months ``[N, L, 3]`` to the six next temperatures after each of them, ``[N, L, 6]``."""

    def __init__(self, width=32):
        super().__init__()
        self.lstm = nn.LSTM(3, width, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.change = nn.Linear(width, HORIZON)

    def forward(self, months):
        states, _ = self.lstm(months)
        return months[:, :, :1] + self.change(self.dropout(states))


def load_data():
    """All temperatures in °C, one after the other: ``[732]``."""
    table = np.genfromtxt(DATA, delimiter=",", skip_header=1, dtype=np.float32)
    return table[:, 1:].ravel()


class Scale:
    """Degrees to numbers of about one, and back."""

    def __init__(self, temperatures):
        self.mean, self.deviation = float(temperatures.mean()), float(temperatures.std())

    def standardize(self, temperatures):
        return (temperatures - self.mean) / self.deviation

    def degrees(self, standardized):
        return standardized * self.deviation + self.mean


def features(temperatures, scale):
    """What the network reads of each month: temperature and time of year, ``[months, 3]``."""
    angle = 2 * math.pi / 12 * flambeau.arange(len(temperatures))
    standardized = scale.standardize(flambeau.from_numpy(temperatures))
    return flambeau.stack((standardized, angle.sin(), angle.cos()), dim=1)


def windows(months):
    """Every run of past and coming months, ``[N, PAST + HORIZON, ...]``, as a view."""
    return months.unfold(0, PAST + HORIZON, 1).movedim(-1, 1)


def train(model, months, steps, batch, rate):
    """Train on windows of `months`; give the loss of each step."""
    optimizer = flambeau.optim.AdamW(model.parameters(), lr=rate)
    schedule = flambeau.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    examples = windows(months)

    @flambeau.compile
    def step():
        chosen = examples[flambeau.randint(0, len(examples), (batch,))]
        past = chosen[:, :PAST]
        # A little noise keeps the network from learning the few windows by heart.
        past = past + 0.1 * flambeau.randn_like(past)
        forecasts = model(past)[:, FEWEST - 1 :]
        truth = chosen[:, FEWEST:, 0].unfold(1, HORIZON, 1)
        loss = F.mse_loss(forecasts, truth)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    model.train()
    losses, start = [], time.perf_counter()
    for i in range(1, steps + 1):
        losses.append(step())
        schedule.step()
        if i == 1:
            print(f"the first step, compiling included: {time.perf_counter() - start:.1f} s")
            start = time.perf_counter()
        elif i % max(steps // 8, 1) == 0:
            loss = flambeau.stack(losses[-50:]).mean().item()
            speed = (i - 1) / (time.perf_counter() - start)
            print(f"step {i:4,}/{steps:,}   training loss {loss:.3f}   {speed:5,.0f} steps/s")
    print(f"programs compiled for {steps:,} training steps: {step.program_count}")
    return flambeau.stack(losses).tolist()


def forecast(model, months, first, scale):
    """Forecasts in °C of `HORIZON` months, made before month `first` and each one after it."""
    model.eval()
    with flambeau.no_grad():
        past = windows(months[first - PAST :])[:, :PAST]
        return scale.degrees(model(past)[:, -1]).numpy()


def naive_forecasts(temperatures, first):
    """Forecasts without a network, by name, each of the shape that `forecast` gives."""
    begin = np.arange(first, len(temperatures) - HORIZON + 1)[:, None]
    lead = np.arange(HORIZON)
    usual = temperatures[:first].reshape(-1, 12).mean(0)[np.arange(len(temperatures)) % 12]
    deviation = temperatures - usual
    # The part of a deviation that is left after one to six months, by least squares.
    known = deviation[:first]
    kept = [known[:-k] @ known[k:] / (known[:-k] @ known[:-k]) for k in lead + 1]
    return {
        "the last temperature": np.repeat(temperatures[begin - 1], HORIZON, axis=1),
        "the same month a year before": temperatures[begin - 12 + lead],
        "the month's usual temperature": usual[begin + lead],
        "the usual one + the last deviation": usual[begin + lead] + deviation[begin - 1],
        "the usual one + a part by regression": usual[begin + lead] + deviation[begin - 1] * kept,
    }


def draw(truth, forecasts, errors, path, lead=3):
    """The forecasts of some months ahead against the truth, and the errors by months ahead."""
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 8), layout="constrained")
    years = TEST_YEAR + (np.arange(len(truth)) + lead - 1) / 12
    top.plot(years, truth[:, lead - 1], color="black", label="measured")
    top.plot(years, forecasts[:, lead - 1], color="tab:red", label=f"LSTM, {lead} months before")
    top.set(ylabel="temperature (°C)", title="The sea off Peru, in years the network has not seen")
    for name, error in errors.items():
        bottom.plot(range(1, HORIZON + 1), error, ".-", label=name, lw=3 if name == "LSTM" else 1)
    bottom.set(xlabel="months ahead", ylabel="mean absolute error (°C)", ylim=(0, 1.3))
    top.set_xticks(range(TEST_YEAR, math.ceil(years[-1]) + 1, 2))
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(arguments=None):
    """The whole job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--steps", type=int, default=800, help="training steps")
    add("--batch", type=int, default=64, help="windows per step")
    add("--width", type=int, default=32, help="features of the LSTM's state")
    add("--rate", type=float, default=3e-3, help="learning rate at the start")
    add("--seed", type=int, default=0, help="the same seed gives the same run")
    add("--output", type=Path, default=Path("sequence-output"), help="folder for the results")
    options = parser.parse_args(arguments)

    flambeau.manual_seed(options.seed)
    temperatures = load_data()
    first = 12 * (TEST_YEAR - FIRST_YEAR)
    scale = Scale(temperatures[:first])
    months = features(temperatures, scale)
    model = Forecaster(options.width)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters, {first} months to train on and {len(months) - first} to test")

    train(model, months[:first], options.steps, options.batch, options.rate)

    truth = np.lib.stride_tricks.sliding_window_view(temperatures[first:], HORIZON)
    forecasts = {"LSTM": forecast(model, months, first, scale)}
    forecasts |= naive_forecasts(temperatures, first)
    errors = {name: np.abs(each - truth).mean(0) for name, each in forecasts.items()}
    print(f"\nmean absolute error in °C since {TEST_YEAR}, 1 to {HORIZON} months ahead and overall")
    for name, error in errors.items():
        print(f"{name:36}" + "".join(f"{e:6.2f}" for e in [*error, error.mean()]))

    options.output.mkdir(exist_ok=True)
    flambeau.save(model.state_dict(), options.output / "model.safetensors")
    draw(truth, forecasts["LSTM"], errors, options.output / "sequence.png")
    print(f"\npicture: {options.output / 'sequence.png'}")


if __name__ == "__main__":
    main()
