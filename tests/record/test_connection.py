"""What Redis says, as errors of ours: who may come again later is told so."""

from __future__ import annotations

import pytest
import redis.exceptions as errors

from hub.core.errors import HubError, Internal, Overloaded, Unavailable
from hub.record.connection import translate


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.ConnectionError("refused"), Unavailable),
        (errors.BusyLoadingError("loading the dataset in memory"), Unavailable),
        (errors.TimeoutError("too late"), Unavailable),
        (OSError("broken pipe"), Unavailable),
        (errors.ReadOnlyError("You can't write against a read only replica."), Unavailable),
        (errors.MasterDownError("Link with MASTER is down"), Unavailable),
        (errors.ClusterDownError("CLUSTERDOWN The cluster is down"), Unavailable),
        (errors.TryAgainError("Multiple keys request during rehashing of slot"), Unavailable),
        (errors.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"), Unavailable),
        (errors.ResponseError("READONLY You can't write against a read only replica."), Unavailable),
        (errors.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), Overloaded),
        (errors.ResponseError("OOM command not allowed when used memory > 'maxmemory'."), Overloaded),
        (errors.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"), Internal),
    ],
)
def test_what_an_error_of_redis_means(error: Exception, kind: type[HubError]) -> None:
    found = translate(error, "redis://here")
    assert type(found) is kind
    assert "redis://here" in found.message
    assert str(error) in found.message
