// Package chart renders the Helm chart as Helm does, and reads what comes out as Kubernetes and Carillon do.
package chart

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const project = "../../.."

// least are the values without which nothing is rendered.
const least = `
tls: carillon-tls
settings:
  CARILLON_EVENTSTORE_URL: esdb://carillon@eventstore.stores:2113?tls=true
  CARILLON_DATABASE_URL: postgres://carillon@postgres.stores:5432/carillon
`

// all are the values that render everything.
const all = least + `
  CARILLON_EGRESS_CA: /etc/carillon/files/authority.crt
  CARILLON_RETAIN_DELIVERIES: 2160h
apart: true
files: carillon-files
keyStore: carillon-keys
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
imagePullSecrets: [{name: registry}]
ingress: {host: carillon.example.org, className: nginx, tls: web, annotations: {a: b}}
networkPolicy:
  callers: [{namespaceSelector: {matchLabels: {name: ingress}}}]
  monitoring: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  stores: [{ipBlock: {cidr: 10.1.0.0/16}}]
service: {annotations: {a: b}}
podAnnotations: {a: b}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
`

// kinds are the objects that the chart may make.
var kinds = map[string]func() any{
	"Deployment":              func() any { return new(apps.Deployment) },
	"Service":                 func() any { return new(core.Service) },
	"Ingress":                 func() any { return new(networking.Ingress) },
	"NetworkPolicy":           func() any { return new(networking.NetworkPolicy) },
	"PodDisruptionBudget":     func() any { return new(policy.PodDisruptionBudget) },
	"HorizontalPodAutoscaler": func() any { return new(autoscaling.HorizontalPodAutoscaler) },
}

// render returns the objects by kind, decoded strictly: an unknown or misspelt field is an error.
func render(t *testing.T, values string) (map[string][]any, error) {
	t.Helper()
	chart, err := loader.Load(filepath.Join(project, "deploy", "chart"))
	if err != nil {
		t.Fatal(err)
	}
	given, err := loader.LoadValues(strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "carillon", Namespace: "city", IsInstall: true}
	in, err := util.ToRenderValues(chart, given, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, in)
	objects := map[string][]any{}
	for name, text := range files {
		for _, document := range strings.Split("\n"+text, "\n---\n") {
			if filepath.Ext(name) == ".yaml" && strings.TrimSpace(document) != "" {
				kind, object := decode(t, name, document)
				objects[kind] = append(objects[kind], object)
			}
		}
	}
	return objects, err
}

func decode(t *testing.T, name, document string) (kind string, object any) {
	t.Helper()
	var of struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(document), &of); err != nil || kinds[of.Kind] == nil {
		t.Fatalf("%s: kind %q, %v\n%s", name, of.Kind, err, document)
	}
	object = kinds[of.Kind]()
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, document)
	}
	return of.Kind, object
}

func TestChart_objects(t *testing.T) {
	for name, tt := range map[string]struct {
		values string
		want   string
	}{
		"together": {least, "map[Deployment:1 NetworkPolicy:2 PodDisruptionBudget:1 Service:1]"},
		"everything": {all, "map[Deployment:4 HorizontalPodAutoscaler:2 Ingress:1 NetworkPolicy:2 " +
			"PodDisruptionBudget:3 Service:1]"},
		"behind a proxy": {strings.Replace(least, "tls: carillon-tls", "networkPolicy: {enabled: false}", 1) +
			"  CARILLON_TRUSTED_PROXIES: 10.0.0.0/8\n", "map[Deployment:1 PodDisruptionBudget:1 Service:1]"},
	} {
		objects, err := render(t, tt.values)
		got := map[string]int{}
		for kind, of := range objects {
			got[kind] = len(of)
		}
		if err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestChart_version: the chart and its image have the version of the changelog's first heading.
func TestChart_version(t *testing.T) {
	chart, err := loader.Load(filepath.Join(project, "deploy", "chart"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(project, "docs", "changelog.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, heading, _ := strings.Cut(string(text), "\n## [")
	version, _, _ := strings.Cut(heading, "]")
	if chart.Metadata.Version != version || chart.Metadata.AppVersion != version {
		t.Errorf("chart %s of %s, changelog %s", chart.Metadata.Version, chart.Metadata.AppVersion, version)
	}
}

// TestChart_refuses shows what the values must not be, and that the message names the value.
func TestChart_refuses(t *testing.T) {
	for values, want := range map[string]string{
		"": "settings.CARILLON_EVENTSTORE_URL is missing",
		strings.Replace(least, "tls:", "files:", 1):                   "tls is missing",
		least + "  CARILLON_ADMIN_TOKEN: x\n":                         "'CARILLON_ADMIN_TOKEN'",
		least + "  CARILLON_ROLES: api\n":                             "'CARILLON_ROLES'",
		least + "  PATH: x\n":                                         "'PATH'",
		least + "  CARILLON_RELEVANCE: 1\n":                           "/settings/CARILLON_RELEVANCE",
		least + "replica: 1\n":                                        "replica",
		least + "secret: {keys: [CARILLON_DATABASE_URL]}\n":           "CARILLON_DATABASE_URL is in settings and in secret.keys",
		least + "apart: true\nparts: {collect: null}\n":               "none has the role collect",
		least + "parts: {all: {roles: [sleep]}}\n":                    "/parts/all",
		least + "parts: {api: {autoscale: {cpu: 0}}}\n":               "/parts/api",
		least + "image: {digest: 0a1b}\n":                             "/image/digest",
		least + "networkPolicy: {storePorts: [0]}\n":                  "/networkPolicy/storePorts/0",
		least + "ingress: {host: true}\n":                             "/ingress/host",
		least + "together: {resources: {}, replicas: -1}\nfiles: 1\n": "/together/replicas",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", values, err, want)
		}
	}
}

// TestChart_settings starts Carillon's own check of its settings with those of each container, and with the mounted
// files. Together and apart, the roles are those of a server that is not told any.
func TestChart_settings(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "carillon")
	build := exec.Command("go", "build", "-o", binary, "./cmd/carillon")
	build.Dir = project
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	every := understood(t, binary, nil)["CARILLON_ROLES"]
	for name, values := range map[string]string{"together": least, "apart": all} {
		objects, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, object := range objects["Deployment"] {
			deployment := object.(*apps.Deployment)
			settings := checked(t, binary, deployment.Spec.Template.Spec)
			roles = append(roles, strings.Split(settings["CARILLON_ROLES"], ",")...)
		}
		want := strings.Split(every, ",")
		slices.Sort(roles)
		slices.Sort(want)
		if every == "" || !slices.Equal(roles, want) {
			t.Errorf("%s: roles %v, want %v", name, roles, want)
		}
	}
}

// checked returns the settings of a container by their variables, as Carillon understands them.
func checked(t *testing.T, binary string, pod core.PodSpec) map[string]string {
	t.Helper()
	root := t.TempDir()
	contents := files(t)
	mounted := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounted[mount.MountPath] = filepath.Join(root, mount.MountPath)
		if err := os.MkdirAll(mounted[mount.MountPath], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var env []string
	for _, variable := range pod.Containers[0].Env {
		value := variable.Value
		if strings.HasPrefix(value, "/") {
			if mounted[filepath.Dir(value)] == "" {
				t.Errorf("%s=%s: nothing is mounted there", variable.Name, value)
			}
			if value = filepath.Join(root, value); strings.HasPrefix(variable.Value, "/etc/") {
				if err := os.WriteFile(value, contents[filepath.Ext(value)], 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		env = append(env, variable.Name+"="+value)
	}
	settings := understood(t, binary, env)
	for _, variable := range pod.Containers[0].Env {
		if _, known := settings[strings.TrimSuffix(variable.Name, "_FILE")]; !known {
			t.Errorf("%s is no setting", variable.Name)
		}
	}
	return settings
}

// understood returns the settings by their variables, as a server with these variables would use them.
func understood(t *testing.T, binary string, env []string) map[string]string {
	t.Helper()
	var refused strings.Builder
	show := exec.Command(binary, "config", "show", "--json")
	show.Env, show.Stderr = append(env, "HOME=/"), &refused // and nothing of this process
	out, err := show.Output()
	if err != nil {
		t.Fatalf("%s\n%v", &refused, show.Env)
	}
	var settings []struct{ Variable, Value, From string }
	if err := json.Unmarshal(out, &settings); err != nil {
		t.Fatal(err, string(out))
	}
	by := map[string]string{}
	for _, s := range settings {
		by[s.Variable] = s.Value
	}
	return by
}

// files returns what is in mounted files, by their extensions. Text without one fits each secret.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		".crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		".key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"":     []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))),
	}
}
