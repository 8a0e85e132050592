"""Keeps a broker's ACLs up to date by the notices of changes.

                  a notice / the connection was away / `reread`
    (waiting) -------------------------------------------------> notices, then nodes, then hand on
        ^                                                               |
        +---------------------------------------------------------------+

Invariants: the watch on the notices is set before any ACL node is read, so that no change is missed
between the two. After a lost connection all ACLs are read again, since notices may have been purged
in the meantime; an unreadable notice has the same effect. Notices are deleted 15 minutes after they
were written, as genuine brokers do.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from zkbroker.errors import RegistryError
from zkbroker.registry.acls import (
    FORMS,
    decode_notice,
    ensure_acl_tree,
    read_acls,
    read_all_acls,
)
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.notices import Notices
from zkbroker.runtime.owner_loop import OwnerLoop
from zkbroker.security.acls import Acl, Pattern
from zkbroker.zookeeper.connection import SessionState
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

RETRY_S = 0.2
REREAD_S = 5.0


class AclWatch:
    """Reads ACLs, and passes changed ones on.

    Args:
        session: a started session.
        take_all: called with all ACLs of the cluster.
        take: called with the ACLs of one pattern.
    """

    def __init__(
        self,
        session: ZkSession,
        take_all: Callable[[Mapping[Pattern, Sequence[Acl]]], object],
        take: Callable[[Pattern, Sequence[Acl]], object],
    ) -> None:
        self._session = session
        self._runtime = session.runtime
        self._take_all = take_all
        self._take = take
        self._notices = {form: Notices(session, parent) for form, (_, parent) in FORMS.items()}
        self._all_due = True
        self._due: dict[Pattern, None] = {}
        self._asked = self._done = 0
        self._stepped = self._runtime.event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._loop = OwnerLoop(
            self._runtime,
            self._step,
            name="watch-acls",
            logger=logger,
            retry_s=RETRY_S,
            foreseen=(RegistryError,),
            ready=session.wait_connected,
            ended=lambda: session.closed,
        )

    def start(self) -> None:
        """Create missing parts of the tree, read the ACLs, pass them on, and start watching.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        ensure_acl_tree(self._session)
        self._step()
        self._unsubscribe = self._session.on_state(self._note_state)
        self._loop.start()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Stop watching."""
        self._unsubscribe()
        self._loop.close(timeout_s)

    def reread(self, patterns: Sequence[Pattern]) -> bool:
        """Read changed patterns now, without waiting for their notices.

        Returns:
            whether they were read within some seconds.
        """
        self._due.update(dict.fromkeys(patterns))
        self._asked += 1
        wanted = self._asked
        deadline_ms = self._runtime.clock_ms() + REREAD_S * 1000
        self._loop.set()
        while self._done < wanted:
            left_s = (deadline_ms - self._runtime.clock_ms()) / 1000
            if left_s <= 0 or self._loop.closed:
                return False
            # A broker's tasks share one hub: no step can end between these two calls.
            self._stepped.clear()
            self._stepped.wait(left_s)
        return True

    def _note_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._all_due = True
            self._loop.set()

    def _step(self) -> None:
        asked = self._asked
        due, all_due = self._due, self._all_due
        self._due, self._all_due = {}, False
        try:
            due.update(self._read_notices())
            all_due = all_due or self._all_due
            self._all_due = False
            if all_due:
                self._take_all(read_all_acls(self._session))
            else:
                for pattern, acls in read_acls(self._session, list(due)).items():
                    self._take(pattern, acls)
        except BaseException:
            self._all_due = True
            raise
        self._done = asked
        self._stepped.set()
        for notices in self._notices.values():
            notices.purge()

    def _read_notices(self) -> dict[Pattern, None]:
        """Return the patterns that new notices name."""
        found: dict[Pattern, None] = {}
        for form, notices in self._notices.items():
            for path, data in notices.read_new(self._loop):
                try:
                    pattern = decode_notice(form, data)
                except ValueError as error:
                    tell_unreadable(self._session, logger, "ACL notice", f"{path}: {error}")
                    self._all_due = True
                    continue
                if pattern is not None:
                    found[pattern] = None
        return found
