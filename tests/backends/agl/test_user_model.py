"""A model of the user's own: trained from shards and from memory, by one worker and many, and scored by GraphInfer."""

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from backends.agl import models
from backends.agl.commandline import read_train_settings
from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.infer import job as jobs
from backends.agl.infer.drivers import LocalInference
from backends.agl.infer.job import InferenceJob, Workspace
from backends.agl.networks import first_state, network_of
from backends.agl.train import __main__ as train
from backends.agl.train import trainer as trainers
from backends.agl.train.__main__ import prepared_trainer
from backends.agl.user_model import UserModelError, UserModelSpec, code_of
from backends.agl.user_trial import tried
from backends.model import TrainingSpec
from datasets.features import in_layout
from tests.backends.agl.chain import IDS, NODES, SAMPLINGS, scores_of, tables
from tests.graphs import awkward_graph

NET = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, width_in, width, edge_width):
        super().__init__()
        self.linear = nn.Linear(width_in, width)
        self.score = nn.Linear(width + edge_width, 1)

    def send(self, h):
        return {"z": self.linear(h)}

    def receive(self, h, sent, edges):
        seen = torch.cat([sent["z"][edges.sources], edges.features], 1)
        alpha = edges.softmax(self.score(seen)[:, 0] * edges.weight)
        values = edges.reduce(sent["z"][edges.sources] * edges.weight[:, None], "max")
        scale = (1 + edges.degrees).log()[:, None] / (2 + edges.degrees.sqrt())[:, None]
        return torch.tanh(self.linear(h) + edges.sum(sent["z"], alpha) + values + scale)

class Net(nn.Module):
    self_loops = LOOPS

    def __init__(self, in_width, classes, layers, edge_width, hidden):
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden if k else in_width, hidden, edge_width) for k in range(layers))
        self.head = nn.Linear(hidden, classes)

model = Net
"""


def trained(folder: Path, *options: str, code: str = NET.replace("LOOPS", "False"), settings=()) -> list[str]:
    """Flatten and train the model above; return the tables."""
    files = tables(folder)
    (folder / "net.py").write_text(code)
    read = [*files, "--split", "0.8,0.1,0.1", "--edge-features", "g"]
    assert flat.main([*read, "-h", "2", "-o", str(folder / "flat"), "--shard-records", "7", *options]) == 0
    arguments = ["-m", str(folder / "net.py"), "-i", str(folder / "flat"), "-o", str(folder / "model.safetensors")]
    assert train.main([*arguments, "-c", "epochs=2", "hidden=4", "threads=1", *settings]) == 0
    return files


@settings(max_examples=15, deadline=None)
@given(
    st.booleans(),
    st.sampled_from(SAMPLINGS),
    st.sampled_from(["node", "target"]),
    st.sampled_from([None, "weight > 0.5 and neighbor.type in (0, 1)"]),
    st.booleans(),
)
def test_scores_agree_from_tables_neighbourhoods_and_shards(loops, sampling, scope, filtering, shared):
    with TemporaryDirectory() as name:
        folder = Path(name)
        options = ["-s", sampling, "--scope", scope, *(["-f", filtering] if filtering else [])]
        files = trained(folder, *options, *(["--shared"] if shared else []), code=NET.replace("LOOPS", str(loops)))
        stated = ["-m", str(folder / "model.safetensors"), "-c", "threads=1"]
        by_default = "batch_size=9" if scope == "target" and sampling != "full()" else "partitions=3"
        assert infer.main([*stated, by_default, *files, "-o", str(folder / "tables")]) == 0
        stated += ["batch_size=9"]
        assert infer.main([*stated, "infer=neighbourhood", *files, "-o", str(folder / "hoods")]) == 0
        assert infer.main([*stated, "-i", str(folder / "flat"), "-o", str(folder / "shards")]) == 0
        everyone, hoods, targets = (scores_of(folder / one) for one in ("tables", "hoods", "shards"))
    assert set(everyone) == set(IDS.tolist()) and len(targets) == sum(label is not None for label in NODES["label"])
    bound = 1e-5 * max(np.abs(score).max() for score in everyone.values())
    assert max(np.abs(everyone[node] - hoods[node]).max() for node in everyone) <= bound
    assert max(np.abs(everyone[node] - targets[node]).max() for node in targets) <= bound


@pytest.mark.parametrize("model", ["own", "gcn", "gat"])
@pytest.mark.parametrize("sampling", ["full()", "uniform(4);uniform(2)", "weighted(by=weight, limit=3)"])
def test_one_batch_trains_alike_from_shards_and_from_memory(tmp_path, model, sampling):
    edges = ["--edge-features", "g"] if model == "own" else []
    if model == "gat" and "weight" not in sampling:
        edges += ["--weight", "none"]
    (tmp_path / "net.py").write_text(NET.replace("LOOPS", "True"))
    options = [*tables(tmp_path), "--split", "0.8,0.1,0.1", *edges, "-h", "2", "-s", sampling, "--keep-graph"]
    assert flat.main([*options, "-o", str(tmp_path / "flat")]) == 0
    name = str(tmp_path / "net.py") if model == "own" else model
    for source in ("shards", "graph"):
        arguments = ["-m", name, "-i", str(tmp_path / "flat"), "-o", str(tmp_path / f"{source}.safetensors")]
        assert train.main([*arguments, "-c", "epochs=3", "hidden=4", "threads=1", f"source={source}"]) == 0
    shards, graph = (load_file(tmp_path / f"{source}.safetensors") for source in ("shards", "graph"))
    for tensor in shards:
        np.testing.assert_allclose(shards[tensor], graph[tensor], atol=2e-4, err_msg=tensor)


@pytest.mark.parametrize("source", ["shards", "graph"])
@pytest.mark.parametrize("strategy", ["sync", "async", "bounded", "allreduce"])
def test_many_workers_train_it(tmp_path, strategy, source):
    files = tables(tmp_path)
    (tmp_path / "net.py").write_text(NET.replace("LOOPS", "False"))
    read = [*files, "--split", "0.8,0.1,0.1", "--edge-features", "g", "--keep-graph", "--shard-records", "7"]
    assert flat.main([*read, "-h", "2", "-s", "uniform(4)", "-o", str(tmp_path / "flat")]) == 0
    model = str(tmp_path / "model.safetensors")
    arguments = ["-m", str(tmp_path / "net.py"), "-i", str(tmp_path / "flat"), "-o", model, "-t", strategy]
    assert train.main([*arguments, "-c", "epochs=2", "hidden=4", "workers=2", "threads=2", f"source={source}"]) == 0
    assert infer.main(["-m", model, "-i", str(tmp_path / "flat"), "-o", str(tmp_path / "scores")]) == 0
    assert np.isfinite(np.load(tmp_path / "scores" / "scores.npy")).all()


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_ours_written_as_a_user_would_compute_what_the_engine_computes(tmp_path, model):
    weight = [] if model == "gcn" else ["--weight", "none"]
    read = [*tables(tmp_path), "--split", "0.8,0.1,0.1", *weight, "-h", "2", "-s", "uniform(4);uniform(2)"]
    assert flat.main([*read, "-o", str(tmp_path / "flat")]) == 0
    options = read_train_settings(["hidden=4", "heads=2", "output_heads=3", "threads=1"])
    own = prepared_trainer(str(Path(models.__file__).with_name(f"{model}.py")), tmp_path / "flat", "local", options)
    engine = prepared_trainer(model, tmp_path / "flat", "local", options)
    state, names = own.state(), translated(model)
    engine.load({ours: state[theirs].T if linear else state[theirs] for ours, (theirs, linear) in names.items()})
    batches = [next(trainer.batches(0, Clock())) for trainer in (own, engine)]
    losses = [trainer.loss(trainer.logits(batch), trainer.batch_labels(batch)) for trainer, batch in
              zip((own, engine), batches, strict=True)]  # fmt: skip
    np.testing.assert_allclose(losses[0].item(), losses[1].item(), rtol=1e-5)
    for trainer, loss in zip((own, engine), losses, strict=True):
        trainer.optimizer.zero_grad()
        loss.backward()
    theirs_of, ours_of = own.model.gradients(), engine.model.gradients()
    for ours, (theirs, linear) in names.items():
        gradient = theirs_of[theirs].T if linear else theirs_of[theirs]
        np.testing.assert_allclose(gradient, ours_of[ours], rtol=1e-3, atol=1e-6, err_msg=ours)


class Clock:
    """A clock that measures nothing."""

    def phase(self, name):
        from contextlib import nullcontext

        return nullcontext()


def translated(model: str) -> dict[str, tuple[str, bool]]:
    """Our names of parameters, with the example's name and whether that is stored transposed."""
    parts = {
        "gcn": {"weight": ("linear.weight", True), "bias": ("bias", False)},
        "sage": {"weight_self": ("own.weight", True), "weight_neigh": ("neighbours.weight", True),
                 "bias": ("own.bias", False)},
        "gat": {"weight": ("linear.weight", True), "att_src": ("source", False), "att_dst": ("own", False),
                "bias": ("bias", False)},
    }[model]  # fmt: skip
    return {f"layers.{k}.{ours}": (f"layers.{k}.{theirs}", flip)
            for k in range(2) for ours, (theirs, flip) in parts.items()}  # fmt: skip


@pytest.mark.parametrize("wide", ["message", "sparse features"])
def test_nodes_send_by_partition_where_their_messages_or_dense_features_do_not_fit(tmp_path, monkeypatch, wide):
    graph = awkward_graph(3)
    send = "h.repeat(1, 20)[:, :90]"
    if wide == "sparse features":
        graph, send = replace(graph, features=in_layout(np.eye(40, 90, dtype=np.float32), "sparse")), "h[:, :3]"
    limit = "assert len(h) < 40 or h.shape[1] == 3, 'all at once'"
    layer = LAYER.replace("return {send}", f"{limit}\n        return {{send}}")
    code = source_of(layer, send, receive="torch.tanh(h[:, :3] + edges.sum(sent[:, -3:]))")
    spec = UserModelSpec("net.py", 2, in_width=graph.width, hidden=3, classes=3, file="net.py", code=code)
    job = InferenceJob(graph, tried(spec), {}, partitions=8)
    engine = LocalInference(job, Workspace(tmp_path, job.identity()))
    engine.map()
    with pytest.raises(UserModelError, match="all at once"):
        engine.run()  # a small graph sends at once
    monkeypatch.setattr(jobs, "SCRATCH_BYTES", 40 * 4 * 8)  # embeddings of 8 columns fit
    assert engine.run().shape == (40, 3)


LAYER = """class Layer(nn.Module):
    def send(self, h):
        return {send}
    def receive(self, h, sent, edges):
        return {receive}
"""
NETWORK = """import torch
from torch import nn
{layer}
class Net(nn.Module):
    def __init__(self, {takes}):
        super().__init__()
        self.layers = nn.ModuleList({layers})
{more}
model = Net
"""


CONSTANT = (
    LAYER
    + """
class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.random = torch.randn(3)
    def forward(self, h):
        return h + self.random
"""
)


def source_of(layer=LAYER, send="h[:, :3]", receive="sent[: len(h)] * 0 + h[:, :3]", takes="in_width", more="",
              layers="[Layer(), Layer()]"):  # fmt: skip
    """The text of a model's file with some parts replaced."""
    own = layer.replace("{send}", send).replace("{receive}", receive)
    return NETWORK.format(layer=own, takes=takes, layers=layers, more=more)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("model = 3", r"there is no function model\(\): name it as in net.py:build"),
        ("import nonsense_module", "line 1: ModuleNotFoundError"),
        ("def model(:", "SyntaxError"),
        (source_of(takes="in_width, depth"), "takes 'depth', which training does not know: in_width, classes"),
        ("def model():\n    raise KeyError('x')", r"line 2: model\(\) fails: KeyError"),
        ("def model():\n    return 3", "returns no torch.nn.Module with an nn.ModuleList"),
        (source_of(layers="[Layer()]"), "returns 1 layers for 2 hops"),
        (source_of(layer="class Layer(nn.Module):\n    def receive(self): pass"), r"layers\[0\] has no send\(\)"),
        (source_of(send="h.sum()"), r"layers\[0\].send returns torch.float32 \(\)"),
        (source_of(send="{'a b': h}"), "names a message 'a b'"),
        (source_of(send="h - h.mean(0)"), "send mixes nodes"),
        (source_of(receive="h[:, :3] + sent.mean() * 0 + h.mean()"), "receive mixes rows"),
        (source_of(receive="h[:, :3] + edges.sum(sent - sent.mean(0))[:, :3]"), "receive mixes rows"),
        (source_of(more="        self.head = lambda h: h - h.mean(0)"), "head mixes nodes"),
        (source_of(receive="h[:1, :3]"), r"receive returns torch.float32 \(1, 3\) for 3 rows"),
        (source_of(receive="h[:, :3] @ edges.features"), r"line 7: layers\[0\].receive fails: TypeError"),
        (source_of(receive="h[:, :2]"), r"the last layer returns \(3, 2\) for 3 nodes"),
        (source_of(send="torch.relu_(h)"), r"layers\[0\].send changes its inputs in place"),
        (source_of(receive="sent.relu_()[: len(h)] * 0 + h[:, :3]"), r"layers\[0\].receive changes its inputs"),
        (source_of(receive="h[:, :3] + 0 * edges.degrees.clamp_(min=1)[:, None]"), "receive changes its inputs"),
        (
            source_of(more="        self.head = Constant()", layer=CONSTANT),
            "head computes something else when .* again",
        ),
        (source_of(more="import sys\nsys.exit(0)"), "SystemExit"),
        (source_of(more="        self.extra = nn.Linear(2, 2)"), "parameter extra.weight belongs neither to .layers"),
        (source_of(more="        self.head = nn.BatchNorm1d(3)"), "head.running_mean is a buffer"),
        (source_of(more="        self.head = nn.Linear(3, 3).double()"), "parameter head.weight is torch.float64"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, code, message):
    (tmp_path / "net.py").write_text(code)
    options = code_of(str(tmp_path / "net.py"))
    with pytest.raises(UserModelError, match=message) as refusal:
        tried(UserModelSpec("net.py", 2, in_width=5, hidden=4, classes=3, **options))
    assert str(tmp_path / "net.py") in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("strategy", ["local", "sync", "allreduce"])
def test_what_fails_on_the_data_alone_is_told_in_one_sentence(tmp_path, capsys, strategy):
    code = NET.replace("LOOPS", "False").replace(
        "return torch.tanh(", "return [][len(h)] if len(h) > 3 else torch.tanh("
    )
    (tmp_path / "net.py").write_text(code)
    read = [*tables(tmp_path), "--split", "0.8,0.1,0.1", "--edge-features", "g", "--shard-records", "20"]
    assert flat.main([*read, "-h", "2", "-o", str(tmp_path / "flat")]) == 0
    workers = [] if strategy == "local" else ["workers=2"]
    output = ["-o", str(tmp_path / "model.safetensors"), "-t", strategy, "-c", "epochs=1", *workers]
    assert train.main(["-m", str(tmp_path / "net.py"), "-i", str(tmp_path / "flat"), *output]) in (1, 2)
    error = capsys.readouterr().err.partition("error: ")[2]
    assert re.search(r"net.py, line 19: layers\[0\].receive fails: IndexError", error) and error.count("\n") == 1, error


def test_what_a_command_gives_that_the_model_does_not_take_is_refused(tmp_path, capsys):
    files = trained(tmp_path)
    model = ["-m", str(tmp_path / "model.safetensors")]
    for name, columns in (("bare", []), ("light", ["--edge-features", "g", "--weight", "none"])):
        assert flat.main([*files, *columns, "-h", "2", "-o", str(tmp_path / name), "--split", "0.8,0.1,0.1"]) == 0
    capsys.readouterr()
    shards = ["-i", str(tmp_path / "flat"), "-o", str(tmp_path / "other.safetensors")]
    scored = [*model, *files, "-o", str(tmp_path / "o")]
    cases = [
        (train, ["-m", str(tmp_path / "net.py"), *shards, "-c", "heads=2"], "takes no heads: leave out -c heads"),
        (train, ["-m", str(tmp_path / "none.py"), *shards], "none.py cannot be read"),
        (train, ["-m", "transformer", *shards], "allowed are gcn, sage, gat, or a file net.py"),
        (train, ["-m", "sage", *shards], "holds edge weights, which sage would drop"),
        (train, ["-m", "gcn", *shards], "holds edge features, which gcn would drop"),
        (train, ["-m", str(tmp_path / "net.py"), *shards, "-c", "source=graph"], "flatten with --keep-graph"),
        (infer, [*scored, "--edge-features", "g", "weight"], "takes 1 features of each"),
        (infer, [*scored, "--weight", "none"], "trained on edges with weights, .* none"),
        (infer, [*model, "-i", str(tmp_path / "bare"), "-o", str(tmp_path / "o")], "takes 1 features .*bare has 0"),
        (infer, [*model, "-i", str(tmp_path / "light"), "-o", str(tmp_path / "o")], "with weights, .*light has none"),
    ]
    for command, arguments, message in cases:
        assert command.main(arguments) == 2, arguments
        error = capsys.readouterr().err
        assert re.search(message, error), error
        assert not (tmp_path / "other.safetensors").exists() and not (tmp_path / "o").exists()


def test_a_setting_that_the_model_does_not_take_is_refused_before_workers_are_launched(tmp_path, capsys, monkeypatch):
    trained(tmp_path)
    monkeypatch.setattr(trainers, "pool_of", None)
    arguments = ["-m", str(tmp_path / "net.py"), "-i", str(tmp_path / "flat"), "-o", str(tmp_path / "o.safetensors")]
    assert train.main([*arguments, "-t", "sync", "-c", "workers=2", "heads=2"]) == 2
    assert "takes no heads: leave out -c heads" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", ["local", "sync", "allreduce"])
def test_a_parameter_that_is_not_trained_stays_as_it_is(tmp_path, capsys, strategy):
    frozen = "self.scale = nn.Parameter(torch.ones(1), requires_grad=False)"
    code = NET.replace("LOOPS", "False").replace("self.score =", f"{frozen}\n        self.score =")
    (tmp_path / "net.py").write_text(code.replace("return torch.tanh(", "return self.scale * torch.tanh("))
    read = [*tables(tmp_path), "--split", "0.8,0.1,0.1", "--edge-features", "g", "--shard-records", "20"]
    assert flat.main([*read, "-h", "2", "-o", str(tmp_path / "flat")]) == 0
    workers = [] if strategy == "local" else ["workers=2"]
    for decay in ("0", "0.1"):
        output = ["-o", str(tmp_path / f"{decay}.safetensors"), "-t", strategy, "-c", "epochs=1", f"decay={decay}"]
        status = train.main(["-m", str(tmp_path / "net.py"), "-i", str(tmp_path / "flat"), *output, *workers])
        if decay == "0" or strategy == "local":
            assert status == 0 and load_file(tmp_path / f"{decay}.safetensors")["layers.0.scale"] == 1
        else:
            assert status == 2 and "layers.0.scale has requires_grad=False" in capsys.readouterr().err


def test_a_want_of_memory_in_inference_is_told_in_one_sentence(tmp_path, capsys, monkeypatch):
    wide = "import os\n        torch.empty(int(os.environ.get('WIDE', 0)))\n        return torch.tanh("
    files = trained(tmp_path, code=NET.replace("LOOPS", "False").replace("return torch.tanh(", wide))
    monkeypatch.setenv("WIDE", str(1 << 44))
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "scores")]) == 1
    assert re.search("error: .*allocate memory", capsys.readouterr().err)


def test_inference_needs_the_file_that_was_trained(tmp_path, capsys):
    files = trained(tmp_path)
    model = ["-m", str(tmp_path / "model.safetensors"), *files]
    moved = (tmp_path / "net.py").rename(tmp_path / "moved.py")
    assert infer.main([*model, "-o", str(tmp_path / "scores")]) == 2
    assert "net.py is not there: give that file by --code" in capsys.readouterr().err
    assert infer.main([*model, "-o", str(tmp_path / "scores"), "--code", str(moved)]) == 0
    moved.write_text(moved.read_text() + "\n# changed")
    assert infer.main([*model, "-o", str(tmp_path / "others"), "--code", str(moved)]) == 2
    assert "moved.py is another version" in capsys.readouterr().err
    facts = json.loads((tmp_path / "scores" / "facts.json").read_text())
    assert facts["rounds"] == 3


def test_a_slice_has_the_parameters_of_its_layer_alone(tmp_path):
    from backends.agl.networks import model_slices

    (tmp_path / "net.py").write_text(NET.replace("LOOPS", "False"))
    options = code_of(str(tmp_path / "net.py")) | {"edge_width": 1, "weighted": True}
    spec = tried(UserModelSpec("net.py", 2, in_width=5, hidden=4, classes=3, **options))
    assert spec.reads == ("degrees", "features", "weight") and spec.widths == (5, 4, 4)
    slices = model_slices(spec, first_state(spec, 0))
    assert [sum(p.numel() for p in part.part.parameters()) for part in slices] == [24 + 6, 20 + 6, 15]
    assert isinstance(network_of(spec, TrainingSpec()).module.head, torch.nn.Linear)
    first, again, other = (first_state(spec, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)
