"""What shows that each line of the unit is in force: a line without an entry fails a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Seen = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Proof:
    """Lines that belong together; probes say one thing under them, and another without them."""

    lines: tuple[str, ...]
    probes: Seen = field(default_factory=dict)
    """By probe: what it says under the lines, and what without any."""
    given: tuple[str, ...] = ()
    """Lines of other entries without which these say nothing."""

    @property
    def name(self) -> str:
        return self.lines[0].split()[0].replace("=", " ").strip()


_ADDRESSES = "IPAddressAllow=localhost 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fe80::/10"
_NOT_RUN = (
    "NoExecPaths=/tmp /var/tmp /dev/shm -/var/lib/private/edge-infer -/var/cache/private/edge-infer "
    "-/var/log/private/edge-infer -/run/edge-infer"
)
_THREADS = "sched_setaffinity sched_setscheduler sched_setattr setpriority mbind set_mempolicy"
_WRITABLE = (
    "StateDirectory=edge-infer", "CacheDirectory=edge-infer", "LogsDirectory=edge-infer",
    "RuntimeDirectory=edge-infer", "DynamicUser=yes",
)  # fmt: skip
_CLOSED = ("DevicePolicy=closed",)

PROVED = [
    Proof(("User=edge-infer", "DynamicUser=yes"), {"identity": ("dynamic", "static")}),
    Proof(("SupplementaryGroups=video render",), {"groups": ("render video", "none")}),
    Proof(("UMask=0077",), {"mode_of_a_new_file": ("0600", "0644")}),
    Proof(
        ("StateDirectory=edge-infer", "StateDirectoryMode=0700"),
        {"state_folder": ("/var/lib/* 0700", "no STATE_DIRECTORY")},
    ),
    Proof(
        ("CacheDirectory=edge-infer", "CacheDirectoryMode=0700"),
        {"cache_folder": ("/var/cache/* 0700", "no CACHE_DIRECTORY")},
    ),
    Proof(
        ("LogsDirectory=edge-infer", "LogsDirectoryMode=0700"),
        {"logs_folder": ("/var/log/* 0700", "no LOGS_DIRECTORY")},
    ),
    Proof(
        ("RuntimeDirectory=edge-infer", "RuntimeDirectoryMode=0750"),
        {"runtime_folder": ("/run/* 0750", "no RUNTIME_DIRECTORY")},
    ),
    Proof(("Environment=HOME=/var/lib/edge-infer",), {"home": ("/var/lib/edge-infer", "no HOME")}),
    Proof(("LimitNOFILE=4096",), {"open_files": ("4096 4096", "1024 20000")}),
    Proof(("LimitCORE=0",), {"core_file": ("none", "some")}),
    Proof(("NoNewPrivileges=yes",), {"new_privileges": ("itself", "root")}),
    Proof(("CapabilityBoundingSet=",), {"capabilities": ("0000000000000000", "some")}),
    Proof(("RestrictSUIDSGID=yes",), {"setuid_bit": ("EPERM", "done")}),
    Proof(("RestrictRealtime=yes",), {"realtime": ("EPERM", "EINVAL")}),
    Proof(("RestrictNamespaces=yes",), {"namespace_of_its_own": ("EPERM", "done")}),
    Proof(("LockPersonality=yes",), {"other_personality": ("EPERM", "done")}),
    Proof(
        ("ProtectSystem=strict",),
        {
            "write_usr": ("EROFS", "EACCES"),
            "write_etc": ("EROFS", "EACCES"),
            "write_opt": ("EROFS", "EACCES"),
            "write_configuration": ("EROFS", "EACCES"),
        },
    ),
    Proof(("ProtectHome=yes",), {"see_home": ("EACCES", "done"), "see_root": ("EACCES", "done")}),
    Proof(("PrivateTmp=yes",), {"others_tmp": ("hidden", "seen")}),
    Proof(("PrivateMounts=yes",), {"mounts_reach_others": ("no", "yes")}),
    Proof(("InaccessiblePaths=-/boot",), {"see_boot": ("EACCES", "done")}),
    Proof(("ProtectProc=invisible",), {"others_processes": ("ENOENT", "done")}),
    Proof(("ProtectControlGroups=yes",), {"control_groups": ("EROFS", "EACCES")}),
    Proof(("ProtectKernelLogs=yes",), {"kernel_log": ("0000", "0600")}),
    Proof(("ProtectKernelModules=yes",), {"modules": ("EACCES", "done")}),
    Proof(
        ("ProtectKernelTunables=yes",),
        {"kernel_settings": ("EROFS", "EACCES"), "kernel_symbols": ("0000", "0444")},
    ),
    Proof(("ProtectClock=yes",), {"set_clock": ("EPERM", "done")}),
    Proof(("ProtectHostname=yes",), {"host_name": ("its own", "the machine's")}),
    Proof(
        (_NOT_RUN,),
        {
            "run_from_tmp": ("EACCES", "done"),
            "run_from_var_tmp": ("EACCES", "done"),
            "run_from_memory": ("EACCES", "done"),
            "run_from_state": ("EACCES", "done"),
            "run_from_cache": ("EACCES", "done"),
            "run_from_logs": ("EACCES", "done"),
            "run_from_runtime": ("EACCES", "done"),
            "load_from_state": ("EPERM", "done"),
        },
        given=_WRITABLE,
    ),
    Proof(
        _CLOSED, {"console": ("EPERM", "done"), "usb_camera": ("EPERM", "ENXIO"), "null": ("done", "done")}
    ),
    # ENXIO: it was let through, and there is no such device here
    Proof(("DeviceAllow=char-video4linux rw",), {"camera": ("ENXIO", "EPERM")}, given=_CLOSED),
    Proof(("DeviceAllow=char-media rw",), {"media_controller": ("ENXIO", "EPERM")}, given=_CLOSED),
    Proof(("DeviceAllow=char-drm rw",), {"gpu": ("ENXIO", "EPERM")}, given=_CLOSED),
    Proof(("DeviceAllow=char-accel rw",), {"npu": ("ENXIO", "EPERM")}, given=_CLOSED),
    Proof(("SystemCallArchitectures=native",), {"foreign_system_calls": ("refused", "done")}),
    Proof(
        (
            "SystemCallFilter=@system-service",
            "SystemCallFilter=~@privileged @resources",
            f"SystemCallFilter={_THREADS}",
            "SystemCallErrorNumber=EPERM",
        ),
        {
            "trace_another": ("EPERM", "done"),
            "bpf": ("EPERM", "EINVAL"),
            "change_owner": ("EPERM", "done"),
            "io_priority": ("EPERM", "done"),
            "place_threads": ("done", "done"),
        },
    ),
    Proof(
        ("RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",),
        {
            "vsock_socket": ("EAFNOSUPPORT", "done"),
            "packet_socket": ("EAFNOSUPPORT", "EPERM"),
            "netlink_socket": ("done", "done"),
            "unix_socket": ("done", "done"),
        },
    ),
    Proof(
        ("IPAddressDeny=any", _ADDRESSES),
        {
            "reach_itself": ("done", "done"),
            "reach_plant": ("done", "done"),
            "reach_office": ("done", "done"),
            "reach_workshop": ("done", "done"),
            "reach_ula": ("done", "done"),
            "reach_unconfigured_camera": ("ETIMEDOUT", "done"),
            "reach_internet": ("ETIMEDOUT", "done"),
            "reach_internet_6": ("ETIMEDOUT", "done"),
        },
    ),
]
"""Seen by a program under the unit's settings."""

SHOWN = {
    "TimeoutStartSec=300": ("TimeoutStartUSec", "5min"),
    "TimeoutStopSec=20": ("TimeoutStopUSec", "20s"),
    "TimeoutAbortSec=5": ("TimeoutAbortUSec", "5s"),
    "RestartSec=2": ("RestartUSec", "2s"),
    "MemoryHigh=1800M": ("MemoryHigh", str(1800 * 2**20)),
    "MemoryMax=2G": ("MemoryMax", str(2 * 2**30)),
    "MemorySwapMax=0": ("MemorySwapMax", "0"),
    "TasksMax=256": ("TasksMax", "256"),
    "OOMScoreAdjust=-500": ("OOMScoreAdjust", "-500"),
}
"""Limits that systemd has taken over; a container here has no controllers that would keep them."""

TESTED = {
    "Type=notify": "test_a_start_ends_when_the_stations_run",
    "ExecStart=": "test_a_start_ends_when_the_stations_run",
    "ExecReload=": "test_a_reload_changes_the_rules_between_two_inspections",
    "WatchdogSec=10": "test_a_process_that_hangs_is_told_where_and_started_again",
    "WatchdogSignal=SIGABRT": "test_a_process_that_hangs_is_told_where_and_started_again",
    "Restart=on-failure": "test_a_killed_service_comes_back_and_nothing_is_lost",
    "RestartPreventExitStatus=78": "test_a_wrong_configuration_is_not_started_again_and_status_says_where",
}
"""Promised by a test of the running service, by name."""

DROP_INS = {
    "industrial-cameras": [
        Proof(
            (
                "AmbientCapabilities=CAP_NET_RAW",
                "CapabilityBoundingSet=CAP_NET_RAW",
                "RestrictAddressFamilies=AF_PACKET",
            ),
            {
                "packet_socket": ("done", "EAFNOSUPPORT"),
                "capabilities": ("0000000000002000", "0000000000000000"),
            },
        ),
        Proof(
            ("IPAddressAllow=169.254.0.0/16 255.255.255.255",),
            {
                "reach_unconfigured_camera": ("done", "ETIMEDOUT"),
                "ask_everybody": ("done", "EPERM"),
                "reach_internet": ("ETIMEDOUT", "ETIMEDOUT"),
            },
        ),
        Proof(("DeviceAllow=char-usb_device rw",), {"usb_camera": ("ENXIO", "EPERM")}),
    ],
    "gpio": [Proof(("DeviceAllow=char-gpiochip rw",), {"light_barrier": ("ENXIO", "EPERM")})],
    "onnxruntime-only": [Proof(("MemoryDenyWriteExecute=yes",), {"writable_code": ("EPERM", "done")})],
}
"""Seen under the unit with the drop-in, and with the unit alone."""
