import pytest

from hub.core import errors
from hub.core.errors import Conflict, HubError, NotFound, Unavailable, error_from_wire

ALL = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, HubError)]


@pytest.mark.parametrize("cls", ALL)
def test_an_error_comes_back_from_the_wire(cls: type[HubError]) -> None:
    wire = cls("what happened", path="/a").to_wire()
    wire["details"] |= {"message": "a detail of this name", "self": 1}
    back = error_from_wire(wire)
    assert type(back) is cls
    assert back.to_wire() == wire
    assert str(back) == "what happened"


def test_codes_are_unique() -> None:
    assert len({cls.code for cls in ALL}) == len(ALL)


def test_each_code_stands_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    assert {cls.code for cls in ALL if cls is not HubError} <= set(tree.split())


def test_what_a_newer_hub_says_is_kept() -> None:
    error = error_from_wire({"code": "too_cold", "message": "brr", "retryable": True, "details": {"degrees": -3}})
    assert type(error) is HubError
    assert error.to_wire() == {"code": "too_cold", "message": "brr", "retryable": True, "details": {"degrees": -3}}
    assert HubError("x").code == "error"


@pytest.mark.parametrize("wire", [{}, {"code": None}, {"code": 5, "message": 6, "details": "none"}])
def test_odd_errors(wire: dict[str, object]) -> None:
    assert isinstance(error_from_wire(wire), HubError)


def test_details_are_left_out_when_there_are_none() -> None:
    assert NotFound("no").to_wire() == {"code": "not_found", "message": "no", "retryable": False}
    assert Conflict("no", versions={"state": "e:1"}).to_wire()["details"] == {"versions": {"state": "e:1"}}
    assert Unavailable("no").to_wire()["retryable"] is True
