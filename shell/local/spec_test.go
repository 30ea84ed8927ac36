//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/local"
)

func check(t *testing.T, spec string) error {
	t.Helper()
	r, err := local.New(local.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	return r.Check(core.JobSpec{PodSpec: json.RawMessage(spec)})
}

func TestAPodSpecThatCannotBeRunHereIsRefusedWithTheField(t *testing.T) {
	const good = `"name":"m","command":["true"]`
	container := func(more string) string { return `{"containers":[{` + good + `,` + more + `}]}` }
	pod := func(more string) string { return `{"containers":[{` + good + `}],` + more + `}` }
	for name, c := range map[string][2]string{
		"no JSON":           {`{`, "pod_spec: "},
		"unknown field":     {pod(`"nope":1`), `"nope"`},
		"no container":      {`{}`, "pod_spec.containers: missing"},
		"no command":        {`{"containers":[{"name":"m","image":"busybox"}]}`, "pod_spec.containers[0].command: missing"},
		"empty command":     {`{"containers":[{"name":"m","command":[""]}]}`, "pod_spec.containers[0].command[0]"},
		"a name with a way": {`{"containers":[{"name":"../x","command":["true"]}]}`, `pod_spec.containers[0].name: "../x"`},
		"a name twice":      {`{"containers":[{` + good + `},{` + good + `}]}`, "pod_spec.containers[1].name"},
		"init container":    {pod(`"initContainers":[{"name":"i"}]`), "pod_spec.initContainers[0].command"},
		"sidecar":           {pod(`"initContainers":[{"name":"i","command":["true"],"restartPolicy":"Always"}]`), "pod_spec.initContainers[0].restartPolicy"},
		"restart policy":    {pod(`"restartPolicy":"OnFailure"`), "pod_spec.restartPolicy"},
		"volumes":           {pod(`"volumes":[{"name":"v","emptyDir":{}}]`), "pod_spec.volumes"},
		"volume mounts":     {container(`"volumeMounts":[{"name":"v","mountPath":"/v"}]`), "pod_spec.containers[0].volumeMounts"},
		"envFrom":           {container(`"envFrom":[{"secretRef":{"name":"s"}}]`), "pod_spec.containers[0].envFrom"},
		"secret":            {container(`"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`), "pod_spec.containers[0].env[0].valueFrom"},
		"other field":       {container(`"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}}]`), `"status.podIP"`},
		"our variable":      {container(`"env":[{"name":"ORRERY_RUN_ID","value":"x"}]`), `"ORRERY_RUN_ID" is set by Orrery`},
		"bad variable":      {container(`"env":[{"name":"A=B","value":"x"}]`), `"A=B"`},
		"liveness":          {container(`"livenessProbe":{"exec":{"command":["true"]}}`), "pod_spec.containers[0].livenessProbe"},
		"lifecycle":         {container(`"lifecycle":{"preStop":{"exec":{"command":["true"]}}}`), "pod_spec.containers[0].lifecycle"},
		"tty":               {container(`"tty":true`), "pod_spec.containers[0].tty"},
		"directory":         {container(`"workingDir":"here"`), `pod_spec.containers[0].workingDir: "here"`},
		"NUL in a word":     {container(`"args":["a\u0000b"]`), "pod_spec.containers[0].args: has a NUL byte"},
		"NUL in a command":  {`{"containers":[{"name":"m","command":["a\u0000b"]}]}`, "pod_spec.containers[0].command: has a NUL byte"},
		"NUL in a path":     {container(`"workingDir":"/a\u0000b"`), "pod_spec.containers[0].workingDir: has a NUL byte"},
		"another user":      {container(fmt.Sprintf(`"securityContext":{"runAsUser":%d}`, os.Geteuid()+1)), "pod_spec.containers[0].securityContext: runAsUser"},
		"another group":     {pod(fmt.Sprintf(`"securityContext":{"runAsGroup":%d}`, os.Getegid()+1)), "pod_spec.securityContext: runAsGroup"},
		"files' group":      {pod(`"securityContext":{"fsGroup":1}`), "pod_spec.securityContext: fsGroup"},
		"privileged":        {container(`"securityContext":{"privileged":true}`), "privileged"},
		"capabilities":      {container(`"securityContext":{"capabilities":{"add":["NET_ADMIN"]}}`), "capabilities"},
		"service account":   {pod(`"serviceAccountName":"s"`), "pod_spec.serviceAccountName"},
		"grace":             {pod(`"terminationGracePeriodSeconds":-1`), "pod_spec.terminationGracePeriodSeconds: -1"},
		"deadline":          {pod(`"activeDeadlineSeconds":0`), "pod_spec.activeDeadlineSeconds: 0"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(t, c[0])
			require.ErrorContains(t, err, c[1])
			assert.True(t, shell.IsPermanent(err), "%v", err)
		})
	}
}

func TestWhatHasNoMeaningHereIsIgnored(t *testing.T) {
	root := `"runAsNonRoot":true,`
	if os.Geteuid() == 0 {
		root = ""
	}
	require.NoError(t, check(t, fmt.Sprintf(`{
		"restartPolicy":"Never","nodeSelector":{"disk":"ssd"},"tolerations":[{"operator":"Exists"}],"affinity":{},
		"automountServiceAccountToken":false,"imagePullSecrets":[{"name":"s"}],"priorityClassName":"low",
		"securityContext":{%s"runAsUser":%d,"seccompProfile":{"type":"RuntimeDefault"}},
		"containers":[{"name":"m","image":"busybox:1","imagePullPolicy":"Always","command":["true"],"tty":false,
			"ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1","memory":"64Mi"}},
			"readinessProbe":{"exec":{"command":["true"]}},"restartPolicy":"Never",
			"securityContext":{"privileged":false,"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"capabilities":{"drop":["ALL"]}}}]}`,
		root, os.Geteuid())))
}

func TestVariablesThatNameOneAnotherFillNoMemory(t *testing.T) {
	ten := strings.Repeat("$(A0)", 10)
	env := []string{`{"name":"A0","value":"0123456789"}`}
	for n := 1; n <= 12; n++ { // ten terabytes
		env = append(env, fmt.Sprintf(`{"name":"A%d","value":%q}`, n, strings.ReplaceAll(ten, "A0", fmt.Sprintf("A%d", n-1))))
	}
	pods := map[string]string{
		"env":  fmt.Sprintf(`{"containers":[{"name":"m","command":["true"],"env":[%s]}]}`, strings.Join(env, ",")),
		"args": fmt.Sprintf(`{"containers":[{"name":"m","command":["true"],"args":[%s"$(A4)"],"env":[%s]}]}`, strings.Repeat(`"$(A4)",`, 100), strings.Join(env[:5], ",")),
	}
	var many []string // each of them fits
	for n := range 100 {
		many = append(many, fmt.Sprintf(`{"name":"m%d","command":["true"],"env":[%s]}`, n, strings.Join(env[:5], ",")))
	}
	pods["containers"] = fmt.Sprintf(`{"containers":[%s]}`, strings.Join(many, ","))
	for name, spec := range pods {
		t.Run(name, func(t *testing.T) {
			err := check(t, spec)
			require.ErrorContains(t, err, "once $(NAME) is written out")
			assert.True(t, shell.IsPermanent(err), "%v", err)
		})
	}
	require.NoError(t, check(t, fmt.Sprintf(`{"containers":[%s]}`, strings.Join(many[:10], ","))))
}
