"""Numbers of the system calls that the guest makes itself or keeps from others, for the machines that it knows."""

from __future__ import annotations

from collections.abc import Mapping

#: Name -> number on x86_64 (asm/unistd_64.h) and on aarch64 (asm-generic/unistd.h), of Linux 6.18.
_TABLE: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "unshare": (272, 97),
    "ioctl": (16, 29),
    "fallocate": (285, 47),
    "prctl": (157, 167),
    "seccomp": (317, 277),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
    "pidfd_getfd": (438, 438),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "kcmp": (312, 272),
    "fanotify_init": (300, 262),
    "syslog": (103, 116),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "file_setattr": (469, 469),
}

#: Machine -> its AUDIT_ARCH (linux/audit.h) and its calls. Both are little-endian, with 64 bits.
ARCHITECTURES: dict[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (0xC000003E, {name: numbers[0] for name, numbers in _TABLE.items()}),
    "aarch64": (0xC00000B7, {name: numbers[1] for name, numbers in _TABLE.items()}),
}
