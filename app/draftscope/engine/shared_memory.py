"""Memory that a parent makes and its child maps, without a name that anyone would have to clean up.

On POSIX it is a file without a name, inherited as a descriptor: the kernel frees it with the last process that has it,
however each of them ends. On Windows it is a mapping of the page file under a random name, freed the same way.
(``multiprocessing.shared_memory`` has names, and a tracker process that removes them while the parent still reads.)
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
import tempfile


class SharedMemory:
    """Zeroed memory of ``size`` bytes, made by the parent.

    Attributes:
        buffer: the mapping; unmapped once nothing refers to it any more.
        address: what ``attach`` in the child needs.
        descriptors: to be inherited by the child.
    """

    def __init__(self, size: int) -> None:
        """Make the memory.

        Raises:
            OSError: the system grants no more.
        """
        self.descriptors: tuple[int, ...] = ()
        if sys.platform == "win32":
            name = f"draftscope-{secrets.token_hex(16)}"
            self.buffer = mmap.mmap(-1, size, tagname=name)
            self.address = f"{name}/{size}"
            return
        descriptor = _file_without_name()
        self.descriptors = (descriptor,)
        os.ftruncate(descriptor, size)
        self.buffer = mmap.mmap(descriptor, size)
        self.address = f"{descriptor}/{size}"

    def close_descriptors(self) -> None:
        """Forget the descriptors, once the child has them; the mapping stays. Harmless when repeated."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()


def attach(address: str) -> mmap.mmap:
    """In the child: map the memory that the parent made."""
    place, _, size = address.rpartition("/")
    if sys.platform == "win32":
        return mmap.mmap(-1, int(size), tagname=place)
    descriptor = int(place)
    try:
        return mmap.mmap(descriptor, int(size))
    finally:
        os.close(descriptor)


def _file_without_name() -> int:
    if sys.platform == "linux":
        return os.memfd_create("draftscope-ring")
    with tempfile.TemporaryFile(prefix="draftscope-ring-") as file:
        return os.dup(file.fileno())
