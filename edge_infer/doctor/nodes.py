"""Device files of cameras: permission of the service's user, and names that stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """Of the configuration's; without one, of all that are there."""
    machine, who, site = subject.machine, subject.who, subject.site
    there = sorted(machine.path("/dev").glob("video[0-9]*"))
    if site is None:
        for node in there:
            if (trouble := who.may_use(node)) is not None:
                yield warn("nodes", trouble, who.mend(node))
        if subject.config is None:
            yield ok(
                "nodes", f"{len(there)} nodes of cameras: {', '.join(one.name for one in there) or 'none'}"
            )
        return
    from edge_infer.sources.v4l2 import V4l2

    for name, camera in site.cameras.items():
        if not isinstance(camera, V4l2):
            continue
        node = machine.path(str(camera.path))
        try:
            trouble = who.may_use(node)
        except OSError:
            # whoever opens it says so, and which ones are there
            continue
        if trouble is not None:
            yield fail(f"nodes.{name}", trouble, who.mend(node))
        elif re.fullmatch(r"/dev/video\d+", str(camera.path)) and len(there) > 1:
            links = [
                one
                for one in sorted(machine.path("/dev/v4l/by-path").glob("*"))
                if one.resolve() == node.resolve()
            ]
            instead = str(links[0]) if links else "its name below /dev/v4l/by-path"
            yield warn(
                f"nodes.{name}",
                f"{camera.path} may be another camera after the next start: there are {len(there)} nodes",
                f"write path: {instead}",
            )
        else:
            yield ok(f"nodes.{name}", f"{camera.path}: {who.name} may use it")
