"""The replicas in sync of a partition that is led here, and the change of the ISR under way.

    wanted --propose--> proposed --(ZooKeeper)--> written: members, with their version
                            |--> refused, still leader: the stored ISR is adopted
                            |--> refused, superseded: no more changes in this epoch
                            |--> unknown: proposed again, with the same content

    stored by another (a broker that lost its logs left) --read_again--> proposed as it was: refused

Invariant: `members` is the ISR that ZooKeeper is known to hold. A change under way may be stored
already, and a controller may elect from it: until the result is known, the high watermark counts
members and proposed members (`electable`), and `min.insync.replicas` counts members.
"""

from collections.abc import Collection
from dataclasses import dataclass

from zkbroker.registry.partition_states import IsrUpdate


@dataclass(slots=True)
class InSyncReplicas:
    """Args: members as stored, in the order of the node; zk_version: that of the node."""

    members: tuple[int, ...] = ()
    zk_version: int = -1
    proposed: tuple[int, ...] | None = None
    superseded: bool = False
    """The controller has made a decision newer than this leadership: this broker no longer knows
    which replicas may be elected, so the high watermark stays where it is."""

    @property
    def electable(self) -> frozenset[int]:
        """Every replica that a controller may find in the stored ISR."""
        return frozenset(self.members).union(self.proposed or ())

    def propose(self, members: Collection[int]) -> bool:
        """Begin a change; False when nothing would change, or another change is under way."""
        if self.proposed is not None or self.superseded or set(members) == set(self.members):
            return False
        self.proposed = (
            *(each for each in self.members if each in members),
            *sorted(each for each in members if each not in self.members),
        )
        return True

    def read_again(self) -> bool:
        """Propose the members unchanged, to find out what another broker stored.

        False when a change under way will find it.
        """
        if self.proposed is not None or self.superseded:
            return False
        self.proposed = self.members
        return True

    def resolve(self, update: IsrUpdate) -> None:
        """Apply the result of the proposed change."""
        self.proposed = None
        if update.state is not None and update.still_leader:
            self.members = update.state.isr
            self.zk_version = update.state.zk_version
        else:
            self.superseded = True
