import pytest
from pydantic import Field

from lipdp.config.section import Document, Section
from lipdp.errors import InvalidConfig


class Inner(Section):
    batch_size: int = 1


class Outer(Document):
    inner: Inner = Inner()
    many: dict[str, Inner] = {}
    several: list[int] = Field(default=[])
    needed: str


def message(**given):
    with pytest.raises(InvalidConfig) as caught:
        Outer(**given)
    return str(caught.value)


def test_unknown_key_names_path_value_allowed_and_nearest():
    text = message(needed="x", inner={"batchsize": 7})
    assert "inner.batchsize" in text
    assert "Received: 7" in text
    assert "did you mean 'batch_size'" in text


def test_unknown_key_on_top_lists_all_keys():
    text = message(needed="x", zzz=1)
    assert "zzz" in text
    assert "inner, many, several, needed" in text
    assert "did you mean" not in text


def test_braces_in_a_key_are_text():
    assert "inner.{batch}" in message(needed="x", inner={"{batch}": 1})


def test_keys_called_like_arguments_are_only_unknown():
    assert "self" in message(needed="x", **{"self": 1, "given": 2})


def test_missing_key():
    assert message().startswith("needed: this key is required")


def test_paths_go_through_tables_and_lists():
    assert "many.a.b.batch_size:" in message(needed="x", many={"a.b": {"batch_size": "q"}})
    assert "several.1:" in message(needed="x", several=[1, "q"])


def test_several_problems_are_told_together_but_not_all():
    text = message(needed=1, several=["a", "b", "c", "d"])
    assert "several.0" in text
    assert "and 2 more" in text


def test_whole_documents_are_built_and_frozen():
    outer = Outer(needed="x", inner={"batch_size": 3})
    assert outer.inner.batch_size == 3
    with pytest.raises(ValueError, match="frozen"):
        outer.needed = "y"
