"""The errors of regions, drawn as a tree:

RegionsError
├── AuthorityError
│   ├── SwapConflict          the register was changed by somebody else: nothing was written
│   ├── AuthorityUnavailable  it was not asked, or said that it cannot: nothing was written
│   ├── SwapInDoubt           a swap was sent, and whether it was done is not known
│   └── AuthorityNonsense     what it answered, or what stands in a register, cannot be read
├── UnknownShard              no shard of this name, or no shard that the session id names
├── UnknownRegion             no region of this name has a node of the shard
├── PromotionRefused          a promotion or switchover was looked at and not begun: nothing has changed
├── PromotionStopped          one was begun and did not come to its end; who owns the record resumes it
└── NodeError                 a store could not be asked, or refused, what a promotion needs
"""

from __future__ import annotations


class RegionsError(Exception):
    """Base of what this package raises on purpose. The message is a sentence for operators."""


class AuthorityError(RegionsError):
    """Base of what an authority raises."""


class SwapConflict(AuthorityError):
    """The register has another revision than the writer expected."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the register {name} was changed by somebody else meanwhile: read it again and decide anew")
        self.name = name


class AuthorityUnavailable(AuthorityError):
    """The authority cannot be asked now, and nothing was written. Trying again is safe."""


class SwapInDoubt(AuthorityError):
    """A swap was sent and no answer came. Reading the register tells what became of it, if it stands there."""


class AuthorityNonsense(AuthorityError):
    """The authority, or whoever answers at its address, says what no authority says; or a register cannot be read."""


class UnknownShard(RegionsError):
    pass


class UnknownRegion(RegionsError):
    pass


class PromotionRefused(RegionsError):
    """`code`: why, in one word for machines; `holds` says what holds instead and `todo` what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PromotionStopped(RegionsError):
    """A promotion or switchover that has begun did not come to its end. The message says where it stands."""


class NodeError(RegionsError):
    """A shard's node could not be asked, or refused, what a promotion needs of it."""
