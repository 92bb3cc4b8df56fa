"""Sparse tensors, layouts and memory formats in PyTorch's files."""

import io
import zipfile

import pytest

import flambeau
from flambeau.checkpoint import RefusedContentError, load, save
from flambeau.checkpoint.sparse_tensors import put_together
from flambeau.core.devices import meshes


def through_a_file(value):
    file = io.BytesIO()
    save({"value": value}, file)
    file.seek(0)
    return load(file)["value"]


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_a_sparse_tensor_comes_back(convert):
    dense = flambeau.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    tensor = getattr(dense, convert)()
    found = through_a_file(tensor)
    assert found.layout is tensor.layout
    assert flambeau.equal(found.to_dense(), dense)
    assert found._coalesced_ == tensor._coalesced_


def test_positions_that_occur_twice_stay_apart():
    tensor = flambeau.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (4,))
    found = through_a_file(tensor)
    assert not found.is_coalesced()
    assert found.to_dense().tolist() == [0, 5, 0, 0]


@pytest.mark.parametrize(
    ("indices", "size", "message"),
    [
        ([[0, 4]], (4,), "size is 4 but found index 4"),
        ([[-1, 0]], (4,), "negative index -1"),
        ([[0, 1, 2]], (4,), "same nnz"),
        ([[0, 1]], (4, 1), "as many dimensions"),
        ([[1, 0]], (4,), "not in order"),
        ([[1, 1]], (4,), "not in order"),
    ],
)
def test_parts_that_do_not_fit_are_refused(indices, size, message):
    parts = flambeau.tensor(indices), flambeau.ones(2), flambeau.Size(size), True
    with pytest.raises(RefusedContentError, match=message):
        put_together(flambeau.sparse_coo, parts)


def test_a_layout_without_tensors_is_refused():
    with pytest.raises(RefusedContentError, match="sparse_bsr, which no tensor here can have"):
        put_together(flambeau.sparse_bsr, ())
    with pytest.raises(TypeError, match="dense tensors and sizes"):
        put_together(flambeau.sparse_coo, (1, 2, 3))


@pytest.mark.parametrize("name", ["strided", "sparse_coo", "jagged", "channels_last", "complex32"])
def test_layouts_memory_formats_and_dtypes_are_read(name):
    constant = getattr(flambeau, name)
    assert through_a_file(constant) is constant


@pytest.mark.parametrize("name", ["strided", "channels_last"])
def test_older_files_name_layouts_where_they_are_defined(name):
    older = b"\x80\x02cflambeau.core.layout\n" + name.encode() + b"\n."
    file = io.BytesIO()
    save(flambeau.ones(1), file)
    assert load(with_pickle(file, older)) is getattr(flambeau, name)
    unknown = b"\x80\x02ctorch.serialization\n_get_layout\nX\x0a\0\0\0torch.none\x85R."
    with pytest.raises(RefusedContentError, match=r"layout called 'torch\.none"):
        load(with_pickle(file, unknown))


def with_pickle(file, pickled):
    """The archive with another pickle."""
    result = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(result, "w") as new:
        for each in old.namelist():
            new.writestr(each, pickled if each.endswith("data.pkl") else old.read(each))
    result.seek(0)
    return result


@pytest.mark.parametrize("mesh_in_use", [False, True])
def test_a_module_with_a_sparse_buffer_is_saved_and_loaded(monkeypatch, mesh_in_use):
    monkeypatch.setattr(meshes, "in_use", mesh_in_use)
    model = flambeau.nn.Linear(2, 2)
    model.register_buffer("heads", flambeau.eye(2).to_sparse())
    state = through_a_file(model.state_dict())
    double = (2 * flambeau.eye(2)).to_sparse()
    assert not any(model.load_state_dict({**state, "heads": double}))
    assert flambeau.equal(model.heads.to_dense(), 2 * flambeau.eye(2))
    assert model.heads is not double
    with pytest.raises(RuntimeError, match=r"layout mismatch for heads: .* has flambeau\.strided"):
        model.load_state_dict({**state, "heads": flambeau.eye(2)})
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        model.load_state_dict({"heads": state["heads"], "weight": flambeau.ones(1)}, strict=False)
    assert flambeau.equal(model.heads.to_dense(), 2 * flambeau.eye(2))
    model.load_state_dict({**state, "heads": flambeau.eye(2)}, assign=True)
    assert flambeau.equal(model.heads, flambeau.eye(2))
