"""The end of a child's output as records store it: whole lines, without the folders of the machine."""

from tempfile import TemporaryFile

import pytest

from harness.launcher.process import ROOT, Child, without_folders


def test_paths_are_those_of_the_repository_or_of_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody/")
    text = f'File "{ROOT}/harness/cell.py", line 4\nFile "/home/somebody/python/lib.py"\nFile "/usr/lib/other.py"\n'
    assert without_folders(text) == 'File "harness/cell.py", line 4\nFile "~/python/lib.py"\nFile "/usr/lib/other.py"\n'


def test_a_line_that_was_cut_is_left_out():
    child = Child.__new__(Child)
    with TemporaryFile() as child.output:
        child.output.write(f"{ROOT}/first\n{ROOT}/second\n".encode())
        assert child.tail() == "first\nsecond\n"
        assert child.tail(len(f"{ROOT}/second\n") + 4) == "second\n"


@pytest.mark.parametrize("home", ["", "/", None], ids=["empty", "root", "unset"])
def test_without_a_home_folder_paths_stay(home, monkeypatch):
    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", nobody)  # of a user that a container does not know
    monkeypatch.setenv("HOME", home or "")
    if home is None:
        monkeypatch.delenv("HOME")
    assert without_folders('File "/usr/lib/other.py"\n') == 'File "/usr/lib/other.py"\n'
