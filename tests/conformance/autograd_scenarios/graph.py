"""The recorded graph: nodes, their names and edges."""

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib, *values):
    """A leaf that requires grad."""
    return lib.tensor(values or (1.0, 2.0), requires_grad=True)


def names(node):
    """The names of a node and of all that lead to it."""
    below = [names(each) for each, _ in node.next_functions if each is not None]
    return [node.name(), *below]


@scenario
def names_of_nodes(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    return names((x * w + x.exp()).sum().grad_fn)


@scenario
def next_functions(lib, kit):
    x = leaf(lib)
    y = x * 2
    accumulator, number = y.grad_fn.next_functions[0]
    return (
        y.grad_fn.next_functions[1],
        number,
        type(accumulator),
        accumulator.variable is x,
        accumulator.next_functions,
        (x * 3).grad_fn.next_functions[0][0] is accumulator,
    )


@scenario
def an_accumulator_does_not_outlive_the_graph(lib, kit):
    x = leaf(lib)
    first = id((x * 2).grad_fn.next_functions[0][0].variable)
    return first == id(x)


@scenario
def nodes_are_nodes(lib, kit):
    y = leaf(lib) * 2
    node = lib.autograd.graph.Node
    return isinstance(y.grad_fn, node), isinstance(y.grad_fn.next_functions[0][0], node)


@scenario
def later_nodes_have_higher_numbers(lib, kit):
    y = leaf(lib) * 2
    z = y * 3
    accumulator = y.grad_fn.next_functions[0][0]
    return z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr(), accumulator._sequence_nr()


@scenario
def metadata(lib, kit):
    node = (leaf(lib) * 2).grad_fn
    node.metadata["mine"] = 1
    return node.metadata


@scenario
def a_node_called(lib, kit):
    y = leaf(lib) * 2
    return y.grad_fn(lib.tensor([3.0, 4.0]))


@scenario
def edges(lib, kit):
    x = leaf(lib)
    y = x * 2
    edge = lib.autograd.graph.get_gradient_edge(y)
    own = lib.autograd.graph.get_gradient_edge(x)
    return edge.node is y.grad_fn, edge.output_nr, own.node.variable is x


@scenario
def an_edge_of_what_requires_no_grad(lib, kit):
    lib.autograd.graph.get_gradient_edge(lib.ones(2))


@scenario
def grad_by_an_edge(lib, kit):
    x = leaf(lib)
    y = x * 2
    edge = lib.autograd.graph.get_gradient_edge
    return lib.autograd.grad((y * y).sum(), [edge(y), edge(x)])


@scenario
def grad_of_an_edge(lib, kit):
    x = leaf(lib)
    y = x * 2
    edge = lib.autograd.graph.get_gradient_edge(y)
    return lib.autograd.grad(edge, x, lib.tensor([1.0, 10.0]))


@scenario
def backward_between_edges(lib, kit):
    x = leaf(lib)
    y = x * 2
    edge = lib.autograd.graph.get_gradient_edge
    lib.autograd.backward(edge(y), lib.ones(2), inputs=[edge(x)])
    return x.grad


@scenario
def anomalies(lib, kit):
    x = lib.tensor(0.0, requires_grad=True)
    with lib.autograd.detect_anomaly():
        (x.sqrt() * 0.0).backward()


@scenario
def anomalies_that_are_not_looked_for(lib, kit):
    x = lib.tensor(0.0, requires_grad=True)
    (x.sqrt() * 0.0).backward()
    with lib.autograd.detect_anomaly(check_nan=False):
        (x.sqrt() * 0.0).backward()
    with lib.autograd.set_detect_anomaly(True):
        inside = lib.is_anomaly_enabled() if hasattr(lib, "is_anomaly_enabled") else True
    return bool(x.grad.isnan()), inside
