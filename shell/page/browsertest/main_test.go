// Package browsertest tests the page in a real browser: headless Chromium over a real engine, the API
// and the page on a loopback listener. It has tests alone, so that no program links what drives the browser.
//
//	ORRERY_BROWSER=off      the tests are skipped: the gate runs them in the step page, and in no other
//	ORRERY_AXE=FILE         axe.js of the npm package axe-core; without it the checks of accessibility are skipped
//	ORRERY_SCREENSHOTS=DIR  pictures of the main pages are written there
//	ORRERY_PICTURES=DIR     and there those of docs/page.md
//
// Without Chromium, or nginx for those through a proxy, the tests are skipped with a word about it, and fail if ORRERY_REQUIRE_PROGRAMS=1.
package browsertest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience bounds each wait of these tests. What has a bound of its own, such as an update of a page, is tested
// against that.
const patience = 60 * time.Second

// programs are the names under which Chromium is looked for.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// markOfProcess is the variable by which the processes of this package's browser are known.
const markOfProcess = "ORRERY_BROWSERTEST_PID"

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite closes the browser behind the tests, before it is looked whether a goroutine was left behind.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if dir := theProgram.dir; dir != "" {
		_ = os.RemoveAll(dir)
	}
	if err := theBrowser.close(); err != nil {
		fmt.Fprintln(os.Stderr, "browsertest:", err)
		return max(code, 1)
	}
	return code
}

// theBrowser is the one of the package: each test has tabs of its own in it, with cookies of their own.
var theBrowser shared

// shared is a browser that begins when the first test asks for it.
type shared struct {
	once  sync.Once
	ctx   context.Context // chromedp keeps the browser in it
	close func() error
	err   error
}

func init() { theBrowser.close = func() error { return nil } }

// browser gives the context of the running browser. It skips the test if there is no Chromium.
func browser(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv("ORRERY_BROWSER") == "off" {
		t.Skip("ORRERY_BROWSER=off: the gate's step page runs it")
	}
	program := ""
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		missing(t, "no Chromium on PATH (tried "+strings.Join(programs, ", ")+"): install Debian's package chromium")
	}
	theBrowser.once.Do(func() { theBrowser.start(program) })
	require.NoError(t, theBrowser.err, "start %s", program)
	return theBrowser.ctx
}

// missing skips a test that needs what is not here; it fails it in the gate.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("ORRERY_REQUIRE_PROGRAMS") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func (b *shared) start(program string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.Flag("ignore-certificate-errors", true), // of a proxy of the tests, whose certificate nobody has signed
		chromedp.ExecPath(program), chromedp.Env(markOfProcess+"="+strconv.Itoa(os.Getpid()), "LANG=en_US.UTF-8", "TZ=UTC"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx = ctx
	b.close = func() error {
		cancel()
		stop()
		return leftProcess()
	}
	b.err = chromedp.Do(ctx)
}

// leftProcess gives an error if a process of the browser still runs. Only Linux tells.
func leftProcess() error {
	mark := []byte(markOfProcess + "=" + strconv.Itoa(os.Getpid()) + "\x00")
	var left []string
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(50 * time.Millisecond) {
		left = nil
		environments, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environments {
			if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, mark) {
				left = append(left, path)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the browser still run: %s", strings.Join(left, ", "))
		}
	}
}
