//go:build unix

package command_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
)

func run(t *testing.T, tool *command.Tool, in string) (output, error) {
	raw, err := tool.Run(t.Context(), shell.Call{Input: json.RawMessage(in)})
	if raw == nil {
		require.Error(t, err)
		return output{}, err
	}
	return decode(t, raw), err
}

func TestACommandGivesBackWhatItPrintedAndItsExitCode(t *testing.T) {
	out, err := run(t, newTool(t, command.Options{}),
		`{"argv":["sh","-c","echo '<out>'; echo err >&2; exit 3"],"success_codes":[0,3]}`)
	require.NoError(t, err)
	require.NotNil(t, out.DurationMS)
	out.DurationMS = nil
	assert.Equal(t, output{ExitCode: 3, Stdout: "<out>\n", Stderr: "err\n"}, out)
}

func TestArgumentsReachTheProgramWithoutAShell(t *testing.T) {
	out, err := run(t, newTool(t, command.Options{}), `{"argv":["printf","%s|","$HOME","a b","*",";ls","-rf"]}`)
	require.NoError(t, err)
	assert.Equal(t, "$HOME|a b|*|;ls|-rf|", out.Stdout)
}

func TestAnInputThatCannotBeRightIsRefusedWithItsField(t *testing.T) {
	base := t.TempDir()
	free := command.Options{}
	boxed := command.Options{BaseDir: base, Executables: []string{"date", "/bin/sh"}}
	for name, row := range map[string]struct {
		options  command.Options
		in, want string
	}{
		"no input":              {free, ``, `tool_input: is empty: want an object`},
		"no argv":               {free, `{}`, `tool_input.argv: must have at least one element, the program to run`},
		"empty argv":            {free, `{"argv":[]}`, `tool_input.argv: must have at least one element, the program to run`},
		"empty program":         {free, `{"argv":["","x"]}`, `tool_input.argv[0]: must name the program to run, is empty`},
		"argv is a string":      {free, `{"argv":"date"}`, `tool_input.argv: want an array, got string "date"`},
		"number in argv":        {free, `{"argv":["sleep",5]}`, `tool_input.argv[1]: want a string, got number 5`},
		"NUL in argv":           {free, `{"argv":["a\u0000b"]}`, `tool_input.argv[0]: has a NUL character (\u0000) at offset 11: leave it out`},
		"unknown field":         {free, `{"argv":["date"],"shell":true}`, `tool_input.shell: unknown field: use one of argv, env, inherit_env, dir, stdin, timeout_seconds, success_codes, max_output_bytes`},
		"duplicate field":       {free, `{"argv":["date"],"argv":["ls"]}`, `tool_input.argv: is given twice`},
		"empty variable":        {free, `{"argv":["date"],"env":{"":"x"}}`, `tool_input.env: has a variable with an empty name`},
		"equals in a variable":  {free, `{"argv":["date"],"env":{"A=B":"x"}}`, `tool_input.env: variable name "A=B" must not contain '='`},
		"reserved variable":     {free, `{"argv":["date"],"env":{"ORRERY_ACTION_ID":"x"}}`, `tool_input.env: variable "ORRERY_ACTION_ID" is reserved: Orrery sets those that begin with ORRERY_`},
		"relative dir":          {free, `{"argv":["date"],"dir":"jobs"}`, `tool_input.dir: "jobs" is relative, and neither a base directory nor a workspace is configured: give an absolute path`},
		"dir out of the base":   {boxed, `{"argv":["date"],"dir":"a/../../b"}`, `tool_input.dir: "a/../../b" leads out of the base directory`},
		"absolute dir outside":  {boxed, `{"argv":["date"],"dir":"/"}`, `tool_input.dir: "/" leads out of the base directory`},
		"zero time limit":       {free, `{"argv":["date"],"timeout_seconds":0}`, `tool_input.timeout_seconds: 0 is out of range: want 0.001 to 604800`},
		"negative time limit":   {free, `{"argv":["date"],"timeout_seconds":-1}`, `tool_input.timeout_seconds: -1 is out of range: want 0.001 to 604800`},
		"endless time limit":    {free, `{"argv":["date"],"timeout_seconds":1e300}`, `tool_input.timeout_seconds: 1e+300 is out of range: want 0.001 to 604800`},
		"negative output":       {free, `{"argv":["date"],"max_output_bytes":-1}`, `tool_input.max_output_bytes: -1 is out of range: want 0 to 1048576`},
		"too much output":       {free, `{"argv":["date"],"max_output_bytes":9000000000}`, `tool_input.max_output_bytes: 9000000000 is out of range: want 0 to 1048576`},
		"no success code":       {free, `{"argv":["date"],"success_codes":[]}`, `tool_input.success_codes: must have at least one element, or be left out for [0]`},
		"not an exit code":      {free, `{"argv":["date"],"success_codes":[0,256]}`, `tool_input.success_codes[1]: 256 is not an exit code: want 0 to 255`},
		"program not allowed":   {boxed, `{"argv":["/usr/bin/date"]}`, `tool_input.argv[0]: program "/usr/bin/date" is not allowed here: use one of "date", "/bin/sh"`},
		"nothing allowed":       {command.Options{Executables: []string{}}, `{"argv":["date"]}`, `tool_input.argv[0]: program "date" is not allowed here: none is`},
		"loader variable":       {boxed, `{"argv":["date"],"env":{"LD_PRELOAD":"x"}}`, `tool_input.env: variable "LD_PRELOAD" is not allowed where the programs are restricted: none is`},
		"stdin of eight MB":     {free, `{"argv":["cat"],"stdin":"` + strings.Repeat("x", 8<<20+1) + `"}`, `tool_input.stdin: has 8388609 bytes: want at most 8388608`},
		"three hundred codes":   {free, `{"argv":["cat"],"success_codes":[` + strings.Repeat("1,", 256) + `1]}`, `tool_input.success_codes: has 257 elements: want at most 256`},
		"something after the }": {free, `{"argv":["cat"]} x`, `tool_input: has more after its end, from offset 17: 'x'`},
	} {
		t.Run(name, func(t *testing.T) {
			tool := newTool(t, row.options)
			require.EqualError(t, tool.ValidateInput(json.RawMessage(row.in)), row.want)
			out, err := run(t, tool, row.in)
			assert.Empty(t, out, "there is no result where nothing was started")
			require.EqualError(t, err, row.want, "Run holds the same rules as ValidateInput")
		})
	}
}

func TestAGoodInputIsAccepted(t *testing.T) {
	base := t.TempDir()
	tool := newTool(t, command.Options{BaseDir: base, Executables: []string{"date"}, AllowEnv: []string{"TZ"}, MaxOutput: 2 << 20})
	for _, in := range []string{
		`{"argv":["date"]}`,
		`{"argv":["date","-u"],"env":{"TZ":"UTC"},"inherit_env":false,"dir":"a/b","stdin":"","timeout_seconds":0.5,"success_codes":[0,255],"max_output_bytes":2097152}`,
		`{"argv":["date"],"dir":` + quote(filepath.Join(base, "x")) + `}`,
	} {
		assert.NoError(t, tool.ValidateInput(json.RawMessage(in)), in)
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestOptionsThatCannotBeRightAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for want, o := range map[string]command.Options{
		`InheritEnv: "A=B" is not the name of a variable: want one such as "PATH" or "LC_*"`: {InheritEnv: []string{"A=B"}},
		`InheritEnv: "*_X" is not the name of a variable: want one such as "PATH" or "LC_*"`: {InheritEnv: []string{"*_X"}},
		`Executables: has an empty name: want a name or a path of a program`:                 {Executables: []string{""}},
		`BaseDir: "jobs" is not an absolute path`:                                            {BaseDir: "jobs"},
		`BaseDir: directory "/nowhere/at/all" does not exist`:                                {BaseDir: "/nowhere/at/all"},
		`BaseDir: "` + file + `" is not a directory`:                                         {BaseDir: file},
	} {
		_, err := command.New(o)
		assert.EqualError(t, err, want)
	}
}

func environment(t *testing.T, tool *command.Tool, call shell.Call) map[string]string {
	raw, err := tool.Run(t.Context(), call)
	require.NoError(t, err)
	env := map[string]string{}
	for line := range strings.Lines(decode(t, raw).Stdout) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	return env
}

func TestTheDaemonsSecretsAreNotHandedOn(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("ORRERY_TOKEN", "secret")
	t.Setenv("LC_TIME", "C")
	t.Setenv("TZ", "UTC")
	env := environment(t, newTool(t, command.Options{}), shell.Call{Input: json.RawMessage(`{"argv":["env"],"env":{"MINE":"1","TZ":"Europe/Rome"}}`)})
	assert.NotContains(t, env, "AWS_SECRET_ACCESS_KEY")
	assert.NotContains(t, env, "ORRERY_TOKEN")
	assert.Equal(t, os.Getenv("PATH"), env["PATH"])
	assert.Equal(t, "C", env["LC_TIME"])
	assert.Equal(t, "1", env["MINE"])
	assert.Equal(t, "Europe/Rome", env["TZ"], "the input's own value wins")
}

func TestTheOperatorDecidesWhatIsInheritedAndAnInputCanOnlyTakeLess(t *testing.T) {
	t.Setenv("CUSTOM_ONE", "1")
	t.Setenv("TZ", "UTC")
	call := shell.Call{Input: json.RawMessage(`{"argv":["env"]}`)}
	names := func(o command.Options, call shell.Call) []string {
		var own []string
		for name := range environment(t, newTool(t, o), call) {
			if !strings.HasPrefix(name, "ORRERY_") {
				own = append(own, name)
			}
		}
		return own
	}
	assert.Equal(t, []string{"CUSTOM_ONE"}, names(command.Options{InheritEnv: []string{"CUSTOM_*"}}, call))
	assert.Empty(t, names(command.Options{InheritEnv: []string{}}, call))
	call.Input = json.RawMessage(`{"argv":["env"],"inherit_env":false,"env":{"A":"b"}}`)
	assert.Equal(t, []string{"A"}, names(command.Options{}, call))
}

func TestAProgramIsToldWhichActionItCarriesOut(t *testing.T) {
	id := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	due, err := effects.ParseTime("2026-02-10T14:00:00Z")
	require.NoError(t, err)
	call := shell.Call{
		ActionID: id, Attempt: 2, Namespace: "ns", Tenant: "acme", Label: "nightly = backup", DueAt: due,
		IdempotencyKey: id.String() + "/2", Input: json.RawMessage(`{"argv":["env"],"inherit_env":false}`),
	}
	want := map[string]string{
		"ORRERY_ACTION_ID": id.String(), "ORRERY_ATTEMPT": "2", "ORRERY_IDEMPOTENCY_KEY": id.String() + "/2",
		"ORRERY_NAMESPACE": "ns", "ORRERY_TENANT": "acme", "ORRERY_LABEL": "nightly = backup",
		"ORRERY_DUE_AT": "2026-02-10T14:00:00.000Z", "ORRERY_CYCLE": "", "ORRERY_OCCURRENCE": "", "ORRERY_METADATA": "", "ORRERY_LABELS": "",
		"ORRERY_RECURRING_ID": "", "ORRERY_RECURRING_DISPATCH": "", "ORRERY_LEFT_OUT": "",
		"ORRERY_WEBHOOK_ROUTE": "", "ORRERY_WEBHOOK_HEADERS": "",
	}
	assert.Equal(t, want, environment(t, newTool(t, command.Options{}), call))
	call.DueAt = 0
	want["ORRERY_DUE_AT"] = ""
	assert.Equal(t, want, environment(t, newTool(t, command.Options{}), call))
}

func TestAProgramIsToldMetadataLabelsAndItsPlaceInASchedule(t *testing.T) {
	call := shell.Call{
		Cycle: 3, Occurrence: uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), Input: json.RawMessage(`{"argv":["env"],"inherit_env":false}`),
		Metadata: map[string]string{core.MetaRecurringDispatch: "true", core.MetaRecurringID: "r", "ü": "a\nLD_PRELOAD=/evil.so"},
		Labels:   map[string]string{"LD_PRELOAD=/evil.so": "<x>", "ACTION_ID": "spoofed"},
	}
	env := environment(t, newTool(t, command.Options{}), call)
	assert.Equal(t, "3", env["ORRERY_CYCLE"])
	assert.Equal(t, call.Occurrence.String(), env["ORRERY_OCCURRENCE"])
	assert.Equal(t, "true", env["ORRERY_RECURRING_DISPATCH"])
	assert.Equal(t, "r", env["ORRERY_RECURRING_ID"])
	assert.JSONEq(t, `{"_recurring_dispatch":"true","_recurring_id":"r","ü":"a\nLD_PRELOAD=/evil.so"}`, env["ORRERY_METADATA"])
	assert.JSONEq(t, `{"ACTION_ID":"spoofed","LD_PRELOAD=/evil.so":"<x>"}`, env["ORRERY_LABELS"])
	assert.Equal(t, uuid.Nil.String(), env["ORRERY_ACTION_ID"])
	assert.NotContains(t, env, "LD_PRELOAD", "no key and no value becomes a variable of its own")
}

func TestAProgramIsToldTheHeadersOfTheWebhook(t *testing.T) {
	call := shell.Call{
		Input: json.RawMessage(`{"argv":["env"],"inherit_env":false}`), Payload: []byte("body"), Route: "git",
		Header: json.RawMessage("{\"x-github-event\":\"push\\nLD_PRELOAD=/evil.so\",\n\"LD_PRELOAD=/evil.so\":\"1\"}"),
	}
	env := environment(t, newTool(t, command.Options{}), call)
	assert.Equal(t, "git", env["ORRERY_WEBHOOK_ROUTE"])
	assert.JSONEq(t, string(call.Header), env["ORRERY_WEBHOOK_HEADERS"])
	assert.NotContains(t, env, "LD_PRELOAD")
}

func TestAnEnvironmentThatIsTooLongForTheSystemStartsTheProgramWithoutIt(t *testing.T) {
	call := shell.Call{Input: json.RawMessage(`{"argv":["env"]}`), Metadata: map[string]string{}, Labels: map[string]string{"a": "b"}}
	for i := range core.MaxMapEntries {
		call.Metadata[strconv.Itoa(i)] = strings.Repeat("x", core.MaxTextBytes)
	}
	env := environment(t, newTool(t, command.Options{}), call)
	assert.Empty(t, env["ORRERY_METADATA"])
	assert.JSONEq(t, `{"a":"b"}`, env["ORRERY_LABELS"])
	assert.Equal(t, "ORRERY_METADATA", env["ORRERY_LEFT_OUT"])
}

func TestStdinIsTheInputsTextElseTheWebhooksBodyElseEmpty(t *testing.T) {
	tool := newTool(t, command.Options{})
	for name, row := range map[string]struct {
		in      string
		payload []byte
		want    string
	}{
		"neither":               {`{"argv":["cat"]}`, nil, ""},
		"webhook body":          {`{"argv":["cat"]}`, []byte(`{"ref":"main"}`), `{"ref":"main"}`},
		"text":                  {`{"argv":["cat"],"stdin":"text"}`, []byte(`{"ref":"main"}`), "text"},
		"empty text":            {`{"argv":["cat"],"stdin":""}`, []byte(`{"ref":"main"}`), ""},
		"body that nobody read": {`{"argv":["true"]}`, make([]byte, 10<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := tool.Run(t.Context(), shell.Call{Input: json.RawMessage(row.in), Payload: row.payload})
			require.NoError(t, err)
			assert.Equal(t, row.want, decode(t, raw).Stdout)
		})
	}
}

func TestTheWorkingDirectoryIsTakenFromTheBaseDirectory(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(base, "sub"), 0o700))
	other, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for in, want := range map[string]string{
		`{"argv":["pwd"]}`:             base,
		`{"argv":["pwd"],"dir":"sub"}`: filepath.Join(base, "sub"),
		`{"argv":["pwd"],"dir":` + quote(filepath.Join(base, "sub")) + `}`: filepath.Join(base, "sub"),
	} {
		out, err := run(t, newTool(t, command.Options{BaseDir: base}), in)
		require.NoError(t, err)
		assert.Equal(t, want+"\n", out.Stdout)
	}
	out, err := run(t, newTool(t, command.Options{}), `{"argv":["pwd"],"dir":`+quote(other)+`}`)
	require.NoError(t, err)
	assert.Equal(t, other+"\n", out.Stdout)
}

func TestARelativeDirectoryMayBeTakenFromAnotherPlaceThanProgramsRunIn(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(root, "sub"), 0o700))
	here, err := os.Getwd()
	require.NoError(t, err)
	tool := newTool(t, command.Options{RelativeTo: root})
	for in, want := range map[string]string{
		`{"argv":["pwd"]}`:             here,
		`{"argv":["pwd"],"dir":"sub"}`: filepath.Join(root, "sub"),
		`{"argv":["pwd"],"dir":"/"}`:   "/",
	} {
		out, err := run(t, tool, in)
		require.NoError(t, err)
		assert.Equal(t, want+"\n", out.Stdout)
	}
	_, err = run(t, tool, `{"argv":["pwd"],"dir":"sub/../.."}`)
	assert.EqualError(t, err, `tool_input.dir: "sub/../.." leads out of the directory from which it is taken`)
	_, err = command.New(command.Options{RelativeTo: "jobs"})
	assert.EqualError(t, err, `RelativeTo: "jobs" is not an absolute path`)
}

func TestADirectoryOfAnotherTenantIsNoneToRunIn(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, dir := range []string{"acme/sub", "bolt/sub"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	require.NoError(t, os.Symlink("../acme/sub", filepath.Join(root, "bolt", "link")))
	require.NoError(t, os.Symlink("/", filepath.Join(root, "bolt", "top")))
	tool := newTool(t, command.Options{RelativeTo: root, RelativeToFor: func(_, tenant string) (string, error) { return filepath.Join(root, tenant), nil }})
	pwd := func(dir string) (string, error) {
		raw, err := tool.Run(t.Context(), shell.Call{Namespace: "n", Tenant: "bolt", Input: json.RawMessage(`{"argv":["pwd"],"dir":` + quote(dir) + `}`)})
		var out struct{ Stdout string }
		if err == nil {
			require.NoError(t, json.Unmarshal(raw, &out))
		}
		return strings.TrimSpace(out.Stdout), err
	}
	for _, dir := range []string{"link", "top", "sub/../link", filepath.Join(root, "acme"), filepath.Join(root, "acme", "sub"), root, filepath.Join(root, "bolt", "link")} {
		_, err := pwd(dir)
		require.ErrorContains(t, err, "leads out of the workspace of n/bolt", dir)
	}
	for dir, want := range map[string]string{"sub": "bolt/sub", ".": "bolt", filepath.Join(root, "bolt", "sub"): "bolt/sub"} {
		got, err := pwd(dir)
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(root, want), got)
	}
	got, err := pwd("/")
	require.NoError(t, err)
	assert.Equal(t, "/", got, "what is not of the workspace is no tenant's")
}

func TestAFailedRunSaysHowItEndedAndItsLastLines(t *testing.T) {
	tool := newTool(t, command.Options{})
	long := strings.Repeat("x", 1100)
	for in, want := range map[string]string{
		`{"argv":["sh","-c","exit 3"]}`:                                  `command "sh" exited with code 3`,
		`{"argv":["sh","-c","echo a >&2; echo b >&2; exit 1"]}`:          `command "sh" exited with code 1; stderr ends with "a\nb"`,
		`{"argv":["sh","-c","echo no; echo a >&2; exit 1"]}`:             `command "sh" exited with code 1; stderr ends with "a"`,
		`{"argv":["sh","-c","echo a; echo b; echo >&2; exit 1"]}`:        `command "sh" exited with code 1; stdout ends with "a\nb"`,
		`{"argv":["sh","-c","seq 30 >&2; exit 1"]}`:                      `command "sh" exited with code 1; stderr ends with "21\n22\n23\n24\n25\n26\n27\n28\n29\n30"`,
		`{"argv":["sh","-c","echo ` + long + ` >&2; echo b; exit 1"]}`:   `command "sh" exited with code 1; stderr ends with "…` + long[:1021] + `"`,
		`{"argv":["sh","-c","echo ` + long + `; echo short; exit 1"]}`:   `command "sh" exited with code 1; stdout ends with "short"`,
		`{"argv":["sh","-c","printf '\\033[2J' >&2; exit 1"]}`:           `command "sh" exited with code 1; stderr ends with "\x1b[2J"`,
		`{"argv":["sh","-c","true"],"success_codes":[4]}`:                `command "sh" exited with code 0`,
		`{"argv":["sh","-c","kill -SEGV $$"]}`:                           `command "sh" was ended by SIGSEGV`,
		`{"argv":["sh","-c","echo dying >&2; kill -KILL $$"]}`:           `command "sh" was ended by SIGKILL; stderr ends with "dying"`,
		`{"argv":["sh","-c","echo dying; kill -KILL $$"]}`:               `command "sh" was ended by SIGKILL; stdout ends with "dying"`,
		`{"argv":["sh","-c","kill -TERM $$"],"success_codes":[0]}`:       `command "sh" was ended by SIGTERM`,
		`{"argv":["sh","-c","echo a >&2; exit 1"],"max_output_bytes":0}`: `command "sh" exited with code 1`,
	} {
		_, err := run(t, tool, in)
		var exit *command.ExitError
		require.ErrorAs(t, err, &exit, in)
		exit.Core = false // whether there is a dump is the system's choice
		assert.EqualError(t, exit, want)
		assert.True(t, exit.Stderr == "" || exit.Stdout == "", "the text has room for one of them")
	}
}

func TestAFailedRunHasTheResultThatASuccessfulOneHas(t *testing.T) {
	for in, want := range map[string]string{
		`{"argv":["sh","-c","echo '<o>'; echo e >&2; exit 3"]}`:                     `{"exit_code":3,"stdout":"<o>\n","stderr":"e\n","stdout_dropped_bytes":0,"stderr_dropped_bytes":0,`,
		`{"argv":["sh","-c","echo o; kill -KILL $$"]}`:                              `{"exit_code":-1,"signal":"SIGKILL","stdout":"o\n","stderr":"","stdout_dropped_bytes":0,"stderr_dropped_bytes":0,`,
		`{"argv":["sh","-c","printf 0123456789; exit 3"],"max_output_bytes":4}`:     `{"exit_code":3,"stdout":"01\n[… 6 bytes dropped …]\n89","stderr":"","stdout_dropped_bytes":6,"stderr_dropped_bytes":0,`,
		`{"argv":["sh","-c","printf '\\377\\000' >&2; exit 3"]}`:                    `{"exit_code":3,"stdout":"","stderr":"��","stdout_dropped_bytes":0,"stderr_dropped_bytes":0,`,
		`{"argv":["sh","-c","echo o; echo e >&2; exit 3"],"max_output_bytes":0}`:    `{"exit_code":3,"stdout":"","stderr":"","stdout_dropped_bytes":2,"stderr_dropped_bytes":2,`,
		`{"argv":["sh","-c","head -c 3000000 /dev/zero; exit 3"],"stdin":"unread"}`: `{"exit_code":3,"stdout":"` + strings.Repeat("\ufffd", 32<<10),
	} {
		raw, err := newTool(t, command.Options{}).Run(t.Context(), shell.Call{Input: json.RawMessage(in)})
		require.Error(t, err, in)
		require.Truef(t, json.Valid(raw), "%s", raw)
		assert.True(t, strings.HasPrefix(string(raw), want), string(raw[:min(len(raw), 300)]))
		assert.Less(t, len(raw), 3*64<<10+500, "a character that is replaced takes three bytes")
	}
}

func TestAProgramThatCannotBeStartedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	noInterpreter := write("no-interpreter", "#!/nowhere/sh\n", 0o700)
	noFormat := write("no-format", "\x7fELF but not really", 0o700)
	noExec := write("no-exec", "#!/bin/sh\n", 0o600)
	for name, row := range map[string]struct{ in, want string }{
		"not in PATH":         {`{"argv":["no-such-program-here"]}`, `command "no-such-program-here" was not started: it is not found in the daemon's PATH: install it or give its full path`},
		"missing":             {`{"argv":["/nowhere/prog"]}`, `command "/nowhere/prog" was not started: it does not exist`},
		"missing, relative":   {`{"argv":["./prog"],"dir":` + quote(dir) + `}`, `command "./prog" was not started: it does not exist`},
		"missing interpreter": {`{"argv":["./no-interpreter"],"dir":` + quote(dir) + `}`, `command "./no-interpreter" was not started: it exists, but the interpreter that its #! line or its loader names does not`},
		"the same, absolute":  {`{"argv":[` + quote(noInterpreter) + `]}`, `command ` + quote(noInterpreter) + ` was not started: it exists, but the interpreter that its #! line or its loader names does not`},
		"wrong format":        {`{"argv":[` + quote(noFormat) + `]}`, `command ` + quote(noFormat) + ` was not started: it is not a program that this system can run: a script needs a first line such as #!/bin/sh`},
		"not executable":      {`{"argv":[` + quote(noExec) + `]}`, `command ` + quote(noExec) + ` was not started: it is not executable for the daemon's user (permission denied)`},
		"a directory":         {`{"argv":["/tmp"]}`, `command "/tmp" was not started: it is a directory`},
		"missing dir":         {`{"argv":["date"],"dir":"/nowhere/at/all"}`, `command "date" was not started: tool_input.dir: directory "/nowhere/at/all" does not exist`},
		"dir is a file":       {`{"argv":["date"],"dir":` + quote(noExec) + `}`, `command "date" was not started: tool_input.dir: ` + quote(noExec) + ` is not a directory`},
		"arguments too long":  {`{"argv":["true",` + quote(strings.Repeat("x", 4<<20)) + `]}`, `command "true" was not started: its arguments and environment are too long for the system: use stdin or a file (fork/exec`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, newTool(t, command.Options{}), row.in)
			var start *command.StartError
			require.ErrorAs(t, err, &start)
			assert.False(t, start.Exhausted())
			if strings.HasSuffix(row.want, "(fork/exec") {
				assert.Contains(t, err.Error(), row.want)
				return
			}
			assert.EqualError(t, err, row.want)
		})
	}
}

func TestARunWhoseContextHasEndedStartsNothing(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(shell.ErrStopping)
	_, err := newTool(t, command.Options{}).Run(ctx, shell.Call{Input: json.RawMessage(`{"argv":["touch",` + quote(mark) + `]}`)})
	require.ErrorIs(t, err, shell.ErrStopping)
	assert.EqualError(t, err, `command "touch" was not started: there is no time left: the engine is stopping`)
	assert.NoFileExists(t, mark)
}

func TestAnAllowedProgramRunsAndTheListIsTheToolsOwn(t *testing.T) {
	allowed := []string{"printf"}
	tool := newTool(t, command.Options{Executables: allowed})
	allowed[0] = "sh"
	out, err := run(t, tool, `{"argv":["printf","x"]}`)
	require.NoError(t, err)
	assert.Equal(t, "x", out.Stdout)
}

func TestTheDefaultEnvironmentHoldsNoPatternThatASecretCouldMatch(t *testing.T) {
	patterns := slices.DeleteFunc(command.DefaultInheritEnv(), func(n string) bool { return !strings.HasSuffix(n, "*") })
	assert.Equal(t, []string{"LC_*"}, patterns)
}

func TestALimitOfNoneLeavesTheCommandToTheEngine(t *testing.T) {
	out, err := run(t, newTool(t, command.Options{TimeLimit: -1, KillGrace: -1, MaxOutput: -1}), `{"argv":["echo","x"]}`)
	require.NoError(t, err)
	assert.Empty(t, out.Stdout)
	assert.EqualValues(t, 2, out.StdoutDropped)
}

func TestTheToolsOwnLimitHoldsWhereTheInputNamesNone(t *testing.T) {
	_, err := run(t, newTool(t, command.Options{TimeLimit: 20 * time.Millisecond}), `{"argv":["sleep","3600"]}`)
	require.ErrorIs(t, err, shell.ErrTimeLimit)
	assert.EqualError(t, err, `command "sleep" reached its time limit of 20ms and was killed`)
}

func TestARestrictedToolRunsNoOtherCode(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "nightly.sh")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/bash\necho harmless \"$REPORT_DAY\"\n"), 0o700))
	tool, err := command.New(command.Options{Executables: []string{script}, AllowEnv: []string{"REPORT_*"}})
	require.NoError(t, err)
	for name, value := range map[string]string{
		"BASH_ENV": "$(touch " + dir + "/ran)", "BASH_FUNC_echo%%": "() { touch " + dir + "/ran; }", "PATH": dir,
	} {
		input, err := json.Marshal(map[string]any{"argv": []string{script}, "env": map[string]string{name: value}})
		require.NoError(t, err)
		require.ErrorContains(t, tool.ValidateInput(input), `is not allowed where the programs are restricted: use one of "REPORT_*"`)
		_, err = tool.Run(t.Context(), shell.Call{Input: input})
		require.Error(t, err)
	}
	assert.NoFileExists(t, filepath.Join(dir, "ran"))
	input, err := json.Marshal(map[string]any{"argv": []string{script}, "env": map[string]string{"REPORT_DAY": "today"}})
	require.NoError(t, err)
	raw, err := tool.Run(t.Context(), shell.Call{Input: input})
	require.NoError(t, err)
	assert.Contains(t, string(raw), "harmless today")

	_, err = command.New(command.Options{Executables: []string{"./bin/run.sh"}})
	require.ErrorContains(t, err, `Executables: "./bin/run.sh" would mean another program in each directory`)
}

func TestAResultIsNoLargerThanTheEngineTakes(t *testing.T) {
	const most = 1 << 20
	tool, err := command.New(command.Options{})
	require.NoError(t, err)
	for _, script := range []string{
		`head -c 3000000 /dev/zero | tr '\0' a`,
		`head -c 1000000 /dev/zero | tr '\0' '\1'`,
		`head -c 1000000 /dev/zero | tr '\0' '"'; head -c 1000000 /dev/zero | tr '\0' '\1' >&2; echo END >&2`,
	} {
		input, err := json.Marshal(map[string]any{"argv": []string{"sh", "-c", script}, "max_output_bytes": most})
		require.NoError(t, err)
		raw, err := tool.Run(t.Context(), shell.Call{Input: input})
		require.NoError(t, err)
		assert.LessOrEqual(t, len(raw), most, script)
		assert.Greater(t, len(raw), most/3, script)
		var res struct {
			Stdout, Stderr string
			StdoutDropped  int64 `json:"stdout_dropped_bytes"`
		}
		require.NoError(t, json.Unmarshal(raw, &res))
		assert.Positive(t, res.StdoutDropped)
		assert.Contains(t, res.Stdout, "bytes dropped")
		assert.True(t, res.Stderr == "" || strings.HasSuffix(res.Stderr, "END\n"), "both ends are kept")
	}
}
