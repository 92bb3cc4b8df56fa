"""What the tests of tools count."""

from tests.optim.conftest import _listener, compilations  # noqa: F401
