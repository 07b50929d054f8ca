"""A command as another user of this machine, where this process may do that: as root.

PostgreSQL refuses to run as root, and workers on other machines are other users.
"""

import os
import pwd
import sys
from pathlib import Path

_AS_USER = "import os, sys; os.setgroups([]); os.setgid({gid}); os.setuid({uid}); os.execv(sys.argv[1], sys.argv[1:])"


def as_user(name: str) -> list[str]:
    """What to put before a command, so that it runs as this user; nothing, where this process is not root."""
    if os.getuid() != 0:
        return []
    user = pwd.getpwnam(name)
    return [sys.executable, "-I", "-S", "-c", _AS_USER.format(uid=user.pw_uid, gid=user.pw_gid)]


def give_to(name: str, folder: Path) -> None:
    """Make the folder that user's, where this process is root."""
    if os.getuid() == 0:
        user = pwd.getpwnam(name)
        os.chown(folder, user.pw_uid, user.pw_gid)
