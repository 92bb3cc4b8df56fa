"""A PyTorch program that fails once and is started again: ``python restarted.py FOLDER``.

Each process writes what it has found, by name, to ``FOLDER/RANK.json``.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

FOLDER, EPOCHS = Path(sys.argv[1]), 6


@record
def main():
    dist.init_process_group("gloo")
    rank, snapshot = dist.get_rank(), FOLDER / "snapshot.pt"
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 2))
    optimizer, first, losses = torch.optim.AdamW(model.parameters(), lr=0.1), 0, []
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.arange(float(each.numel())).reshape(each.shape).sin())
    if snapshot.exists():
        state = torch.load(snapshot)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, EPOCHS):
        x = (torch.arange(48.0).reshape(6, 2, 4)[epoch] + rank).sin()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch}, snapshot)
        dist.barrier()
        if epoch == 2 and first == 0:
            raise RuntimeError("a machine is lost")
    names = ("WORLD_SIZE", "LOCAL_RANK")
    found = {"first": str(first), "losses": losses, **{each: os.environ[each] for each in names}}
    found["parameters"] = [each.flatten().tolist() for each in model.parameters()]
    (FOLDER / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
