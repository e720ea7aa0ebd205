import datetime
import enum
import json
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.errors import InvalidValue
from hub.core.values import (
    FORBIDDEN_KEY,
    MAX_DEPTH,
    MAX_INTEGER,
    check,
    clean_text,
    depth,
    json_size,
    same,
    utf16_length,
)
from tests.core.odd import ODD, endless, nested

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key != FORBIDDEN_KEY), inner),
    max_leaves=15,
)


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


class Colour(str, enum.Enum):  # noqa: UP042 - the older kind, whose str() is not its value
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


@given(JSON)
def test_json_values_are_taken_as_they_are(value: Any) -> None:
    copy = check(value)
    assert same(copy, value)
    assert json_size(copy) == len(msgspec.json.encode(value))
    assert msgspec.json.decode(msgspec.json.encode(copy)) == value


@given(ODD)
def test_anything_else_is_refused_by_its_place(value: Any) -> None:
    try:
        copy = check(value, "/here")
    except InvalidValue as error:
        assert str(error.details["path"]).startswith("/here")  # noqa: PT017 - most of these are refused, not all
        return
    assert json.loads(msgspec.json.encode(copy)) == copy


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({1, 2}, ""),
        ({"a": [0, {"b": {1}}]}, "/a/1/b"),
        ([b"x"], "/0"),
        ({"a/b": {"~": float("nan")}}, "/a~1b/~0"),
        ([float("inf")], "/0"),
        ({"n": 2**53}, "/n"),
        ({"n": -(2**53)}, "/n"),
        ({"d": datetime.date(2026, 1, 1)}, "/d"),
        ({"k": {1: 2}}, "/k"),
        ({"k": [{"__proto__": 1}]}, "/k/0/__proto__"),
        ([[object()]], "/0/0"),
        (nested(MAX_DEPTH + 1), ""),
    ],
)
def test_the_path_of_the_place(value: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        check(value)
    assert str(refused.value.details["path"]).startswith(path)
    if path:
        assert refused.value.details["path"] == path
        assert path in refused.value.message


def test_dates_get_advice() -> None:
    with pytest.raises(InvalidValue, match="ISO 8601"):
        check({"at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)})


def test_cycles_are_named() -> None:
    with pytest.raises(InvalidValue, match="contains itself") as refused:
        check({"a": [1, endless()]}, "/state")
    assert refused.value.details["path"] == "/state/a/1/0/again", "where it begins anew"


def test_nesting_has_a_bound() -> None:
    assert depth(check(nested(MAX_DEPTH))) == MAX_DEPTH
    with pytest.raises(InvalidValue, match="nested deeper"):
        check(nested(MAX_DEPTH + 1))


def test_the_same_value_twice_is_no_cycle() -> None:
    inner = [1]
    copy = check({"a": inner, "b": inner})
    inner.append(2)
    assert copy == {"a": [1], "b": [1]}


def test_of_keys_that_become_one_the_last_counts() -> None:
    assert check(dict([("\ud800", 1), ("\udfff", 2)])) == {"\ufffd": 2}  # noqa: C406


def test_kinds_of_the_plain_types_become_plain() -> None:
    copy = check(
        {
            Loud("key"): Loud("text"),
            Colour.RED: Colour.RED,
            "n": Number.ONE,
            "t": (1, (2,)),
            "m": MappingProxyType(OrderedDict(a=1)),
        }
    )
    assert copy == {"key": "text", "red": "red", "n": 1, "t": [1, [2]], "m": {"a": 1}}
    assert {type(item) for item in [*copy, copy["key"], copy["red"]]} == {str}
    assert type(copy["n"]) is int
    assert type(copy["m"]) is dict


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ("ä😀", "ä😀"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
        ("end\ud83d", "end\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert check([text, {text: 1}]) == [clean, {clean: 1}]


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_cleaning_keeps_the_length_in_a_browser(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert utf16_length(clean) == utf16_length(text)


def test_equality_is_that_of_json() -> None:
    assert same({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert not same(True, 1)
    assert not same([0], [False])
    assert not same({"a": 1}, {"a": True})
    assert not same({"a": 1}, {"b": 1})
    assert not same([1], [1, 2])
    assert not same({}, [])
    assert not same("", None)


def test_depth_counts_containers() -> None:
    assert depth("text") == 0
    assert depth([]) == depth({}) == 1
    assert depth({"a": [1, [2]], "b": 3}) == 3
