"""a 3D network learns from patches of volumes; 40 transforms, samplers, aggregators, NIfTI files"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch

PACKAGE = "torchio"


def a_subject(seed=0, size=(12, 10, 8)):
    import torchio as tio

    rng = np.random.default_rng(seed)
    image = torch.from_numpy(rng.random((1, *size)).astype("float32"))
    label = torch.zeros(1, *size, dtype=torch.uint8)
    label[:, 3:8, 2:7, 2:6] = 1
    label[:, 9:11, 1:3, 6:8] = 2
    affine = np.diag([1.0, 1.2, 2.0, 1.0])
    return tio.Subject(
        image=tio.ScalarImage(tensor=image, affine=affine),
        label=tio.LabelMap(tensor=label, affine=affine), name=f"number {seed}",
    )  # fmt: skip


def transforms():
    import torchio as tio

    landmarks = {"image": np.linspace(0, 100, 13)}
    # Few swaps: if two patches overlap, what PyTorch copies is not defined.
    return [
        tio.RandomFlip(axes=(0, 1, 2)), tio.RandomAffine(image_interpolation="linear"),
        tio.RandomElasticDeformation(num_control_points=6, max_displacement=1.0),
        tio.RandomAnisotropy(), tio.RandomAffine(scales=0.2, degrees=20, translation=2),
        tio.RandomMotion(num_transforms=1), tio.RandomGhosting(), tio.RandomSpike(),
        tio.RandomBiasField(), tio.RandomBlur(), tio.RandomNoise(),
        tio.RandomSwap(patch_size=2, num_iterations=2),
        tio.RandomGamma(), tio.RandomLabelsToImage(label_key="label", image_key="drawn"),
        tio.RescaleIntensity((0, 2)), tio.ZNormalization(),
        tio.ZNormalization(masking_method="label"), tio.HistogramStandardization(landmarks),
        tio.Clamp(0.2, 0.8), tio.Mask("label"), tio.CropOrPad(9), tio.CropOrPad(mask_name="label"),
        tio.Crop((1, 2, 0)), tio.Pad(2), tio.Pad(1, padding_mode="reflect"), tio.Resample(1.5),
        tio.Resample((2, 1, 1), image_interpolation="bspline"), tio.Resize(6),
        tio.ToOrientation("LPS"), tio.EnsureShapeMultiple(4), tio.ToCanonical(),
        tio.OneHot(), tio.RemapLabels({1: 2, 2: 1}), tio.RemoveLabels([2]),
        tio.SequentialLabels(), tio.KeepLargestComponent(), tio.Contour(),
        tio.Lambda(lambda each: each.square(), types_to_apply=[tio.INTENSITY]),
        tio.OneOf({tio.RandomNoise(): 0.5, tio.RandomBlur(): 0.5}),
        tio.Compose([tio.RandomFlip(), tio.RandomNoise(p=0.5), tio.ZNormalization()]),
    ]  # fmt: skip


def network():
    return torch.nn.Sequential(
        torch.nn.Conv3d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv3d(4, 3, 1)
    )


def main():
    import driver
    import torchio as tio

    warnings.simplefilter("ignore")
    found = {}
    for number, transform in enumerate(transforms()):
        torch.manual_seed(number)
        result = transform(a_subject())
        name = f"{number} {type(transform).__name__}"
        for key in ("image", "label"):
            found[f"{name}, {key}"] = result[key].data
            found[f"{name}, {key}, affine"] = torch.from_numpy(result[key].affine)
        if "drawn" in result:
            found[f"{name}, drawn"] = result["drawn"].data
        if transform.is_invertible() and "Lambda" not in name:
            found[f"{name}, back"] = result.apply_inverse_transform().image.data
        history = result.get_composed_history()
        if "LabelsToImage" not in name:
            found[f"{name}, again"] = history(a_subject()).image.data

    dataset = tio.SubjectsDataset([a_subject(each) for each in range(3)], tio.ZNormalization())
    samplers = {
        "uniform": tio.UniformSampler(4), "weighted": tio.WeightedSampler(4, "label"),
        "label": tio.LabelSampler(4, "label", {0: 1, 1: 2, 2: 1}),
    }  # fmt: skip
    for name, sampler in samplers.items():
        torch.manual_seed(0)
        patches = list(sampler(dataset[0], 3))
        found[f"{name} patches"] = torch.stack([each.image.data for each in patches])
        found[f"{name} places"] = torch.stack([each.location for each in patches])

    torch.manual_seed(0)
    model, seconds, losses = network(), [], []
    driver.fill(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    queue = tio.Queue(dataset, 12, 4, samplers["label"], num_workers=0)
    for _ in range(2):
        for batch in tio.SubjectsLoader(queue, batch_size=4):
            began = time.perf_counter()
            optimizer.zero_grad()
            classes = batch["label"]["data"][:, 0].long()
            value = torch.nn.functional.cross_entropy(model(batch["image"]["data"]), classes)
            value.backward()
            optimizer.step()
            losses.append(float(value.detach()))
            seconds.append(time.perf_counter() - began)
    found["losses"] = torch.tensor(losses)
    found["seconds"] = seconds
    for mode in ("crop", "average", "hann"):
        grid = tio.GridSampler(dataset[0], 6, 2)
        aggregator = tio.GridAggregator(grid, overlap_mode=mode)
        with torch.no_grad():
            for batch in tio.SubjectsLoader(grid, batch_size=4):
                aggregator.add_batch(model(batch["image"]["data"]), batch["location"])
        found[f"whole by {mode}"] = aggregator.get_output_tensor()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.nii.gz"
        a_subject().image.save(path)
        read = tio.ScalarImage(path)
        found["read"], found["spacing"] = read.data, torch.tensor(read.spacing)
        torch.save(model.state_dict(), Path(folder) / "model.pt")
        other = network()
        other.load_state_dict(torch.load(Path(folder) / "model.pt"))
        found["loaded"] = other(read.data[None])
    return found
