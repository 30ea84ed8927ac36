package audit_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/internal/locked"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, o audit.Options) *audit.Log {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := audit.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// all reads every page.
func all(t *testing.T, l *audit.Log, q audit.Query) (entries []audit.Entry) {
	t.Helper()
	for {
		p, err := l.Read(t.Context(), q)
		require.NoError(t, err)
		entries = append(entries, p.Entries...)
		if p.Next == 0 {
			return entries
		}
		q.Before = p.Next
	}
}

// pass lets virtual time pass, and what is due in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func refusal(address string) audit.Entry {
	return audit.Entry{Address: address, Operation: "listActions", Path: "/v1/actions", Status: 401, Reason: "token: is unknown"}
}

func change(token, path string) audit.Entry {
	return audit.Entry{Token: token, Actor: "api:" + token, Address: "10.0.0.1", Operation: "createAction", Path: path, Namespace: "n", Tenant: token, Status: 201}
}

func TestTheFirstOfEqualRefusalsIsALineAndTheOthersOfAMinuteAreAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, audit.Options{Dir: dir})
		begin := time.Now()
		for range 500 {
			l.Add(refusal("10.0.0.7"))
			pass(200 * time.Millisecond) // 100 s in all
		}
		l.Add(refusal("10.0.0.8"))
		pass(3 * time.Minute)

		got := all(t, l, audit.Query{})
		counts := map[string][]uint64{}
		for _, e := range got {
			counts[e.Address] = append(counts[e.Address], e.Count)
		}
		require.Len(t, counts["10.0.0.7"], 3, "the first, and a count for each of two minutes")
		assert.Equal(t, uint64(1), counts["10.0.0.7"][2])
		assert.Equal(t, uint64(499), counts["10.0.0.7"][0]+counts["10.0.0.7"][1])
		assert.InDelta(t, 300, counts["10.0.0.7"][1], 6, "of a minute")
		assert.Equal(t, []uint64{1}, counts["10.0.0.8"])
		first := got[len(got)-1]
		assert.Equal(t, begin.UnixMilli(), int64(first.At))
		assert.Equal(t, "token: is unknown", first.Reason)
		of := got[len(got)-2]
		if of.Address != "10.0.0.7" {
			of = got[len(got)-3]
		}
		assert.Equal(t, 200*time.Millisecond, of.Since.Std().Sub(begin), "the second refusal")
		assert.Equal(t, uint64(4), l.Stats().Lines)
	})
}

func TestAReaderSeesWhatIsCountedSoFar(t *testing.T) {
	l := open(t, audit.Options{Dir: t.TempDir()})
	for range 100 {
		l.Add(refusal("10.0.0.7"))
	}
	sum := uint64(0)
	got := all(t, l, audit.Query{})
	for _, e := range got {
		sum += e.Count
	}
	assert.Len(t, got, 2)
	assert.Equal(t, uint64(100), sum)
}

func TestRefusalsThatDifferInWhoWhatOrAnswerAreLinesOfTheirOwn(t *testing.T) {
	l := open(t, audit.Options{Dir: t.TempDir()})
	e := refusal("10.0.0.1")
	kinds := []func(*audit.Entry){
		func(*audit.Entry) {}, func(e *audit.Entry) { e.Address = "10.0.0.2" }, func(e *audit.Entry) { e.Operation = "getAction" },
		func(e *audit.Entry) { e.Status = 403 }, func(e *audit.Entry) { e.Token, e.Actor = "a", "api:a" },
		func(e *audit.Entry) { e.Token, e.Actor, e.Tenant = "a", "api:a", "t" }, func(e *audit.Entry) { e.Actor = "webhook:r" },
	}
	for _, change := range kinds {
		k := e
		change(&k)
		l.Add(k)
	}
	assert.Len(t, all(t, l, audit.Query{}), len(kinds))
}

func TestAFloodOfOneSourcePushesOutItsOwnLinesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, audit.Options{Dir: dir, MaxBytes: audit.MinBytes})
		l.Add(change("quiet", "/v1/actions/quiet"))
		l.Add(refusal("10.0.0.7"))
		for n := range 10 {
			for i := range 2000 { // twice what gets a line of its own
				l.Add(change("loud", fmt.Sprintf("/v1/actions/%d-%d", n, i)))
			}
			pass(time.Minute + time.Second)
			assert.LessOrEqual(t, size(t, dir), int64(audit.MinBytes))
		}
		by := map[string]int{}
		for _, e := range all(t, l, audit.Query{}) {
			by[e.Token]++
		}
		assert.Equal(t, 1, by["quiet"], "the oldest line of all")
		assert.Equal(t, 1, by[""])
		assert.Greater(t, by["loud"], 1000)
		assert.Less(t, by["loud"], 10_000, "old lines of the flood are gone")
		assert.Equal(t, uint64(2+1+10*1001), l.Stats().Lines, "a thousand lines in a minute, one for the rest")
		assert.Zero(t, l.Stats().Dropped)
	})
}

func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		sum += info.Size()
	}
	return sum
}

func TestAFloodFromManyAddressesIsBoundedAndHidesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, audit.Options{Dir: t.TempDir()})
		sent := uint64(0)
		for i := range 20_000 {
			for _, op := range []string{"a", "b"} {
				e := refusal(fmt.Sprintf("2001:db8:0:%x::%x", i%5000, i))
				e.Operation = op
				l.Add(e)
				sent++
			}
		}
		e := refusal("10.0.0.1")
		e.Token, e.Status = "victim", 403
		l.Add(e)
		pass(2 * time.Minute)
		got := all(t, l, audit.Query{})
		assert.Less(t, len(got), 2*(256+1)*(8+1), "two lines for each of eight kinds, and for the others, of 256 networks")
		sum := uint64(0)
		for _, e := range got {
			sum += e.Count
		}
		assert.Equal(t, sent+1, sum, "each is counted")
		assert.Zero(t, l.Stats().Dropped)
		assert.True(t, slices.ContainsFunc(got, func(e audit.Entry) bool { return e.Token == "victim" && e.Address == "10.0.0.1" }))
	})
}

func TestLinesOlderThanTheLogKeepsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, audit.Options{Dir: t.TempDir(), MaxAge: 3 * 24 * time.Hour})
		for day := range 10 {
			l.Add(change("a", fmt.Sprintf("/v1/actions/%d", day)))
			pass(24 * time.Hour)
		}
		var paths []string
		for _, e := range all(t, l, audit.Query{}) {
			paths = append(paths, strings.TrimPrefix(e.Path, "/v1/actions/"))
		}
		assert.Equal(t, []string{"9", "8", "7"}, paths)
	})
}

func TestLinesThatCannotBeWrittenAreCountedAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), "parent")
		var said locked.Buffer
		l := open(t, audit.Options{Dir: filepath.Join(parent, "log"), Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.NoError(t, os.WriteFile(parent, nil, 0o600), "a file where the folder should be")
		for i := range 30 {
			l.Add(change("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		assert.Equal(t, uint64(30), l.Stats().Dropped)
		pass(10 * time.Minute)
		assert.Equal(t, 2, strings.Count(said.String(), "lines were lost"), said.String())

		require.NoError(t, os.Remove(parent))
		l.Add(change("a", "after"))
		pass(2 * time.Second)
		got := all(t, l, audit.Query{})
		require.Len(t, got, 2)
		loss, after := got[0], got[1]
		if after.Operation == audit.Lost {
			loss, after = after, loss
		}
		assert.Equal(t, "after", after.Path)
		assert.Equal(t, audit.Lost, loss.Operation)
		assert.Equal(t, uint64(30), loss.Count)
		assert.Contains(t, loss.Reason, "not a directory")
	})
}

func TestALogGoesOnWhereItEnded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		l := open(t, audit.Options{Dir: dir})
		l.Add(change("a", fmt.Sprint(i)))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "it may be closed twice")
	}
	l := open(t, audit.Options{Dir: dir})
	got := all(t, l, audit.Query{})
	require.Len(t, got, 5)
	for i, e := range got {
		assert.Equal(t, fmt.Sprint(4-i), e.Path)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1, "a start makes no new file")
	info, err := files[0].Info()
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAfterTheClockWasSetBackEntriesHaveItsTimeAndStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		begin := time.Now()
		year := begin.Add(365 * 24 * time.Hour) // the clock was a year ahead
		line := fmt.Sprintf(`{"seq":%d,"at":%[2]q,"since":%[2]q,"count":1,"path":"before","operation":"x"}`+"\n", year.UnixMicro(), effects.TimeOf(year))
		first := open(t, audit.Options{Dir: dir})
		first.Add(change("b", "first"))
		require.NoError(t, first.Close())
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
		stream := strings.TrimSuffix(files[0], fmt.Sprintf("%020d.jsonl", begin.UnixMicro()))
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s%020d.jsonl", stream, year.UnixMicro()), []byte(line), 0o600))
		l := open(t, audit.Options{Dir: dir, MaxAge: 48 * time.Hour})
		for day := range 5 {
			l.Add(change("b", fmt.Sprint(day)))
			pass(24 * time.Hour)
		}
		var paths []string
		for _, e := range all(t, l, audit.Query{}) {
			paths = append(paths, e.Path)
		}
		assert.Equal(t, []string{"4", "3", "before"}, paths, "newest first, and the old ones are removed")
		newest := all(t, l, audit.Query{Limit: 1})[0]
		assert.Equal(t, 96*time.Hour, newest.At.Std().Sub(begin))
		assert.Len(t, all(t, l, audit.Query{Since: effects.TimeOf(begin.Add(90 * time.Hour)), Until: effects.TimeOf(begin.Add(100 * time.Hour))}), 1)
	})
}

func TestWhatARequestSendsCannotLengthenOrSteerALine(t *testing.T) {
	dir := t.TempDir()
	l := open(t, audit.Options{Dir: dir})
	evil := "a\x1b[2J\r\n{\"seq\":1}\u202e\u009b\xff\u2028" + strings.Repeat("<\x00", 5000)
	l.Add(audit.Entry{Token: evil, Actor: evil, Address: evil, Operation: evil, Path: evil, Namespace: evil, Tenant: evil, Status: 400, Reason: evil, RequestID: evil})
	got := all(t, l, audit.Query{})
	require.Len(t, got, 1)
	require.NoError(t, l.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	assert.Regexp(t, `/token\.a[a-z0-9_.-]{1,80}-[0-9a-f]{8}\.[0-9]{20}\.jsonl$`, files[0])
	b, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.Equal(t, 1, bytes.Count(b, []byte{'\n'}))
	assert.Less(t, len(b), 4096)
	for _, r := range string(b[:len(b)-1]) {
		assert.True(t, r >= ' ' && r != 0x7f && r != 0x202e && r != 0x9b && r != 0x2028, "%q", r)
	}
	assert.Contains(t, got[0].Path, `a\u{1b}[2J\u{d}\u{a}{"seq":1}\u{202e}\u{9b}`)
}

func TestAFolderThatCannotBeReadIsRefused(t *testing.T) {
	_, err := audit.Open(audit.Options{})
	require.ErrorContains(t, err, "Options.Dir is empty")
	_, err = audit.Open(audit.Options{Dir: t.TempDir(), MaxBytes: 100})
	require.ErrorContains(t, err, "Options.MaxBytes is 100: it must be at least 1048576")
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = audit.Open(audit.Options{Dir: file})
	require.ErrorContains(t, err, file)
}
