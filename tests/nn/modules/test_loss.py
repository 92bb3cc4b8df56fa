"""Losses: what their constructors keep and check."""

import typing

import pytest

import flambeau
from flambeau import nn


def test_weights_are_buffers():
    weight = flambeau.tensor([1.0, 2.0])
    for layer in (
        nn.CrossEntropyLoss(weight),
        nn.BCELoss(weight),
        nn.MultiMarginLoss(weight=weight),
    ):
        assert layer.weight is weight
        assert list(layer.state_dict()) == ["weight"]
    assert list(nn.BCEWithLogitsLoss(pos_weight=weight).state_dict()) == ["pos_weight"]
    assert not nn.CrossEntropyLoss().state_dict()


@pytest.mark.parametrize(
    ("options", "reduction"),
    [
        ({"size_average": False}, "sum"),
        ({"size_average": True}, "mean"),
        ({"reduce": False}, "none"),
        ({"reduce": True}, "mean"),
    ],
)
def test_older_flags_mean_a_reduction(options, reduction):
    with pytest.warns(UserWarning, match=f"reduction='{reduction}'"):
        assert nn.MSELoss(**options).reduction == reduction


def test_margins_must_be_positive():
    for kind in (nn.TripletMarginLoss, nn.TripletMarginWithDistanceLoss):
        with pytest.raises(ValueError, match="margin must be positive, got 0"):
            kind(margin=0)


def test_parameters_of_losses_are_checked():
    with pytest.raises(TypeError, match="delta must be a number, got a str"):
        nn.HuberLoss(delta="1")
    with pytest.raises(ValueError, match="p of 1 or 2, got 3"):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(ValueError, match=r"must be a vector, got shape \[1, 2\]"):
        nn.MultiMarginLoss(weight=flambeau.ones(1, 2))
    with pytest.raises(RuntimeError, match=r"each of 3 classes, got shape \[2\]"):
        nn.LinearCrossEntropyLoss(4, 3, weight=flambeau.ones(2))
    with pytest.raises(RuntimeError, match="label_smoothing must be from 0 to 1, got 2"):
        nn.LinearCrossEntropyLoss(4, 3, label_smoothing=2)


def test_distance_may_be_a_module():
    layer = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(p=1))
    assert [name for name, _ in layer.named_children()] == ["distance_function"]
    assert type(nn.TripletMarginWithDistanceLoss().distance_function) is nn.PairwiseDistance


def test_nll_loss_2d_is_deprecated():
    with pytest.warns(FutureWarning, match="use NLLLoss"):
        nn.NLLLoss2d()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acc_policy": "exact"}, "acc_policy must be one of .*, got 'exact'"),
        ({"chunking_method": "aspect_ratio:0"}, "positive n, or None, got 'aspect_ratio:0'"),
        ({"chunking_method": "halves"}, "got 'halves'"),
        ({"batch_chunk_size": 0}, "positive integer or None, got 0"),
        ({"acc_dtype": flambeau.int64}, "acc_dtype must be one of .*int64"),
    ],
)
def test_options_of_linear_cross_entropy_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        nn.LinearCrossEntropyOptions(**options)


def test_options_of_linear_cross_entropy_compare_and_cannot_change():
    options = nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:2")
    assert options == nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:2")
    with pytest.raises(AttributeError):
        options.batch_chunk_size = 3


def test_annotations_of_a_loss_can_be_evaluated_elsewhere():
    hints = typing.get_type_hints(nn.BCEWithLogitsLoss(), globalns={})
    assert hints == {"reduction": str}
