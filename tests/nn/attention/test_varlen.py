import pytest

import flambeau
from flambeau.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out
from flambeau.nn.functional import scaled_dot_product_attention

OF_QUERIES, OF_KEYS = flambeau.tensor([0, 2, 2, 7]), flambeau.tensor([0, 4, 5, 9])


def tensors():
    flambeau.manual_seed(0)
    query = flambeau.randn(7, 4, 8, requires_grad=True)
    return query, flambeau.randn(9, 2, 8, requires_grad=True), flambeau.randn(9, 2, 6)


def one_by_one(query, key, value, window, used=None):
    """The sequences, each by itself."""
    results = []
    for i, (queries, keys) in enumerate(
        zip(OF_QUERIES.diff().tolist(), OF_KEYS.diff().tolist(), strict=True)
    ):
        keys = keys if used is None else used[i]
        first, start = int(OF_QUERIES[i]), int(OF_KEYS[i])
        parts = [query[first : first + queries]]
        parts += [each[start : start + keys] for each in (key, value)]
        own = flambeau.arange(queries)[:, None] + keys - queries
        place = flambeau.arange(keys)
        mask = flambeau.ones(queries, keys, dtype=flambeau.bool)
        if window[0] >= 0:
            mask &= place >= own - window[0]
        if window[1] >= 0:
            mask &= place <= own + window[1]
        parts = [each.transpose(0, 1)[None] for each in parts]
        found = scaled_dot_product_attention(*parts, attn_mask=mask, enable_gqa=True)
        results.append(found[0].transpose(0, 1))
    return flambeau.cat(results)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0)])
def test_each_sequence_is_attended_to_by_itself(window):
    query, key, value = tensors()
    found = varlen_attn(
        query, key, value, OF_QUERIES, OF_KEYS, 5, 4, window_size=window, enable_gqa=True
    )
    expected = one_by_one(query, key, value, window)
    flambeau.testing.assert_close(found, expected)
    gradients = [
        flambeau.autograd.grad(each.square().sum(), (query, key)) for each in (found, expected)
    ]
    flambeau.testing.assert_close(gradients[0], gradients[1])


def test_a_part_of_the_keys_may_be_in_use():
    query, key, value = tensors()
    found = varlen_attn(
        query, key, value, OF_QUERIES, OF_KEYS, 5, 4,
        enable_gqa=True, seqused_k=flambeau.tensor([3, 1, 2]),
    )  # fmt: skip
    flambeau.testing.assert_close(found, one_by_one(query, key, value, (-1, -1), [3, 1, 2]))


def test_it_gives_logarithms_and_writes_to_a_tensor():
    starts, x = flambeau.tensor([0, 1, 3]), flambeau.zeros(3, 1, 2)
    _, lse = varlen_attn(x, x, x, starts, starts, 2, 2, return_aux=AuxRequest(lse=True))
    flambeau.testing.assert_close(lse[:, 0].exp(), flambeau.tensor([1.0, 2.0, 2.0]))
    out = flambeau.ones(3, 1, 2)
    assert varlen_attn_out(out, x, x, x, starts, starts, 2, 2) is out
    assert not out.any()


def test_lengths_are_data_of_a_program():
    x = flambeau.ones(4, 1, 2)
    run = flambeau.compile(lambda x, starts: varlen_attn(x, x, x, starts, starts, 3, 3))
    for starts in ([0, 1, 4], [0, 2, 4]):
        flambeau.testing.assert_close(run(x, flambeau.tensor(starts)), x)
    assert run.program_count == 1


def test_it_refuses():
    x, starts = flambeau.ones(3, 1, 2), flambeau.tensor([0, 3])
    with pytest.raises(NotImplementedError, match="paged keys"):
        varlen_attn(x, x, x, starts, None, 3, 3)
    with pytest.raises(ValueError, match="3 dimensions"):
        varlen_attn(x[0], x, x, starts, starts, 3, 3)
    with pytest.raises(ValueError, match="enable_gqa"):
        varlen_attn(x.expand(3, 2, 2), x, x, starts, starts, 3, 3)
    with pytest.raises(ValueError, match="one length"):
        varlen_attn(x, x, x, starts, flambeau.tensor([0, 1, 3]), 3, 3)
