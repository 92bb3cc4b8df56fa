"""Recurrent layers and cells against PyTorch's, over their options and forms of input."""

import warnings

import numpy as np
import pytest
import torch

import flambeau
from flambeau.core.values.convert import make

T, N, FEATURES, HIDDEN = 4, 3, 3, 4
LENGTHS = (2, 4, 1)

LAYERS = {
    "RNN": {},
    "RNN relu": {"num_layers": 2, "nonlinearity": "relu", "bias": False},
    "RNN bidirectional": {"bidirectional": True, "batch_first": True},
    "LSTM": {},
    "LSTM stacked": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "LSTM projected": {"proj_size": 2, "bidirectional": True},
    "LSTM projected without bias": {"proj_size": 3, "bias": False, "num_layers": 2},
    "LSTM dropout": {"num_layers": 2, "dropout": 0.4},
    "LSTM drops all": {"num_layers": 2, "dropout": 1.0},
    "LSTM double": {"dtype": "float64"},
    "GRU": {"bias": False},
    "GRU stacked": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "GRU dropout": {"num_layers": 3, "dropout": 0.5},
}
FORMS = ("batch", "batch with state", "single with state", "packed", "packed with state")


def cases():
    for number, name in enumerate(LAYERS):
        # The plain layers meet all forms of input, the others one each.
        for form in FORMS if name in ("LSTM", "GRU") else (FORMS[(number + 1) % 5],):
            yield pytest.param(name, form, id=f"{name}: {form}")


class Observer:
    """Builds one layer with one library, runs it, and notes all that is seen."""

    def __init__(self, lib, name, form):
        self.lib, self.form, self.seen = lib, form, {}
        self.convert = torch.from_numpy if lib is torch else make
        self.random = np.random.default_rng(len(name) + len(form))
        options = dict(LAYERS[name])
        self.dtype = options.get("dtype", "float32")
        if "dtype" in options:
            options["dtype"] = getattr(lib, options["dtype"])
        lib.manual_seed(3)
        self.layer = getattr(lib.nn, name.split()[0])(FEATURES, HIDDEN, **options)

    def normal(self, *shape):
        drawn = self.random.standard_normal(shape).astype(self.dtype)
        return self.convert(drawn).requires_grad_()

    def run(self):
        self.seen["repr"] = repr(self.layer)
        self.seen["keys"] = list(self.layer.state_dict())
        self.seen |= {f"value of {name}": each for name, each in self.layer.state_dict().items()}
        inputs = self.inputs()
        for training in (True, False):
            mode = "training" if training else "evaluation"
            self.layer.train(training)
            self.lib.manual_seed(7)
            outputs = flatten(self.layer(*self.arguments(inputs)))
            self.seen |= {f"{mode}: output {n}": each for n, each in enumerate(outputs)}
            wanting = [each for each in outputs if each.requires_grad]
            for number, each in enumerate(wanting):
                cotangent = self.normal(*each.shape).detach()
                each.backward(cotangent, retain_graph=number + 1 < len(wanting))
        self.seen |= {f"gradient of input {n}": each.grad for n, each in enumerate(inputs)}
        self.seen |= {
            f"gradient of {name}": each.grad for name, each in self.layer.named_parameters()
        }
        return self.seen

    def inputs(self):
        layer = self.layer
        swap = layer.batch_first and "packed" not in self.form
        steps = (N, T) if swap else (T, N)
        data = self.normal(*(steps if "single" not in self.form else (T,)), FEATURES)
        if "state" not in self.form:
            return [data]
        count = layer.num_layers * (2 if layer.bidirectional else 1)
        batch = () if "single" in self.form else (N,)
        states = [self.normal(count, *batch, layer.proj_size or HIDDEN)]
        if layer.mode == "LSTM":
            states.append(self.normal(count, *batch, HIDDEN))
        return [data, *states]

    def arguments(self, inputs):
        data, *states = inputs
        if "packed" in self.form:
            rnn = self.lib.nn.utils.rnn
            data = rnn.pack_padded_sequence(data, list(LENGTHS), enforce_sorted=False)
        if not states:
            return (data,)
        return data, tuple(states) if len(states) > 1 else states[0]


def flatten(value):
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in flatten(each)]
    return [] if value is None else [value]


def compare(ours, theirs, tolerance=2e-6):
    assert list(ours) == list(theirs)
    for key, expected in theirs.items():
        found = ours[key]
        if not torch.is_tensor(expected):
            assert found == expected, key
            continue
        found, expected = found.detach().numpy(), expected.detach().numpy()
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), key
        np.testing.assert_allclose(
            found, expected, rtol=tolerance, atol=10 * tolerance, err_msg=key
        )


@pytest.mark.parametrize(("name", "form"), list(cases()))
def test_layer_is_pytorchs(name, form):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Observer(torch, name, form).run()
    compare(Observer(flambeau, name, form).run(), theirs)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_attributes_are_pytorchs(name):
    def public(lib):
        layer = getattr(lib.nn, name)(3, 4)
        own = vars(layer).keys() - vars(lib.nn.Module()).keys()
        return {each: getattr(layer, each) for each in own if not each.startswith("_")}

    assert public(flambeau) == public(torch)
    assert getattr(flambeau.nn, name).__constants__ == getattr(torch.nn, name).__constants__


def test_layers_draw_the_same_weights_one_after_the_other():
    def draw(lib):
        lib.manual_seed(11)
        options = {"num_layers": 2, "bidirectional": True}
        layers = [
            lib.nn.LSTM(3, 5, proj_size=2, **options),
            lib.nn.GRU(2, 3),
            lib.nn.LSTMCell(2, 4),
        ]
        return [value.numpy() for layer in layers for value in layer.state_dict().values()]

    for found, expected in zip(draw(flambeau), draw(torch), strict=True):
        np.testing.assert_array_equal(found, expected)


CELLS = {
    "RNNCell": lambda lib: lib.nn.RNNCell(3, 4),
    "RNNCell relu": lambda lib: lib.nn.RNNCell(3, 4, bias=False, nonlinearity="relu"),
    "LSTMCell": lambda lib: lib.nn.LSTMCell(3, 4),
    "LSTMCell without bias": lambda lib: lib.nn.LSTMCell(3, 4, bias=False),
    "GRUCell": lambda lib: lib.nn.GRUCell(3, 4),
    "GRUCell without bias": lambda lib: lib.nn.GRUCell(3, 4, bias=False),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("form", ["batch", "batch with state", "single with state"])
def test_cell_is_pytorchs(name, form):
    def observe(lib):
        convert = torch.from_numpy if lib is torch else make
        random = np.random.default_rng(5)
        lib.manual_seed(2)
        cell = CELLS[name](lib)
        batch = () if "single" in form else (N,)
        count = (0 if "state" not in form else 2 if "LSTM" in name else 1) + 1
        inputs = [
            convert(random.standard_normal((*batch, 3 + (n > 0))).astype("f4")).requires_grad_()
            for n in range(count)
        ]
        states = () if count == 1 else (inputs[1],) if count == 2 else (tuple(inputs[1:]),)
        outputs = flatten(cell(inputs[0], *states))
        sum((each * each).sum() for each in outputs).backward()
        seen = {"repr": repr(cell), "keys": list(cell.state_dict())}
        seen |= {f"output {n}": each for n, each in enumerate(outputs)}
        seen |= {f"gradient of input {n}": each.grad for n, each in enumerate(inputs)}
        return seen | {f"gradient of {name}": each.grad for name, each in cell.named_parameters()}

    compare(observe(flambeau), observe(torch))


def sequence(lib, *shape, dtype="f4"):
    convert = torch.from_numpy if lib is torch else make
    return convert(np.zeros(shape, dtype))


REFUSED = {
    "unknown nonlinearity": lambda lib: lib.nn.RNN(3, 4, nonlinearity="sigmoid"),
    "unknown mode": lambda lib: lib.nn.RNNBase("LSTN", 3, 4),
    "RNN with projection": lambda lib: lib.nn.RNN(3, 4, proj_size=2),
    "GRU with projection": lambda lib: lib.nn.GRU(3, 4, proj_size=2),
    "projection too large": lambda lib: lib.nn.LSTM(3, 4, proj_size=4),
    "projection negative": lambda lib: lib.nn.LSTM(3, 4, proj_size=-1),
    "dropout out of range": lambda lib: lib.nn.LSTM(3, 4, 2, dropout=1.5),
    "dropout a flag": lambda lib: lib.nn.LSTM(3, 4, 2, dropout=True),
    "dropout a string": lambda lib: lib.nn.LSTM(3, 4, 2, dropout="0.5"),
    "dropout of one layer": lambda lib: lib.nn.LSTM(3, 4, dropout=0.5),
    "bias no flag": lambda lib: lib.nn.LSTM(3, 4, bias=1),
    "batch_first no flag": lambda lib: lib.nn.LSTM(3, 4, batch_first=1),
    "input size a float": lambda lib: lib.nn.LSTM(3.0, 4),
    "input size zero": lambda lib: lib.nn.LSTM(0, 4),
    "hidden size a float": lambda lib: lib.nn.LSTM(3, 4.0),
    "hidden size negative": lambda lib: lib.nn.LSTM(3, -4),
    "no layers": lambda lib: lib.nn.LSTM(3, 4, 0),
    "input of 4 dimensions": lambda lib: lib.nn.LSTM(3, 4)(sequence(lib, 1, 2, 3, 3)),
    "features": lambda lib: lib.nn.GRU(3, 4)(sequence(lib, 2, 1, 5)),
    "dtype": lambda lib: lib.nn.GRU(3, 4)(sequence(lib, 2, 1, 3, dtype="f8")),
    "no steps": lambda lib: lib.nn.GRU(3, 4)(sequence(lib, 0, 1, 3)),
    "state of a single sequence": lambda lib: lib.nn.GRU(3, 4)(
        sequence(lib, 2, 1, 3), sequence(lib, 1, 4)
    ),
    "state of a batch": lambda lib: lib.nn.GRU(3, 4)(sequence(lib, 2, 3), sequence(lib, 1, 1, 4)),
    "states of a single sequence": lambda lib: lib.nn.LSTM(3, 4)(
        sequence(lib, 2, 1, 3), (sequence(lib, 1, 4), sequence(lib, 1, 4))
    ),
    "size of the state": lambda lib: lib.nn.RNN(3, 4)(
        sequence(lib, 2, 1, 3), sequence(lib, 1, 2, 4)
    ),
    "size of the cell state": lambda lib: lib.nn.LSTM(3, 4, proj_size=2)(
        sequence(lib, 2, 1, 3), (sequence(lib, 1, 1, 2), sequence(lib, 1, 1, 2))
    ),
    "size of a packed state": lambda lib: lib.nn.GRU(3, 4)(
        lib.nn.utils.rnn.pack_sequence([sequence(lib, 2, 3)]), sequence(lib, 1, 2, 4)
    ),
    "no steps, batch first": lambda lib: lib.nn.LSTM(3, 4, batch_first=True)(
        sequence(lib, 2, 0, 3)
    ),
    "cell input of 3 dimensions": lambda lib: lib.nn.LSTMCell(3, 4)(sequence(lib, 1, 1, 3)),
    "cell state of 3 dimensions": lambda lib: lib.nn.GRUCell(3, 4)(
        sequence(lib, 1, 3), sequence(lib, 1, 1, 4)
    ),
    "cell features": lambda lib: lib.nn.RNNCell(3, 4)(sequence(lib, 1, 5)),
    "cell batch": lambda lib: lib.nn.RNNCell(3, 4)(sequence(lib, 2, 3), sequence(lib, 1, 4)),
    "cell state features": lambda lib: lib.nn.GRUCell(3, 4)(
        sequence(lib, 1, 3), sequence(lib, 1, 3)
    ),
    "cell nonlinearity": lambda lib: lib.nn.RNNCell(3, 4, nonlinearity="elu")(sequence(lib, 1, 3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_pytorchs_type_of_error(name):
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        REFUSED[name](torch)
    with pytest.raises(theirs.type):
        REFUSED[name](flambeau)


def test_an_empty_batch_gives_empty_results():
    for shape, batch_first in (((2, 0, 3), False), ((0, 2, 3), True)):
        ours, theirs = (
            lib.nn.GRU(3, 4, batch_first=batch_first)(sequence(lib, *shape))
            for lib in (flambeau, torch)
        )
        assert [tuple(each.shape) for each in ours] == [tuple(each.shape) for each in theirs]


@pytest.mark.parametrize("kind", ["rnn_tanh", "rnn_relu", "lstm", "gru"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_functions_are_pytorchs(kind, packed):
    def observe(lib):
        convert = torch.from_numpy if lib is torch else make
        random = np.random.default_rng(9)
        gates = {"lstm": 4, "gru": 3}.get(kind, 1)

        def normal(*shape):
            return convert(random.standard_normal(shape).astype("f4"))

        params = [normal(gates * 4, 3), normal(gates * 4, 4), normal(gates * 4), normal(gates * 4)]
        hx = (normal(1, N, 4), normal(1, N, 4)) if kind == "lstm" else normal(1, N, 4)
        options = (True, 1, 0.0, False, False)
        compute = getattr(lib, kind)
        if packed:
            sizes = convert(np.array([3, 2, 2, 1]))
            return compute(normal(8, 3), sizes, hx, params, *options)
        return compute(normal(T, N, 3), hx, params, *options, False)

    for found, expected in zip(observe(flambeau), observe(torch), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-6, atol=2e-6)
