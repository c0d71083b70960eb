"""Many changes of runs in one transaction of MLflow's database.

MLflow commits about eight times for each run that is copied, and a commit waits for the disk: half
of the time goes there. Its client has no call for several runs, so the sessions that its store
opens in a block are made to be one. Where the store is not of that form (a server, or another
version), the block changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from raxalign.tracking.locks import Turns
from raxalign.tracking.registry import Entry, Registry

_GROUP = 25  # runs that are copied in one transaction: about a second, in which others wait
Copy = Callable[[Entry | None], None]
"""Copies something into a run, which is None where there is none yet."""
Undo = Callable[[], None]


class Undone(Exception):
    """Raised where a block failed: nothing of it is in the database."""


@contextmanager
def together(client: Any) -> Iterator[None]:
    """Write the changes of the block at once, or none of them.

    Raises:
        Undone: Something in the block failed in a shared transaction. What the block has read or
            written counts as unknown.
    """
    store = getattr(getattr(client, "_tracking_client", None), "store", None)
    maker = getattr(store, "ManagedSessionMaker", None)
    if store is None or maker is None or getattr(store, "db_type", None) != "sqlite":
        yield
        return
    try:
        with maker(read_only=False) as session:
            own = _Shared(session)
            store.ManagedSessionMaker = own.take
            try:
                yield
            finally:
                store.ManagedSessionMaker = maker
                own.release()
    except Exception as error:
        raise Undone(str(error)) from error


class _Shared:
    """One session for all that ask for one: a commit within it only writes to the transaction, and
    a rollback, which would undo the changes of others, is refused.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._depth = session, 0
        session.commit, session.rollback = session.flush, _refuse

    def release(self) -> None:
        """Give the session its own commit and rollback back."""
        del self._session.commit, self._session.rollback

    @contextmanager
    def take(self, read_only: bool = True) -> Iterator[Any]:  # noqa: ARG002 as MLflow calls it
        """Yield the session. After the outermost use it forgets its objects, as a new one would
        not have them.
        """
        self._depth += 1
        try:
            yield self._session
            self._session.flush()
        finally:
            self._depth -= 1
        if self._depth == 0:
            self._session.expunge_all()


def _refuse() -> NoReturn:
    raise Undone("a part of the transaction failed")


class Copies:
    """Copies runs in groups, each in one transaction where nobody else writes meanwhile. A group
    that fails is copied one by one, after a call of `undone`: runs that were made in it are not
    there.
    """

    def __init__(self, client: Any, registry: Registry, turns: Turns, undone: Undo = lambda: None):
        self._client, self._runs, self._turns, self._undone = client, registry, turns, undone

    def run(self, wanted: Sequence[tuple[str, Copy]], known: Mapping[str, Entry]) -> Iterator[int]:
        """Copy all; yield the size of each group when it is copied.

        Args:
            wanted: The key of each run, and what is copied into it.
            known: The runs that there are, by their keys.
        """
        for first in range(0, len(wanted), _GROUP):
            group = wanted[first : first + _GROUP]
            self._group(group, known)
            yield len(group)

    def all(self, wanted: Sequence[tuple[str, Copy]], known: Mapping[str, Entry]) -> None:
        """Copy all, as `run` does."""
        for _ in self.run(wanted, known):
            pass

    def _group(self, group: Sequence[tuple[str, Copy]], known: Mapping[str, Entry]) -> None:
        if self._turns.alone:
            try:
                with together(self._client):
                    for key, copy in group:
                        copy(known.get(key))
                return
            except Undone:
                self._undone()
                known = self._runs.all()  # what was read or written in the block counts no more
        for key, copy in group:
            copy(known.get(key))
