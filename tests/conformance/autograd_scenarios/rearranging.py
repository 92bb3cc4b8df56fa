"""`func.rearrange`: dimensions by names."""

from tests.conformance.scenario import Table

scenario = Table()

PATTERNS = (
    ("a b c -> b a c", {}),
    ("a b c -> (a b) c", {}),
    ("a b (c d) -> a (c b) d", {"c": 2}),
    ("a (b c) d -> a b c d", {"b": 3}),
    ("a ... -> ... a", {}),
    ("... a->a ...", {}),
    ("... -> ...", {}),
    ("a b c ... -> ... a b c", {}),
    ("a b ... -> (...) b a", {}),
    ("a ... -> (... a)", {}),
    ("... c -> ( ... ) c", {}),
    ("a b c -> a b c 1", {}),
    ("a b c -> a () b c", {}),
    ("a b c -> (a b c)", {}),
    ("(a) b c -> a b c", {}),
    ("first second third3 -> third3 first second", {}),
    ("a b c -> a b", {}),
    ("a b c -> a b c d", {}),
    ("a b -> b a", {}),
    ("a b c d ... -> a b c d ...", {}),
    ("a b c", {}),
    ("a -> b -> c", {}),
    ("a a c -> a c a", {}),
    ("1 a b c -> a b c", {}),
    ("a b c -> a b c", {"d": 3}),
    ("a 3 c -> a c 3", {}),
    ("_a b c -> b _a c", {}),
    ("a_ b c -> b c a_", {}),
    ("a ((b)) c -> a b c", {}),
    ("a (b c -> a b c", {}),
    ("a b) c -> a b c", {}),
    ("... a ... -> a", {}),
    ("a b c -> (... a) b c", {}),
    ("(a ...) -> a ...", {"a": 2}),
    ("a b* c -> a b* c", {}),
)

for pattern, sizes in PATTERNS:

    def run(lib, kit, pattern=pattern, sizes=sizes):
        x = lib.arange(24.0).reshape(2, 3, 4).requires_grad_()
        found = lib.func.rearrange(x, pattern, **sizes)
        (found * lib.arange(24.0).reshape(found.shape)).sum().backward()
        return found, x.grad

    run.__name__ = f"rearrange_{pattern.replace(' ', '_')}"
    scenario(run)


@scenario
def several_tensors(lib, kit):
    x = lib.arange(6.0).reshape(2, 3)
    return lib.func.rearrange([x, x + 6], "a b c -> b (a c)")


@scenario
def a_mapped_rearrangement(lib, kit):
    x = lib.arange(24.0).reshape(2, 3, 4)
    return lib.func.vmap(lambda x: lib.func.rearrange(x, "a (b c) -> c (a b)", c=2))(x)
