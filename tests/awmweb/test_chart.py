"""The Helm chart, rendered by Helm's own library, with the defaults and with everything on.

What its pods run is what the compose file runs, which `test_compose` starts.
"""

import shutil

import helm_python
import kubernetes_validate
import pytest
import yaml

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
    "environment": {"minTier": "container", "egress": [{"ports": [{"port": 443}]}]},
    "networkPolicy": {"webFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "desk", "operator": "Exists"}],
    "data": {"existingClaim": "shared"},
}
PRODUCT = ("web", "worker", "rollouts", "beat")
OF_COMPOSE = {**{name: name for name in (*PRODUCT, "prepare")}, "environment": "env"}
KUBERNETES = "1.34"


def rendered(values=None, chart=CHART):
    """Return the manifests of a release *lab*, by kind and name."""
    with helm_python.Chart.load(str(chart)) as loaded:
        files = loaded.render(values or {}, name="lab", namespace="desk")
    found = [one for text in files.values() for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pod_of(manifests, part):
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
    for part in OF_COMPOSE:
        pod = pod_of(manifests, part)
        assert pod["automountServiceAccountToken"] is False and pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            own = container["securityContext"]
            assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]


def test_pods_are_watched_and_kept_during_drains(manifests):
    for part in (*PRODUCT, "environment"):
        [container] = pod_of(manifests, part)["containers"]
        assert "livenessProbe" in container, part
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
    assert policy["egress"] in ([], [{"ports": [{"port": 443}]}, {"ports": [{"port": 4318}]}])


def test_traces_are_off_until_a_collector_is_named():
    for values, to in (({}, None), ({"traces": {"egress": [{}]}}, None), (ALL_ON, "http://collector:4318")):
        found = rendered(values)
        [environment] = pod_of(found, "environment")["containers"]
        given = {one["name"]: one.get("value") for one in environment["env"]}
        assert found["ConfigMap", "lab"]["data"].get("AWMWEB_TRACES_TO") == given.get("AWMENV_TRACES_TO") == to
        if to is None:
            assert found["NetworkPolicy", "lab-environment"]["spec"]["egress"] == []


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
