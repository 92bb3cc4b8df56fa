"""a YOLO 11 and its loss; segments, poses, turned boxes and classes by others; overlaps"""

import numpy as np
import torch

PACKAGE = "ultralytics"


def a_model(name="yolo11n", kind="DetectionModel"):
    import driver
    from ultralytics.cfg import get_cfg
    from ultralytics.nn import tasks

    model = getattr(tasks, kind)(f"{name}.yaml", ch=3, nc=4, verbose=False)
    driver.fill(model)
    model.args = get_cfg()
    return model


def a_batch():
    rng = np.random.default_rng(0)
    return {
        "img": torch.from_numpy(rng.random((2, 3, 64, 64)).astype("float32")),
        "cls": torch.tensor([[0.0], [2.0], [3.0]]),
        "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.3], [0.3, 0.6, 0.2, 0.5], [0.6, 0.4, 0.7, 0.6]]),
        "batch_idx": torch.tensor([0.0, 0.0, 1.0]),
    }


def build():
    batch = a_batch()

    def loss(model, *values):
        return model(dict(zip(batch, values, strict=True)))[0].sum()

    return a_model(), tuple(batch.values()), loss


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1e-6)


def more(model, inputs):
    import driver
    from ultralytics.engine.results import Boxes
    from ultralytics.utils import ops
    from ultralytics.utils.loss import FocalLoss, VarifocalLoss
    from ultralytics.utils.metrics import bbox_iou, box_iou, probiou
    from ultralytics.utils.torch_utils import ModelEMA, fuse_conv_and_bn

    images, *_ = inputs
    found = {}
    model.eval()
    found["predicted"] = model(images)[0]
    for name, kind in {
        "yolov8n": "DetectionModel", "yolov10n": "DetectionModel", "yolo11n-cls":
        "ClassificationModel", "yolo11n-seg": "SegmentationModel", "yolo11n-pose": "PoseModel",
        "yolo11n-obb": "OBBModel",
    }.items():  # fmt: skip
        other = a_model(name, kind).eval()
        out = other(images)
        while isinstance(out, tuple | list):
            out = out[0]
        found[name] = out
    first = torch.tensor([[0.0, 0, 4, 4], [1, 1, 3, 5]])
    second = torch.tensor([[1.0, 1, 5, 4], [2, 2, 6, 7]])
    found["IoU"] = box_iou(first, second)
    for kind in ("GIoU", "DIoU", "CIoU"):
        found[kind] = bbox_iou(first, second, xywh=False, **{kind: True})
    turned = torch.tensor([[2.0, 2, 4, 2, 0.3], [3, 3, 2, 4, 0.8]])
    found["probable IoU"] = probiou(turned, turned.flip(0))
    found["corners"] = ops.xywhr2xyxyxyxy(turned)
    found["scaled"] = ops.scale_boxes((64, 64), first.clone(), (100, 120))
    scores, aims = torch.linspace(-2, 2, 8).reshape(2, 4), torch.eye(2, 4)
    found["focal"] = FocalLoss(1.5, 0.25)(scores, aims)
    found["varifocal"] = VarifocalLoss()(scores, aims, aims)
    conv, norm = torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4).eval()
    driver.fill(conv)
    driver.fill(norm)
    found["fused"] = fuse_conv_and_bn(conv, norm)(images[:, :, :8, :8])
    average = ModelEMA(model)
    average.update(model)
    found["average"] = torch.stack([each.float().norm() for each in average.ema.parameters()])
    boxes = Boxes(torch.tensor([[1.0, 2, 30, 40, 0.9, 2], [5, 6, 20, 30, 0.7, 1]]), (64, 48))
    found["boxes"], found["normalized"] = boxes.xywh, boxes.xyxyn
    return found
