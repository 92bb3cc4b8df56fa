"""`flambeau.distributed` under the name of PyTorch's module of collectives."""

from flambeau._absent import Absent as _Absent
from flambeau.distributed.arguments import *  # noqa: F403
from flambeau.distributed.collectives import *  # noqa: F403
from flambeau.distributed.constants import default_pg_timeout as default_pg_timeout  # noqa: PLC0414
from flambeau.distributed.objects import *  # noqa: F403
from flambeau.distributed.peers import *  # noqa: F403
from flambeau.distributed.process_group import *  # noqa: F403
from flambeau.distributed.process_group import _world
from flambeau.distributed.reduce_op import *  # noqa: F403
from flambeau.distributed.work import *  # noqa: F403

__getattr__: _Absent = _Absent(__name__)


def _get_default_group() -> ProcessGroup:  # noqa: F405
    """The group of all processes.

    Raises:
        ValueError: `init_process_group` was not called.
    """
    return _world()
