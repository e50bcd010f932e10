"""The Helm chart and the systemd units: rendered by helm itself, and what refers to each other fits."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from canary.settings import Settings, load
from canary.settings.kafka import SECRETS
from canary.settings.serving import ApiSettings
from dashboards.__main__ import ROOT
from dashboards.boards.catalogue import boards
from dashboards.rules import GROUPS
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
    "api.tls.secret": "api-tls",
    "api.autoscaling.enabled": "true",
    "networkPolicy.namespaces[0]": "monitoring",
    "priorityClassName": "canaries",
}
ON_PODS = {
    "reconcile.enabled": "true",
    "reconcile.master": "k8s://https://kubernetes.default.svc",
    "reconcile.dump": "s3://my-bucket/dump",
    "reconcile.out": "s3://my-bucket/reconciled",
}
KUBERNETES = "1.31.0"
KINDS = (
    "configmap-v1",
    "cronjob-batch-v1",
    "deployment-apps-v1",
    "horizontalpodautoscaler-autoscaling-v2",
    "ingress-networking-v1",
    "networkpolicy-networking-v1",
    "persistentvolumeclaim-v1",
    "poddisruptionbudget-policy-v1",
    "role-rbac-v1",
    "rolebinding-rbac-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
OPERATORS = ("PrometheusRule", "ServiceMonitor")
"""Kinds of the Prometheus operator, whose schemas are not Kubernetes' own."""
FORMS = sorted(path.stem for path in (CHART / "examples").iterdir())
"""The documented installations, each with values of its own."""
API_ELSEWHERE = "release-per-cluster"
"""The form whose API is another release's."""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    found = os.environ.get("HELM") or shutil.which("helm")
    assert found, "helm is missing: go install helm.sh/helm/v3/cmd/helm@latest, or set HELM"
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False)


def template(form: str | None, **values: str) -> subprocess.CompletedProcess[str]:
    options = ["--values", str(CHART / f"examples/{form}.yaml")] if form else []
    options += [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    return helm("template", "x", str(CHART), "--kube-version", KUBERNETES, "--namespace", "canary", *options)


def rendered(form: str = "object-store", **values: str) -> dict[str, dict[str, Any]]:
    """Return what the chart makes, by kind/name."""
    made = yaml.load_all(made_of(form, *values.items()), yaml.CSafeLoader)
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in made if one}


@cache
def made_of(form: str, *values: tuple[str, str]) -> str:
    """Return what the chart makes, as YAML."""
    ran = template(form, **dict(values))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refused(form: str | None, **values: str) -> str:
    """Return why the chart makes nothing."""
    ran = template(form, **values)
    assert ran.returncode != 0, "the chart makes it"
    return ran.stderr


def pods(objects: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (name, workload, pod template)."""
    for name, one in objects.items():
        if one["kind"] in {"Deployment", "StatefulSet"}:
            yield name, one, one["spec"]["template"]
        elif one["kind"] == "CronJob":
            yield name, one, one["spec"]["jobTemplate"]["spec"]["template"]


@pytest.mark.e2e
def test_the_chart_is_clean_and_renders_with_little_and_with_everything() -> None:
    for form in FORMS:
        linted = helm("lint", "--strict", str(CHART), "--values", str(CHART / f"examples/{form}.yaml"))
        assert linted.returncode == 0, linted.stdout + linted.stderr
    little, everything = rendered(), rendered(**EVERYTHING)
    assert set(little) < set(everything)
    kinds = {name.partition("/")[0] for name in everything}
    assert kinds >= {"StatefulSet", "Deployment", "CronJob", "ServiceMonitor", "PrometheusRule", "NetworkPolicy"}


@pytest.mark.e2e
def test_what_kubernetes_knows_is_as_its_schemas_want_it(schemas: Path, tmp_path: Path) -> None:
    installations: dict[str, tuple[str, dict[str, str]]] = {form: (form, {}) for form in FORMS}
    installations |= {"everything": ("object-store", EVERYTHING), "on-pods": ("object-store", ON_PODS)}
    made: list[str] = []
    for name, (form, values) in installations.items():
        objects = rendered(form, **values)
        made += objects
        (tmp_path / f"{name}.yaml").write_text(yaml.dump_all(objects.values(), Dumper=yaml.CSafeDumper))
    (workload,) = (one for name, one in rendered("one-pod").items() if name.startswith("StatefulSet"))
    workload["spec"]["replica"] = 1
    (tmp_path / "misspelt.yaml").write_text(yaml.dump(workload, Dumper=yaml.CSafeDumper))
    said = kubeconform(schemas, tmp_path)
    assert [Path(one["filename"]).name for one in said["resources"]] == ["misspelt.yaml"], said
    assert said["summary"] == {
        "valid": sum(not one.startswith(tuple(OPERATORS)) for one in made),
        "invalid": 1,
        "errors": 0,
        "skipped": sum(one.startswith(tuple(OPERATORS)) for one in made),
    }


@pytest.fixture
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kubernetes' schemas, each a file that needs no other: kubeconform loads nothing from its folder's root."""
    folder = tmp_path_factory.mktemp("schemas")
    shared = "/api/_definitions.json#/$defs"
    given = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict"
    definitions = json.loads((given / "_definitions.json").read_text().replace(shared, "#/$defs"))["$defs"]
    for kind in KINDS:
        schema = json.loads((given / f"{kind}.json").read_text().replace(shared, "#/$defs"))
        (folder / f"{kind}.json").write_text(json.dumps(schema | {"$defs": definitions}))
    return folder


def kubeconform(schemas: Path, manifests: Path) -> dict[str, Any]:
    """Return what it says of the files of a folder; of resources only of those that are wrong."""
    where = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ["-strict", "-output", "json", "-summary", "-skip", ",".join(OPERATORS), "-schema-location", where]
    said = subprocess.run(["kubeconform", *options, manifests], capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


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
    assert load(None, given).clusters[0].share.mine(6) == (2, 5)


@pytest.mark.e2e
@pytest.mark.parametrize("tls", [{}, {"api.tls.secret": "tls"}, {"settings.api.tls.certificate": "/c"}], ids=str)
def test_probes_and_prometheus_ask_as_the_api_answers(tls: dict[str, str]) -> None:
    objects = rendered(**tls, **{"monitoring.serviceMonitor.enabled": "true"})
    (api,) = objects["Deployment/x-api"]["spec"]["template"]["spec"]["containers"]
    scheme = "HTTPS" if tls else "HTTP"
    assert {api[probe]["httpGet"]["scheme"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        scheme
    }
    assert objects["ServiceMonitor/x"]["spec"]["endpoints"][0]["scheme"] == scheme.lower()


@pytest.mark.e2e
def test_a_drain_never_waits_for_ever_and_pods_of_a_part_spread_over_nodes_and_zones() -> None:
    objects = rendered(**EVERYTHING)
    budget = objects["PodDisruptionBudget/x-api"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert "minAvailable" not in budget
    for name, _workload, template in pods(objects):
        for one in template["spec"]["topologySpreadConstraints"]:
            assert one["whenUnsatisfiable"] == "ScheduleAnyway", "a part must start on the only node that is left"
            assert one["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items(), name
        assert template["spec"]["priorityClassName"] == "canaries"


@pytest.mark.e2e
def test_replicas_are_the_autoscaler_s_where_there_is_one() -> None:
    api = rendered()["Deployment/x-api"]["spec"]
    objects = rendered(**EVERYTHING)
    assert api["replicas"] == 2
    assert "replicas" not in objects["Deployment/x-api"]["spec"], "each upgrade would set them back"
    assert objects["HorizontalPodAutoscaler/x-api"]["spec"]["scaleTargetRef"]["name"] == "x-api"


@pytest.mark.e2e
@pytest.mark.parametrize("own", [True, False])
def test_the_namespaces_that_are_named_reach_the_api(*, own: bool) -> None:
    values = {} if own else {"networkPolicy.from[0].ipBlock.cidr": "10.0.0.0/8"}
    (rule,) = rendered(**values, **EVERYTHING)["NetworkPolicy/x"]["spec"]["ingress"]
    first, named = rule["from"]
    assert ("podSelector" in first) == own
    assert named["namespaceSelector"]["matchExpressions"][0]["values"] == ["monitoring"]


@pytest.mark.e2e
def test_a_runner_whose_judge_hangs_is_started_again() -> None:
    (runner,) = rendered()["StatefulSet/x-runner"]["spec"]["template"]["spec"]["containers"]
    (told,) = (one["value"] for one in runner["env"] if one["name"] == "CANARY_RUNNER__ALIVE_FILE")
    for probe in ("startupProbe", "livenessProbe"):
        command = runner[probe]["exec"]["command"]
        assert command[:2] == ["sh", "-c"]
        assert told in command[2]


@pytest.mark.e2e
def test_spark_s_executors_are_pods_that_the_job_alone_may_make() -> None:
    objects = rendered(**ON_PODS)
    for name, _workload, template in pods(objects):
        makes = name == "CronJob/x-reconcile"
        assert template["spec"]["automountServiceAccountToken"] is makes
        assert template["spec"]["serviceAccountName"] == ("x-reconcile" if makes else "x")
    (rule,) = objects["Role/x-reconcile"]["rules"]
    assert rule["apiGroups"] == [""]
    assert "secrets" not in rule["resources"]
    files = objects["ConfigMap/x-reconcile"]["data"]
    conf = dict(line.split(None, 1) for line in files["spark-defaults.conf"].splitlines())
    executor = yaml.safe_load(files[conf["spark.kubernetes.executor.podTemplateFile"].rpartition("/")[2]])
    kubernetes_validate.validate(executor, "1.31", strict=True)
    (container,) = executor["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "CANARY_STORE__URL" not in {one["name"] for one in container["env"]}
    wanted = objects["NetworkPolicy/x-reconcile"]["spec"]["podSelector"]
    assert executor["metadata"]["labels"]["app.kubernetes.io/component"] in wanted["matchExpressions"][0]["values"]


@pytest.mark.e2e
def test_the_nightly_job_asks_for_what_the_command_line_takes() -> None:
    objects = rendered(**EVERYTHING | ON_PODS)
    pod = objects["CronJob/x-reconcile"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        command, *options = container["args"]
        said = canary(command, "--help").out
        for option in options:
            assert option.split("=")[0] in said, (command, option)
    assert "--probe-log=s3://my-bucket/canary" in pod["containers"][0]["args"]


def parts(objects: dict[str, dict[str, Any]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return (workload, pod) of each part of the canary, by the command that starts it."""
    return {
        container["args"][0]: (name, pod["spec"])
        for name, _workload, pod in pods(objects)
        for container in pod["spec"]["containers"]
    }


def source(pod: dict[str, Any], part: str, path: str) -> str:
    """Return the name of the volume on which a path of a part's container lies; a claim's begins with "claim "."""
    (container,) = (one for one in pod["containers"] if one["args"][0] == part)
    mounts = sorted(container["volumeMounts"], key=lambda one: -len(one["mountPath"]))
    name = str(next(one["name"] for one in mounts if f"{path}/".startswith(f"{one['mountPath']}/")))
    volume = next(
        (one for one in pod["volumes"] if one["name"] == name), {"persistentVolumeClaim": {"claimName": name}}
    )
    return f"claim {volume['persistentVolumeClaim']['claimName']}" if "persistentVolumeClaim" in volume else name


@pytest.mark.e2e
@pytest.mark.parametrize("form", FORMS)
def test_every_part_has_the_store_and_reads_the_probe_log_where_the_runner_writes_it(form: str) -> None:
    objects = rendered(form)
    settings = Settings.model_validate(yaml.safe_load(objects["ConfigMap/x-settings"]["data"]["canary.yaml"]))
    found = parts(objects)
    assert set(found) == {"run", "serve", "schedule"} - ({"serve"} if form == API_ELSEWHERE else set())
    one_pod = len({workload for workload, _pod in found.values()}) == 1
    assert one_pod == (form == "one-pod")
    for part, (_workload, pod) in found.items():
        (container,) = (one for one in pod["containers"] if one["args"] == [part])
        (store,) = (one for one in container["env"] if one["name"] == "CANARY_STORE__URL")
        assert ("secretKeyRef" in store.get("valueFrom", {})) != one_pod, "pods of their own share a server"
        if "value" in store:
            assert source(pod, part, store["value"].removeprefix("sqlite:///")) == "claim data"
    place = settings.probe_log.url
    if "://" in place:
        assert place.startswith("s3://")
    else:
        assert {source(pod, part, place) for part, (_workload, pod) in found.items()} == {
            "claim data" if one_pod else "claim canary-shared"
        }
    workload, pod = found["run"]
    assert source(pod, "run", str(settings.ledger.directory)) == "claim data"
    assert objects[workload]["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"


@pytest.mark.e2e
@pytest.mark.parametrize("form", [form for form in FORMS if form != API_ELSEWHERE])
def test_the_service_leads_to_the_api(form: str) -> None:
    objects = rendered(form)
    workload, pod = parts(objects)["serve"]
    wanted = objects["Service/x-api"]["spec"]["selector"]
    assert wanted.items() <= objects[workload]["spec"]["template"]["metadata"]["labels"].items()
    (port,) = objects["Service/x-api"]["spec"]["ports"]
    names = [one["name"] for container in pod["containers"] for one in container.get("ports", ())]
    assert names == [port["targetPort"]]


STORE = {"secretEnv[0].name": "CANARY_STORE__URL", "secretEnv[0].secret": "store", "secretEnv[0].key": "url"}
OWN = "/var/lib/canary/probe-log"
REFUSED = {
    "nothing is said": (None, {}, "no store that all pods share"),
    "SQLite in several pods": (
        None,
        {"settings.store.url": "sqlite:////var/lib/canary/s.db", "settings.probe_log.url": "s3://b/c"},
        "secretEnv: [{name: CANARY_STORE__URL",
    ),
    "a log on the runner's own volume": (None, STORE, "where scheduler and API cannot read it. Name an object store"),
    "a log on the file system of each pod": ("object-store", {"settings.probe_log.url": f"file://{OWN}"}, OWN),
    "no log": ("object-store", {"settings.probe_log": "null"}, "settings.probe_log.url"),
    "a log on a volume that is each pod's own": (
        "shared-volume",
        {"extraVolumes[0].persistentVolumeClaim": "null", "extraVolumes[0].emptyDir.medium": ""},
        "ReadWriteMany",
    ),
    "a log beside what is mounted": ("shared-volume", {"settings.probe_log.url": "/sharedx/log"}, "/sharedx/log"),
    "one pod of several shares": ("one-pod", {"runner.shards": "2"}, "set runner.shards: 1"),
    "one pod without a runner": ("one-pod", {"runner.enabled": "false"}, "set runner.enabled: true"),
    "a job that cannot reach one pod's store": (
        "one-pod",
        {"reconcile.enabled": "true", "settings.probe_log.url": "s3://b/c"},
        "its pod has no store",
    ),
    "a job that cannot reach one pod's log": (
        "one-pod",
        {"reconcile.enabled": "true", "settings.store.url": "postgresql+psycopg://canary@postgres/canary"},
        "the scheduler reconciles every night",
    ),
    "a job that is not given the log that a Secret names": (
        "object-store",
        {
            "reconcile.enabled": "true",
            "secretEnv[1].name": "CANARY_PROBE_LOG__URL",
            "secretEnv[1].secret": "canary-log",
            "secretEnv[1].key": "url",
            "settings.probe_log.url": OWN,
        },
        f'its pod cannot read the probe log at "{OWN}"',
    ),
    "a dump where Spark's workers cannot write": (
        "object-store",
        ON_PODS | {"reconcile.dump": "/var/lib/canary/dump"},
        "reconcile.dump: Spark's workers cannot write",
    ),
    "a report where Spark's workers cannot write": (
        "object-store",
        {"reconcile.enabled": "true", "reconcile.master": "spark://s:7077", "reconcile.dump": "s3://b/c"},
        "reconcile.out: Spark's workers cannot write",
    ),
    "a value that nobody reads": ("object-store", {"runner.shard": "2"}, "shard"),
    "a value of the wrong kind": ("object-store", {"api.replicas": "many"}, "replicas"),
    "a job that cannot reach the log it is given": (
        "object-store",
        {"reconcile.enabled": "true", "reconcile.probeLog": OWN},
        f'its pod cannot read the probe log at "{OWN}"',
    ),
}


@pytest.mark.e2e
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_the_remedy(case: str) -> None:
    form, values, said = REFUSED[case]
    assert said in refused(form, **values)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "values",
    [
        {"secretEnv": "null", "settings.store.url_file": "/run/store"},
        {"secretEnv": "null", "settings.store.url.file": "/run/store"},
        {"secretEnv": "null", "settings.store.url": "postgresql+psycopg://canary@postgres/canary"},
        {
            "secretEnv[1].name": "CANARY_PROBE_LOG__URL",
            "secretEnv[1].secret": "log",
            "secretEnv[1].key": "url",
            "settings.probe_log": "null",
        },
        {"settings.probe_log.url": "gs://b/c"},
        {"settings.probe_log.url": "abfs://b@c/d"},
        {"reconcile.enabled": "true"},
    ],
    ids=str,
)
def test_what_works_is_made(values: dict[str, str]) -> None:
    assert "StatefulSet/x-runner" in rendered(**values)


KAFKA = r"settings.clusters[0].kafka."
PLACES = [KAFKA + name.replace(".", r"\.") for name in sorted(SECRETS)]
PLACES += [KAFKA + "sasl_password", "settings.clusters[0].watch.redpanda.password", "settings.notify[0].key"]


@pytest.mark.e2e
@pytest.mark.parametrize("place", PLACES)
def test_a_secret_in_values_is_refused_by_name(place: str) -> None:
    said = refused("object-store", **{place: "hunter77"})
    assert place.replace("\\", "") in said
    assert "name it in secretEnv" in said
    assert "{file: PATH}" in said
    assert "hunter77" not in said


@pytest.mark.e2e
@pytest.mark.parametrize("ending", [".file", "_file"])
def test_secrets_from_files_are_made(ending: str) -> None:
    rendered(**{f"{place}{ending}": "/run/secrets/x" for place in PLACES})


@pytest.mark.e2e
@pytest.mark.parametrize("place", ["settings.store.url", "settings.probe_log.url"])
@pytest.mark.parametrize("url", ["postgresql://u:hunter77@h/d", "postgresql://h/d?password=hunter77"])
def test_a_url_with_a_password_is_refused(place: str, url: str) -> None:
    said = refused("object-store", **{place: url})
    assert f"everybody may read: {place}." in said
    assert "hunter77" not in said


@pytest.mark.e2e
def test_an_address_of_slack_or_of_a_heartbeat_is_a_secret() -> None:
    place = "settings.notify[0].url"
    for address in ("https://hooks.slack.com/services/hunter77", "https://hc-ping.com/hunter77"):
        said = refused("object-store", **{place: address})
        assert f"everybody may read: {place}." in said
        assert "hunter77" not in said
    rendered(**{place: "https://bus.example/hook", "settings.notify[0].key.file": "/run/secrets/bus"})


@pytest.mark.e2e
def test_settings_and_rules_in_the_chart_are_the_real_ones() -> None:
    objects = rendered(**EVERYTHING)
    settings = objects["ConfigMap/x-settings"]["data"]["canary.yaml"]
    assert Settings.model_validate(yaml.safe_load(settings)).clusters[0].name == "prod"
    rules = [rule for group in objects["PrometheusRule/x"]["spec"]["groups"] for rule in group["rules"]]
    alerts = {one.name for some in GROUPS.values() for one in some}
    assert {rule["alert"] for rule in rules if "alert" in rule} == alerts | {"CanaryAbsent"}
    (printed,) = made_by_hand(settings)
    (absent,) = [rule for rule in rules if rule.get("alert") == "CanaryAbsent"]
    assert absent | {"annotations": {}} == printed | {"annotations": {}}
    assert {rule["record"] for rule in rules if "record" in rule}
    shown = {name: json.loads(text) for name, text in objects["ConfigMap/x-dashboards"]["data"].items()}
    assert shown == {f"{uid}.json": json.loads(text) for uid, text in boards().items()}


def made_by_hand(settings: str) -> list[dict[str, Any]]:
    """Return what `canary alert rules` prints of settings."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "canary.yaml").write_text(settings)
        (group,) = yaml.safe_load(canary("alert", "rules", "--config", Path(folder) / "canary.yaml").out)["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


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
