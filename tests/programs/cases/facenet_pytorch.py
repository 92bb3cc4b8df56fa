"""an Inception ResNet on faces: loss; embeddings, a triplet loss, MTCNN's networks and its boxes"""

import io

import numpy as np
import torch

PACKAGE = "facenet-pytorch"


def faces(seed=0, size=96):
    values = np.random.default_rng(seed).standard_normal((3, 3, size, size)).astype("float32")
    return torch.from_numpy(values)


def network(**options):
    from facenet_pytorch import InceptionResnetV1

    # With fixed norms: three images are too few for those of a batch.
    return InceptionResnetV1(pretrained=None, dropout_prob=0.0, **options).eval()


def build():
    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return network(classify=True, num_classes=3), (faces(), torch.arange(3)), loss


def a_picture():
    """Something like a face: an oval with eyes and a mouth."""
    y, x = np.mgrid[-1:1:120j, -1:1:120j]
    face = ((x / 0.55) ** 2 + (y / 0.75) ** 2 < 1).astype("float64")
    for across in (-0.22, 0.22):
        face -= 0.7 * np.exp(-(((x - across) / 0.09) ** 2 + ((y + 0.2) / 0.05) ** 2))
    face -= 0.5 * np.exp(-((x / 0.2) ** 2 + ((y - 0.4) / 0.05) ** 2))
    face -= 0.2 * np.exp(-((x / 0.05) ** 2 + ((y - 0.1) / 0.1) ** 2))
    tint = np.array([210.0, 170.0, 150.0]) * face[..., None].clip(0.1, 1)
    noise = np.random.default_rng(3).normal(0, 3, tint.shape)
    return (tint + noise).clip(0, 255).astype("uint8")


def more(model, inputs):
    import driver
    import facenet_pytorch as facenet
    from facenet_pytorch.models import mtcnn
    from PIL import Image

    found = {}
    embed = network()
    driver.fill(embed)
    with torch.no_grad():
        found["embeddings"] = embed(inputs[0])
    anchors = embed(faces(1))
    value = torch.nn.functional.triplet_margin_loss(anchors, embed(faces(2)), anchors.flip(0))
    value.backward()
    found["triplets"] = torch.stack([value, *(p.grad.norm() for p in embed.parameters()
                                              if p.grad is not None)])  # fmt: skip
    with io.BytesIO() as file:
        torch.save(embed.state_dict(), file)
        file.seek(0)
        other = network()
        other.load_state_dict(torch.load(file))
    with torch.no_grad():
        found["loaded elsewhere"] = other(inputs[0])
    for name, size in (("PNet", 30), ("RNet", 24), ("ONet", 48)):
        part = getattr(mtcnn, name)()
        results = part(faces(4, size))
        sum(each.square().mean() for each in results).backward()
        for number, each in enumerate(results):
            found[f"{name} {number}"] = each
        found[f"gradients of {name}"] = torch.stack([p.grad.norm() for p in part.parameters()])
    picture = Image.fromarray(a_picture())
    for largest in (True, False):
        finder = facenet.MTCNN(
            image_size=48, margin=4, thresholds=[0.2, 0.2, 0.2], select_largest=largest,
            keep_all=not largest,
        )  # fmt: skip
        boxes, scores, points = finder.detect(picture, landmarks=True)
        found[f"boxes {largest}"] = torch.as_tensor(boxes.astype("float32"))
        found[f"scores {largest}"] = torch.as_tensor(scores.astype("float32"))
        found[f"points {largest}"] = torch.as_tensor(points.astype("float32"))
        found[f"cut {largest}"] = finder(picture)
    both = finder.detect([picture, picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)])
    found["of two"] = torch.as_tensor(np.concatenate([np.asarray(each, float) for each in both[0]]))
    found["standard"] = facenet.fixed_image_standardization(torch.arange(4.0))
    found["white"] = facenet.prewhiten(torch.arange(9.0))
    return found
