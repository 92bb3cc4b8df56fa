"""Process groups: who finds whom, and a world of one process, which needs no network."""

import datetime as dt
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import flambeau
from flambeau import distributed
from flambeau.distributed import HashStore, ReduceOp, _functional_collectives, rendezvous, run
from flambeau.utils.data import DistributedSampler

ROOT = Path(__file__).parent.parent
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in (*VARIABLES, "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    yield
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.fixture
def alone():
    distributed.init_process_group("gloo", rank=0, world_size=1)


def test_before_and_after_there_is_no_group():
    assert distributed.is_available()
    for _ in range(2):
        assert not distributed.is_initialized()
        assert distributed.group.WORLD is None
        for ask in (distributed.get_rank, distributed.get_world_size, distributed.barrier):
            with pytest.raises(ValueError, match="Default process group has not been initialized"):
                ask()
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            distributed.all_reduce(flambeau.ones(1))
        distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
        assert (distributed.get_rank(), distributed.get_world_size()) == (0, 1)
        distributed.destroy_process_group()


class TestMeeting:
    def set(self, monkeypatch, **values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    def test_the_environment_says_where(self, monkeypatch):
        self.set(monkeypatch, RANK="1", WORLD_SIZE="2", MASTER_ADDR="10.0.0.5", MASTER_PORT="99")
        found = rendezvous.meeting(None, -1, -1)
        assert found == (1, 2, "10.0.0.5:99", None, "")
        assert found.bind_address is None
        self.set(monkeypatch, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
        assert rendezvous.meeting("env://", -1, -1).local_rank == 1

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
    def test_process_0_listens_on_the_loopback_alone_where_all_are_on_one_machine(self, host):
        found = rendezvous.meeting(f"tcp://{host}:99", 0, 2)
        assert found.bind_address == f"{'127.0.0.1' if host == 'localhost' else host}:99"

    def test_process_0_listens_at_its_address_alone_where_that_is_a_number(self):
        assert rendezvous.meeting("tcp://127.0.0.1:9", 0, 2).bind_address == "127.0.0.1:9"
        assert rendezvous.meeting("tcp://192.0.2.1:9", 0, 2).bind_address is None
        assert rendezvous.meeting("tcp://example.invalid:9", 0, 2).bind_address is None

    def test_an_address_of_ipv6_needs_no_brackets(self, monkeypatch):
        self.set(monkeypatch, RANK="1", WORLD_SIZE="2", MASTER_ADDR="fe80::2", MASTER_PORT="99")
        assert rendezvous.meeting(None, -1, -1).address == "[fe80::2]:99"

    def test_an_address_says_it_all(self):
        assert rendezvous.meeting("tcp://a:7?rank=1&world_size=3", -1, -1)[:3] == (1, 3, "a:7")

    @pytest.mark.parametrize("missing", VARIABLES[:4])
    def test_what_is_missing_is_named(self, monkeypatch, missing):
        known = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "9"}
        self.set(monkeypatch, **{name: known[name] for name in known if name != missing})
        message = rf"environment variable {missing} expected, but not set.*distributed\.run"
        with pytest.raises(ValueError, match=message):
            distributed.init_process_group()

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"rank": 2, "world_size": 2}, ValueError, "rank must be between 0 and 1, got 2"),
            ({"rank": 0, "world_size": 0}, ValueError, "world_size must be positive, got 0"),
            ({"init_method": "ftp:///x"}, ValueError, "No rendezvous handler for 'ftp:///x'"),
            ({"init_method": "file:///x"}, ValueError, "rank parameter missing"),
            ({"init_method": "file://x"}, ValueError, "needs a path"),
            ({"backend": "mpi"}, ValueError, "Unknown backend 'mpi'"),
            ({"backend": 3}, ValueError, "Backend name must be a string, but got: 3"),
            ({"store": HashStore()}, ValueError, "both init_method and store"),
            (
                {"store": object(), "init_method": None},
                TypeError,
                "store must be a TCPStore",
            ),
        ],
    )
    def test_arguments_that_do_not_fit(self, arguments, error, message):
        with pytest.raises(error, match=message):
            distributed.init_process_group(**{"init_method": "tcp://a:1", **arguments})

    def test_a_number_that_is_none(self, monkeypatch):
        self.set(monkeypatch, RANK="first", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="9")
        with pytest.raises(ValueError, match="RANK must be a number, got 'first'"):
            distributed.init_process_group()

    def test_processes_meet_at_a_store_again_and_again(self):
        store = HashStore()

        def come(rank, found):
            found[rank] = rendezvous.meeting_at(store, rank, 2, 20.0)

        for _ in range(2):
            found = {}
            threads = [threading.Thread(target=come, args=(rank, found)) for rank in range(2)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert found[0].address == found[1].address
            assert found[1].bind_address.startswith("127.0.0.1:")
        with pytest.raises(distributed.DistStoreError, match=r"keys: \['flambeau/3/machine/1'\]"):
            distributed.init_process_group(
                store=store, rank=0, world_size=2, timeout=dt.timedelta(seconds=0.1)
            )
        assert not distributed.is_initialized()

    def test_a_world_of_one_meets_nobody(self, tmp_path):
        for options in (
            {"init_method": f"file://{tmp_path}/f"},
            {"store": HashStore()},
        ):
            distributed.init_process_group(rank=0, world_size=1, **options)
            distributed.destroy_process_group()
        assert [*tmp_path.iterdir()] == []

    def test_a_process_that_has_made_tensors_cannot_join_others(self):
        flambeau.ones(1).sum()
        with pytest.raises(RuntimeError, match="call it first, before any tensor is made"):
            distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=2)
        assert not distributed.is_initialized()


class TestAlone:
    def test_what_a_script_asks(self, alone):
        world = distributed.group.WORLD
        assert (world.rank(), world.size(), repr(world)) == (0, 1, "ProcessGroup([0])")
        assert distributed.get_backend() == "gloo"
        assert distributed.get_process_group_ranks(None) == [0]
        assert distributed.get_group_rank(world, 0) == distributed.get_global_rank(world, 0) == 0
        assert not distributed.is_torchelastic_launched()
        assert distributed.get_node_local_rank(4) == 4
        with pytest.raises(ValueError, match="default process group twice"):
            distributed.init_process_group(rank=0, world_size=1)

    def test_collectives_give_back_what_went_in(self, alone):
        x = flambeau.tensor([1.0, 2.0])
        for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX):
            distributed.all_reduce(x, op)
        distributed.broadcast(x, 0)
        distributed.reduce(x)
        distributed.barrier()
        out = flambeau.zeros(2)
        for collective in (
            distributed.all_gather_into_tensor, distributed.reduce_scatter_tensor,
            distributed.all_to_all_single,
        ):  # fmt: skip
            out.zero_()
            assert collective(out, x, async_op=True).wait()
            assert out.tolist() == x.tolist() == [1, 2]
        found = [flambeau.zeros(2)]
        distributed.all_gather(found, x)
        distributed.scatter(out, found)
        distributed.gather(out, found)
        assert found[0].tolist() == [1, 2]
        objects = [None]
        distributed.all_gather_object(objects, {"a": 1})
        distributed.broadcast_object_list(objects)
        assert objects == [{"a": 1}]

    def test_a_tensor_that_requires_grad_is_written_without_a_history(self, alone):
        x = flambeau.ones(2, requires_grad=True)
        work = distributed.all_reduce(x, async_op=True)
        assert x.grad_fn is None
        assert work.result()[0] is x
        assert work.get_future().wait() == [x]

    def test_a_sampler_asks_the_group(self, alone):
        assert [*DistributedSampler(range(4), shuffle=False)] == [0, 1, 2, 3]

    def test_groups(self, alone):
        group = distributed.new_group()
        assert isinstance(group, distributed.ProcessGroup)
        x = flambeau.ones(1)
        distributed.all_reduce(x, group=group)
        assert x.item() == 1
        with pytest.raises(ValueError, match="Group rank 3 is not part of group"):
            distributed.get_global_rank(group, 3)
        with pytest.raises(TypeError, match="group must be a ProcessGroup, got str"):
            distributed.all_reduce(x, group="both")

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda x: distributed.all_reduce(x, "sum"), ValueError, "op must be a ReduceOp"),
            (lambda x: distributed.all_reduce(1.0), TypeError, "take tensors, got float"),
            (lambda x: distributed.gather(x), ValueError, "``gather_list`` must be specified"),
            (lambda x: distributed.recv(x), NotImplementedError, "name the process by src="),
            (lambda x: distributed.send(x, 0), ValueError, "Invalid destination rank"),
            (lambda x: distributed.P2POp("x", x, 0), ValueError, "Invalid ``op``"),
            (lambda x: distributed.P2POp(distributed.isend, x), ValueError, "peer= or group_peer="),
            (
                lambda x: distributed.P2POp(distributed.isend, x, 1),
                ValueError,
                "peer must be one of",
            ),
            (lambda x: distributed.batch_isend_irecv([x]), ValueError, "Invalid ``p2p_op_list``"),
            (lambda x: distributed.all_to_all_single(x, x, [1], [1]), ValueError, "split_sizes"),
            (lambda x: distributed.broadcast(x, 0, group_src=0), ValueError, "both group_src and"),
        ],
    )
    def test_arguments_that_do_not_fit(self, alone, call, error, message):
        with pytest.raises(error, match=message):
            call(flambeau.ones(2))


class TestLauncher:
    def launch(self, *arguments):
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        return subprocess.run(
            [sys.executable, "-m", "flambeau.distributed.run", *arguments],
            env={**environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def test_each_process_gets_its_place(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import os, sys\n"
            f"names = {VARIABLES[:3] + VARIABLES[4:]}\n"
            "sys.stdout.write(' '.join([*map(os.environ.get, names), *sys.argv[1:]]) + '\\n')\n"
        )
        found = self.launch("--nproc-per-node", "2", str(script), "--nnodes", "x")
        assert found.returncode == 0, found.stderr
        assert sorted(found.stdout.splitlines()) == [
            f"{rank} 2 127.0.0.1 {rank} 2 --nnodes x" for rank in range(2)
        ]

    def test_when_one_process_fails_the_others_are_ended(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(100)\n"
        )
        found = self.launch("--nproc_per_node=2", str(script))
        assert found.returncode == 7
        assert "process 1 has ended with code 7; the others are ended" in found.stderr

    def test_all_processes_start_again_as_often_as_asked(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import os, sys, time\n"
            "count, rank = os.environ['TORCHELASTIC_RESTART_COUNT'], os.environ['RANK']\n"
            "sys.stdout.write(f'{rank} {count}\\n')\n"
            "sys.stdout.flush()\n"
            "if rank == '1' and count < sys.argv[1]: sys.exit(7)\n"
            "if count < sys.argv[1]: time.sleep(100)\n"
        )
        options = ["--nproc-per-node=2", "--max-restarts=2", str(script)]
        found = self.launch(*options, "1")
        assert found.returncode == 0, found.stderr
        assert sorted(found.stdout.splitlines()) == ["0 0", "0 1", "1 0", "1 1"]
        assert "restart 1 of 2" in found.stderr
        found = self.launch(*options, "3")
        assert found.returncode == 7
        assert sorted(found.stdout.splitlines())[-3:] == ["1 0", "1 1", "1 2"]

    def test_restarts_need_one_machine(self, capsys):
        for options in (["--nnodes", "2", "--max-restarts", "1"], ["--max-restarts", "-1"]):
            with pytest.raises(SystemExit):
                run.main([*options, "script.py"])
            assert "--max-restarts" in capsys.readouterr().err

    def test_several_machines_need_an_address(self, capsys):
        with pytest.raises(SystemExit):
            run.main(["--nnodes", "2", "script.py"])
        assert "need --master-addr and --master-port" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            run.main(["--nnodes", "2", "--node-rank", "2", "script.py"])
        assert "--node-rank must be below" in capsys.readouterr().err


def test_collectives_that_give_new_tensors(alone):
    x = flambeau.arange(3.0).requires_grad_()
    found = _functional_collectives.all_to_all_single_autograd(x, None, None, None)
    assert found.tolist() == [0, 1, 2]
    found.square().sum().backward()
    assert x.grad.tolist() == [0, 2, 4]
    assert _functional_collectives.wait_tensor(x) is x
    with pytest.raises(ValueError, match="split"):
        _functional_collectives.all_to_all_single(x, [2], [2], None)
