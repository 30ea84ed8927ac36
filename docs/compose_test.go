package docs_test

import (
	"bytes"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

const composeFolder = "examples/compose/"

// composeFile is what the compose file has of the format: a key that is not here is a mistake, or belongs here.
type composeFile struct {
	Name     string                     `json:"name"`
	Services map[string]*composeService `json:"services"`
	Configs  map[string]struct {
		File string `json:"file"`
	} `json:"configs"`
	Volumes     map[string]struct{} `json:"volumes"`
	Image       any                 `json:"x-image"`
	Environment any                 `json:"x-environment"`
	Daemon      any                 `json:"x-daemon"`
}

type composeService struct {
	Image string `json:"image"`
	Build *struct {
		Context    string `json:"context"`
		Dockerfile string `json:"dockerfile"`
	} `json:"build"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Configs     []struct {
		Source string `json:"source"`
		Target string `json:"target"`
	} `json:"configs"`
	DependsOn map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
	Restart         string   `json:"restart"`
	Init            bool     `json:"init"`
	StopGracePeriod string   `json:"stop_grace_period"`
	Ports           []string `json:"ports"`
	Volumes         []string `json:"volumes"`
	Healthcheck     *struct {
		Test        []string `json:"test"`
		Interval    string   `json:"interval"`
		Timeout     string   `json:"timeout"`
		Retries     int      `json:"retries"`
		StartPeriod string   `json:"start_period"`
	} `json:"healthcheck"`
}

// composed reads the compose file strictly.
func composed(t *testing.T) (c composeFile) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(readFile(t, composeFolder+"compose.yaml")), &c))
	return c
}

// daemons gives the names of the services that are daemons.
func (c composeFile) daemons() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if strings.HasPrefix(name, "daemon-") {
			names = append(names, name)
		}
	}
	return names
}

func TestTheComposeFileFitsTogether(t *testing.T) {
	c := composed(t)
	require.Equal(t, []string{"daemon-1", "daemon-2", "daemon-3"}, c.daemons())
	require.Len(t, c.Services, 5)
	db := c.Services["postgres"]
	assert.Regexp(t, `^docker\.io/library/postgres:\d+\.\d+$`, db.Image, "a version that does not change by itself")
	assert.Empty(t, db.Ports, "its password stands in the file: nobody else may reach it")
	volume, at, _ := strings.Cut(db.Volumes[0], ":")
	assert.Contains(t, c.Volumes, volume)
	assert.Equal(t, "/var/lib/postgresql/data", at, "where images before PostgreSQL 18 have their data")

	ports := make(map[string]bool)
	for _, name := range append(c.daemons(), "divide") {
		s := c.Services[name]
		database, err := url.Parse(s.Environment["ORRERY_DATABASE"])
		require.NoError(t, err)
		password, _ := database.User.Password()
		assert.Equal(t, map[string]string{"POSTGRES_USER": database.User.Username(), "POSTGRES_PASSWORD": password, "POSTGRES_DB": strings.TrimPrefix(database.Path, "/")}, db.Environment, name)
		assert.Equal(t, "postgres", database.Hostname(), "the name of its service")
		require.NotNil(t, s.Build, name)
		assert.FileExists(t, filepath.Join(root, s.Build.Dockerfile))
		assert.Equal(t, "../..", s.Build.Context, "the repository's top, from the file's folder")
		for on := range s.DependsOn {
			assert.Contains(t, c.Services, on, name)
		}
		if name == "divide" {
			assert.Equal(t, "service_healthy", s.DependsOn["postgres"].Condition)
			continue
		}
		assert.Equal(t, "service_completed_successfully", s.DependsOn["divide"].Condition, "no daemon works on the database before it is divided")
		_, listens, err := net.SplitHostPort(s.Environment["ORRERY_LISTEN"])
		require.NoError(t, err)
		assert.Equal(t, "http://"+name+":"+listens, s.Environment["ORRERY_CLUSTER_ADDRESS"], "the others reach it by the name of its service")
		assert.Equal(t, name, s.Environment["ORRERY_CLUSTER_NAME"])
		assert.True(t, s.Init, "the daemon reaps no process that is not its own")
		require.Len(t, s.Ports, 1)
		assert.Regexp(t, `^127\.0\.0\.1:746[123]:`+listens+`$`, s.Ports[0], "only this machine reaches it")
		assert.False(t, ports[s.Ports[0]], "two daemons have the port %s", s.Ports[0])
		ports[s.Ports[0]] = true
		assert.Equal(t, "http://127.0.0.1:"+listens+"/readyz", s.Healthcheck.Test[len(s.Healthcheck.Test)-1])
		assert.FileExists(t, filepath.Join(root, composeFolder, c.Configs[s.Configs[0].Source].File))
		assert.Contains(t, s.Command, s.Configs[0].Target)
	}
	page := readFile(t, clusterPage)
	assert.Contains(t, page, "docker compose -f examples/compose/compose.yaml up")

	image, other := readFile(t, composeFolder+"Containerfile"), readFile(t, manifests+"/Containerfile")
	build := regexp.MustCompile(`(?s)FROM \S+ AS build.*?/out/orreryd \./examples/orreryd\n`)
	require.NotEmpty(t, build.FindString(other))
	assert.Equal(t, build.FindString(other), build.FindString(image), "both images have the same program")
	for _, program := range []string{"curl", "git", "tmux"} { // of the health check, of worktrees and of sessions
		assert.Regexp(t, `apt-get install [^\n]* `+program+`\b`, image)
	}
	assert.Contains(t, image, "USER orrery\n")
}

// inPlace gives the environment of a service here, where the database and the ports are others.
func (s *composeService) inPlace(database, listen string) []string {
	env := []string{"NO_PROXY=*"}
	for name, value := range s.Environment { // order-free: they are different variables
		switch name {
		case "ORRERY_DATABASE":
			value = database
		case "ORRERY_LISTEN":
			value = listen
		case "ORRERY_CLUSTER_ADDRESS":
			value = "http://" + listen
		case "ORRERY_TOKEN":
			value = composeToken
		}
		env = append(env, name+"="+value)
	}
	return plainEnv(env...)
}

const composeToken = "a-token-of-the-compose-file-that-is-long"

// TestTheCommandsOfTheComposeFileMakeAClusterOfThree runs, as processes, the programs with the arguments, the variables and the configuration that the
// containers get; the addresses and the folder of the configuration are others.
func TestTheCommandsOfTheComposeFileMakeAClusterOfThree(t *testing.T) {
	c, database, dir := composed(t), postgrestest.Database(t), t.TempDir()
	config := strings.ReplaceAll(readFile(t, composeFolder+"orrery.toml"), "/var/lib/orrery/", dir+"/NAME/")
	run := func(name, listen string) *exec.Cmd {
		s := c.Services[name]
		args := slices.Clone(s.Command)
		for _, of := range s.Configs {
			file := filepath.Join(dir, name+".toml")
			require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(config, "NAME", name)), 0o600))
			args[slices.Index(args, of.Target)] = file
		}
		cmd := exec.CommandContext(t.Context(), daemonBinary(t), args...)
		cmd.Dir, cmd.Env = dir, s.inPlace(database, listen)
		return cmd
	}
	for range 2 { // a second "up" changes nothing
		out, err := run("divide", "127.0.0.1:0").CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "has 6 partitions")
	}
	addresses := freeAddresses(t, len(c.daemons()))
	var running []*exec.Cmd
	for i, name := range c.daemons() {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		cmd, said := run(name, addresses[i]), new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = said, said
		require.NoError(t, cmd.Start())
		running = append(running, cmd)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("%s: %s", name, said)
			}
		})
	}
	for i, name := range c.daemons() {
		probe := c.Services[name].Healthcheck.Test
		at := strings.Replace(probe[len(probe)-1], "127.0.0.1:7460", addresses[i], 1)
		require.Eventually(t, func() bool {
			got, err := http.Get(at)
			return err == nil && got.Body.Close() == nil && got.StatusCode == http.StatusOK
		}, time.Minute, 50*time.Millisecond, "%s is not ready", name)
	}
	status := func() string {
		out, code := orreryd(t, dir, []string{"ORRERY_TOKEN=" + composeToken, "ORRERY_SERVER=http://" + addresses[0]}, "cluster", "status")
		require.Zero(t, code, out)
		return out
	}
	var said string
	works := regexp.MustCompile(`partition \d +daemon-[123] works`)
	assert.Eventually(t, func() bool { // one that moves is nobody's for a moment
		said = status()
		return len(works.FindAllString(said, -1)) == 6 &&
			!slices.ContainsFunc(c.daemons(), func(name string) bool { return !regexp.MustCompile(name + ` +works on`).MatchString(said) })
	}, time.Minute, 200*time.Millisecond, "each of them works on some of the partitions")
	require.Len(t, works.FindAllString(said, -1), 6, "%s", said)
	for _, cmd := range running {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM), "as docker compose stop does")
	}
	for i, cmd := range running {
		assert.NoError(t, cmd.Wait(), c.daemons()[i])
	}
}
