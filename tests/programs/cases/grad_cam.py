"""what a small network looks at, by 17 methods; of patches and of segments, and how sure it is"""

import contextlib
import io

import numpy as np
import torch

PACKAGE = "grad-cam"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # Without a bias: before a norm, its gradient is rounding, of which Adam makes steps.
        self.early = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.relu = torch.nn.ReLU()
        self.late = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.last = torch.nn.ReLU()
        self.head = torch.nn.Linear(6, 4)

    def forward(self, images):
        hidden = self.relu(self.norm(self.early(images)))
        return self.head(self.last(self.late(hidden)).mean((2, 3)))


class Patches(torch.nn.Module):
    """Attention between the patches of an image, and a token that stands for all."""

    def __init__(self):
        super().__init__()
        self.cut = torch.nn.Conv2d(3, 8, 4, stride=4)
        self.all = torch.nn.Parameter(torch.ones(1, 1, 8))
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, images):
        tokens = self.cut(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.all.expand(len(images), 1, 8), tokens], 1)
        return self.head(self.norm(self.layer(tokens))[:, 0])


def build():
    images = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype("float32")

    def loss(model, images, classes):
        return torch.nn.functional.cross_entropy(model(images), classes)

    return Net(), (torch.from_numpy(images), torch.tensor([1, 3])), loss


def more(model, inputs):
    import driver
    import pytorch_grad_cam as package
    from pytorch_grad_cam import metrics
    from pytorch_grad_cam.utils import model_targets as kinds
    from pytorch_grad_cam.utils.image import deprocess_image, show_cam_on_image
    from pytorch_grad_cam.utils.reshape_transforms import vit_reshape_transform

    images, _ = inputs
    model.eval()
    targets = [kinds.ClassifierOutputTarget(1), kinds.ClassifierOutputTarget(3)]
    found = {}
    for name in (
        "GradCAM",
        "HiResCAM",
        "GradCAMElementWise",
        "GradCAMPlusPlus",
        "XGradCAM",
        "LayerCAM",
        "EigenCAM",
        "EigenGradCAM",
        "KPCA_CAM",
        "AblationCAM",
        "ScoreCAM",
        "FullGrad",
        "FEM",
        "ShapleyCAM",
        "SegEigenCAM",
        "FinerCAM",
        "RandomCAM",
    ):
        layers = [] if name == "FullGrad" else [model.late]
        np.random.seed(0)  # noqa: NPY002 (RandomCAM draws from it)
        # Bars of progress, and what FullGrad says of the layers.
        with (
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
            getattr(package, name)(model, layers)
            if name != "FinerCAM"
            else contextlib.nullcontext(package.FinerCAM(model, layers)) as method,
        ):
            aims = None if name == "FinerCAM" else targets
            found[name] = torch.from_numpy(np.asarray(method(images, aims)))
    with package.GradCAM(model, [model.early, model.late]) as method:
        found["two layers"] = torch.from_numpy(
            method(images, None, aug_smooth=True, eigen_smooth=True)
        )
        seen = method(images, targets)
    factored = package.DeepFeatureFactorization(model, model.late)(images, n_components=2)
    found["factors"], found["factored"] = (torch.from_numpy(np.asarray(e)) for e in factored)
    back = package.GuidedBackpropReLUModel(model)(images[:1], target_category=2)
    found["guided"] = torch.from_numpy(np.ascontiguousarray(back))
    found["as an image"] = torch.from_numpy(deprocess_image(np.ascontiguousarray(back)))
    picture = images[0].permute(1, 2, 0).sigmoid().numpy()
    found["shown"] = torch.from_numpy(show_cam_on_image(picture, seen[0], use_rgb=True))

    sure = [kinds.ClassifierOutputSoftmaxTarget(1), kinds.ClassifierOutputSoftmaxTarget(3)]
    for name, metric in {
        "change": metrics.cam_mult_image.CamMultImageConfidenceChange(),
        "drop": metrics.cam_mult_image.DropInConfidence(),
        "most relevant first": metrics.road.ROADMostRelevantFirst(75),
        "least relevant first": metrics.road.ROADLeastRelevantFirstAverage([50, 80]),
    }.items():
        torch.manual_seed(0)
        found[name] = torch.from_numpy(np.asarray(metric(images, seen, sure, model)))

    segments = torch.nn.Conv2d(3, 2, 3, padding=1)
    driver.fill(segments)
    mask = np.zeros((16, 16), "float32")
    mask[4:9, 3:12] = 1
    with package.GradCAM(segments, [segments]) as method:
        aims = [kinds.SemanticSegmentationTarget(1, mask)] * 2
        found["segments"] = torch.from_numpy(method(images, aims))

    other = Patches()
    driver.fill(other)
    turned = {"reshape_transform": lambda each: vit_reshape_transform(each, 4, 4)}
    ablation = {"ablation_layer": package.AblationLayerVit()}
    for name, options in {"GradCAM": {}, "LayerCAM": {}, "AblationCAM": ablation}.items():
        with (
            contextlib.redirect_stderr(io.StringIO()),
            getattr(package, name)(other, [other.norm], **turned, **options) as method,
        ):
            found[f"{name} of patches"] = torch.from_numpy(method(images, targets))
    return found
