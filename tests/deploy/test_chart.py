"""The Helm chart and the systemd units: rendered by helm itself, and what refers to each other fits."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from canary.settings import Settings
from canary.settings.serving import ApiSettings
from dashboards.__main__ import ROOT
from dashboards.boards import boards
from dashboards.rules import groups
from tests.support.command import canary

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART = ROOT / "deploy/helm/kafka-durability-canary"
CLUSTERS = {
    "CANARY_CLUSTERS__0__NAME": "prod",
    "CANARY_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "b:9092",
}
EVERYTHING = {
    "monitoring.serviceMonitor.enabled": "true",
    "monitoring.prometheusRule.enabled": "true",
    "monitoring.dashboards.enabled": "true",
    "reconcile.enabled": "true",
    "runner.shards": "3",
    "api.ingress.enabled": "true",
    "api.ingress.tlsSecret": "tls",
    "secretEnv[0].name": "CANARY_STORE__URL",
    "secretEnv[0].secret": "store",
    "secretEnv[0].key": "url",
}


def helm(*arguments: str) -> str:
    found = os.environ.get("HELM") or shutil.which("helm")
    assert found, "helm is missing: go install helm.sh/helm/v3/cmd/helm@latest, or set HELM"
    ran = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rendered(**values: str) -> dict[str, dict[str, Any]]:
    """Return what the chart makes, by kind/name."""
    options = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    text = helm("template", "x", str(CHART), "--kube-version", "1.31.0", "--namespace", "canary", *options)
    found = [one for one in yaml.safe_load_all(text) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def pods(objects: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (name, workload, pod template)."""
    for name, one in objects.items():
        if one["kind"] in {"Deployment", "StatefulSet"}:
            yield name, one, one["spec"]["template"]
        elif one["kind"] == "CronJob":
            yield name, one, one["spec"]["jobTemplate"]["spec"]["template"]


@pytest.mark.e2e
def test_the_chart_is_clean_and_renders_with_little_and_with_everything() -> None:
    helm("lint", "--strict", str(CHART))
    little, everything = rendered(), rendered(**EVERYTHING)
    assert set(little) < set(everything)
    kinds = {name.partition("/")[0] for name in everything}
    assert kinds >= {"StatefulSet", "Deployment", "CronJob", "ServiceMonitor", "PrometheusRule", "NetworkPolicy"}


@pytest.mark.e2e
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["little", "everything"])
def test_what_kubernetes_knows_is_as_its_schemas_want_it(values: dict[str, str]) -> None:
    objects = rendered(**values)
    own = {name: one for name, one in objects.items() if "monitoring.coreos.com" not in one["apiVersion"]}
    assert len(own) > 8
    for one in own.values():
        kubernetes_validate.validate(one, "1.31", strict=True)


@pytest.mark.e2e
def test_what_refers_to_each_other_fits() -> None:
    objects = rendered(**EVERYTHING)
    labelled = [template["metadata"]["labels"] for _, _, template in pods(objects)]
    for name, workload, template in pods(objects):
        if "selector" in workload["spec"]:
            wanted = workload["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= template["metadata"]["labels"].items(), name
            assert sum(wanted.items() <= labels.items() for labels in labelled) == 1, f"{name} selects others' pods"
        volumes = {volume["name"] for volume in template["spec"]["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        for volume in template["spec"]["volumes"]:
            if "configMap" in volume:
                assert f"ConfigMap/{volume['configMap']['name']}" in objects
        for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, name
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]
            assert any(
                one["name"] == "CANARY_STORE__URL" and "secretKeyRef" in one["valueFrom"] for one in container["env"]
            )
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        assert f"ServiceAccount/{template['spec']['serviceAccountName']}" in objects
    for name, one in objects.items():
        assert len(one["metadata"]["name"]) <= 63
        if one["kind"] == "Service":
            assert any(one["spec"]["selector"].items() <= labels.items() for labels in labelled), name


@pytest.mark.e2e
def test_each_runner_has_its_share_and_other_parts_have_none() -> None:
    objects = rendered(**EVERYTHING)
    runner = objects["StatefulSet/x-runner"]["spec"]
    assert runner["replicas"] == 3
    told = {one["name"]: one for one in runner["template"]["spec"]["containers"][0]["env"]}
    names = [one["name"] for one in runner["template"]["spec"]["containers"][0]["env"]]
    assert told["CANARY_CLUSTERS__0__SHARD"]["value"] == "$(POD_INDEX)/3"
    assert names.index("POD_INDEX") < names.index("CANARY_CLUSTERS__0__SHARD")  # only then it is put in place
    for name, _one, template in pods(objects):
        if name != "StatefulSet/x-runner":
            assert "SHARD" not in json.dumps(template), name
    alone = rendered()["StatefulSet/x-runner"]["spec"]
    assert alone["replicas"] == 1
    assert "SHARD" not in json.dumps(alone)
    given = dict(CLUSTERS, CANARY_CLUSTERS__0__SHARD="2/3")
    assert Settings.load(None, given).clusters[0].share.mine(6) == (2, 5)


@pytest.mark.e2e
def test_the_nightly_job_asks_for_what_the_command_line_takes() -> None:
    objects = rendered(**EVERYTHING, **{"reconcile.master": "k8s://https://kubernetes.default"})
    pod = objects["CronJob/x-reconcile"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        command, *options = container["args"]
        said = canary(command, "--help").out
        for option in options:
            assert option.split("=")[0] in said, (command, option)
    assert "--probe-log=/var/lib/canary/probe-log" in pod["containers"][0]["args"]


@pytest.mark.e2e
def test_settings_and_rules_in_the_chart_are_the_real_ones() -> None:
    objects = rendered(**EVERYTHING)
    settings = objects["ConfigMap/x-settings"]["data"]["canary.yaml"]
    assert Settings.model_validate(yaml.safe_load(settings)).clusters[0].name == "prod"
    names = {rule["alert"] for group in objects["PrometheusRule/x"]["spec"]["groups"] for rule in group["rules"]}
    assert names == {rule.name for rules in groups().values() for rule in rules}
    shown = {name: json.loads(text) for name, text in objects["ConfigMap/x-dashboards"]["data"].items()}
    assert shown == {f"{uid}.json": json.loads(text) for uid, text in boards().items()}


def api_of(**values: str) -> dict[str, str]:
    """Return the environment of the API that the chart makes, without what comes from elsewhere."""
    (container,) = rendered(**values)["Deployment/x-api"]["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


@pytest.mark.e2e
def test_links_lead_to_the_url_that_is_set_else_to_the_ingress_else_nowhere() -> None:
    ingress = {"api.ingress.enabled": "true", "api.ingress.host": "canary.corp"}
    url = {"settings.api.url": "https://elsewhere.corp"}
    for values, address in (
        ({}, None),
        (ingress, "http://canary.corp"),
        (ingress | {"api.ingress.tlsSecret": "tls"}, "https://canary.corp"),
        (url, "https://elsewhere.corp"),
        (ingress | url, "https://elsewhere.corp"),
    ):
        content = yaml.safe_load(rendered(**values)["ConfigMap/x-settings"]["data"]["canary.yaml"])
        own = {name: value for name, value in api_of(**values).items() if name.startswith("CANARY_API__")}
        settings = Settings.model_validate(content).api.model_dump(exclude_unset=True)
        told = {"url": own["CANARY_API__URL"]} if "CANARY_API__URL" in own else {}
        hosts = json.loads(own["CANARY_API__HOSTS"])
        api = ApiSettings.model_validate(settings | told | {"host": own["CANARY_API__HOST"], "hosts": hosts})
        assert api.address == address
        assert {"x-api", "x-api.canary", "x-api.canary.svc", "x-api.canary.svc.cluster.local"} <= set(api.hosts)
        assert ("canary.corp" in api.hosts) == ("api.ingress.enabled" in values)


@pytest.mark.e2e
def test_names_of_the_settings_are_known_beside_the_chart_s() -> None:
    hosts = json.loads(api_of(**{"settings.api.hosts[0]": "own.corp"})["CANARY_API__HOSTS"])
    assert {"own.corp", "x-api"} <= set(hosts)


@pytest.mark.parametrize("part", ["run", "serve", "schedule"])
def test_a_unit_starts_its_part_hardened_and_ends_for_good_what_a_restart_cannot_mend(part: str) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd tells capitals apart
    unit.read(ROOT / f"deploy/systemd/canary-{part}.service", encoding="utf-8")
    service = dict(unit["Service"])
    assert service["ExecStart"].split()[1] == part
    assert service["RestartPreventExitStatus"] == "2 4"
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    verify = shutil.which("systemd-analyze")
    if verify:
        said = subprocess.run(
            [verify, "verify", str(ROOT / f"deploy/systemd/canary-{part}.service")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert [line for line in said.stderr.splitlines() if "canary" in line and "not executable" not in line] == []
