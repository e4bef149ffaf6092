"""How many records a second the store and the acceptance table take, in batches as one frame brings them."""

from __future__ import annotations

from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.store import TraceStore
from tests.perf.figures import Figure, seconds_of
from tests.perf.synthetic import rounds

_BATCH = 512


def measure(repeats: int) -> list[Figure]:
    """Records a second through ``append`` and ``update``, from empty."""
    records = rounds(5_000)

    def receive() -> None:
        store, table = TraceStore(), AcceptanceTable()
        for start in range(0, len(records), _BATCH):
            store.append(records[start : start + _BATCH])
            table.update(store)

    samples = tuple(len(records) / seconds for seconds in seconds_of(receive, repeats))
    definition = f"{len(records)} records in batches of {_BATCH} into TraceStore and AcceptanceTable"
    return [Figure("receive and store", "records/s", samples, is_more_better=True, definition=definition)]
