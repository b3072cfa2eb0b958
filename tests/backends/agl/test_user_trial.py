"""What a user's model may not have: state beside its parameters, reserved names, nothing to train."""

import pytest
from safetensors.numpy import load_file

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from backends.agl.user_model import UserModelError, UserModelSpec, local_imports
from backends.agl.user_trial import tried
from tests.backends.agl.chain import tables
from tests.backends.agl.test_user_model import LAYER, NET, source_of, trained

RUNNING = (
    LAYER
    + """
class Running(nn.Module):
    def __init__(self):
        super().__init__()
        {mean}
    def forward(self, h):
        if self.training:
            self.mean = h.mean(0)
        return h - self.mean
"""
)
COUNTING = (
    LAYER
    + """
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0
    def forward(self, h):
        self.seen += self.training
        return {used}
"""
)
KEEPING = (
    LAYER
    + """
class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(3)
    def forward(self, h):
        if self.training:
            self.last = h.detach()
        return {used}
"""
)
SHARED = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared
    def send(self, h):
        return self.shared(h)
    def receive(self, h, sent, edges):
        return torch.tanh(self.shared(h) + edges.sum(sent))

class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        {first}
        self.layers = nn.ModuleList(Layer(self.shared) for _ in range(layers))

model = Net
"""
BUFFER = "self.register_buffer('mean', torch.zeros(3), persistent=False)"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            source_of(RUNNING.replace("{mean}", "self.mean = torch.zeros(3)"), more="        self.head = Running()"),
            r"head computes something else after a pass of training, .*: use layers without state \(LayerNorm\)",
        ),
        (
            source_of(COUNTING.replace("{used}", "h / (1 + 1e-6 * self.seen)"), more="        self.head = Counting()"),
            r"head computes something else after a pass of training, by values that are no parameters",
        ),
        (
            source_of(KEEPING.replace("{used}", "h + 1e-5 * self.last.mean()"), more="        self.head = Keeping()"),
            "head computes something else after a pass of training",
        ),
        (
            source_of(LAYER + "PROJECTION = torch.randn(3, 3)\n", receive="torch.tanh(h[:, :3] @ PROJECTION)"),
            r"layers\[0\] computes something else when the model is built again: what is drawn at random is a param",
        ),
        (
            SHARED.replace("{first}", "self.shared, self.head = nn.Linear(5, 5), nn.Linear(5, 3)").replace(
                "edges.sum(sent))", "edges.sum(sent)).add_(1)"
            ),
            "a pass of training fails: RuntimeError: one of the variables needed for gradient computation",
        ),
        (
            source_of(RUNNING.replace("{mean}", BUFFER), more="        self.head = Running()"),
            "head.mean is a buffer, which servers do not exchange",
        ),
        (source_of(send="{'_': h}"), r"layers\[0\].send names a message '_': give a word"),
    ],
    ids=[
        "attribute that training changes",
        "number that training changes",
        "tensor that training changes a little",
        "random constants of the file",
        "code without a backward pass",
        "buffer that is not saved",
        "name of a message without one",
    ],
)
def test_what_inference_would_not_have_is_refused(code, message):
    with pytest.raises(UserModelError, match=message):
        tried(UserModelSpec("net.py", 2, in_width=5, hidden=4, classes=3, file="net.py", code=code))


@pytest.mark.parametrize("strategy", ["local", "sync"])
@pytest.mark.parametrize("head", ["", "self.head = nn.Linear(3, 3).requires_grad_(False)"], ids=["none", "frozen"])
def test_a_model_without_a_parameter_to_train_is_refused(tmp_path, capsys, strategy, head):
    code = source_of(send="h[:, :1]", receive="torch.cat([h[:, :1]] * 3, 1)", more=f"        {head}")
    (tmp_path / "net.py").write_text(code)
    read = [*tables(tmp_path), "--weight", "none", "--split", "0.8,0.1,0.1"]
    assert flat.main([*read, "-h", "2", "-o", str(tmp_path / "flat")]) == 0
    arguments = ["-m", str(tmp_path / "net.py"), "-i", str(tmp_path / "flat"), "-t", strategy]
    assert train.main([*arguments, "-o", str(tmp_path / "model.safetensors")]) == 2
    assert "net.py: no parameter is trained: give the layers or .head some" in capsys.readouterr().err


@pytest.mark.parametrize("kept", ["h.detach()", "h * self.weight", "[h * self.weight]", "h.detach().to_sparse()"])
def test_tensors_may_be_kept_to_be_looked_at_and_layers_may_share_a_module(kept):
    keeping = KEEPING.replace("h.detach()", kept).replace("{used}", "h * self.weight")
    keeping = keeping.replace("self.last = torch.zeros(3)", "self.last, self.weight = 0, nn.Parameter(torch.ones(3))")
    code = source_of(keeping, more="        self.head = Keeping()")
    assert tried(UserModelSpec("net.py", 2, in_width=5, hidden=4, classes=3, file="net.py", code=code)).layers == 2
    shared = SHARED.replace("{first}", "self.shared = nn.Linear(3, 3)")
    spec = tried(UserModelSpec("net.py", 2, in_width=3, hidden=3, classes=3, file="net.py", code=shared))
    assert set(spec.parameters()) == {"shared.weight", "shared.bias"}
    loose = shared.replace("self.shared = ", "self.loose = nn.Linear(3, 3); self.shared = ")
    with pytest.raises(UserModelError, match=r"parameter loose\.weight belongs neither to \.layers nor to \.head"):
        tried(UserModelSpec("net.py", 2, in_width=3, hidden=3, classes=3, file="net.py", code=loose))


def test_a_function_has_its_own_defaults_for_settings_that_are_not_stated():
    options = {"in_width": 5, "hidden": 64, "classes": 3, "file": "net.py"}
    code = "def model(in_width, classes, layers, hidden=7, dropout=0.5, slope=None):\n    pass\n"
    spec = UserModelSpec("net.py", 2, **options, code=code)
    own, stated = spec.with_own_defaults([]), spec.with_own_defaults(["hidden"])
    assert (own.hidden, own.dropout, own.slope) == (7, 0.5, spec.slope)
    assert (stated.hidden, stated.dropout) == (64, 0.5)


def test_the_digest_of_a_model_holds_the_modules_that_lie_beside_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_parts").mkdir()
    (tmp_path / "my_parts" / "__init__.py").write_text("from .gates import gate\n")
    (tmp_path / "my_parts" / "gates.py").write_text("gate = abs\n")
    code = "import numpy, torch.nn, json\nfrom my_parts import gate\n"
    assert set(local_imports(code)) == {"my_parts", "my_parts.gates"}
    spec = UserModelSpec("net.py", 2, in_width=5, hidden=4, classes=3, file="net.py", code=code)
    before = spec.sha256
    (tmp_path / "my_parts" / "gates.py").write_text("gate = round\n")
    assert spec.sha256 != before
    assert local_imports("import torch\nfrom datasets.csr import Csr\nimport there_is_no_such_module\n") == {}


def test_a_parameter_of_no_dimension_is_trained_and_scored(tmp_path):
    code = NET.replace("LOOPS", "False").replace("return torch.tanh(", "return self.scale * torch.tanh(")
    code = code.replace("self.score =", "self.scale = nn.Parameter(torch.tensor(1.5))\n        self.score =")
    files, model = trained(tmp_path, code=code), str(tmp_path / "model.safetensors")
    assert load_file(model)["layers.0.scale"].shape == ()
    assert infer.main(["-m", model, *files, "-o", str(tmp_path / "scores")]) == 0
