"""Batches of sequences whose lengths differ: few widths, little padding, nothing lost."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, LengthGroupedBatchSampler, PaddingCollator

LENGTHS = st.lists(st.integers(0, 30), max_size=40)


class TestSampler:
    @given(LENGTHS, st.integers(1, 7), st.booleans(), st.booleans(), st.integers(1, 3))
    def test_an_epoch_has_each_sample_once(self, lengths, size, drop_last, shuffle, group):
        sampler = LengthGroupedBatchSampler(
            lengths, size, drop_last, shuffle=shuffle, batches_per_group=group
        )
        batches = list(sampler)
        assert len(batches) == len(sampler)
        indices = sorted(itertools.chain(*batches))
        dropped = len(lengths) % size if drop_last else 0
        assert len(indices) == len(set(indices)) == len(lengths) - dropped
        assert set(indices) <= set(range(len(lengths)))
        assert sum(len(each) != size for each in batches) == (len(indices) % size > 0)

    @given(LENGTHS, st.integers(1, 7), st.booleans())
    def test_batches_of_a_group_do_not_overlap_in_length(self, lengths, size, shuffle):
        sampler = LengthGroupedBatchSampler(lengths, size, shuffle=shuffle)
        ranges = sorted(
            (min(found), max(found)) for batch in sampler if (found := [lengths[i] for i in batch])
        )
        for (_, last), (first, _) in itertools.pairwise(ranges):
            assert last <= first

    def test_the_order_depends_on_the_seed_and_the_epoch_only(self):
        lengths = flambeau.arange(40) % 7
        sampler = LengthGroupedBatchSampler(lengths, 4, seed=3)
        flambeau.manual_seed(1)
        epochs = [list(sampler) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        resumed = pickle.loads(pickle.dumps(LengthGroupedBatchSampler(lengths.numpy(), 4, seed=3)))
        resumed.set_epoch(1)
        assert [list(resumed), list(resumed)] == epochs[1:]
        assert list(LengthGroupedBatchSampler(lengths, 4, seed=9)) != epochs[0]

    def test_a_running_epoch_is_not_changed_by_another(self):
        sampler = LengthGroupedBatchSampler(range(20), 3)
        first = iter(sampler)
        begun = [next(first)]
        list(sampler)
        sampler.set_epoch(0)
        assert begun + list(first) == list(sampler)


def sequences_of(lengths, dtype="int64", rest=()):
    rng = np.random.default_rng(0)
    return [rng.integers(1, 100, (each, *rest)).astype(dtype) for each in lengths]


OPTIONS = st.fixed_dictionaries(
    {"padding_side": st.sampled_from(["left", "right"])},
    optional={"pad_to_multiple_of": st.integers(1, 9)},
) | st.fixed_dictionaries(
    {"buckets": st.lists(st.integers(1, 29), max_size=3).map(lambda each: [*each, 30])}
)


class TestCollator:
    @given(LENGTHS.filter(len), OPTIONS, st.sampled_from([(), (2,)]))
    def test_the_mask_gives_the_samples_back(self, lengths, options, rest):
        samples = sequences_of(lengths, rest=rest)
        padded, mask = PaddingCollator(-1, **options)(samples)
        assert padded.shape[:2] == mask.shape
        for sample, row, here in zip(samples, padded.numpy(), mask.numpy(), strict=True):
            assert np.array_equal(row[here], sample)
            assert (row[~here] == -1).all()
            side = here[::-1] if options.get("padding_side") == "left" else here
            assert not side[len(sample) :].any()
        width, longest = padded.shape[1], max(lengths)
        assert width >= longest
        if "buckets" in options:
            assert width == min(each for each in options["buckets"] if each >= longest)
        else:
            unit = options.get("pad_to_multiple_of", 1)
            assert width % unit == 0
            assert width < max(longest, 1) + unit

    @pytest.mark.parametrize("name", ["uint8", "int32", "float16", "bfloat16", "float64", "bool"])
    @pytest.mark.parametrize("form", [list, flambeau.from_numpy], ids=["array", "tensor"])
    def test_dtypes_are_kept(self, name, form):
        dtype = getattr(flambeau, name)
        samples = sequences_of([2, 3], dtype.numpy)
        if form is not list:
            samples = [form(each) for each in samples]
        padded, mask = PaddingCollator(1)(samples)
        assert padded.dtype is dtype
        assert mask.dtype is flambeau.bool

    def test_lists_become_what_tensor_makes_of_them(self):
        for samples in ([[1, 2], []], [[True], [False, True]], [[0.5], [1.0, 2.0]], [[[1], [2]]]):
            padded, _ = PaddingCollator()(samples)
            assert padded.dtype is flambeau.tensor(samples[0]).dtype

    def test_several_dtypes_are_promoted_as_in_operators(self):
        for samples in ([[1, 2], [0.5]], [flambeau.arange(2), flambeau.ones(3)]):
            padded, _ = PaddingCollator()(samples)
            assert padded.dtype is flambeau.float32

    def test_named_entries_are_padded_and_others_collated(self):
        samples = [
            {"ids": [1, 2, 3], "labels": [2, 3, 4], "size": np.ones(5), "name": "a"},
            {"ids": [5], "labels": [6], "size": np.ones(5), "name": "b"},
        ]
        batch = PaddingCollator({"ids": 0, "labels": -100}, pad_to_multiple_of=4)(samples)
        assert batch["ids"].tolist() == [[1, 2, 3, 0], [5, 0, 0, 0]]
        assert batch["labels"].tolist() == [[2, 3, 4, -100], [6, -100, -100, -100]]
        assert batch["attention_mask"].tolist() == [[True] * 3 + [False], [True] + [False] * 3]
        assert batch["size"].shape == (2, 5)
        assert batch["name"] == ["a", "b"]

    def test_tuples_are_padded_by_position(self):
        samples = [([1, 2], 0, [7, 8, 9]), ([3], 1, [6])]
        source, label, target, mask = PaddingCollator(buckets=[2, 4])(samples)
        assert (source.shape, label.tolist(), target.shape) == ((2, 2), [0, 1], (2, 4))
        assert mask.tolist() == [[True, True], [True, False]]
        _, _, target, mask = PaddingCollator({2: -100})([(1, 0, [7, 8]), (3, 1, [6])])
        assert target.tolist() == [[7, 8], [6, -100]]
        assert mask.shape == (2, 2)

    @pytest.mark.parametrize("value", [9, {"ids": 9}])
    def test_a_mask_of_the_samples_is_kept(self, value):
        samples = [
            {"ids": [1, 2], "attention_mask": [0, 1]}, {"ids": [3], "attention_mask": [1]},
        ]  # fmt: skip
        batch = PaddingCollator(value)(samples)
        assert batch["ids"].tolist() == [[1, 2], [3, 9]]
        assert batch["attention_mask"].tolist() == [[0, 1], [1, 0]]

    def test_gradients_and_devices_of_samples_are_kept(self):
        weight = flambeau.ones(3, requires_grad=True)
        padded, mask = PaddingCollator(pad_to_multiple_of=4)([weight[:2], 2 * weight])
        assert mask.tolist() == [[True] * 2 + [False] * 2, [True] * 3 + [False]]
        padded.sum().backward()
        assert weight.grad.tolist() == [3, 3, 2]
        padded, mask = PaddingCollator()([flambeau.ones(n, device="meta") for n in (2, 3)])
        assert padded.shape == mask.shape == (2, 3)
        assert padded.is_meta
        assert mask.is_meta


def test_batches_of_ten_lengths_run_in_three_programs():
    samples = [(each, each % 7) for each in sequences_of(range(10, 110, 10)) for _ in range(2)]
    loader = DataLoader(
        samples,
        batch_sampler=LengthGroupedBatchSampler([len(x) for x, _ in samples], 2),
        collate_fn=PaddingCollator({0: 0, 1: -100}, buckets=[32, 64, 128]),
    )
    model = nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 7))
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

    @flambeau.compile(fullgraph=True)
    def step(tokens, labels):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    lengths = set()
    for _ in range(2):
        for tokens, labels, mask in loader:
            lengths.add(int(mask.sum(1).max()))
            step(tokens, labels)
    assert len(lengths) == 10
    assert step.program_count == 3


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: LengthGroupedBatchSampler(["abc", "d"], 2), TypeError, "one integer for each"),
        (lambda: LengthGroupedBatchSampler([[1, 2], [3]], 2), TypeError, "len.each. for each in"),
        (lambda: LengthGroupedBatchSampler([1.5], 2), TypeError, "one integer for each"),
        (lambda: LengthGroupedBatchSampler([2, -1], 2), ValueError, "negative, got -1"),
        (lambda: LengthGroupedBatchSampler([2], 0), ValueError, "batch_size must be .* got 0"),
        (lambda: PaddingCollator(buckets=[]), ValueError, "each width in buckets must be"),
        (lambda: PaddingCollator(buckets=[4, 0]), ValueError, "positive integer, got 0"),
        (lambda: PaddingCollator("x"), TypeError, "padding_value must have numbers only, got 'x'"),
        (lambda: PaddingCollator({"x": None}), TypeError, "numbers only"),
        (lambda: PaddingCollator()([[[1, 2], [3]]]), RuntimeError, "must have equal lengths"),
        (lambda: PaddingCollator(pad_to_multiple_of=0), ValueError, "positive integer, got 0"),
        (lambda: PaddingCollator(pad_to_multiple_of=2, buckets=[1]), ValueError, "exclude"),
        (lambda: PaddingCollator(padding_side="top"), ValueError, "'left' or 'right', got 'top'"),
        (lambda: PaddingCollator(buckets=[2])([[1] * 3]), ValueError, r"length 3 .* buckets \[2\]"),
        (lambda: PaddingCollator()([3, 4]), TypeError, "no sequence to pad .* entries are 0: int"),
        (lambda: PaddingCollator({"y": 0})([{"x": [1]}]), TypeError, "entries are 'x': list"),
        (lambda: PaddingCollator({1: 0})([([1], 2)]), TypeError, "1 of sample 0 .* got int"),
        (lambda: PaddingCollator()([[1], "ab"]), TypeError, "0 of sample 1 .* got str"),
        (lambda: PaddingCollator(-1)([np.ones(1, "u1")]), ValueError, "-1 of 0 is not .* uint8"),
        (lambda: PaddingCollator(0.5)([[1]]), ValueError, "0.5 of 0 is not a value of int64"),
        (lambda: PaddingCollator()([([1], 2), ([1],)]), RuntimeError, r"entries, got \[1, 2\]"),
        (
            lambda: PaddingCollator()([np.ones((1, 2)), np.ones((1, 3))]),
            RuntimeError,
            r"first dimension only, got shapes \[1, 2\], \[1, 3\] for 0",
        ),
    ],
)
def test_what_cannot_be_is_said(make, error, said):
    with pytest.raises(error, match=said):
        make()
