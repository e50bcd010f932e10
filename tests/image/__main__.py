"""python -m tests.image IMAGE PARTS-IMAGE: the image as a careful operator runs it, and as the compose file does.

PARTS-IMAGE (tests/kubernetes/parts.sh) has PostgreSQL.

PODMAN is the command (default: podman), PODMAN_RUN what this machine needs besides for `run`. The log is Markdown on
stdout, for docs/image-proof.md.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from canary.lab.jars import cache
from tests.kubernetes.node import run
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

PODMAN = shlex.split(os.environ.get("PODMAN", "podman"))
DEPLOY = Path(__file__).parents[2] / "deploy"
PARTS = Path(__file__).parents[1] / "kubernetes/parts.yaml"
RUN = shlex.split(os.environ.get("PODMAN_RUN", ""))
CAREFUL = (
    *("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=64m"),  # noqa: S108  # its own
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
)
UID = 10001
ASKS = """
import json, sys, urllib.request
body = sys.argv[2].encode() if len(sys.argv) > 2 else None
asked = urllib.request.Request(f"http://127.0.0.1:8080{sys.argv[1]}", body, {"Content-Type": "application/json"})
sys.stdout.write(urllib.request.urlopen(asked, timeout=20).read().decode())
"""
LOOKS = """
from pathlib import Path
import os, shutil, stat
gain = [str(one) for top in ("/usr", "/opt", "/etc", "/var") for one in Path(top).rglob("*")
        if one.is_file() and not one.is_symlink() and one.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
assert not gain, gain
tools = [name for name in ("gcc", "cc", "make", "mvn", "git", "pip", "pip3", "curl", "wget") if shutil.which(name)]
assert not tools, tools
assert os.getuid() != 0
for place in ("/opt/canary/new", "/usr/new", "/etc/new"):
    try:
        Path(place).write_text("")
    except OSError:
        continue
    raise AssertionError(place)
script = Path("/tmp/script")
script.write_text("#!/bin/sh\\n")
script.chmod(0o755)
try:
    os.execv(script, ["script"])
except PermissionError:
    print("not root, nothing may gain rights, no compiler, no package manager of Python, nothing to write but the"
          " volume and /tmp, which executes nothing")
"""


def podman(*words: object) -> str:
    """Run podman to its end; return what it wrote."""
    return run(*PODMAN, *words)


@contextmanager
def container(name: str, *words: object) -> Iterator[None]:
    """Let a container run."""
    podman("run", "--detach", "--name", name, *RUN, *words)
    try:
        yield
    except BaseException:
        sys.stderr.write(
            subprocess.run([*PODMAN, "logs", name], capture_output=True, text=True, check=False).stderr[-6000:]
        )
        raise
    finally:
        podman("rm", "--force", "--time", "5", name)


def ask(path: str, body: object = None) -> Any:
    """Return an answer of the API, asked inside."""
    given = [] if body is None else [json.dumps(body)]
    said = podman("exec", "canary", "python", "-c", ASKS, path, *given)
    return said if path == "/metrics" else json.loads(said)


def acked() -> float:
    """Return how many probes are acknowledged."""
    lines = ask("/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("canary_probes_acked_total{"))


def say(words: str) -> None:
    """Tell a line of the log."""
    sys.stdout.write(f"- {words}\n")
    sys.stdout.flush()


def main(image: str, parts: str) -> None:
    """Prove it."""
    sys.stdout.write(
        f"# The image, run by a careful operator\n\n{time.strftime('%Y-%m-%d')}: `{' '.join(CAREFUL)}`\n\n"
    )
    (about,) = json.loads(podman("image", "inspect", image))
    say(f"size {about['Size'] / 1e9:.2f} GB, user {about['User']}, {len(about['Labels'])} labels")
    with (
        tempfile.TemporaryDirectory(prefix="canary-image-") as folder,
        container("brokers", *brokers(Path(folder)), image, "-c", LAB),
    ):
        say(podman("exec", "brokers", "python", "-c", LOOKS).strip())
        listed = json.loads(podman("exec", "brokers", "cat", "/usr/share/canary/sbom.json"))
        kinds = [one["purl"].split("/")[0].removeprefix("pkg:") for one in listed["components"] if "purl" in one]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        say(f"{listed['bomFormat']} {listed['specVersion']}: {counts}")
        state = until(lambda: began("brokers"), 180, "the brokers run")
        volume = Path(folder, "canary")
        (volume / "canary.yaml").write_text(
            json.dumps(
                {
                    "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": state["bootstrap_servers"]}}],
                    "runner": {"segment_age": "5s"},
                    "api": {"auth": {"required": "never"}},
                }
            )
        )
        alone = ("--network", "container:brokers", "--volume", f"{volume}:/var/lib/canary")
        with container("canary", *CAREFUL, *alone, image, "up", "--config", "/var/lib/canary/canary.yaml"):
            until(healthy, 120, "it is healthy")
            until(lambda: acked() > 100, 120, "probes are acknowledged")
            say(f"`canary up`, which reaches nothing but its brokers: healthy, {acked():.0f} probes acknowledged")
            night = ask("/api/v1/reconciliations", {"cluster": "prod"})["id"]

            def over() -> Any:
                row = ask(f"/api/v1/reconciliations/{night}")
                return row if row["state"] in {"succeeded", "failed"} else None

            row = until(over, 300, "the night is over")
            assert row["state"] == "succeeded", row
            assert row["verdicts"]["survived"] > 0
            assert ask("/api/v1/violations")["items"] == []
            say(f"a night inside: {row['verdicts']}, no violation")
            began_ns = time.monotonic()
            podman("stop", "--time", "30", "canary")
            (ended,) = json.loads(podman("container", "inspect", "canary"))
            assert ended["State"]["ExitCode"] == 0, ended["State"]
            say(f"SIGTERM: it ends with 0 after {time.monotonic() - began_ns:.0f} s")
        composed(image, parts, Path(folder), state["bootstrap_servers"])


def composed(image: str, parts: str, folder: Path, bootstrap: str) -> None:
    """Run the canary with what the compose file says of it, and PostgreSQL beside it."""
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["canary"]
    settings = yaml.safe_load((DEPLOY / "canary.example.yaml").read_text())
    settings["clusters"][0]["kafka"] = {"bootstrap.servers": bootstrap}
    (folder / "canary.yaml").write_text(json.dumps(settings))
    (folder / "composed").mkdir()
    os.chown(folder / "composed", UID, UID)
    places = {"./canary.yaml": folder / "canary.yaml", "canary": folder / "composed"}
    volumes = [volume.split(":", 1) for volume in service["volumes"]]
    environment = [
        f"{name}={value.replace('${POSTGRES_PASSWORD}', 'word')}" for name, value in service["environment"].items()
    ]
    words = [
        *(["--read-only"] if service["read_only"] else []),
        *option("--tmpfs", service["tmpfs"]),
        *option("--cap-drop", service["cap_drop"]),
        *option("--security-opt", service["security_opt"]),
        *option("--env", environment),
        *option("--volume", [f"{places[source]}:{target}" for source, target in volumes]),
    ]
    (folder / "hosts").write_text("127.0.0.1 localhost postgres canary\n")
    beside = ("--network", "container:brokers", "--volume", f"{folder}/hosts:/etc/hosts:ro")
    scripts = {one["metadata"]["name"]: one for one in yaml.safe_load(PARTS.read_text())["items"]}["parts"]["data"]
    with (
        container("postgres", *beside, parts, "sh", "-c", scripts["postgres.sh"]),
        container("canary", *beside, *words, image, *service["command"]),
    ):
        until(healthy, 120, "it is healthy")
        until(lambda: acked() > 100, 120, "probes are acknowledged")
        say(f"as deploy/compose.yaml runs it, with PostgreSQL: healthy, {acked():.0f} probes acknowledged")


def option(name: str, values: list[str]) -> list[str]:
    """Return an option for each value."""
    return [word for value in values for word in (name, value)]


LAB = "canary lab up --directory lab --brokers 3 --json >lab.json && exec sleep infinity"


def brokers(folder: Path) -> tuple[str, ...]:
    """Return the options of the container of the brokers; the canary shares its network, which is loopback."""
    for name in ("brokers", "canary"):
        (folder / name).mkdir()
        os.chown(folder / name, UID, UID)
    folder.chmod(0o755)
    jars = cache.fetch()
    mounts = (f"{folder}/brokers:/var/lib/canary", f"{jars.parent}:/cache:ro")
    return (
        *CAREFUL,
        *("--network", "none", "--env", "CANARY_CACHE=/cache", "--entrypoint", "sh"),
        *(word for mount in mounts for word in ("--volume", mount)),
    )


def began(name: str) -> Any:
    """Return what the lab says of itself, None while it starts."""
    said = podman("exec", name, "sh", "-c", "cat lab.json || true")
    return json.loads(said) if said.strip() else None


def healthy() -> bool:
    """Return what the image's own health check says."""
    check = [*PODMAN, "exec", "canary", "python", "/opt/canary/deploy/healthcheck.py"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
