"""a loop by `Accelerator`: batches, accumulated gradients, clipping, a schedule, saved state"""

import tempfile
import time

import numpy as np
import torch

PACKAGE = "accelerate"


def trained(compiled):
    """An accelerator, its model, and losses, norms, rates and seconds of twelve steps."""
    import driver
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((16, 6)).astype("float32"))
    data = torch.utils.data.TensorDataset(values, values.sum(1, keepdim=True))
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    driver.fill(model)
    if compiled:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    model, optimizer, loader, schedule = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(data, batch_size=4), schedule
    )
    losses, norms, rates, seconds = [], [], [], []
    for _ in range(3):
        for inputs, targets in loader:
            began = time.perf_counter()
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    norms.append(float(accelerator.clip_grad_norm_(model.parameters(), 1.0)))
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(float(accelerator.gather(loss)))
            seconds.append(time.perf_counter() - began)
            rates.append(schedule.get_last_lr()[0])
    return accelerator, model, values, (losses, norms, rates, seconds)


def main():
    accelerator, model, values, (losses, norms, rates, seconds) = trained(False)
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        before = accelerator.unwrap_model(model)(values)
        with torch.no_grad():
            for each in model.parameters():
                each.zero_()
        accelerator.load_state(folder)
        after = accelerator.unwrap_model(model)(values)
    *_, (compiled_losses, _, _, compiled_seconds) = trained(True)
    return {
        "losses": torch.tensor(losses), "norms": torch.tensor(norms), "rates": torch.tensor(rates),
        "before": before, "after": after, "seconds": seconds,
        "compiled losses": torch.tensor(compiled_losses), "compiled seconds": compiled_seconds,
    }  # fmt: skip
