"""One real Kubernetes node (deploy/kubernetes/node.sh), and what is asked of it."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy/kubernetes/node.sh"
CHART = ROOT / "deploy/helm/kafka-durability-canary"
NAMESPACE = "canary"


def run(*command: object, give: str | None = None) -> str:
    """Run a command to its end; return what it wrote.

    Raises:
        AssertionError: it failed, with what it said.
    """
    done = subprocess.run([str(part) for part in command], input=give, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}{done.stdout[-2000:]}"
    return done.stdout


class Node:
    """The node, in one namespace of it."""

    @classmethod
    @contextmanager
    def up(cls, *images: str) -> Iterator[Node]:
        """Bring it up with images of buildah's; take it down when the block ends."""
        try:
            run(SCRIPT, "up")
            os.environ["KUBECONFIG"] = run(SCRIPT, "config").strip()
            run(SCRIPT, "load", *images)
            run("kubectl", "create", "namespace", NAMESPACE)
            yield cls()
        finally:
            run(SCRIPT, "down")

    def kubectl(self, *words: object, give: str | None = None) -> str:
        """Run kubectl in the namespace."""
        return run("kubectl", "--namespace", NAMESPACE, *words, give=give)

    def get(self, *words: str) -> Any:
        """Return what ``kubectl get`` tells, as JSON."""
        return json.loads(self.kubectl("get", *words, "--output", "json"))

    def helm(self, *words: object) -> str:
        """Run helm in the namespace."""
        return run(os.environ.get("HELM", "helm"), "--namespace", NAMESPACE, *words)

    def ready(self, selector: str, number: int, within_s: float = 180) -> None:
        """Wait until so many pods, and no others, are ready."""

        def reached() -> bool:
            pods = self.get("pods", "--selector", selector)["items"]
            return len(pods) == number and all(map(_is_ready, pods))

        try:
            until(reached, within_s, f"{number} pods of {selector} are ready")
        except AssertionError as error:
            told = self.kubectl("describe", "pods", "--selector", selector)
            raise AssertionError(f"{error}\n{told[-6000:]}") from error

    def api(self, release: str) -> Api:
        """Return the API of a release, by the address of its service."""
        address = self.get("service", f"{release}-api")["spec"]["clusterIP"]
        pod = self.get("pods", "--selector", f"app.kubernetes.io/instance={release},app.kubernetes.io/component=api")
        name = pod["items"][0]["metadata"]["name"]
        token = self.kubectl("exec", name, "--", "canary", "token", "create", "proof", "--scope", "operate", "--json")
        return Api(f"http://{address}:8080", json.loads(token)["token"])


class Api:
    """A canary's API, asked with a token."""

    def __init__(self, url: str, token: str) -> None:
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20)
        self.url = url

    def json(self, path: str, **params: Any) -> Any:
        """Return an answer's JSON."""
        answer = self.client.get(path, params=params)
        answer.raise_for_status()
        return answer.json()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series that have these labels."""
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

        found = text_string_to_metric_families(self.client.get("/metrics").text)
        return sum(
            sample.value
            for family in found
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def _is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
