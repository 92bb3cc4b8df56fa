"""Programs as graphs: tracing, transforming and running modules.

`symbolic_trace` turns a module or function into a `GraphModule`, whose `Graph` is a list of `Node`
that can be examined and changed. `Interpreter` runs a graph node by node, `Transformer` produces a
new graph, `replace_pattern` replaces parts of it. May import `core`, `ops`, `nn` and `rare`.

- `proxy.py`: a `Proxy` is not a tensor. It stands for one by ``__torch_function__``, so functions
  that meet one record the call. Operators check for it in the second half of dispatch, also in the
  place of a number; other functions check while proxies are expected
  (`core/operators/function_modes.py`).
- `tracer.py`: while a module is traced, `Module.__call__` and `Module.__getattr__` belong to the
  tracer, in its thread.
- `codegen.py` writes a graph as Python, with the public names of functions (`names.py`). A
  `GraphModule` has a class of its own whose ``forward`` is that code, so compiled functions see it
  change as that of any class.
"""

from flambeau._absent import Absent as _Absent
from flambeau.fx import immutable_collections as immutable_collections
from flambeau.fx._symbolic_trace import PH as PH
from flambeau.fx._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from flambeau.fx._symbolic_trace import Tracer as Tracer
from flambeau.fx._symbolic_trace import symbolic_trace as symbolic_trace
from flambeau.fx._symbolic_trace import wrap as wrap
from flambeau.fx.graph import CodeGen as CodeGen
from flambeau.fx.graph import Graph as Graph
from flambeau.fx.graph_module import GraphModule as GraphModule
from flambeau.fx.interpreter import Interpreter as Interpreter
from flambeau.fx.interpreter import Transformer as Transformer
from flambeau.fx.node import Node as Node
from flambeau.fx.node import has_side_effect as has_side_effect
from flambeau.fx.node import map_arg as map_arg
from flambeau.fx.proxy import Proxy as Proxy
from flambeau.fx.subgraph_rewriter import replace_pattern as replace_pattern

__getattr__: _Absent = _Absent(__name__)
