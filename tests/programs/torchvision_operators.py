"""torchvision's operators in Python, where its compiled ones do not load."""

import importlib.util


def nms(boxes, scores, iou_threshold):
    """Which boxes are kept, the best first: the other ones overlap with one of them."""
    import numpy as np
    import torch

    order = scores.argsort(descending=True, stable=True)
    corners = boxes[order]
    sizes = (corners[:, 2:] - corners[:, :2]).prod(1)
    low = torch.maximum(corners[:, None, :2], corners[:, :2])
    high = torch.minimum(corners[:, None, 2:], corners[:, 2:])
    common = (high - low).clamp(min=0).prod(2)
    overlap = (common / (sizes[:, None] + sizes - common) > iou_threshold).numpy()
    kept = np.ones(len(overlap), bool)
    for row, overlapping in enumerate(overlap):
        if kept[row]:
            kept[row + 1 :] &= ~overlapping[row + 1 :]
    return order[torch.from_numpy(kept)]


def provide():
    """Declare the operators that torchvision's import asks for, and give it `nms`."""
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        import torchvision
    except RuntimeError:
        declare()
        import torchvision
    else:
        if torchvision.extension._has_ops():
            return
        declare()
    torchvision.extension._has_ops = lambda: True


def declare():
    import torch

    for name in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{name}", "(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor"
        )
    torch.library.impl("torchvision::nms", "cpu")(nms)
