"""python -m tests.kubernetes IMAGE PARTS-IMAGE: the chart on a real node, from nothing to a night, and what was seen.

The log is Markdown on stdout, for docs/kubernetes-proof.md: each step with its time, and what it showed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from canary.lab.jars import cache
from canary.lab.state import free_ports
from tests.kubernetes.node import CHART, ROOT, Node, run
from tests.support.prometheus import program, running, until_ready
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.node import Api

FORMS = sorted((CHART / "examples").iterdir())
BUCKET = {"probe_log": {"url": "s3://canary/probe-log"}}
OURS = "app.kubernetes.io/name=kafka-durability-canary"
CUT_BYTES = 500
SHARED = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "canary-shared"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
FIRST = "0627a08^"
"""The last commit of version 0.1.0."""


def say(words: str) -> None:
    """Tell a line of the log."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> int:
    """Prove it."""
    image, parts = sys.argv[1:3]
    repository, _, tag = image.rpartition(":")
    began = time.monotonic()
    say("# The chart on a real node\n")
    say(f"{time.strftime('%Y-%m-%d')}, image `{tag}`; the node is that of deploy/kubernetes/node.sh.\n")
    with Node.up(image, parts) as node, tempfile.TemporaryDirectory() as folder:
        proof = Proof(node, {"repository": repository, "tag": tag, "pullPolicy": "Never"}, Path(folder))
        proof.everything()
    say(f"\nAll of it in {time.monotonic() - began:.0f} s; the node is down and nothing of it is left.")
    return 0


class Proof:
    """The steps, in their order."""

    def __init__(self, node: Node, image: dict[str, str], folder: Path) -> None:
        self.node, self.image, self.folder = node, image, folder

    def everything(self) -> None:
        """Perform all steps."""
        node = self.node
        with step("PostgreSQL, an object store and three brokers run"):
            jars = cache.fetch()
            node.kubectl(
                "apply",
                "--filename",
                "-",
                give=(ROOT / "tests/kubernetes/parts.yaml").read_text().replace("JARS", str(jars)),
            )
            for number in range(16):
                node.kubectl("apply", "--filename", "-", give=json.dumps(volume(self.folder, number)))
            node.ready("app in (postgres, s3)", 2)
            node.ready("app=kafka", 3)
        with step("`helm install`: every part is ready, and `canary config check` finds nothing") as said:
            node.helm("install", "eu", CHART, "--values", self.values("object-store"), "--wait", "--timeout", "5m")
            said(last(node.kubectl("exec", "eu-runner-0", "--container", "runner", "--", "canary", "config", "check")))
        api = node.api("eu")
        with step("probes flow") as said:
            until(lambda: api.metric("canary_probes_seen_total") > 100, 120, "probes are seen")
            acked, seen = (api.metric(f"canary_probes_{name}_total") for name in ("acked", "seen"))
            said(f"{acked:.0f} acknowledged, {seen:.0f} deliveries, no violation")
            assert api.json("/api/v1/violations")["items"] == []
        with (
            prometheus(self.folder, api) as alerts,
            step("all replicas lose the end of their log: said, and the alert fires") as said,
        ):
            self.lose()
            lost = until(
                lambda: [one for one in api.json("/api/v1/violations")["items"] if one["kind"] == "lost-write"],
                180,
                "the loss is said",
            )
            said(f"{lost[0]['severity']}: {lost[0]['summary']}")
            until(lambda: "CanaryLostWrite" in alerts(), 60, "the alert fires")
            said(f"firing: {', '.join(sorted(alerts()))}")
        with step("`helm upgrade`: pods are replaced one after the other, counters go on") as said:
            before = api.metric("canary_probes_acked_total")
            node.helm(
                "upgrade",
                "eu",
                CHART,
                "--values",
                self.values("object-store"),
                "--set",
                "settings.clusters[0].modes.idempotent.interval=200ms",
                "--wait",
                "--timeout",
                "5m",
            )
            api = node.api("eu")
            until(lambda: api.metric("canary_probes_acked_total") > before, 120, "counters go on")
            said(f"{before:.0f} acknowledged before, {api.metric('canary_probes_acked_total'):.0f} after")
        with step("the runner's pod is deleted: another one goes on with its ledger") as said:
            self.survives(api, lambda: node.kubectl("delete", "pod", "eu-runner-0"), said)
        with step("the node is drained of the canary: every pod goes, and comes back") as said:

            def drained() -> None:
                run("kubectl", "drain", "node", "--pod-selector", OURS, "--delete-emptydir-data", "--timeout", "120s")
                run("kubectl", "uncordon", "node")

            self.survives(api, drained, said)
        with step("a night with Spark's executors as pods: it finds the same writes lost") as said:
            self.night(said)
        with step("an upgrade from the chart 0.1.0") as said:
            self.upgrade(said)
        with step("every form of the documentation starts") as said:
            self.forms(said)

    def values(self, form: str, *, alone: bool = False) -> Path:
        """Write a form's values with this node's addresses; return the file. ``alone``: with clusters of its own."""
        values = yaml.safe_load((CHART / f"examples/{form}.yaml").read_text())
        settings = values["settings"]
        for number, cluster in enumerate(settings["clusters"]):
            name = f"{form}-{number}" if alone else "durability-canary"
            cluster["name"] = name if alone else cluster["name"]
            cluster["kafka"] = {"bootstrap.servers": "kafka-0.kafka:9092,kafka-1.kafka:9092"}
            cluster["topic"] = {"name": name, "partitions": 3, "replication_factor": 3}
        settings["runner"] = {"segment_age": "5s"}
        own = [
            {"name": name, "secret": "canary-bucket", "key": key}
            for name, key in (
                ("AWS_ACCESS_KEY_ID", "id"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
                ("AWS_ENDPOINT_URL_S3", "endpoint"),
            )
        ]
        if not values.get("onePod"):
            settings |= BUCKET
            values["secretEnv"] = [{"name": "CANARY_STORE__URL", "secret": "canary-store", "key": "url"}, *own]
        values["image"] = self.image
        if form != "shared-volume":
            values["extraVolumes"] = values["extraVolumeMounts"] = []
        values["serviceAccount"] = {"annotations": {}}
        values["podDisruptionBudget"] = {"maxUnavailable": "100%"}  # there is no other node on which a pod could start
        values["reconcile"] = {
            "enabled": not values.get("onePod"),
            "master": "k8s://https://kubernetes.default.svc",
            "dump": "s3://canary/dump",
            "out": "s3://canary/reconciled",
            "conf": {"spark.kubernetes.executor.request.cores": "200m"},
            "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"memory": "3Gi"}},
        }
        file = self.folder / f"{form}.yaml"
        file.write_text(yaml.safe_dump(values))
        return file

    def lose(self) -> None:
        """Stop all brokers at once, and cut the end of one partition on each."""
        for number in range(3):
            self.node.kubectl("exec", f"kafka-{number}", "--", "sh", "-c", f"echo {CUT_BYTES} >/data/cut")
        for number in range(3):
            self.node.kubectl("exec", f"kafka-{number}", "--", "sh", "-c", "kill -9 $(pidof java)")
        self.node.ready("app=kafka", 3)

    def survives(self, api: Api, harm: Any, said: Any) -> None:
        """Do it, and see that probing goes on, that nothing new is said, and how long nothing was acknowledged."""
        violations = len(api.json("/api/v1/violations")["items"])
        before, at = api.metric("canary_probes_acked_total"), time.monotonic()
        harm()
        self.node.ready(f"{OURS},app.kubernetes.io/instance=eu,app.kubernetes.io/component!=reconcile", 4)
        api = self.node.api("eu")
        until(lambda: api.metric("canary_probes_acked_total") > before + 10, 60, "probing goes on")
        found = api.json("/api/v1/violations")["items"]
        assert len(found) == violations, found
        said(f"probing again after {time.monotonic() - at:.0f} s; nothing is said of it")

    def night(self, said: Any) -> None:
        """Run the nightly job now, and once more in one process: what both leave is the same to the byte."""
        node = self.node
        node.kubectl("scale", "statefulset", "eu-runner", "--replicas", "0")  # so that the probe log stays as it is
        node.ready(f"{OURS},app.kubernetes.io/instance=eu,app.kubernetes.io/component=runner", 0)
        node.kubectl("create", "job", "night", "--from", "cronjob/eu-reconcile")
        drivers = (
            "pods",
            "--selector",
            "batch.kubernetes.io/job-name=night",
            "--sort-by",
            "metadata.creationTimestamp",
        )

        def dumps() -> Any:
            pods = node.get(*drivers)["items"]
            return next((one["metadata"]["name"] for one in pods if "running" in init_state(one)), None)

        first = until(dumps, 120, "the night has begun")
        run(
            "kubectl", "drain", "node", "--pod-selector", "batch.kubernetes.io/job-name=night", "--delete-emptydir-data"
        )
        run("kubectl", "uncordon", "node")
        executors = set[str]()
        killed = list[str]()

        def ended() -> bool:
            pods = node.get("pods", "--selector", "spark-role=executor")["items"]
            executors.update(one["metadata"]["name"] for one in pods)
            working = [one["metadata"]["name"] for one in pods if one["status"]["phase"] == "Running"]
            if len(working) >= 2 and not killed and node.get("job", "night")["status"].get("ready"):
                killed.append(working[0])
                node.kubectl("delete", "pod", working[0], "--grace-period", "0", "--force")
            status = node.get("job", "night")["status"]
            return bool(status.get("succeeded") or status.get("failed"))

        until(ended, 300, "the night is over")
        last_one = node.get(*drivers)["items"][-1]["metadata"]["name"]
        assert first != last_one
        said("its pod is drained while it dumps: another one begins again")
        said_all = node.kubectl("logs", last_one, "--container", "reconcile")
        report = json.loads(said_all[said_all.rindex("\n{") :])
        assert report["summary"]["acked_lost"] > 0, report
        assert len(executors) >= 3, executors
        assert killed
        table = report["summary"]
        tried, lost = table["attempted"], table["acked_lost"]
        said(
            f"{len(executors)} executors, of which one was deleted, {tried} attempted, {lost} acknowledged writes lost"
        )
        inside = ("exec", "--stdin", "deployment/eu-scheduler", "--")
        urls = ("--probe-log", "s3://canary/probe-log", "--dump", "s3://canary/dump", "--out", "/var/lib/canary/here")
        alone = node.kubectl(*inside, "sh", "-c", 'canary reconcile --json "$@" || test $? = 1', "sh", *urls)
        assert json.loads(alone[alone.index("{") :])["summary"] == table
        same = (ROOT / "tests/support/reconciled.py").read_text()
        count = node.kubectl(*inside, "python", "-", "s3://canary/reconciled", "/var/lib/canary/here", give=same)
        said(f"without executors, in one process: the same {count} files, to the byte")
        node.kubectl("scale", "statefulset", "eu-runner", "--replicas", "1")

    def upgrade(self, said: Any) -> None:
        """Install the chart of version 0.1.0, with this image, and upgrade it to this chart."""
        old = self.folder / "old"
        old.mkdir()
        archive = subprocess.run(
            ["git", "archive", FIRST, CHART.relative_to(ROOT)], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", old], input=archive.stdout, check=True)
        values = yaml.safe_load(self.values("object-store").read_text())
        del values["reconcile"]
        file = self.folder / "first.yaml"
        file.write_text(yaml.safe_dump(values))
        self.node.helm("install", "first", old / CHART.relative_to(ROOT), "--values", file, "--wait", "--timeout", "5m")
        api = self.node.api("first")
        until(lambda: api.metric("canary_probes_acked_total") > 10, 120, "it probes")
        self.node.helm("upgrade", "first", CHART, "--values", self.values("object-store"), "--wait", "--timeout", "5m")
        api = self.node.api("first")
        assert api.json("/api/v1/violations", kind="memory-lost")["items"] == []
        said("every pod is replaced, the runner has its volume, and nothing is forgotten")
        self.node.helm("uninstall", "first", "--wait")

    def forms(self, said: Any) -> None:
        """Start each form of the documentation with this node's addresses, and remove it again."""
        self.node.kubectl("apply", "--filename", "-", give=json.dumps(SHARED))
        for form in FORMS:
            name = form.stem
            self.node.helm(
                "install", name, CHART, "--values", self.values(name, alone=True), "--wait", "--timeout", "5m"
            )
            pods = self.node.get("pods", "--selector", f"app.kubernetes.io/instance={name}")["items"]
            said(f"{name}: {len(pods)} pods")
            self.node.helm("uninstall", name, "--wait")


def init_state(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a pod's first init container, as Kubernetes tells it."""
    (told, *_) = pod["status"].get("initContainerStatuses") or [{}]
    state: dict[str, Any] = told.get("state", {})
    return state


def volume(folder: Path, number: int) -> dict[str, Any]:
    """Return a volume of the node's for one claim; its folder is the canary's user's."""
    path = folder / f"volume-{number}"
    path.mkdir()
    run("chown", "10001:10001", path)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{number}"},
        "spec": {
            "capacity": {"storage": "50Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path)},
        },
    }


@contextmanager
def step(what: str) -> Iterator[Any]:
    """Tell a step, what it showed, and how long it took."""
    began = time.monotonic()
    say(f"- **{what}**")
    yield lambda words: say(f"  - {words}")
    say(f"  - ({time.monotonic() - began:.0f} s)")


@contextmanager
def prometheus(folder: Path, api: Api) -> Iterator[Any]:
    """Run Prometheus with the chart's rules beside the node; yield what is firing."""
    token = folder / "token"
    token.write_text(api.client.headers["Authorization"].removeprefix("Bearer "))
    host = httpx.URL(api.url)
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(CHART / "files/rules.yml")],
        "scrape_configs": [
            {
                "job_name": "canary",
                "authorization": {"credentials_file": str(token)},
                "static_configs": [{"targets": [f"{host.host}:{host.port}"]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    command = (
        program("PROMETHEUS", "prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with running(*command, log=folder / "prometheus.log"):
        until_ready(address, folder)
        yield lambda: {
            one["labels"]["alertname"]
            for one in httpx.get(f"{address}/api/v1/alerts").json()["data"]["alerts"]
            if one["state"] == "firing"
        }


def last(said: str) -> str:
    """Return the last line."""
    return said.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
