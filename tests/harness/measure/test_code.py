"""Digests of code: comments, docstrings and layout do not change them, a token does."""

import os
import time

import pytest

from harness.measure import code
from harness.measure.code import cpp_digest, digest_of, python_digest

PYTHON = '''"""Module."""
import os


class Edges:
    """Edges."""

    count: int = 0
    """How many."""

    def add(self, more: int, *, name: str = "x") -> int:
        """Add."""
        self.count += more  # and return
        return f"{self.count:>{more}}" + name
'''
SAME = '''# another comment
import os
class Edges:
    count: int = 0
    def add(self, more: int, *,
            name: str = 'x',
            ) -> int:
        """Add, in other words."""
        self.count += (more)
        return (f'{self.count:>{more}}'
                + name)
'''


def test_comments_docstrings_and_layout_do_not_change_the_digest_of_python():
    assert python_digest(PYTHON) == python_digest(SAME)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+= more", "-= more"),
        ('"x"', '"y"'),
        ("import os", "import sys"),
        ("int = 0", "int = 0.0"),
        ("def add", "def sub"),
        (">{more}", "<{more}"),
    ],
)
def test_code_changes_the_digest_of_python(old, new):
    assert python_digest(PYTHON.replace(old, new)) != python_digest(PYTHON)


def test_python_that_cannot_be_parsed_is_digested_as_it_is():
    assert python_digest("def broken(:") != python_digest("def broken(:  # again")


def test_the_digest_of_python_is_the_same_in_every_version_of_python():
    # Of this text in 3.11.7, 3.12.1 and 3.13.0; another value here means that records of other versions go stale.
    assert python_digest(PYTHON) == "fff2029c9407"


CPP = """#define TWICE(x) 2 * (x)
// comment
int add(int a) { return a + +1'000; /* here */ }
const char* text = "// no comment"; auto raw = R"(/* nor this */)";
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("// comment", ""), ("/* here */", "/* there\n*/"), ("{ return", "{\n  return"), (" a + ", " a  +\t")],
)
def test_comments_and_white_space_do_not_change_the_digest_of_cpp(old, new):
    assert cpp_digest(CPP.replace(old, new)) == cpp_digest(CPP)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ +1", "+ -1"),
        ("+ +1", "++ 1"),
        ("1'000", "1'001"),
        ("// no comment", "// a comment"),
        ("nor this", "or this"),
        ("2 * (x)\n// comment\n", "2 * (x) "),
    ],
)
def test_tokens_change_the_digest_of_cpp(old, new):
    assert old in CPP
    assert cpp_digest(CPP.replace(old, new)) != cpp_digest(CPP)


def written(path, text, age=3600.0):
    """Write a file as if some time ago, before this process began."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_a_folder_of_cpp_is_digested_with_the_names_of_its_files(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, name in ((one, "a.hpp"), (other, "b.hpp")):
        written(folder / "inner" / name, "int a;")
        written(folder / "CMakeLists.txt", str(folder))
    assert [path.name for path in code.cpp_files(one)] == ["a.hpp"]
    assert digest_of(one) != digest_of(other)


EDITED = f"edited while process {os.getpid()} ran, started at {code._STARTED:.0f}"


def test_a_file_edited_while_this_process_ran_has_a_digest_of_this_process_alone(tmp_path):
    before = written(tmp_path / "before.py", "a = 1")
    edited = written(tmp_path / "edited.py", "a = 1", age=0.0)
    assert digest_of(before) == python_digest("a = 1")
    assert digest_of(edited) == EDITED


@pytest.mark.parametrize("name", ["one.py", "cpp/one.hpp"], ids=["python", "folder of C++"])
@pytest.mark.parametrize("gone", [False, True], ids=["edited", "removed"])
def test_a_file_edited_or_removed_after_its_first_digest_counts_as_edited(tmp_path, name, gone):
    file = written(tmp_path / name, "int a;")
    path = file if file.suffix == ".py" else file.parent
    assert digest_of(path) != EDITED
    if gone:
        path.rename(tmp_path / "elsewhere")
    else:
        written(file, "int b;", age=0.0)
    assert digest_of(path) == EDITED


def test_a_file_below_one_that_was_a_folder_counts_as_edited(tmp_path):
    written(tmp_path / "package", "no folder any more")
    assert digest_of(tmp_path / "package" / "module.py") == EDITED


def test_a_file_of_the_future_keeps_its_digest_in_every_process(tmp_path):
    assert digest_of(written(tmp_path / "unpacked.py", "a = 1", age=-3600.0)) == python_digest("a = 1")


def test_a_file_of_the_future_keeps_its_digest_when_its_time_has_come(tmp_path, monkeypatch):
    path, now = written(tmp_path / "unpacked.py", "a = 1", age=-3600.0), time.time()
    first = digest_of(path)
    monkeypatch.setattr(time, "time", lambda: now + 7200.0)
    assert digest_of(path) == first
