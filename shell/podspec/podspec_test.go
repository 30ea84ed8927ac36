package podspec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/shell/podspec"
)

const minimal = `
containers:
- name: main
  image: busybox
`

func TestAPodSpecIsReadFromYAMLAndGivenAsCompactJSON(t *testing.T) {
	spec, compact, err := podspec.Parse([]byte(minimal + `
  command: ["sh", "-c", "exit 3"] # as in a shell
  resources: {limits: {memory: 64Mi}}
`))
	require.NoError(t, err)
	assert.Equal(t, "busybox", spec.Containers[0].Image)
	assert.JSONEq(t, `{"containers":[{"name":"main","image":"busybox","command":["sh","-c","exit 3"],
		"resources":{"limits":{"memory":"64Mi"}}}],"restartPolicy":"Never"}`, string(compact))
	assert.NotContains(t, string(compact), "\n")
}

func TestTheOrderOfFieldsDoesNotMatter(t *testing.T) {
	_, a, err := podspec.Parse([]byte(`{"restartPolicy":"Never","containers":[{"image":"i","name":"c"}]}`))
	require.NoError(t, err)
	_, b, err := podspec.Parse([]byte("containers: [{name: c, image: i}]"))
	require.NoError(t, err)
	assert.Equal(t, string(a), string(b))
	_, again, err := podspec.Parse(a)
	require.NoError(t, err)
	assert.Equal(t, string(a), string(again))
}

func TestASidecarIsAllowed(t *testing.T) {
	_, _, err := podspec.Parse([]byte(minimal + "initContainers: [{name: proxy, image: p, restartPolicy: Always}]"))
	require.NoError(t, err)
}

func TestWhatIsJustRightIsTaken(t *testing.T) {
	for _, in := range []string{
		"---" + minimal,
		"containers: [{name: a, image: b, ports: [{containerPort: 1}, {containerPort: 65535}]}]",
		"containers: [{name: a, image: b, resources: {limits: {cpu: 1}, requests: {cpu: 1}}}]",
		"containers: [{name: a, image: b, resources: {limits: {cpu: 0}, requests: {memory: 1}}}]",
		minimal + "hostUsers: false",
		minimal + "hostNetwork: true",
		minimal + "hostNetwork: true\nhostUsers: true",
		minimal + "initContainers: [{name: i, image: b, restartPolicy: Never}]",
		"containers: [{name: a, image: b, restartPolicy: Never, imagePullPolicy: IfNotPresent}]",
		"containers: [{name: a, image: b, env: [{name: X, value: v}, {name: E}, {name: Z, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]",
		"containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v}]}]\nvolumes: [{name: v, emptyDir: {}}, {name: w, secret: {secretName: s}}]",
		"containers: [{name: a, image: b, livenessProbe: {httpGet: {port: 80}}}, {name: c, image: b, livenessProbe: {httpGet: {port: http}}}]",
		"\xef\xbb\xbf" + minimal,
		"\xef\xbb\xbf" + `{"containers":[{"name":"a","image":"b"}]}`,
		"{containers: [{name: a, image: b}]} # YAML all the same",
		"# a comment\n--- # and another" + minimal + "...\n",
		"--- {containers: [{name: a, image: b}]}",
		"%YAML 1.1\n---" + minimal,
		minimal + "#" + strings.Repeat("x", podspec.MaxInputBytes-len(minimal)-1),
		minimal + "volumes: [{name: v, emptyDir: {sizeLimit: 0}}]\nterminationGracePeriodSeconds: 0\nactiveDeadlineSeconds: 1",
	} {
		_, _, err := podspec.Parse([]byte(in))
		require.NoError(t, err, "%s", in)
	}
}

func TestEachErrorNamesTheField(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"unknown", "containers: [{name: a, imge: b}]", "containers[0].imge: unknown field"},
		{"wrong case", "Containers: []", "Containers: unknown field"},
		{"twice, in JSON", `{"containers":[{"name":"a","image":"b","image":"c"}]}`, "containers[0].image: given twice"},
		{"twice, in YAML", "containers:\n- name: a\n  image: b\n  image: c", `line 4: key "image" already set`},
		{"two documents", minimal + "---\n" + minimal, "second YAML document"},
		{"two documents, and where", "containers: []\n---\ncontainers: []", "line 2 begins a second YAML document"},
		{"two documents, of which one is in its line", "--- {containers: []}\n---\n", "line 2 begins a second YAML document"},
		{"two documents, the second in its line", "containers: []\n--- {containers: []}\n", "line 2 begins a second YAML document"},
		{"an unknown field beside a wrong type", "containers: [{imge: 1, args: x}]", `containers[0].args: "x" is not a list`},
		{"a full list for an object", "containers: [{name: a, image: b, resources: [1]}]", "containers[0].resources: [1] is not an object"},
		{"a list for a map", minimal + "nodeSelector: [a]", `nodeSelector: ["a"] is not an object`},
		{"a number in a map", minimal + "nodeSelector: {a: 1}", `nodeSelector.a: 1 is not a string`},
		{"neither a number nor a string", "containers: [{name: a, image: b, livenessProbe: {httpGet: {port: true}}}]", "containers[0].livenessProbe.httpGet.port: true is neither a whole number nor a string"},
		{"an object for a quantity", "containers: [{name: a, image: b, resources: {limits: {cpu: {a: 1}}}}]", `containers[0].resources.limits.cpu: {"a":1} is not a quantity`},
		{"a long value", "containers: [{name: a, image: b, imagePullPolicy: " + strings.Repeat("x", 121) + "}]", `"` + strings.Repeat("x", 120) + `…" is unknown`},
		{"a value that is just short enough", "containers: [{name: a, image: b, imagePullPolicy: " + strings.Repeat("x", 120) + "}]", `"` + strings.Repeat("x", 120) + `" is unknown`},
		{"bad volume name", minimal + "volumes: [{name: A}]", `volumes[0].name: "A" is not made of`},
		{"no volume name", minimal + "volumes: [{emptyDir: {}}]", "volumes[0].name: missing"},
		{"no YAML", "containers: [", "no valid YAML"},
		{"a list", "[]", "not an object"},
		{"nothing", "", "not an object"},
		{"a number for a string", "containers: [{name: a, image: b, command: [sleep, 5]}]", "containers[0].command[1]: 5 is not a string: put it in quotes"},
		{"a bool for a string", "containers: [{name: a, image: b, args: [no]}]", "containers[0].args[0]: false is not a string: put it in quotes (in YAML"},
		{"a string for a number", minimal + `terminationGracePeriodSeconds: "5"`, `terminationGracePeriodSeconds: "5" is not a whole number`},
		{"a string for a list", "containers: [{name: a, image: b, args: x}]", `containers[0].args: "x" is not a list`},
		{"a list for an object", "containers: [{name: a, image: b, resources: []}]", "containers[0].resources: [] is not an object"},
		{"a string for a bool", minimal + `hostNetwork: "yes"`, `hostNetwork: "yes" is not true or false`},
		{"a quantity", "containers: [{name: a, image: b, resources: {limits: {cpu: a lot}}}]", `containers[0].resources.limits.cpu: "a lot" is not a quantity`},
		{"in an inlined struct", minimal + "volumes: [{name: v, emptyDir: {sizeLimit: big}}]", `volumes[0].emptyDir.sizeLimit: "big" is not a quantity`},
		{"negative quantity", "containers: [{name: a, image: b, resources: {limits: {cpu: -1}}}]", "containers[0].resources.limits.cpu: -1 is negative"},
		{"request above limit", "containers: [{name: a, image: b, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]", "containers[0].resources.requests.cpu: 2 is more than its limit, 1"},
		{"no containers", "containers: []", "containers: missing"},
		{"no image", "containers: [{name: a}]", "containers[0].image: missing"},
		{"no name", "containers: [{image: a}]", "containers[0].name: missing"},
		{"bad name", "containers: [{name: A_b, image: a}]", `containers[0].name: "A_b" is not made of`},
		{"same name", "containers: [{name: a, image: a}]\ninitContainers: [{name: a, image: a}]", `containers[0].name: "a" is the name of initContainers[0] too`},
		{"restart policy", minimal + "restartPolicy: OnFailure", `restartPolicy: "OnFailure" must be "Never"`},
		{"a container's restart policy", "containers: [{name: a, image: b, restartPolicy: Always}]", "containers[0].restartPolicy"},
		{"an init container's restart policy", minimal + "initContainers: [{name: i, image: b, restartPolicy: OnFailure}]", "initContainers[0].restartPolicy"},
		{"restart rules", "containers: [{name: a, image: b, restartPolicy: Never, restartPolicyRules: [{action: Restart}]}]", "containers[0].restartPolicyRules"},
		{"negative grace", minimal + "terminationGracePeriodSeconds: -1", "terminationGracePeriodSeconds: -1 is negative"},
		{"deadline", minimal + "activeDeadlineSeconds: 0", "activeDeadlineSeconds: 0 is less than 1"},
		{"ephemeral", minimal + "ephemeralContainers: [{name: e, image: e}]", "ephemeralContainers: a pod cannot"},
		{"pull policy", "containers: [{name: a, image: b, imagePullPolicy: Sometimes}]", `containers[0].imagePullPolicy: "Sometimes" is unknown`},
		{"no such volume", "containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v}]}]", `containers[0].volumeMounts[0].name: there is no volume "v"`},
		{"no mount path", "containers: [{name: a, image: b, volumeMounts: [{name: v}]}]\nvolumes: [{name: v}]", "containers[0].volumeMounts[0].mountPath: missing"},
		{"same volume", minimal + "volumes: [{name: v}, {name: v}]", `volumes[1].name: "v" is the name of another volume`},
		{"value twice", "containers: [{name: a, image: b, env: [{name: X, value: v, valueFrom: {}}]}]", "containers[0].env[0].valueFrom"},
		{"port", "containers: [{name: a, image: b, ports: [{containerPort: 0}]}]", "containers[0].ports[0].containerPort: 0 is not between"},
		{"port above", "containers: [{name: a, image: b, ports: [{containerPort: 65536}]}]", "containers[0].ports[0].containerPort: 65536 is not between"},
		{"negative volume", minimal + "volumes: [{name: v, emptyDir: {sizeLimit: -1}}]", "volumes[0].emptyDir.sizeLimit: -1 is negative"},
		{"space around the image", "containers: [{name: a, image: ' b'}]", `containers[0].image: " b" has space around it`},
		{"no name of a variable", "containers: [{name: a, image: b, env: [{value: v}]}]", "containers[0].env[0].name: missing"},
		{"a name of a variable", "containers: [{name: a, image: b, env: [{name: A=B}]}]", `containers[0].env[0].name: "A=B" has a =`},
		{"users of the host", minimal + "hostNetwork: true\nhostUsers: false", "hostUsers: false does not go with hostNetwork"},
		{"what is under a template", "template: {spec: {containers: []}}", "give what is under .template.spec"},
		{"a Pod", "apiVersion: v1\nkind: Pod\nspec: {containers: []}", "a whole Pod is given, but a pod spec is wanted: give what is under .spec"},
		{"a Job", "apiVersion: batch/v1\nkind: Job\nspec: {}", "give what is under .spec.template.spec"},
		{"a CronJob", "kind: CronJob", "give what is under .spec.jobTemplate.spec.template.spec"},
		{"a PodTemplate", "kind: PodTemplate", "give what is under .template.spec"},
		{"another manifest", "apiVersion: v1\nkind: Secret", `a manifest of kind "Secret"`},
		{"a version alone", "apiVersion: v1", `a manifest of kind ""`},
		{"a kind alone", "kind: Secret", `a manifest of kind "Secret"`},
		{"a spec alone", "spec: {containers: []}", "give what is under .spec"},
		{"metadata alone", "metadata: {labels: {a: b}}\ncontainers: []", "metadata: unknown field: a pod spec has none"},
		{"a template", "metadata: {}\nspec: {containers: []}", "give what is under .spec"},
		{"too large", "# " + strings.Repeat("x", podspec.MaxInputBytes), "is more than"},
		{"too large as JSON", "containers: [{name: a, image: b, command: [" + strings.Repeat("x", core.MaxPodSpecBytes) + "]}]", "bytes of JSON is more than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := podspec.Parse([]byte(row.in))
			require.Error(t, err)
			assert.Contains(t, err.Error(), row.want)
			assert.NotContains(t, err.Error(), "unmarshal", "no words of the reader's own")
		})
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	_, _, err := podspec.Parse([]byte("containers: [{name: a}, {image: b}]\nrestartPolicy: Always"))
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), 3, "%s", err)
	_, _, err = podspec.Parse([]byte("containers: [{nam: a}, {imag: b}]"))
	require.Error(t, err)
	assert.Equal(t, "containers[0].nam: unknown field\ncontainers[1].imag: unknown field", err.Error())
}

func TestAnErrorSaysNoMoreThanItMust(t *testing.T) {
	for in, want := range map[string]string{
		"containers: [{name: a, image: b, args: [5]}]": "containers[0].args[0]: 5 is not a string: put it in quotes",
		"containers: x": `containers: "x" is not a list`,
		"\xef\xbb\xbf" + `{"containers":[{"name":"a","image":"b","image":"c"}]}`:    "containers[0].image: given twice",
		minimal + "initContainers: [{name: i, image: b, restartPolicy: OnFailure}]": `initContainers[0].restartPolicy: "OnFailure" must be "Always" (a sidecar) or absent`,
		"containers: [{name: a, image: b, restartPolicy: OnFailure}]":               `containers[0].restartPolicy: "OnFailure" must be "Never" or absent: the job's retry_config says how often it is tried again`,
	} {
		_, _, err := podspec.Parse([]byte(in))
		require.EqualError(t, err, want)
	}
}

func TestNoMoreThanTwentyErrorsAreTold(t *testing.T) {
	for n, want := range map[int]int{20: 20, 21: 20, 50: 20} {
		_, _, err := podspec.Parse([]byte("containers: [" + strings.Repeat("{name: a},", n/2) + strings.Repeat("{name: a, image: b},", n-n/2+1) + "]"))
		require.Error(t, err)
		assert.Len(t, strings.Split(err.Error(), "\n"), want)
	}
}

func TestContainersWithoutNamesAreNotSaidToShareOne(t *testing.T) {
	_, _, err := podspec.Parse([]byte("containers: [{image: a}, {image: b}]"))
	require.EqualError(t, err, "containers[0].name: missing\ncontainers[1].name: missing")
}

func TestTheJSONMayBeAsLongAsWhatTheEngineTakes(t *testing.T) {
	of := func(pad int) string {
		return "containers: [{name: a, image: b, command: [" + strings.Repeat("x", pad) + "]}]"
	}
	_, compact, err := podspec.Parse([]byte(of(1)))
	require.NoError(t, err)
	pad := core.MaxPodSpecBytes - len(compact) + 1
	_, compact, err = podspec.Parse([]byte(of(pad)))
	require.NoError(t, err)
	assert.Len(t, compact, core.MaxPodSpecBytes)
	_, _, err = podspec.Parse([]byte(of(pad + 1)))
	require.ErrorContains(t, err, "bytes of JSON is more than")
}

func FuzzWhatIsAcceptedIsReadTheSameAgain(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(`{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":"1e3"}}}]}`))
	f.Add([]byte("--- \ncontainers: &a [{name: x, image: y}]\n"))
	f.Add([]byte(minimal + "volumes: [{name: v, configMap: {items: [{key: a, path: b, mode: 420}]}}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		defer boundtest.Within(t, len(in))()
		spec, compact, err := podspec.Parse(in)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, spec.Containers)
		require.True(t, json.Valid(compact))
		_, again, err := podspec.Parse(compact)
		require.NoError(t, err)
		require.Equal(t, string(compact), string(again))
	})
}

func TestAllValuesOfAWrongTypeAndAllElseThatIsWrongAreSaid(t *testing.T) {
	_, _, err := podspec.Parse([]byte(`{"containers":[{"name":"a","image":5,"command":"x"},{"name":"b","stdin":1}]}`))
	assert.EqualError(t, err, "containers[0].command: \"x\" is not a list\ncontainers[0].image: 5 is not a string: put it in quotes\ncontainers[1].stdin: 1 is not true or false")
	_, _, err = podspec.Parse([]byte(`{"restartPolicy":"Always","containers":[{"name":"a","imge":"x"}]}`))
	assert.EqualError(t, err, "containers[0].imge: unknown field\nrestartPolicy: \"Always\" must be \"Never\" or absent: the job's retry_config says how often it is tried again",
		"the image may be what is misspelt")
}
