"""resnet18, two other models, v2 transforms; `nms` in Python, `roi_align` and its gradients"""

import numpy as np
import torch

PACKAGE = "torchvision"
MODELS = ("squeezenet1_1", "mobilenet_v3_small")


def build():
    from torchvision.models import resnet18

    images = np.random.default_rng(0).standard_normal((8, 3, 64, 64)).astype("float32")

    def loss(model, images, targets):
        return torch.nn.functional.cross_entropy(model(images), targets)

    return resnet18(num_classes=4), (torch.from_numpy(images), torch.arange(8) % 4), loss


def more(model, inputs):
    import driver
    import torchvision
    from torchvision import ops
    from torchvision.transforms import v2

    found = {}
    for name in MODELS:
        images = np.random.default_rng(1).standard_normal((1, 3, 64, 64)).astype("float32")
        other = getattr(torchvision.models, name)(num_classes=4)
        driver.fill(other)
        with torch.no_grad():
            found[name] = other.eval()(torch.from_numpy(images))
    resized = v2.Compose(
        [v2.Resize((20, 20), antialias=True), v2.CenterCrop(16), v2.Normalize([0.5] * 3, [0.2] * 3)]
    )
    corners = np.random.default_rng(2).random((30, 4)).astype("float32") * 10
    corners[:, 2:] += corners[:, :2] + 1
    boxes = torch.from_numpy(corners)
    images = inputs[0][:2]
    found["transforms"] = resized(images)
    found["flipped"] = v2.functional.horizontal_flip(images)
    found["overlaps"] = ops.box_iou(boxes, boxes)
    scores = torch.from_numpy(np.random.default_rng(3).random(30).astype("float32"))
    found["kept"] = ops.nms(boxes, scores, 0.3)
    found["kept in groups"] = ops.batched_nms(boxes, scores, torch.arange(30) % 3, 0.3)
    found["aligned"] = ops.roi_align(images, [boxes[:3], boxes[3:5]], (3, 3), sampling_ratio=2)
    pyramid = {"fine": images.clone().requires_grad_(), "coarse": images[:, :, ::2, ::2]}
    pool = ops.MultiScaleRoIAlign(["fine", "coarse"], output_size=2, sampling_ratio=2)
    pooled = pool(pyramid, [boxes[:3], boxes[3:5]], [(64, 64), (64, 64)])
    pooled.square().sum().backward()
    found["pooled"], found["its gradient"] = pooled, pyramid["fine"].grad
    return found
