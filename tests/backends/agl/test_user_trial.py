"""What a user's model may not have: state beside its parameters, reserved names, nothing to train."""

import pytest
from safetensors.numpy import load_file

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from backends.agl.user_model import UserModelError, UserModelSpec
from backends.agl.user_trial import tried
from tests.backends.agl.test_chain import tables
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
BUFFER = "self.register_buffer('mean', torch.zeros(3), persistent=False)"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            source_of(RUNNING.replace("{mean}", "self.mean = torch.zeros(3)"), more="        self.head = Running()"),
            r"head computes something else after a pass of training, .*: use layers without state \(LayerNorm\)",
        ),
        (
            source_of(RUNNING.replace("{mean}", BUFFER), more="        self.head = Running()"),
            "head.mean is a buffer, which servers do not exchange",
        ),
        (source_of(send="{'_': h}"), r"layers\[0\].send names a message '_': give a word"),
    ],
    ids=["attribute that training changes", "buffer that is not saved", "name of a message without one"],
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


def test_a_parameter_of_no_dimension_is_trained_and_scored(tmp_path):
    code = NET.replace("LOOPS", "False").replace("return torch.tanh(", "return self.scale * torch.tanh(")
    code = code.replace("self.score =", "self.scale = nn.Parameter(torch.tensor(1.5))\n        self.score =")
    files, model = trained(tmp_path, code=code), str(tmp_path / "model.safetensors")
    assert load_file(model)["layers.0.scale"].shape == ()
    assert infer.main(["-m", model, *files, "-o", str(tmp_path / "scores")]) == 0
