"""The pages of the reference: one for each namespace, and one for each public class and function.

`docs/conf.py` calls `write` before Sphinx reads the pages. A page of a namespace has its objects in
groups, with the first paragraph of each docstring. A page of an object has the whole docstring, and
those of its members. Pages of objects are in no table of contents, so that the sidebar stays short.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

#: The namespaces in the order of the reference, each with its groups: a title, and the beginnings
#: of the modules whose objects it has, without `flambeau.`. An object of no group is in "Other".
#: An object of several namespaces has its page in the first one.
NAMESPACES: dict[str, dict[str, str]] = {
    "flambeau.nn": {
        "The module": "nn.module. nn.parameter.",
        "Containers": "nn.modules.container nn.modules.parameter_container",
        "Convolution": "nn.modules.conv nn.modules.fold",
        "Pooling": "nn.modules.pooling nn.modules.adaptive_pooling",
        "Padding": "nn.modules.padding",
        "Activations": "nn.modules.activation nn.modules.softmax",
        "Normalization": "nn.modules.batchnorm nn.modules.instancenorm nn.modules.normalization",
        "Recurrent layers": "nn.modules.rnn",
        "Attention and transformers": "nn.modules.multihead_attention nn.modules.transformer",
        "Linear layers": "nn.modules.linear nn.modules.flatten",
        "Dropout": "nn.modules.dropout",
        "Embeddings": "nn.modules.sparse",
        "Distances": "nn.modules.distance",
        "Losses": "nn.modules.classification_loss nn.modules.regression_loss "
        "nn.modules.margin_loss nn.modules.adaptive",
        "Vision": "nn.modules.pixelshuffle nn.modules.upsampling nn.modules.channelshuffle",
    },
    "flambeau": {
        "Tensors": "core.values.tensor core.support.dtype core.devices core.kernels core.values",
        "Compiling": "compile",
        "Files": "checkpoint",
        "Gradients": "core.support.modes autograd",
        "Creating tensors": "ops.factories ops.signals.window",
        "Random numbers": "random ops.draws",
        "Elementwise": "ops.elementwise",
        "Sums and other reductions": "ops.reductions",
        "Shapes and views": "ops.shapes",
        "Indexing": "ops.indices ops.selections",
        "Matrices": "ops.matrices",
        "Signals": "ops.signals",
        "Layers as functions": "ops.neural nn rare.functional_forms",
        "Control flow and transformations": "func",
        "Sparse tensors": "sparse",
        "Settings": "numerics threads core.support amp",
        "PyTorch programs": "as_torch",
        "Many devices": "distributed streams device_modules",
        "In place": "core.operators.writing",
        "Rare and old names": "rare storage jit futures",
    },
    "flambeau.optim": {},
    "flambeau.optim.lr_scheduler": {},
    "flambeau.optim.swa_utils": {},
    "flambeau.nn.functional": {
        "Convolution": "ops.neural.spatial.convolution ops.neural.spatial.folding",
        "Pooling": "nn.functional.pooling ops.neural.spatial.pooling nn.functional.unpooling",
        "Attention": "nn.functional.attention",
        "Activations": "nn.functional.activation ops.neural.activation ops.elementwise",
        "Normalization": "nn.functional.normalization ops.neural.normalization",
        "Linear functions": "ops.matrices nn.functional.products",
        "Dropout": "nn.functional.regularization",
        "Embeddings": "nn.functional.sparse",
        "Distances": "ops.neural.losses.distance nn.functional.distance",
        "Losses": "nn.functional.loss nn.functional.regression_loss nn.functional.margin_loss "
        "nn.functional.ctc",
        "Vision": "nn.functional.vision",
    },
    "flambeau.nn.init": {},
    "flambeau.nn.attention": {},
    "flambeau.nn.attention.flex_attention": {},
    "flambeau.nn.parallel": {},
    "flambeau.nn.utils": {
        "Gradients": "nn.utils.clip_grad",
        "Parameters": "nn.utils.convert_parameters nn.utils.init nn.utils.memory_format",
        "Normalized weights": "nn.utils.spectral_norm nn.utils.weight_norm",
        "Joining layers": "nn.utils.fusion",
    },
    "flambeau.nn.utils.rnn": {},
    "flambeau.nn.utils.parametrize": {},
    "flambeau.nn.utils.parametrizations": {},
    "flambeau.nn.utils.prune": {},
    "flambeau.compiler": {},
    "flambeau.export": {},
    "flambeau.autograd": {},
    "flambeau.autograd.graph": {},
    "flambeau.autograd.forward_ad": {},
    "flambeau.func": {},
    "flambeau.utils.data": {
        "Loading": "utils.data.dataloader utils.data.collate utils.data.workers",
        "Datasets": "utils.data.dataset",
        "Samplers": "utils.data.sampler utils.data.distributed",
    },
    "flambeau.utils.checkpoint": {},
    "flambeau.utils.flop_counter": {},
    "flambeau.profiler": {},
    "flambeau.utils.benchmark": {},
    "flambeau.checkpoint": {},
    "flambeau.serialization": {},
    "flambeau.amp": {},
    "flambeau.random": {},
    "flambeau.distributed": {
        "Processes": "distributed.process_group distributed.rendezvous",
        "Meshes and batches": "distributed.device_mesh distributed.batches distributed.rows",
        "Collectives": "distributed.collectives distributed.objects distributed.peers "
        "distributed.reduce_op distributed.work",
        "Stores": "distributed.store distributed.tcp_store",
        "Errors": "distributed.errors",
    },
    "flambeau.distributed.device_mesh": {},
    "flambeau.distributed.tensor": {},
    "flambeau.distributed.tensor.parallel": {},
    "flambeau.distributed.fsdp": {},
    "flambeau.distributed.checkpoint": {},
    "flambeau.distributed.checkpoint.state_dict": {},
    "flambeau.linalg": {},
    "flambeau.fft": {},
    "flambeau.special": {},
    "flambeau.signal.windows": {},
    "flambeau.sparse": {},
    "flambeau.distributions": {},
    "flambeau.fx": {},
    "flambeau.library": {},
    "flambeau.accelerator": {},
    "flambeau.cuda": {},
    "flambeau.testing": {},
}

#: The names that are looked for most often, which the first page of the reference has.
MOST_WANTED = """
    flambeau.compile flambeau.Tensor flambeau.nn.Module flambeau.nn.Linear flambeau.nn.Conv2d
    flambeau.nn.TransformerEncoderLayer flambeau.nn.LSTM
    flambeau.nn.functional.scaled_dot_product_attention flambeau.nn.functional.cross_entropy
    flambeau.optim.AdamW flambeau.optim.lr_scheduler.OneCycleLR flambeau.utils.data.DataLoader
    flambeau.save flambeau.load flambeau.autocast flambeau.func.functional_call flambeau.func.grad
    flambeau.vmap flambeau.compiler.explain flambeau.utils.checkpoint.checkpoint
    flambeau.nn.utils.clip_grad_norm_ flambeau.optim.swa_utils.AveragedModel flambeau.shard
    flambeau.distributed.fsdp.fully_shard flambeau.from_jax flambeau.install_as_torch
"""

# Names that a namespace imports on first use and does not list.
_ON_FIRST_USE = {"flambeau.nn.parallel": ["DistributedDataParallel"]}


class Entry(NamedTuple):
    """A public object, with its full name and the name of its page."""

    name: str
    page: str
    value: Any

    def link(self, text: str = "") -> str:
        """A link to the page, under the full name or another text."""
        return f":doc:`{text or self.name} <{self.page}>`"


def public_names(path: str) -> list[str]:
    """The documented classes and functions of a namespace, without its modules."""
    namespace = import_module(path)
    names = [*(getattr(namespace, "__all__", None) or dir(namespace)), *_ON_FIRST_USE.get(path, [])]
    return [
        name
        for name in sorted(set(names), key=lambda name: (name.lower(), name))
        if not name.startswith("_") and _is_documented(getattr(namespace, name, None))
    ]


def _is_documented(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    is_own = module.startswith("flambeau") and module != "flambeau._absent"
    return callable(value) and is_own and bool(inspect.getdoc(value))


def catalogue() -> dict[str, Entry]:
    """The public objects by their full names."""
    found: dict[str, Entry] = {}
    known: set[int] = set()
    files: set[str] = set()
    for path in NAMESPACES:
        for name in public_names(path):
            value, full = getattr(import_module(path), name), f"{path}.{name}"
            if id(value) not in known:
                known.add(id(value))
                # Some file systems do not distinguish `tensor` and `Tensor`.
                page = f"{full}-2" if full.lower() in files else full
                files.add(page.lower())
                found[full] = Entry(full, page, value)
    return found


def pages() -> dict[str, str]:
    """The text of each page, in reStructuredText, by the name of its file."""
    objects = catalogue()
    homes = {id(entry.value): entry for entry in objects.values()}
    texts = {f"{path}.rst": _namespace_page(path, homes) for path in NAMESPACES}
    texts |= {f"{entry.page}.rst": _object_page(entry, homes) for entry in objects.values()}
    return texts | {"index.rst": _index(objects)}


def write(folder: Path) -> None:
    """Write the pages that have changed into a folder, and delete those that no longer exist."""
    folder.mkdir(exist_ok=True)
    texts = pages()
    for file in folder.glob("*.rst"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def _title(text: str, line: str = "=") -> list[str]:
    return [text, line * len(text), ""]


def _table(rows: list[tuple[str, str]]) -> list[str]:
    lines = [".. list-table::", "   :class: names", "   :widths: auto", ""]
    for left, right in rows:
        lines += [f"   * - {left}", f"     - {right}"]
    return [*lines, ""]


def _summary(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def _index(objects: dict[str, Entry]) -> str:
    wanted = [objects[name] for name in MOST_WANTED.split()]
    lines = [
        *_title("Reference"),
        "Every public class and function has a page, under the name that it has in PyTorch.",
        "",
        *_title("What is looked for most", "-"),
        *_table([(entry.link(), _summary(entry.value)) for entry in wanted]),
        *_title("All namespaces", "-"),
        *_table([(f":doc:`{path}`", _summary(import_module(path))) for path in NAMESPACES]),
        *[".. toctree::", "   :hidden:", ""],
        *[f"   {path}" for path in NAMESPACES],
    ]
    return "\n".join([*lines, ""])


def _namespace_page(path: str, homes: dict[int, Entry]) -> str:
    namespace = import_module(path)
    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in [*NAMESPACES[path], "Other"]}
    for name in public_names(path):
        value = getattr(namespace, name)
        home = homes[id(value)]
        is_home = home.name == f"{path}.{name}"
        text = _summary(value) if is_home else f"The same as ``{home.name}``."
        groups[_group_of(path, value)].append((home.link(name), text))
    lines = [*_title(path), f".. py:module:: {path}", "", _summary(namespace), ""]
    for title, rows in groups.items():
        if rows:
            lines += [*(_title(title, "-") if NAMESPACES[path] else []), *_table(rows)]
    return "\n".join(lines)


def _group_of(path: str, value: Any) -> str:
    module = value.__module__.removeprefix("flambeau.") + "."
    for title, beginnings in NAMESPACES[path].items():
        if module.startswith(tuple(beginnings.split())):
            return title
    return "Other"


def _object_page(entry: Entry, homes: dict[int, Entry]) -> str:
    path = entry.name.rpartition(".")[0]
    above = [":doc:`Reference <index>`", f":doc:`{path} <{path}>`", _group_of(path, entry.value)]
    lines = [":orphan:", "", *_title(entry.name), " › ".join(above[: 2 + bool(NAMESPACES[path])])]
    if inspect.isclass(entry.value):
        lines += ["", *_class(entry, homes)]
    else:
        lines += ["", f".. autofunction:: {entry.name}", ""]
    return "\n".join(lines)


def _class(entry: Entry, homes: dict[int, Entry]) -> list[str]:
    """A class with its members; those that have a page, or whose class has one, are links."""
    ancestors = entry.value.__mro__[1:]
    documented = [each for each in ancestors if id(each) in homes]
    elsewhere = [
        each.__name__
        for each in ancestors
        if not _is_own(each) or any(issubclass(above, each) for above in documented)
    ]
    functions = {
        name: homes[id(member)]
        for name in _public_members(entry.value)
        if id(member := getattr(entry.value, name)) in homes and inspect.isfunction(member)
    }
    lines = [
        f".. autoclass:: {entry.name}",
        "   :members:",
        f"   :inherited-members: {', '.join(elsewhere)}",
        *([f"   :exclude-members: {', '.join(functions)}"] if functions else []),
        "",
    ]
    if documented:
        links = ", ".join(homes[id(each)].link() for each in documented)
        lines += [f"Other members are inherited from {links}.", ""]
    if functions:
        lines += _title("Methods that are functions too", "-")
        lines += [", ".join(home.link(name) for name, home in functions.items()), ""]
    return lines


def _is_own(value: type) -> bool:
    return value.__module__.startswith("flambeau")


def _public_members(value: type) -> list[str]:
    """The public names of a class that it and classes of flambeau's above it define."""
    names = {name for each in value.__mro__ if _is_own(each) for name in vars(each)}
    return sorted(name for name in names if not name.startswith("_") and hasattr(value, name))
