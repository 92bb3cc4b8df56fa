"""How code gets from an object ``OBJ`` to the value in it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.situations.owners import (
    ATTRIBUTE,
    CLASS,
    COPIES,
    DATACLASS,
    HASHES,
    ITEM,
    SEQUENCE,
    STATE,
    WEAK,
)


@dataclass(frozen=True)
class Access:
    """An access.

    Attributes:
        name: What it does.
        value: The expression that gives the value.
        needs: What the object must allow.
        lines: Statements before it, in the same function.
        around: Definitions outside of the function.
        whole: Whether the value is all that the object holds, so that a copy of it needs no trait.
    """

    name: str
    value: str
    needs: frozenset[str]
    lines: str = ""
    around: str = ""


def _from_attribute(
    name: str, value: str, *needs: str, lines: str = "", around: str = ""
) -> Access:
    return Access(name, value, frozenset({ATTRIBUTE, *needs}), lines, around)


_OF = "def rate_of(o):\n    return o.rate"

OF_ATTRIBUTES = (
    _from_attribute("attribute", "OBJ.rate"),
    _from_attribute("getattr", "getattr(OBJ, 'rate')"),
    _from_attribute("getattr with a default", "getattr(OBJ, 'rate', 7.0)"),
    _from_attribute("getattr of a computed name", "getattr(OBJ, f'ra{end}', 7.0)",
                    around="end = 'te'"),
    _from_attribute("hasattr", "(OBJ.rate if hasattr(OBJ, 'rate') else 7.0)"),
    _from_attribute(
        "try, except AttributeError", "found",
        lines="try:\n    found = OBJ.rate\nexcept AttributeError:\n    found = 7.0",
    ),
    _from_attribute("contextlib.suppress", "found",
                    lines="found = 7.0\nwith contextlib.suppress(AttributeError):\n"
                          "    found = OBJ.rate"),
    _from_attribute("vars", "vars(OBJ)['rate']", STATE),
    _from_attribute("vars().get", "vars(OBJ).get('rate', 7.0)", STATE),
    _from_attribute("__dict__", "OBJ.__dict__['rate']", STATE),
    _from_attribute("dir", "(OBJ.rate if 'rate' in dir(OBJ) else 7.0)", STATE),
    _from_attribute("loop over vars", "sum(v for k, v in vars(OBJ).items() if k == 'rate')", STATE),
    _from_attribute("operator.attrgetter", "operator.attrgetter('rate')(OBJ)"),
    _from_attribute("attrgetter made outside", "get_rate(OBJ)",
                    around="get_rate = operator.attrgetter('rate')"),
    _from_attribute("copy.copy", "copy.copy(OBJ).rate", COPIES),
    _from_attribute("copy.deepcopy", "copy.deepcopy(OBJ).rate", COPIES),
    _from_attribute("dataclasses.replace", "dataclasses.replace(OBJ).rate", DATACLASS),
    _from_attribute("dataclasses.asdict", "dataclasses.asdict(OBJ)['rate']", DATACLASS),
    _from_attribute("dataclasses.fields",
                    "getattr(OBJ, dataclasses.fields(OBJ)[0].name)", DATACLASS),
    _from_attribute(
        "match of a class pattern", "found",
        lines="match OBJ:\n    case object(rate=found):\n        pass\n"
              "    case _:\n        found = 7.0",
    ),
    _from_attribute("object.__getattribute__", "object.__getattribute__(OBJ, 'rate')", STATE),
    _from_attribute("comprehension", "[o.rate for o in [OBJ]][0]"),
    _from_attribute("generator expression", "next(o.rate for o in (OBJ,))"),
    _from_attribute("comprehension over a dictionary",
                    "{k: o.rate for k, o in {'a': OBJ}.items()}['a']"),
    _from_attribute("key of a dictionary", "[o.rate for o in {OBJ: 1}][0]", HASHES),
    _from_attribute("map", "next(map(lambda o: o.rate, [OBJ]))"),
    _from_attribute("map of a helper", "list(map(rate_of, [OBJ]))[0]", around=_OF),
    _from_attribute("map of attrgetter", "list(map(operator.attrgetter('rate'), [OBJ]))[0]"),
    _from_attribute("filter", "(2.0 if list(filter(lambda o: o.rate == 2.0, [OBJ])) else 3.0)"),
    _from_attribute(
        "sorted by a key",
        "float(sorted([OBJ, None], key=lambda o: 2.5 if o is None else o.rate)[0] is None)"),
    _from_attribute("functools.reduce", "functools.reduce(lambda a, o: a + o.rate, [OBJ], 0.0)"),
    _from_attribute("itertools.chain", "[o.rate for o in itertools.chain([OBJ], [])][0]"),
    _from_attribute("zip", "[o.rate for o, _ in zip([OBJ], [1])][0]"),
    _from_attribute("parameter of a helper", "rate_of(OBJ)", around=_OF),
    _from_attribute("parameter of a nested function", "inner(OBJ)",
                    lines="def inner(o):\n    return o.rate"),
    _from_attribute("parameter of a lambda", "(lambda o: o.rate)(OBJ)"),
    _from_attribute("default of a lambda", "(lambda o=OBJ: o.rate)()"),
    _from_attribute("*args of a helper", "rate_of_first(*[OBJ])",
                    around="def rate_of_first(*args):\n    return args[0].rate"),
    _from_attribute("**kwargs of a helper", "rate_of_named(**{'o': OBJ})",
                    around="def rate_of_named(**kwargs):\n    return kwargs['o'].rate"),
    _from_attribute("partial made inside", "functools.partial(rate_of, OBJ)()", around=_OF),
    _from_attribute("object made inside", "Holder(OBJ).rate()",
                    around="class Holder:\n    def __init__(self, held):\n"
                           "        self.held = held\n\n"
                           "    def rate(self):\n        return self.held.rate"),
    _from_attribute("namespace made inside", "SimpleNamespace(held=OBJ).held.rate"),
    _from_attribute("named tuple made inside", "Pair(OBJ, 1).held.rate",
                    around="Pair = collections.namedtuple('Pair', 'held other')"),
    _from_attribute("class made inside", "Inside.rate",
                    lines="class Inside:\n    rate = OBJ.rate"),
    _from_attribute("list made inside", "made[0].rate", lines="made = []\nmade.append(OBJ)"),
    _from_attribute("dictionary made inside", "made['a'].rate",
                    lines="made = {}\nmade['a'] = OBJ"),
    _from_attribute("formatted string", 'float(f"{OBJ.rate}")'),
    _from_attribute("str.format", "float('{0.rate}'.format(OBJ))"),
    _from_attribute("eval", "eval('o.rate', {'o': OBJ})"),
    _from_attribute("exec", "made['rate']", lines="made = {'o': OBJ}\nexec('rate = o.rate', made)"),
    _from_attribute("generator function", "next(rates(OBJ))",
                    around="def rates(o):\n    yield o.rate"),
    _from_attribute("yield from", "sum(all_rates(OBJ))",
                    around="def rates(o):\n    yield o.rate\n\n"
                           "def all_rates(o):\n    yield from rates(o)"),
    _from_attribute("coroutine", "finish(rate_later(OBJ))",
                    around="async def rate_later(o):\n    return o.rate\n\n"
                           "def finish(coroutine):\n    try:\n        coroutine.send(None)\n"
                           "    except StopIteration as stop:\n        return stop.value"),
    _from_attribute("recursion", "deep(OBJ, 3)",
                    around="def deep(o, n):\n    return o.rate if n == 0 else deep(o, n - 1)"),
    _from_attribute("walrus", "(found := OBJ).rate"),
    _from_attribute("star expression", "found.rate", lines="found, *rest = OBJ, 1, 2"),
    _from_attribute("loop", "found", lines="for o in (OBJ, OBJ):\n    found = o.rate"),
    _from_attribute("while loop", "made[0].rate",
                    lines="made = [OBJ, OBJ]\nwhile len(made) > 1:\n    made.pop()"),
    _from_attribute("singledispatch", "described(OBJ)",
                    around="@functools.singledispatch\ndef described(o):\n    return o.rate"),
    _from_attribute("context manager", "found",
                    lines="with contextlib.nullcontext(OBJ) as o:\n    found = o.rate"),
    _from_attribute("weakref.ref made inside", "weakref.ref(OBJ)().rate", WEAK),
    _from_attribute("method made inside", "types.MethodType(lambda o: o.rate, OBJ)()"),
    _from_attribute("__getattribute__ of its class", "type(OBJ).__getattribute__(OBJ, 'rate')",
                    CLASS),
    _from_attribute("comparison", "(2.0 if OBJ.rate < 2.5 else 3.0)"),
    _from_attribute("identity", "(2.0 if OBJ.rate is TWO else 3.0)", around="TWO = 2.0"),
    _from_attribute("conversion to int", "int(OBJ.rate)"),
    _from_attribute("decorator", "decorated()",
                    lines="def with_rate(g, o=OBJ):\n    return lambda: g() * o.rate\n\n"
                          "@with_rate\ndef decorated():\n    return 1.0"),
)  # fmt: skip


def _from_item(name: str, value: str, *needs: str, lines: str = "", around: str = "") -> Access:
    return Access(name, value, frozenset({ITEM, *needs}), lines, around)


OF_ITEMS = (
    _from_item("item", "OBJ['rate']"),
    _from_item("item of a computed key", "OBJ[f'ra{end}']", around="end = 'te'"),
    _from_item("get", "OBJ.get('rate')"),
    _from_item("get with a default", "OBJ.get('rate', 7.0)"),
    _from_item("in", "(OBJ['rate'] if 'rate' in OBJ else 7.0)"),
    _from_item("try, except KeyError", "found",
               lines="try:\n    found = OBJ['rate']\nexcept KeyError:\n    found = 7.0"),
    _from_item("operator.itemgetter", "operator.itemgetter('rate')(OBJ)"),
    _from_item("operator.methodcaller", "operator.methodcaller('get', 'rate', 7.0)(OBJ)"),
    _from_item("operator.getitem", "operator.getitem(OBJ, 'rate')"),
    _from_item("dict()", "dict(OBJ).get('rate', 7.0)"),
    _from_item("** in a display", "{**OBJ}.get('rate', 7.0)"),
    _from_item("** of a helper", "named(**OBJ)",
               around="def named(rate=7.0):\n    return rate"),
    _from_item("** of a helper with **", "named(**OBJ)",
               around="def named(**given):\n    return given.get('rate', 7.0)"),
    _from_item("values", "sum(OBJ.values())"),
    _from_item("list of values", "[*OBJ.values(), 7.0][0]"),
    _from_item("items", "sum(v for k, v in OBJ.items())"),
    _from_item("comprehension over items", "{k: v for k, v in OBJ.items()}.get('rate', 7.0)"),
    _from_item("iteration over keys", "sum(OBJ[k] for k in OBJ)"),
    _from_item("keys", "sum(OBJ[k] for k in OBJ.keys())"),
    _from_item("len", "float(len(OBJ))"),
    _from_item("truth", "(OBJ['rate'] if OBJ else 7.0)"),
    _from_item("sorted items", "[*sorted(OBJ.items()), (0, 7.0)][0][1]"),
    _from_item("match of a mapping pattern", "found",
               lines="match OBJ:\n    case {'rate': found}:\n        pass\n"
                     "    case _:\n        found = 7.0"),
    _from_item("copy.copy", "copy.copy(OBJ).get('rate', 7.0)", COPIES),
    _from_item("copy.deepcopy", "copy.deepcopy(OBJ).get('rate', 7.0)", COPIES),
    _from_item("str.format", "float('{o[rate]}'.format(o=OBJ))"),
    _from_item("parameter of a helper", "rate_of(OBJ)",
               around="def rate_of(o):\n    return o['rate']"),
    _from_item("object made inside", "Holder(OBJ).rate()",
               around="class Holder:\n    def __init__(self, held):\n        self.held = held\n\n"
                      "    def rate(self):\n        return self.held['rate']"),
    _from_item("map of get", "list(map(OBJ.get, ['rate']))[0]"),
    _from_item("bound method kept outside", "lookup('rate', 7.0)",
               around="lookup = c.get"),
    _from_item("ChainMap made inside", "collections.ChainMap({}, OBJ).get('rate', 7.0)"),
    _from_item("namespace made inside", "SimpleNamespace(**OBJ).rate"),
    _from_item("equality", "(2.0 if OBJ == {'rate': 2.0} else 3.0)"),
)  # fmt: skip


def _from_sequence(name: str, value: str, *needs: str, lines: str = "", around: str = "") -> Access:
    return Access(name, value, frozenset({SEQUENCE, *needs}), lines, around)


OF_SEQUENCES = (
    _from_sequence("index", "float(OBJ[0])"),
    _from_sequence("index from the end", "float(OBJ[-1])"),
    _from_sequence("computed index", "float(OBJ[start])", around="start = 0"),
    _from_sequence("loop", "found", lines="found = 0.0\nfor o in OBJ:\n    found = float(o)"),
    _from_sequence("sum", "float(sum(OBJ))"),
    _from_sequence("max", "float(max(OBJ, default=7.0))"),
    _from_sequence("len", "float(len(OBJ))"),
    _from_sequence("truth of the length", "(float(OBJ[0]) if len(OBJ) else 7.0)"),
    _from_sequence("in", "(2.0 if 2.0 in OBJ else 3.0)"),
    _from_sequence("unpacking", "float(found)", lines="found, *rest = OBJ"),
    _from_sequence("* of a helper", "first(*OBJ)",
                   around="def first(rate=7.0, *rest):\n    return float(rate)"),
    _from_sequence("* in a display", "float([*OBJ, 7.0][0])"),
    _from_sequence("list()", "float([*list(OBJ), 7.0][0])"),
    _from_sequence("enumerate", "sum(float(o) + i for i, o in enumerate(OBJ))"),
    _from_sequence("zip", "sum(float(o) for o, _ in zip(OBJ, [1]))"),
    _from_sequence("reversed", "sum(map(float, reversed(OBJ)))"),
    _from_sequence("sorted", "float([*sorted(OBJ), 7.0][0])"),
    _from_sequence("next and iter", "float(next(iter(OBJ), 7.0))"),
    _from_sequence("match of a sequence pattern", "found",
                   lines="match OBJ:\n    case [found]:\n        found = float(found)\n"
                         "    case _:\n        found = 7.0"),
    _from_sequence("try, except IndexError", "found",
                   lines="try:\n    found = float(OBJ[0])\nexcept IndexError:\n    found = 7.0"),
    _from_sequence("copy.copy", "sum(map(float, copy.copy(OBJ)))", COPIES),
    _from_sequence("operator.itemgetter", "float(operator.itemgetter(0)(OBJ))"),
    _from_sequence("parameter of a helper", "total(OBJ)",
                   around="def total(o):\n    return float(sum(o))"),
    _from_sequence("functools.reduce", "functools.reduce(lambda a, o: a + float(o), OBJ, 0.0)"),
    _from_sequence("itertools.chain", "sum(map(float, itertools.chain(OBJ, [1.0])))"),
    _from_sequence("itertools.accumulate", "sum(map(float, itertools.accumulate(OBJ)))"),
    _from_sequence("any", "(2.0 if any(o == 2.0 for o in OBJ) else 3.0)"),
    _from_sequence("tensor of it", "flambeau.tensor([float(o) for o in OBJ]).sum()"),
)  # fmt: skip

ACCESSES = (*OF_ATTRIBUTES, *OF_ITEMS, *OF_SEQUENCES)
