package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orrery-go/orrery/effects/loopbacktest"
)

const (
	// socketPort names the Unix socket of a server without TCP. No port is taken.
	socketPort = "5432"
	// oldest is the oldest version of PostgreSQL that is supported.
	oldest = 13
	// settle is the pause between two looks at what a server has come to.
	settle = 5 * time.Millisecond
)

// Server is a PostgreSQL server with its folder. Its methods are for one goroutine; URL,
// Exec and Query are for many.
type Server struct {
	programs programs
	options  Options
	name     string // of a standby
	dir      string // the Unix socket, the data and the log
	port     int    // at [loopback]; 0: none
	guard    *guard
	process  process
	runs     atomic.Bool // the postmaster has been started, and has not been ended
	frozen   []int       // ids of what freeze has stopped
}

// programs are those of one version of PostgreSQL, and the user that runs them.
type programs struct {
	dir string
	as  account
}

// errMissing is why tests are skipped.
var errMissing = errors.New("PostgreSQL 13 or newer is not installed (Debian: apt-get install postgresql)")

// unavailable skips the test if PostgreSQL is missing, and else fails it.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errMissing) && os.Getenv("ORRERY_REQUIRE_PROGRAMS") == "" {
		t.Skipf("this test needs a PostgreSQL: %v", err)
	}
	t.Fatalf("start PostgreSQL for a test: %v", err)
}

// debian is where Debian's packages have their versions side by side.
const debian = "/usr/lib/postgresql/*/bin"

// find gives the folder with the newest programs.
func find(pattern, path string) (string, error) {
	folders, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	best, newest := "", oldest-1
	for _, folder := range folders {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		if err == nil && version > newest && isProgram(filepath.Join(folder, "postgres")) && isProgram(filepath.Join(folder, "initdb")) {
			best, newest = folder, version
		}
	}
	if best != "" {
		return best, nil
	}
	for _, folder := range filepath.SplitList(path) {
		postgres := filepath.Join(folder, "postgres")
		if !isProgram(postgres) || !isProgram(filepath.Join(folder, "initdb")) {
			continue
		}
		said, err := exec.CommandContext(context.Background(), postgres, "--version").Output() //nolint:gosec // the program that PATH has, asked for its version
		if err != nil {
			return "", fmt.Errorf("%s --version: %w", postgres, err)
		}
		if version(string(said)) >= oldest {
			return folder, nil
		}
	}
	return "", errMissing
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// version is the major version in what "postgres --version" says; 0 if there is none.
func version(said string) int {
	found := versionText.FindStringSubmatch(said)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return n
}

func isProgram(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // below a folder of PATH or of Debian's packages
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// start makes a server and runs it.
func start(o Options) (*Server, error) {
	dir, err := find(debian, os.Getenv("PATH"))
	if err != nil {
		return nil, err
	}
	as, err := runsAs()
	if err != nil {
		return nil, err
	}
	s, err := newServer(programs{dir: dir, as: as}, o)
	if err != nil {
		return nil, err
	}
	if err := s.init(); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// newServer makes the folder of a server, with nothing in it.
func newServer(p programs, o Options) (_ *Server, err error) {
	s := &Server{programs: p, options: o}
	s.dir, err = os.MkdirTemp(tempDir(), "orrery-pg-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.dir) // the first error counts
		}
	}()
	if err = p.as.own(s.dir); err != nil {
		return nil, err
	}
	if s.guard, err = watch(s.dir); err != nil {
		return nil, err
	}
	return s, nil
}

// tempDir is the folder for the folders of servers. The path of a Unix socket has a limit
// of about a hundred bytes, which TMPDIR may come near to.
func tempDir() string {
	if dir := os.TempDir(); len(dir) < 60 {
		return dir
	}
	return "/tmp"
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// portText is the number in the name of the Unix socket: that of the port, if there is one.
func (s *Server) portText() string {
	if s.port != 0 {
		return strconv.Itoa(s.port)
	}
	return socketPort
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// init makes the cluster of databases, and starts the server for the first time.
func (s *Server) init() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.run(ctx, "initdb", "--pgdata="+s.data(), "--username="+User, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	return s.launch()
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs.dir, program), args...)
	cmd.Dir, cmd.Env = s.dir, environment()
	s.programs.as.applyTo(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

// environment is that of the test process, less the defaults of PostgreSQL's clients and
// with messages in English.
func environment() []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") }), "LC_ALL=C")
}

// launch starts the server and waits until it answers. At the first time it takes another
// port if somebody else was faster.
func (s *Server) launch() error {
	if s.runs.Load() {
		return errors.New("it runs already")
	}
	first := s.options.TCP && s.port == 0
	for try := 1; ; try++ {
		if first {
			port, err := freePort()
			if err != nil {
				return err
			}
			s.port = port
		}
		err := s.launchOnce()
		if err == nil || !first || try == 5 || !strings.Contains(s.Log(), "Address already in use") {
			return err
		}
	}
}

// freePort is a port of [loopbacktest.Database] that nobody listens on at this moment.
func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopbacktest.Database()+":0")
	if err != nil {
		return 0, err
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *Server) launchOnce() error {
	if err := s.configure(); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server writes to it, not this process
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.programs.dir, "postgres"), "-D", s.data())
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, environment(), log, log
	s.programs.as.applyTo(cmd)
	if s.process, err = begin(cmd); err != nil {
		return err
	}
	s.runs.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = until(ctx, func(ctx context.Context) (bool, error) {
		if s.process.ended() {
			s.runs.Store(false)
			return false, fmt.Errorf("it has ended by itself: %s", s.Log())
		}
		return s.Exec(ctx, "postgres", "SELECT 1") == nil, nil
	}, "it does not answer")
	if err != nil && s.runs.Load() {
		return errors.Join(fmt.Errorf("%w: %s", err, s.Log()), s.kill())
	}
	return err
}

// configure writes the file of settings. What ALTER SYSTEM has set is in another one, and
// goes before.
func (s *Server) configure() error {
	settings := map[string]string{
		"unix_socket_directories":    s.dir,
		"listen_addresses":           "",
		"port":                       s.portText(),
		"dynamic_shared_memory_type": "mmap", // its files are below the data, and are removed with them
		"shared_buffers":             "32MB",
		"max_wal_size":               "256MB",
		"max_connections":            "400", // the tests of a package share the server, and several run daemons beside each other
		"log_line_prefix":            "%m [%p] ",
	}
	if s.port != 0 {
		settings["listen_addresses"] = loopbacktest.Database()
	}
	if s.name != "" {
		settings["cluster_name"] = s.name // under which it also introduces itself to its primary
	}
	if s.options.NoFsync {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	maps.Copy(settings, s.options.Settings)
	var file strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&file, "%s = '%s'\n", name, strings.NewReplacer("'", "''", `\`, `\\`).Replace(settings[name]))
	}
	path := filepath.Join(s.data(), "postgresql.conf")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return err
	}
	return s.programs.as.own(path)
}

// Log is the end of what the server has logged.
func (s *Server) Log() string {
	const enough = 8 << 10
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	b = ownLooks.ReplaceAll(b, nil)
	if len(b) > enough {
		b = b[len(b)-enough:]
	}
	return string(bytes.TrimSpace(b))
}

// ownLooks are lines about this package's own looks at a server that is starting: there are many where that takes long.
var ownLooks = regexp.MustCompile(`(?m)^.*(the database system is (starting up|not yet accepting connections)|Consistent recovery state has not been yet reached).*\n`)

// until waits until a condition holds.
func until(ctx context.Context, holds func(context.Context) (bool, error), complaint string) error {
	pause := time.NewTicker(settle)
	defer pause.Stop()
	for {
		if ok, err := holds(ctx); ok || err != nil {
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", complaint, ctx.Err())
		}
	}
}

// remove ends the server and removes its folder.
func (s *Server) remove() error {
	var err error
	if s.runs.Load() {
		if err = s.thaw(); err == nil {
			err = s.stop(immediate)
		}
		if err != nil {
			err = errors.Join(err, s.kill())
		}
	}
	s.process.releaseMemory()
	if gone := os.RemoveAll(s.dir); err == nil {
		err = gone
	}
	return errors.Join(err, s.guard.dismiss())
}

// guard is a shell that ends a server and removes its folder if this process dies.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// guardScript reads a line, which says that nothing is left to do, or the end of the pipe:
// then the process that should have written it is gone. The server is let go on if it was
// frozen, and ends in a way that leaves nothing behind; that takes the file of its id away.
const guardScript = `
dir=$1
read -r line && exit 0
file=$dir/data/postmaster.pid
pid=$(head -n 1 "$file" 2>/dev/null)
if [ -n "$pid" ] && [ "$pid" -gt 1 ]; then
  if [ -d /proc/self ]; then
    children=$(grep -l "^PPid:[[:space:]]*$pid\$" /proc/[0-9]*/status 2>/dev/null | cut -d / -f 3)
  else
    children=$(ps -A -o pid= -o ppid= | awk -v p="$pid" '$2 == p { print $1 }')
  fi
  for p in $pid $children; do kill -CONT "$p" 2>/dev/null; done
  kill -QUIT "$pid" 2>/dev/null
  n=0
  while [ -e "$file" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
  [ ! -e "$file" ] || kill -KILL $pid $children 2>/dev/null
fi
rm -rf "$dir"
`

// watch starts the guard of a folder.
func watch(dir string) (*guard, error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", guardScript, "orrery-pg-guard", dir)
	alone(cmd) // what interrupts the tests, such as Ctrl-C, must not end it
	cmd.Dir = "/"
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// dismiss tells the guard that nothing is left to do.
func (g *guard) dismiss() error {
	_, err := io.WriteString(g.pipe, "done\n")
	return errors.Join(err, g.pipe.Close(), g.cmd.Wait())
}
