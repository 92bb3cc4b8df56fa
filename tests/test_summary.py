"""A summary counts what formulas give, and neither computes nor changes anything."""

import copy
import pickle
import random
import re
import sys
from xml.etree import ElementTree as ET

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.core.support.statistics import statistics


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.activation = nn.GELU()

    def forward(self, x):
        return x + self.activation(self.linear(x))


class Everything(nn.Module):
    """Hooks, tied weights, buffers, draws, Python state, plain tensors, uncalled modules."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.shared = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.5)
        self.uncalled = nn.Linear(3, 3)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.offset = flambeau.ones(8)
        self.calls, self.seen, self.last = 0, [], None
        self.embedding.register_forward_hook(lambda module, args, out: self.seen.append(out))

    def forward(self, index, scale=1.0):
        self.calls += 1
        x = self.embedding(index) * scale + self.offset
        for block in self.blocks:
            x = block(x)
        x = self.shared(self.shared(x))
        self.offset.add_(1)
        self.last = x = self.norm(self.dropout(x).transpose(1, 2)).transpose(1, 2)
        x.sum().backward()
        return {"logits": self.head(x), "hidden": (x, None)}


class Asking(Everything):
    """Asks for a value, so a copy of it is called; hooks are not copied."""

    def __init__(self):
        super().__init__()
        self.embedding._forward_hooks.clear()

    def forward(self, index, scale=1.0):
        out = super().forward(index, scale)
        return out if bool((out["hidden"][0] < 1e9).all()) else None


INDEX = flambeau.arange(10).view(2, 5)


def state_of(model):
    """The state of a model and of the generators, in comparable form."""
    tensors = {name: (id(t), t.tolist()) for name, t in model.state_dict(keep_vars=True).items()}
    return {
        "tensors": tensors,
        "grads": [each.grad for each in model.parameters()],
        "modes": [each.training for each in model.modules()],
        "hooks": [len(each._forward_hooks) for each in model.modules()],
        "plain": (model.calls, model.seen[:], model.last, model.offset.tolist()),
        "classes": [type(each) for each in model.modules()],
        "random": (flambeau.get_rng_state().tolist(), random.getstate()),
    }


@pytest.mark.parametrize("kind", [Everything, Asking])
@pytest.mark.parametrize("is_training", [True, False])
def test_nothing_is_changed(kind, is_training):
    model = kind().train(is_training)
    index, before = INDEX.clone(), state_of(model)
    found = flambeau.summary(model, index, scale=2.0)
    assert state_of(model) == before
    assert flambeau.equal(index, INDEX)
    rows = {each.path: each for each in found.rows}
    assert rows[""].output == {"logits": (2, 5, 10), "hidden": ((2, 5, 8), "None")}
    assert (rows["shared"].calls, rows["uncalled"].calls, rows["blocks"].calls) == (2, 0, 0)
    assert rows["shared"].flops == 2 * 2 * 2 * 5 * 8 * 8
    assert rows["uncalled"].output is None


def test_nothing_is_computed():
    model, x = Block(8), flambeau.ones(3, 8)
    before = copy.deepcopy((statistics.compiled, statistics.loaded, statistics.interpreted))
    flambeau.summary(model, x)
    assert (statistics.compiled, statistics.loaded, statistics.interpreted) == before


def test_parameters_and_bytes_are_those_of_the_model():
    model = Everything()
    model.blocks[0].requires_grad_(False)
    found = flambeau.summary(model)
    parameters = [*model.parameters()]
    assert found.total_params == sum(each.numel() for each in parameters)
    assert found.trainable_params == sum(each.numel() for each in parameters if each.requires_grad)
    assert found.total_bytes == sum(each.nbytes for each in (*parameters, *model.buffers()))
    assert found.total_flops is None
    for row in found.rows:
        module = model.get_submodule(row.path)
        assert row.params == sum(each.numel() for each in module.parameters())
    # The head shares the embedding's weight.
    assert sum(each.params for each in found.rows if each.depth == 1) == found.total_params + 80


LINEAR = nn.Linear(3, 4)
FLOPS = {
    "linear": (LINEAR, [(2, 5, 3)], 2 * (2 * 5) * 3 * 4),
    "convolution": (
        nn.Conv2d(4, 6, 3, padding=1, groups=2), [(2, 4, 8, 8)],
        2 * (2 * 6 * 8 * 8) * (4 // 2 * 3 * 3),
    ),
    "strided": (nn.Conv1d(2, 3, 3, stride=2), [(1, 2, 9)], 2 * (3 * 4) * (2 * 3)),
    "transposed": (nn.ConvTranspose1d(2, 3, 4), [(1, 2, 5)], 2 * (2 * 5) * (3 * 4)),
    # Four projections, then the scores and their products with the values.
    "attention": (
        nn.MultiheadAttention(8, 2, batch_first=True), [(3, 5, 8), (3, 7, 8), (3, 7, 8)],
        2 * 3 * 8 * 8 * (5 + 7 + 7 + 5) + 2 * 2 * 3 * 5 * 7 * 8,
    ),
    "attention to itself": (
        nn.TransformerEncoderLayer(8, 2, 6, batch_first=True), [(3, 5, 8)],
        2 * 3 * 8 * 8 * 4 * 5 + 2 * 2 * 3 * 5 * 5 * 8 + 2 * 2 * 3 * 5 * 8 * 6,
    ),
    "attention of three widths": (
        nn.MultiheadAttention(8, 2, kdim=3, vdim=5), [(5, 3, 8), (7, 3, 3), (7, 3, 5)],
        2 * 3 * 8 * (2 * 5 * 8 + 7 * (3 + 5)) + 2 * 2 * 3 * 5 * 7 * 8,
    ),
    "no products": (nn.Sequential(nn.ReLU(), nn.LayerNorm(4)), [(2, 4)], 0),
}  # fmt: skip


@pytest.mark.parametrize(("model", "shapes", "flops"), FLOPS.values(), ids=FLOPS)
def test_operations_are_those_of_the_formulas(model, shapes, flops):
    if isinstance(model, nn.MultiheadAttention):
        model.eval()
    inputs = [flambeau.empty(shape, device="meta") for shape in shapes]
    assert flambeau.summary(model, *inputs).total_flops == flops


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("device_of_input", ["cpu", "meta"])
def test_models_and_inputs_may_be_on_the_meta_device(device, device_of_input):
    model = nn.Sequential(nn.Linear(3, 4, device=device), nn.Dropout(), nn.Linear(4, 2).to(device))
    found = flambeau.summary(model, flambeau.empty(5, 3, device=device_of_input))
    assert found.rows[0].output == (5, 2)
    assert found.total_flops == 2 * 5 * (3 * 4 + 4 * 2)
    assert {each.device.type for each in model.parameters()} == {device}


def test_lazy_modules_stay_uninitialized():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5))
    state = flambeau.get_rng_state()
    found = flambeau.summary(model, flambeau.ones(2, 3, 8, 8))
    assert model[0].has_uninitialized_params()
    assert model[3].has_uninitialized_params()
    assert flambeau.equal(state, flambeau.get_rng_state())
    model(flambeau.ones(2, 3, 8, 8))
    assert found.total_params == sum(each.numel() for each in model.parameters())
    without = str(flambeau.summary(nn.LazyLinear(5)))
    assert "Without a shape yet, and not counted: 2" in without


def test_errors_are_those_of_a_call_and_the_model_stays():
    model = Everything()
    before = state_of(model)
    errors = []
    for call in (lambda x: model(x), lambda x: flambeau.summary(model, x)):
        with pytest.raises(RuntimeError) as caught:
            call(flambeau.ones(2, 5))
        errors.append((type(caught.value), str(caught.value)))
        model.calls = 0
    assert errors[0] == errors[1]
    assert state_of(model) == before


def test_the_error_of_a_model_that_cannot_be_copied_is_its_own():
    class Uncopied(nn.Module):
        def forward(self, x):
            raise ValueError("no forward today")

        def __deepcopy__(self, memo):
            raise TypeError("no copy")

    with pytest.raises(ValueError, match="no forward today"):
        flambeau.summary(Uncopied(), flambeau.ones(1))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((3,), {}, TypeError, "model must be an nn.Module, got int"),
        ((LINEAR,), {"depth": -1}, ValueError, "depth must not be negative, got -1"),
        ((LINEAR,), {"depth": "2"}, TypeError, "depth must be an int or None, got str"),
    ],
)
def test_wrong_arguments(arguments, options, error, words):
    with pytest.raises(error, match=words):
        flambeau.summary(*arguments, **options)


def test_a_summary_inside_a_compiled_function_is_refused():
    inside = flambeau.compile(lambda x: flambeau.summary(LINEAR, x), fullgraph=True)
    with pytest.raises(RuntimeError, match="cannot be called inside a compiled function"):
        inside(flambeau.ones(2, 3))


def test_compiled_modules_have_the_rows_of_the_original():
    model = nn.Sequential(Block(8), flambeau.compile(Block(8)))
    x = flambeau.ones(2, 8)
    found = flambeau.summary(flambeau.compile(model), x)
    assert [each.path for each in found.rows] == [name for name, _ in model.named_modules()]
    assert found.total_flops == 2 * 2 * (2 * 8 * 8)
    assert all(each.calls == 1 for each in found.rows)
    assert model[1].program_count == 0


def test_the_table_fits_and_keeps_the_ends_of_names():
    model = nn.ModuleDict({f"a_rather_long_name_of_a_part_{i}": Block(4) for i in range(3)})
    model = nn.ModuleDict({"a_container_with_a_name_as_long_as_this_one": model})
    lines = str(flambeau.summary(model)).splitlines()
    assert max(map(len, lines)) <= 100
    assert any("..." in line and "part_2.linear" in line for line in lines)
    assert [each.depth for each in flambeau.summary(model, depth=1).shown()] == [0, 1]


def test_a_notebook_shows_a_tree_without_markup_from_names():
    model = nn.ModuleDict({"<b>": Block(4), '"]': nn.Identity()})
    html = flambeau.summary(model)._repr_html_()
    assert html.count("<details") == html.count("</details>") == 2
    assert "&lt;b&gt;" in html


def test_a_container_that_is_not_called_has_the_operations_of_its_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    whole, layers, *_ = flambeau.summary(Net(), flambeau.ones(1, 4)).rows
    assert layers.flops == whole.flops == 3 * 2 * 4 * 4
    assert (layers.calls, layers.output) == (0, None)


def test_a_diagram_shows_the_flow_of_data():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.body, self.idle = nn.Linear(4, 4), Block(4), nn.ReLU()
            self.second = nn.Identity()

        def forward(self, x):
            x = self.first(x).view(-1)[:4]
            return self.body(x), self.second(x)

    found = flambeau.summary(Net(), flambeau.ones(1, 4))
    diagram = found.diagram()
    labels = {"input": "input", "output": "output"}
    labels |= dict(re.findall(r'(m\d+)\["(\w+):', diagram))
    arrows = re.findall(r"(\w+) --> (\w+)", diagram)
    assert {(labels[source], labels[target]) for source, target in arrows} == {
        ("input", "first"), ("first", "linear"), ("linear", "activation"), ("first", "output"),
        ("activation", "output"), ("first", "second"), ("second", "output"),
    }  # fmt: skip
    assert "idle" not in diagram
    assert diagram.count("subgraph") == diagram.count("end\n") == 1
    assert diagram._repr_mimebundle_()["text/vnd.mermaid"] == diagram
    assert "subgraph" not in flambeau.summary(Net(), flambeau.ones(1, 4), depth=1).diagram()
    with pytest.raises(ValueError, match="needs a call of the model"):
        flambeau.summary(Net()).diagram()


def links_of(html):
    """The texts of the clickable modules, with those of the elements that they lead to."""
    targets = dict(re.findall(r'<(?:div|summary) id="([^"]+)"[^>]*><span[^>]*>(.*?)</span>', html))
    anchors = re.findall(r'<a xlink:href="#([^"]+)"[^>]*>(.*?)</a>', html, re.DOTALL)
    return {
        re.search(r"<text[^>]*>(.*?)</text>", drawn)[1]: re.sub("<[^>]*>", "", targets[target])
        for target, drawn in anchors
    }


def test_a_diagram_in_a_notebook_leads_to_the_rows_of_its_modules():
    pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Identity(), Block(4)))
    html = flambeau.summary(model, flambeau.ones(1, 4)).diagram()._repr_mimebundle_()["text/html"]
    assert links_of(html) == {
        "0: Linear": "0 Linear", "1: Sequential": "1 Sequential", "0: Identity": "0 Identity",
        "1: Block": "1 Block", "linear: Linear": "linear Linear", "activation: GELU":
        "activation GELU",
    }  # fmt: skip
    assert "1.1.linear (Linear)&#10;output [1, 4]&#10;20 parameters, 80 B&#10;32 FLOPs" in html
    other = flambeau.summary(model, flambeau.ones(1, 4)).diagram()._repr_mimebundle_()["text/html"]
    ids = re.compile(r' id="(flambeau[^"]+)"')
    assert not {*ids.findall(html)} & {*ids.findall(other)}


def test_svg_shows_every_name_and_every_arrow():
    pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x, deep=True):
            return self.inner(x) if deep else x + 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module('<a "b" \\N>', nn.Linear(4, 4))
            self.twice = Twice()

        def forward(self, x):
            return self.twice(getattr(self, '<a "b" \\N>')(self.twice(x)), deep=False)

    diagram = flambeau.summary(Net(), flambeau.ones(1, 4)).diagram()
    drawing = ET.fromstring(diagram.svg())
    texts = {each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {'<a "b" \\N>: Linear', "twice: Twice", "inner: Identity", "input"} <= texts
    edges = [each for each in drawing.iter() if each.get("class") == "edge"]
    # One of them leads to the box of a module that once called another and once did not.
    assert len(edges) == diagram.count("-->") == 4
    assert copy.deepcopy(diagram).svg() == pickle.loads(pickle.dumps(diagram)).svg()


def test_without_graphviz_a_diagram_is_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    diagram = flambeau.summary(LINEAR, flambeau.ones(1, 3)).diagram()
    assert diagram._repr_mimebundle_().keys() == {"text/vnd.mermaid", "text/plain"}
    with pytest.raises(ImportError, match=r"needs pygraphviz.*pip install 'pygraphviz>=2'"):
        diagram.svg()


def test_a_functional_model_has_a_total():
    class Net(nn.Module):
        def forward(self, x, *, mask):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    x = flambeau.ones(2, 3, 5, 8)
    found = flambeau.summary(Net(), x, mask=flambeau.ones(5, 5, dtype=flambeau.bool))
    assert found.total_flops == 2 * 2 * (2 * 3 * 5 * 5 * 8)
    assert "input --> m0\n  m0 --> output" in found.diagram()


def test_the_time_of_a_call_is_shared_by_its_modules():
    last = nn.Sequential(nn.Dropout(), nn.ReLU())
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), last)
    before, state = copy.deepcopy(model.state_dict()), flambeau.get_rng_state()
    found = flambeau.summary(model, flambeau.ones(2, 3), timed=True)
    shares = {each.path: each.time_share for each in found.rows}
    assert shares[""] == 1
    assert all(0 < each <= 1 for each in shares.values())
    assert shares["0"] + shares["1"] + shares["2"] <= 1
    assert shares["2.0"] + shares["2.1"] <= shares["2"]
    assert all(flambeau.equal(each, before[key]) for key, each in model.state_dict().items())
    assert flambeau.equal(state, flambeau.get_rng_state())
    assert re.search(r"^\(model\) .* 100%$", str(found), re.MULTILINE)
    assert flambeau.summary(model, flambeau.ones(2, 3)).rows[0].time_share is None


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (LINEAR, (), "needs example arguments"),
        (LINEAR, (flambeau.empty(2, 3, device="meta"),), "meta device"),
        (nn.LazyLinear(3), (flambeau.ones(2, 3),), "uninitialized"),
    ],
)
def test_a_time_needs_values(model, inputs, message):
    with pytest.raises(ValueError, match=message):
        flambeau.summary(model, *inputs, timed=True)
