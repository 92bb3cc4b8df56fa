"""a loss on blurred and warped images; filters, colours, geometry, morphology, features"""

import numpy as np
import torch

PACKAGE = "kornia"


def build():
    import kornia

    images = np.random.default_rng(0).random((2, 3, 16, 16)).astype("float32")
    model = torch.nn.Conv2d(3, 3, 3, padding=1)

    def loss(model, images):
        blurred = kornia.filters.gaussian_blur2d(images, (3, 3), (1.0, 1.0))
        made = torch.sigmoid(model(blurred))
        return kornia.losses.ssim_loss(made, images, 5) + kornia.losses.total_variation(made).mean()

    return model, (torch.from_numpy(images),), loss


def more(model, inputs):
    import kornia

    (images,) = inputs
    angles = torch.tensor([30.0, -45.0])
    around = torch.tensor([[7.5, 7.5], [7.5, 7.5]])
    turn = kornia.geometry.get_rotation_matrix2d(around, angles, torch.ones(2, 2))
    square = torch.tensor([[[0.0, 0.0], [15.0, 0.0], [15.0, 15.0], [0.0, 15.0]]])
    moved = square + torch.tensor([[[1.0, 2.0], [-2.0, 1.0], [0.0, -3.0], [2.0, 0.0]]])
    plane = kornia.geometry.get_perspective_transform(square, moved)
    return {
        "turned": kornia.geometry.rotate(images, angles),
        "affine": kornia.geometry.warp_affine(images, turn, (16, 16)),
        "plane": plane,
        "perspective": kornia.geometry.warp_perspective(images[:1], plane, (16, 16)),
        "resized": kornia.geometry.resize(images, (9, 12), antialias=True),
        "hsv": kornia.color.rgb_to_hsv(images),
        "lab": kornia.color.rgb_to_lab(images),
        "back": kornia.color.lab_to_rgb(kornia.color.rgb_to_lab(images)),
        "grey": kornia.color.rgb_to_grayscale(images),
        "sobel": kornia.filters.sobel(images),
        "canny": kornia.filters.canny(images)[0],
        "median": kornia.filters.median_blur(images, (3, 3)),
        "dilated": kornia.morphology.dilation(images, torch.ones(3, 3)),
        "harris": kornia.feature.harris_response(images[:, :1]),
        "equalized": kornia.enhance.equalize_clahe(images),
        "brighter": kornia.enhance.adjust_brightness(images, 0.2),
        "rotation": kornia.geometry.axis_angle_to_rotation_matrix(torch.tensor([[0.1, 0.2, 0.3]])),
    }
