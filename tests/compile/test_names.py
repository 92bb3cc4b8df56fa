"""The names that are read off code."""

from flambeau.compile.reading.names import names_of

RATE = 1.0


def test_globals_are_those_that_the_code_itself_names():
    def function(x):
        return x * RATE + LATER  # noqa: F821 (a global that is not there)

    assert names_of(function.__code__).globals == ("RATE", "LATER")
    assert names_of((lambda: [RATE for _ in range(2)]).__code__).globals[:1] in (
        ("range",),
        ("RATE",),
    )


def test_a_chain_is_a_global_and_the_attributes_that_follow_at_once():
    def function(x):
        return library.part.helper(library.other, x)  # noqa: F821

    names = names_of(function.__code__)
    assert ("library", ("part", "helper")) in names.chains
    assert ("library", ("other",)) in names.chains
    assert not names.bare


def test_a_global_that_goes_elsewhere_is_bare():
    def function(x):
        alias = library  # noqa: F821
        return alias.helper(x) * given(other)  # noqa: F821

    assert {"library", "other"} <= names_of(function.__code__).bare


def test_imports_inside_are_chains_as_well():
    def function(x):
        import package.part as part

        from .relative import first, second  # noqa: TID252 (what the test is about)

        return part.run(x) + first + second

    names = names_of(function.__code__)
    assert names.imports == ("package.part", "relative")
    assert {("relative", ("first",)), ("relative", ("second",))} <= {*names.chains}
    assert "package.part" in names.bare


def test_texts_may_be_names_of_attributes():
    def function(x):
        return getattr(x, "rate") * get(x, "inner.width")  # noqa: B009, F821

    assert {"rate", "inner", "width", "getattr"} <= names_of(function.__code__).attributes
