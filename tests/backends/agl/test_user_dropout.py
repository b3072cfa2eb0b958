"""Random numbers of a user's model: what it drops is drawn for each worker, and again where a training goes on."""

import numpy as np
import torch
from safetensors.numpy import load_file

from backends.agl import model_file
from backends.agl.flat import __main__ as flat
from backends.agl.networks import network_of
from backends.agl.train import __main__ as train
from backends.agl.train.trainer import DistributedTrainer
from backends.agl.user_model import UserModelSpec
from backends.agl.user_network import Edges
from backends.agl.user_trial import tried
from backends.model import TrainingSpec
from tests.backends.agl.chain import tables
from tests.backends.agl.test_user_model import NET, source_of
from tests.graphs import awkward_graph

DROPPED = "torch.nn.functional.dropout({rows}, 0.5, self.training)"


def spec_of(send):
    code = source_of(send=send, receive="h[:, :3] + edges.sum(sent)")
    return tried(UserModelSpec("net.py", 2, in_width=6, hidden=3, classes=3, file="net.py", code=code))


def test_what_a_model_drops_is_drawn_from_its_workers_generator_alone():
    graph, spec = awkward_graph(1), spec_of(DROPPED.format(rows="h[:, :3]"))
    assert spec.draws and not spec_of("h[:, :3]").draws
    network, features = network_of(spec, TrainingSpec()), torch.from_numpy(graph.features)

    def passed(seed):
        network.generator = torch.Generator().manual_seed(seed)
        return [network(features, [Edges(graph.csr)] * 2) for _ in range(2)]

    first, second = passed(1)
    before = torch.get_rng_state()
    assert torch.equal(passed(1)[1], second) and not torch.equal(first, second)
    assert not torch.equal(passed(2)[0], first) and torch.equal(torch.get_rng_state(), before)


def test_a_killed_training_of_many_workers_drops_the_same_when_it_goes_on(tmp_path, monkeypatch):
    code = NET.replace("LOOPS", "False").replace("self.linear(h)}", DROPPED.format(rows="self.linear(h)") + "}")
    (tmp_path / "net.py").write_text(code)
    read = [*tables(tmp_path), "--split", "0.8,0.1,0.1", "--edge-features", "g", "--shard-records", "7"]
    assert flat.main([*read, "-h", "2", "-s", "uniform(4)", "-o", str(tmp_path / "flat")]) == 0
    monkeypatch.setattr(model_file, "CHECKPOINT_SECONDS", 0.0)
    stated = ["-m", str(tmp_path / "net.py"), "-i", str(tmp_path / "flat"), "-t", "sync"]
    stated += ["-c", "epochs=4", "hidden=4", "workers=2", "threads=2", "batch_size=5"]
    whole, killed = (["-o", str(tmp_path / f"{name}.safetensors")] for name in ("whole", "killed"))
    assert train.main([*stated, *whole]) == 0
    epoch = DistributedTrainer.epoch

    def until_the_third(trainer, index, clock):
        if index == 2:
            raise KeyboardInterrupt
        return epoch(trainer, index, clock)

    with monkeypatch.context() as patch:
        patch.setattr(DistributedTrainer, "epoch", until_the_third)
        assert train.main([*stated, *killed]) == 1
    assert train.main([*stated, *killed]) == 0
    ended, went_on = (load_file(tmp_path / f"{name}.safetensors") for name in ("whole", "killed"))
    assert all(np.array_equal(ended[name], went_on[name]) for name in ended)
