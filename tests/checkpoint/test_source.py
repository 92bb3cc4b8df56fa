"""The bytes of a file that is being read."""

import io

import pytest

from flambeau.checkpoint.errors import DamagedFileError
from flambeau.checkpoint.source import Source

BYTES = bytes(range(200)) * 5


class Slow(io.BytesIO):
    """Gives at most 100 bytes at once, as files do with 2 GB."""

    def readinto(self, buffer):
        return super().readinto(memoryview(buffer)[:100])


@pytest.mark.parametrize("kind", [io.BytesIO, Slow])
def test_elements_are_bytes_in_aligned_memory(kind):
    found = Source(kind(BYTES)).elements(7, 777)
    assert found.tobytes() == BYTES[7:784]
    assert found.ctypes.data % 64 == 0


def test_no_elements():
    assert Source(io.BytesIO(BYTES)).elements(1000, 0).shape == (0,)


@pytest.mark.parametrize(("start", "count"), [(0, 1001), (1000, 1), (-1, 5), (0, 10**15)])
def test_elements_beyond_the_end_are_refused_before_memory_is_taken(start, count):
    with pytest.raises(DamagedFileError, match=f"{count} bytes from byte {start} on lie beyond"):
        Source(io.BytesIO(BYTES)).elements(start, count)


def test_a_file_that_has_become_shorter_is_damaged():
    file = io.BytesIO(BYTES)
    source = Source(file)
    file.truncate(500)
    with pytest.raises(DamagedFileError, match="lie beyond"):
        source.elements(400, 200)
