"""The Helm chart, rendered by Helm's own library, with the defaults and with everything on.

What its pods run is what the compose file runs, which `test_compose` starts.
"""

import shutil

import helm_python
import kubernetes_validate
import pytest
import yaml
from django.db import OperationalError
from django.test import Client
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from awmenv.version import NUMBER
from tests.awmweb.accounts import ROOT
from tests.awmweb.containers import compose
from tests.documented import proves

CHART = ROOT / "deploy" / "helm" / "awmweb"
ALL_ON = {
    "web": {"autoscaling": {"enabled": True}},
    "worker": {"autoscaling": {"enabled": True}},
    "rollouts": {"autoscaling": {"enabled": True}, "concurrency": 32},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "cert"},
    "image": {"digest": "sha256:" + "a" * 64},
    "settings": {"AWMWEB_LOG_FORMAT": "json", "AWMWEB_PARK_AFTER_S": 30},
    "environmentSettings": {"AWMENV_JUDGE_MODEL": "wise"},
    "environmentSecret": "judge",
    "traces": {"to": "http://collector:4318", "egress": [{"ports": [{"port": 4318}]}]},
    "environment": {"minTier": "container", "egress": [{"ports": [{"port": 443}]}], "tmpSize": "16Gi"},
    "networkPolicy": {"webFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "desk", "operator": "Exists"}],
    "data": {"existingClaim": "shared"},
    "backup": {"existingClaim": "safe", "keep": 30},
    "ca": {"configMap": "authorities"},
    "imagePullSecrets": [{"name": "registry"}],
    "podLabels": {"team": "lab", "app.kubernetes.io/component": "other"},
    "podAnnotations": {"example.org/scrape": "true"},
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "desk",
    "serviceAccountName": "bucket",
    "spread": {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
}
PRODUCT = ("web", "worker", "rollouts", "beat")
DNS = {
    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
    "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
}
OF_COMPOSE = {**{name: name for name in (*PRODUCT, "prepare")}, "environment": "env"}
PODS = (*OF_COMPOSE, "backup")
KUBERNETES = "1.34"


def rendered(values=None, chart=CHART):
    """Return the manifests of a release *lab*, by kind and name."""
    with helm_python.Chart.load(str(chart)) as loaded:
        files = loaded.render(values or {}, name="lab", namespace="desk")
    found = [one for text in files.values() for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pod_of(manifests, part):
    if part == "backup":
        return manifests["CronJob", "lab-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    kind, name = ("Job", f"lab-{part}-1") if part == "prepare" else ("Deployment", f"lab-{part}")
    return manifests[kind, name]["spec"]["template"]["spec"]


@pytest.fixture(scope="module", params=[{}, ALL_ON], ids=["defaults", "all on"])
def manifests(request):
    return rendered(request.param)


def test_every_manifest_is_valid_and_names_its_release(manifests):
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == "lab"
    kinds = {kind for kind, _ in manifests}
    assert kinds >= {"Deployment", "Service", "Job", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy"}


def test_broken_manifest_would_be_refused(manifests):
    broken = {**manifests["Service", "lab-web"], "spec": {"ports": "80"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_pods_run_the_commands_of_the_compose_file():
    passwords = dict.fromkeys(("AWMWEB_DATABASE_PASSWORD", "AWMWEB_QUEUE_PASSWORD"), "x")
    services = compose(ROOT / "docker-compose.yml", passwords)["services"]
    found = rendered()
    for part, service in OF_COMPOSE.items():
        [container] = pod_of(found, part)["containers"]
        assert container["command"] == services[service]["command"], part
    [more] = pod_of(rendered(ALL_ON), "rollouts")["containers"]
    assert more["command"][more["command"].index("--concurrency") + 1] == "32"


def test_pods_have_no_rights_and_bounded_memory(manifests):
    for part in PODS:
        pod = pod_of(manifests, part)
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        [folder] = [one["emptyDir"] for one in pod["volumes"] if "emptyDir" in one]
        assert folder["sizeLimit"] in ("2Gi", "8Gi", "16Gi")
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            own = container["securityContext"]
            assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"]["requests"].keys()
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


def test_pods_are_watched_and_kept_during_drains(manifests):
    for part in (*PRODUCT, "environment"):
        [container] = pod_of(manifests, part)["containers"]
        probe = container["livenessProbe"]
        # an open port says nothing of a process that hangs
        assert "exec" in probe or probe["httpGet"]["path"] in ("/sw.js", "/health"), part
        selector = manifests["Deployment", f"lab-{part}"]["spec"]["selector"]
        labels = manifests["Deployment", f"lab-{part}"]["spec"]["template"]["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()
        if part != "beat":  # one alone, which may be away for a moment
            assert manifests["PodDisruptionBudget", f"lab-{part}"]["spec"]["selector"] == selector
    assert "httpGet" in pod_of(manifests, "web")["containers"][0]["readinessProbe"]
    assert manifests["Deployment", "lab-beat"]["spec"]["strategy"] == {"type": "Recreate"}


def test_product_waits_for_the_migrations_of_its_job(manifests):
    for part in PRODUCT:
        [first] = pod_of(manifests, part)["initContainers"]
        assert "manage.py migrate --check" in first["command"][-1]
        assert first["envFrom"] == pod_of(manifests, part)["containers"][0]["envFrom"]


def test_environment_servers_see_no_secret_of_the_product(manifests):
    pod = pod_of(manifests, "environment")
    [container] = pod["containers"]
    assert not any("valueFrom" in one for one in container["env"])
    assert [one["secretRef"]["name"] for one in container.get("envFrom", ())] in ([], ["judge"])
    [keys] = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert [one["key"] for one in keys["items"]] == ["attest_key"]
    data = [one for one in container["volumeMounts"] if one["name"] == "data"]
    assert data == [{"name": "data", "mountPath": "/data/packs", "subPath": "packs", "readOnly": True}]
    policy = manifests["NetworkPolicy", "lab-environment"]["spec"]
    [rule] = policy["ingress"]
    [allowed] = rule["from"]
    [who] = allowed["podSelector"]["matchExpressions"]
    assert who["values"] == ["web", "worker", "rollouts"] and policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] in ([], [{"ports": [{"port": 443}]}, {"ports": [{"port": 4318}]}, DNS])


def test_traces_are_off_until_a_collector_is_named():
    for values, to in (({}, None), ({"traces": {"egress": [{}]}}, None), (ALL_ON, "http://collector:4318")):
        found = rendered(values)
        [environment] = pod_of(found, "environment")["containers"]
        given = {one["name"]: one.get("value") for one in environment["env"]}
        assert found["ConfigMap", "lab"]["data"].get("AWMWEB_TRACES_TO") == given.get("AWMENV_TRACES_TO") == to
        if to is None:
            assert found["NetworkPolicy", "lab-environment"]["spec"]["egress"] == []


def test_no_process_has_the_key_of_outcomes_in_its_environment(manifests):
    for part in PODS:
        pod = pod_of(manifests, part)
        [keys] = [one["secret"] for one in pod["volumes"] if "secret" in one]
        assert keys["secretName"] == "awmweb-attest"
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            of_secrets = [one["secretRef"]["name"] for one in container.get("envFrom", ()) if "secretRef" in one]
            assert "awmweb-attest" not in of_secrets


def test_pods_take_what_a_cluster_asks_for():
    found = rendered(ALL_ON)
    for part in PODS:
        pod = pod_of(found, part)
        assert pod["imagePullSecrets"] == [{"name": "registry"}] and pod["priorityClassName"] == "desk"
        assert (pod["affinity"], pod["nodeSelector"]) == ({"nodeAffinity": {}}, {"kubernetes.io/arch": "amd64"})
        # hostile code runs there: what the account may do is not for it
        assert pod.get("serviceAccountName") == (None if part == "environment" else "bucket")
    for part in (*PRODUCT, "environment"):
        about = found["Deployment", f"lab-{part}"]["spec"]["template"]["metadata"]
        assert about["annotations"] == {"example.org/scrape": "true"} and about["labels"]["team"] == "lab"
        assert about["labels"]["app.kubernetes.io/component"] == part
        spread = pod_of(found, part).get("topologySpreadConstraints", [])
        assert [one["topologyKey"] for one in spread] == ["topology.kubernetes.io/zone"] * (part != "beat")
        assert all(one["labelSelector"]["matchLabels"].items() <= about["labels"].items() for one in spread)


def test_web_that_has_no_database_is_alive_but_not_ready(monkeypatch):
    """Restarts would not bring the database back."""

    def gone(*words):
        raise OperationalError("connection refused")

    monkeypatch.setattr("django.db.backends.base.base.BaseDatabaseWrapper.ensure_connection", gone)
    [web] = pod_of(rendered(), "web")["containers"]
    said = {
        name: Client(headers={"host": "127.0.0.1"}).get(web[name]["httpGet"]["path"]).status_code
        for name in ("livenessProbe", "readinessProbe")
    }
    assert said == {"livenessProbe": 200, "readinessProbe": 503}


def test_backups_have_a_claim_of_their_own():
    found = rendered()
    assert found["PersistentVolumeClaim", "lab-backups"]["metadata"]["annotations"] == {
        "helm.sh/resource-policy": "keep"
    }
    cron = found["CronJob", "lab-backup"]["spec"]
    assert (cron["concurrencyPolicy"], cron["timeZone"]) == ("Forbid", "Etc/UTC")
    assert cron["jobTemplate"]["spec"]["activeDeadlineSeconds"] > 3600
    for values, claim in (({}, "lab-backups"), (ALL_ON, "safe")):
        pod = pod_of(rendered(values), "backup")
        volumes = {one["name"]: one for one in pod["volumes"]}
        claims = {name: volumes[name]["persistentVolumeClaim"]["claimName"] for name in ("data", "backups")}
        assert claims["backups"] == claim != claims["data"]
    off = rendered({"backup": {"enabled": False}})
    assert not {("CronJob", "lab-backup"), ("PersistentVolumeClaim", "lab-backups")} & off.keys()


def test_ingress_passes_what_the_documented_nginx_passes():
    nginx = (ROOT / "docs" / "proxy" / "nginx.conf").read_text()
    annotations = rendered(ALL_ON)["Ingress", "lab"]["metadata"]["annotations"]
    given = {name.rpartition("/")[2]: value for name, value in annotations.items()}
    assert f"client_max_body_size {given['proxy-body-size']};" in nginx
    for name in ("proxy-read-timeout", "proxy-send-timeout"):
        assert f"{name.replace('-', '_')} {given[name]}s;" in nginx
    assert (given["proxy-buffering"], given["enable-access-log"]) == ("off", "false")
    more = {"ingress": {"annotations": {"example.org/a": "b"}}}
    both = rendered({**ALL_ON, "ingress": {**ALL_ON["ingress"], **more["ingress"]}})["Ingress", "lab"]
    assert both["metadata"]["annotations"] == {**annotations, "example.org/a": "b"}


@pytest.mark.parametrize(
    ("peer", "said", "client"),
    [
        ("10.4.0.9", "198.51.100.7", "198.51.100.7"),
        ("fd00::9", "2001:db8::7", "2001:db8::7"),
        ("10.4.0.9", "203.0.113.1, 198.51.100.7", "198.51.100.7"),  # what a client says itself
        ("198.51.100.9", "203.0.113.1", "198.51.100.9"),  # no proxy of ours
    ],
)
async def test_web_behind_the_ingress_knows_whose_request_it_is(peer, said, client):
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)

    proxies = rendered(ALL_ON)["ConfigMap", "lab"]["data"]["FORWARDED_ALLOW_IPS"]
    scope = {"type": "http", "client": (peer, 1), "headers": [(b"x-forwarded-for", said.encode())], "scheme": "http"}
    await ProxyHeadersMiddleware(app, proxies)(scope, None, None)
    assert seen["client"][0] == client


def test_settings_of_yours_win_and_come_once():
    own = {"FORWARDED_ALLOW_IPS": "10.9.0.1", "AWMENV_URL": "ws://others:8100/ws"}
    assert rendered({**ALL_ON, "settings": own})["ConfigMap", "lab"]["data"].items() >= own.items()
    assert "FORWARDED_ALLOW_IPS" not in rendered()["ConfigMap", "lab"]["data"]


def test_ingress_without_a_word_on_who_reaches_web_is_refused():
    on = {"ingress": {"enabled": True}}
    with pytest.raises(helm_python.HelmError, match=r"networkPolicy\.webFrom is empty: every pod of the cluster"):
        rendered(on)
    rendered({**on, "networkPolicy": {"enabled": False}})


def test_workers_scale_by_a_metric_that_the_product_has():
    found = rendered(ALL_ON)
    source = (ROOT / "awmweb" / "metrics" / "processes.py").read_text()
    for part, queue in (("worker", "default"), ("rollouts", "rollouts")):
        [metric] = found["HorizontalPodAutoscaler", f"lab-{part}"]["spec"]["metrics"]
        named = metric["external"]["metric"]
        assert named["selector"] == {"matchLabels": {"queue": queue}} and f'"{named["name"]}"' in source
        assert "replicas" not in found["Deployment", f"lab-{part}"]["spec"]  # the autoscaler's alone


def test_settings_are_those_of_the_configuration_page():
    known = (ROOT / "docs" / "configuration.md").read_text()
    names = [*rendered(ALL_ON)["ConfigMap", "lab"]["data"], *ALL_ON["environmentSettings"]]
    assert [name for name in names if f"`{name}`" not in known] == ["HOME"]


@pytest.mark.parametrize(
    "values",
    [
        {"publicUrl": "https://desk.example.org/path"},
        {"publicUrl": "desk.example.org"},
        {"existingSecret": ""},
        {"web": {"replicas": 0}},
        {"settings": {"DATABASE_URL": "postgres://secret"}},
        {"image": {"digest": "latest"}},
        {"traces": {"to": "collector:4318"}},
        {"attestSecret": ""},
        {"tmpSize": "2 GB"},
        {"backup": {"keep": 0}},
        {"ingress": {"proxies": ["everyone"]}},
        {"settings": {"AWMWEB_VAR": "/elsewhere"}},
        {"replicas": 3},
    ],
    ids=lambda values: str(values)[:40],
)
def test_wrong_values_are_refused(values):
    with pytest.raises(helm_python.HelmError, match="schema"):
        rendered(values)


@proves("docs/kubernetes.md", "publicUrl:")
def test_documented_values_are_those_of_the_chart(block):
    found = rendered(yaml.safe_load(block.text))
    assert found["Ingress", "lab"]["spec"]["rules"][0]["host"] == "desk.example.org"
    [web] = pod_of(found, "web")["containers"]
    assert web["image"] == "registry.example.org/awmweb:0.3.0-75f12609"


def test_chart_has_the_version_of_the_product():
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == NUMBER


def test_tag_and_label_name_the_commit_of_a_packaged_chart(tmp_path):
    shutil.copytree(CHART, tmp_path / "awmweb")
    about = tmp_path / "awmweb" / "Chart.yaml"
    about.write_text(about.read_text().replace(f'"{NUMBER}"', f'"{NUMBER}+75f12609"'))
    found = rendered({"image": {"digest": ""}}, tmp_path / "awmweb")
    [web] = pod_of(found, "web")["containers"]
    assert web["image"].endswith(f":{NUMBER}-75f12609")
    labels = {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in found.values()}
    assert labels == {f"{NUMBER}-75f12609"}
