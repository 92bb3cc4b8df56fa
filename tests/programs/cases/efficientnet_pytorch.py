"""a narrow EfficientNet: loss; B0 to B3, L2, endpoints, swish with and without own gradient"""

import os
import tempfile

import numpy as np
import torch

PACKAGE = "efficientnet_pytorch"


def images(seed=0, size=32, channels=3):
    values = np.random.default_rng(seed).standard_normal((4, channels, size, size))
    return torch.from_numpy(values.astype("float32"))


def network(**options):
    from efficientnet_pytorch import EfficientNet, utils

    blocks, settings = utils.efficientnet(
        width_coefficient=0.3, depth_coefficient=0.4, dropout_rate=0.0, drop_connect_rate=0.0,
        image_size=32, num_classes=4, **options,
    )  # fmt: skip
    return EfficientNet(blocks, settings)


def build():
    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    # With fixed norms: the four values in the last ones are too few for those of a batch.
    return network().eval(), (images(), torch.arange(4)), loss


def ran(model, *inputs):
    """What a model gives, and the norms of its gradients."""
    import driver

    driver.fill(model)
    result = model(*inputs)
    result.square().mean().backward()
    norms = [each.grad.norm() for each in model.parameters() if each.grad is not None]
    return torch.cat([result.flatten(), torch.stack(norms)])


def more(model, inputs):
    import driver
    from efficientnet_pytorch import EfficientNet, utils

    fresh = network().eval()
    driver.fill(fresh)
    found = dict(fresh.extract_endpoints(images(2, 64)))
    for name in ("b0", "b1", "b2", "b3", "l2"):
        # B0 is whole; of the others a few blocks are run.
        other = EfficientNet.from_name(
            f"efficientnet-{name}", num_classes=3, image_size=None if name == "b1" else 40
        )
        if name != "b0":
            other = torch.nn.Sequential(other._conv_stem, other._bn0, *other._blocks[:4])
        driver.fill(other)
        with torch.no_grad():
            found[name] = other.eval()(images(1, 40))
    found["features"] = fresh.extract_features(images(2))
    grey = EfficientNet.from_name("efficientnet-b0", in_channels=1, include_top=False)
    driver.fill(grey)
    with torch.no_grad():
        found["grey"] = grey.eval()(images(3, channels=1))
    for efficient in (True, False):
        other = network()
        other.set_swish(memory_efficient=efficient)
        found[f"swish {efficient}"] = ran(other.eval(), images(4))
    found["headless"] = ran(network(include_top=False).eval(), images(4))
    given = images(5)[:, 0, 0].requires_grad_()
    value = utils.MemoryEfficientSwish()(given)
    (slope,) = torch.autograd.grad(value.square().sum(), given)
    found["slope"] = slope
    for padding in (utils.get_same_padding_conv2d(), utils.get_same_padding_conv2d(13)):
        found[padding.__name__ if isinstance(padding, type) else "static"] = ran(
            padding(3, 4, 3, stride=2), images(6, 13)
        )
    for pool in (utils.get_same_padding_maxPool2d(), utils.get_same_padding_maxPool2d(13)):
        found[pool.__name__ if isinstance(pool, type) else "static pool"] = pool(3, 2)(
            images(6, 13)
        )
    torch.manual_seed(0)
    dropped = utils.drop_connect(torch.ones(64, 1, 1, 1), 0.5, training=True)
    found["kept"] = torch.stack([dropped.max(), (dropped > 0).float().mean().round()])
    blocks = utils.BlockDecoder.decode(
        ["r1_k3_s11_e1_i32_o16_se0.25", "r2_k5_s22_e6_i16_o24_se0.25"]
    )
    found["blocks"] = torch.tensor([each.input_filters for each in blocks])

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "weights.pth")
        torch.save(fresh.state_dict(), file)
        again = network()
        utils.load_pretrained_weights(again, "efficientnet-b0", weights_path=file, verbose=False)
        with torch.no_grad():
            found["loaded elsewhere"] = again.eval()(inputs[0])
    return found
