package audit_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/audit"
)

func TestPagesGiveEveryEntryOnceNewestFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := open(t, audit.Options{Dir: t.TempDir(), MaxBytes: audit.MinBytes})
		n := rapid.IntRange(0, 300).Draw(rt, "entries")
		want := make([]string, 0, n)
		for i := range n {
			token := rapid.SampledFrom([]string{"a", "b", "c", "A"}).Draw(rt, "token")
			path := fmt.Sprintf("/%d/%s", i, strings.Repeat("x", rapid.IntRange(0, 400).Draw(rt, "length")))
			l.Add(change(token, path))
			if rapid.IntRange(0, 20).Draw(rt, "flush") == 0 {
				_, err := l.Read(t.Context(), audit.Query{Limit: 1})
				require.NoError(rt, err)
			}
			want = append(want, strings.SplitAfterN(path, "/", 3)[1])
		}
		slices.Reverse(want)
		got := []string{}
		q := audit.Query{Limit: rapid.IntRange(1, 50).Draw(rt, "limit")}
		for {
			p, err := l.Read(t.Context(), q)
			require.NoError(rt, err)
			require.LessOrEqual(rt, len(p.Entries), q.Limit)
			require.Zero(rt, p.Damaged)
			for _, e := range p.Entries {
				got = append(got, strings.SplitAfterN(e.Path, "/", 3)[1])
			}
			if p.Next == 0 {
				break
			}
			q.Before = p.Next
		}
		require.Equal(rt, want, got)
		require.NoError(rt, l.Close())
	})
}

func TestAQueryChoosesByTimeAndByWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, audit.Options{Dir: t.TempDir()})
		begin := effects.TimeOf(time.Now())
		for i := range 10 {
			l.Add(change([]string{"a", "b"}[i%2], fmt.Sprint(i)))
			pass(time.Hour)
		}
		paths := func(q audit.Query) (out []string) {
			for _, e := range all(t, l, q) {
				out = append(out, e.Path)
			}
			return out
		}
		hour := func(n int) effects.Time { return begin.Add(time.Duration(n) * time.Hour) }
		assert.Equal(t, []string{"9", "8"}, paths(audit.Query{Since: hour(8)}))
		assert.Equal(t, []string{"1", "0"}, paths(audit.Query{Until: hour(2)}))
		assert.Equal(t, []string{"4", "3"}, paths(audit.Query{Since: hour(3), Until: hour(5), Limit: 1}))
		assert.Equal(t, []string{"8", "6", "4", "2", "0"}, paths(audit.Query{Keep: func(e *audit.Entry) bool { return e.Token == "a" }}))
		assert.Empty(t, paths(audit.Query{Since: hour(5), Until: hour(3)}))
	})
}

// A page that finds little ends after a while, so that no reader keeps the disk busy.
func TestAPageReadsABoundedPartOfALongLog(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	begin := time.Now().UnixMicro()
	n := 0
	for ; b.Len() < 12<<20; n++ {
		seq := begin + int64(n)
		fmt.Fprintf(&b, `{"seq":%d,"at":%q,"since":%q,"count":1,"token":"a","path":%q}`+"\n", seq, effects.Time(seq/1000), effects.Time(seq/1000), strings.Repeat("x", 200))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("token.a-00000000.%020d.jsonl", begin)), []byte(b.String()), 0o600))
	q, pages, looked := audit.Query{}, 0, 0
	q.Keep = func(*audit.Entry) bool { looked++; return false }
	for {
		p, err := audit.Read(t.Context(), dir, q)
		require.NoError(t, err)
		assert.Empty(t, p.Entries)
		pages++
		if p.Next == 0 {
			break
		}
		assert.True(t, q.Before == 0 || p.Next < q.Before)
		q.Before = p.Next
	}
	assert.Equal(t, n, looked)
	assert.InDelta(t, 3, pages, 1)
}

func TestDamagedLinesAreLeftOutAndCounted(t *testing.T) {
	good := func(seq int) string {
		at := "2026-01-01T00:00:00.000Z"
		return fmt.Sprintf(`{"seq":%d,"at":%q,"since":%q,"count":1,"token":"a","path":"%d"}`, seq, at, at, seq)
	}
	tests := map[string]struct {
		file    string
		paths   string
		damaged int
	}{
		"none":                        {good(10) + "\n" + good(11) + "\n", "11 10", 0},
		"a torn last line":            {good(10) + "\n" + good(11)[:30], "10", 1},
		"no end of the last line":     {good(10) + "\n" + good(11), "11 10", 0},
		"a torn line that was ended":  {good(10) + "\n" + good(11)[:30] + "\n" + good(12) + "\n", "12 10", 1},
		"an empty line":               {good(10) + "\n\n\n" + good(11) + "\n\n", "11 10", 0},
		"two entries on a line":       {good(10) + "\n" + good(11) + good(12) + "\n" + good(13) + "\n", "13 10", 1},
		"zeros, as after a power cut": {good(10) + "\n" + strings.Repeat("\x00", 100_000), "10", 1},
		"a line without end":          {good(10) + "\n" + strings.Repeat("x", 100_000) + "\n" + good(11) + "\n", "11 10", 1},
		"a number that grows":         {good(10) + "\n" + good(99) + "\n" + good(11) + "\n", "11 10", 0},
		"no number":                   {`{"at":"2026-01-01T00:00:00.000Z","count":1}` + "\n" + good(11) + "\n", "11", 1},
		"nothing at all":              {"", "", 0},
		"nothing but damage":          {"x\ny\n", "", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "token.a-00000000.00000000000000000010.jsonl"), []byte(test.file), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("not ours"), 0o600))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "a.00000000000000000010.jsonl"), 0o700))
			var paths []string
			damaged := 0
			for q := (audit.Query{Limit: 1}); ; {
				p, err := audit.Read(t.Context(), dir, q)
				require.NoError(t, err)
				damaged += p.Damaged
				for _, e := range p.Entries {
					paths = append(paths, e.Path)
				}
				if q.Before = p.Next; q.Before == 0 {
					break
				}
			}
			assert.Equal(t, test.paths, strings.Join(paths, " "))
			assert.Equal(t, test.damaged, damaged)
		})
	}
}

func TestALogGoesOnAfterATornLine(t *testing.T) {
	dir := t.TempDir()
	l := open(t, audit.Options{Dir: dir})
	l.Add(change("a", "before"))
	require.NoError(t, l.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"seq":17`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	l = open(t, audit.Options{Dir: dir})
	l.Add(change("a", "after"))
	p, err := l.Read(t.Context(), audit.Query{})
	require.NoError(t, err)
	require.Len(t, p.Entries, 2)
	assert.Equal(t, "after", p.Entries[0].Path)
	assert.Equal(t, 1, p.Damaged)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"seq":10,"at":"2026-01-01T00:00:00.000Z","since":"2026-01-01T00:00:00.000Z","count":1}`+"\n"), uint64(0), 3)
	f.Add([]byte("\n\n{}"), uint64(7), 1)
	f.Add(append(slices.Repeat([]byte("x"), 40_000), '\n'), uint64(1), 1)
	f.Fuzz(func(t *testing.T, b []byte, before uint64, limit int) {
		b = b[:min(len(b), 48<<10)] // three blocks
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "token.a-00000000.00000000000000000001.jsonl"), b, 0o600))
		q := audit.Query{Before: before, Limit: max(limit, 1)}
		for range len(b) + 2 {
			p, err := audit.Read(t.Context(), dir, q)
			require.NoError(t, err)
			last := q.Before
			for _, e := range p.Entries {
				require.True(t, last == 0 || e.Seq < last, "numbers fall")
				require.NotZero(t, e.Count)
				last = e.Seq
			}
			if p.Next == 0 {
				return
			}
			require.True(t, q.Before == 0 || p.Next < q.Before)
			q.Before = p.Next
		}
		t.Fatal("the pages do not end")
	})
}

// childDir tells the test's own program to be the process that is killed.
const childDir = "ORRERY_AUDIT_TEST_DIR"

func writeUntilKilled(dir string) {
	l, err := audit.Open(audit.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		l.Add(change(fmt.Sprintf("t%d", i/500), fmt.Sprint(i))) // fewer than get lines of their own
		if i%100 == 99 {
			if _, err := l.Read(context.Background(), audit.Query{Limit: 1}); err != nil { // until it is written
				panic(err)
			}
			fmt.Println(i)
		}
	}
}

func TestAKillLosesNoLineThatWasWritten(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	require.NoError(t, err)
	last := -1
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		written := -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, err := fmt.Sscan(lines.Text(), &written)
			require.NoError(t, err)
			if written >= 700*(round+1) {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait())
		last = max(last, written)

		l := open(t, audit.Options{Dir: dir})
		seen := map[string]int{}
		damaged := 0
		for q := (audit.Query{}); ; {
			p, err := l.Read(t.Context(), q)
			require.NoError(t, err)
			damaged += p.Damaged
			for _, e := range p.Entries {
				seen[e.Path]++
			}
			if q.Before = p.Next; q.Before == 0 {
				break
			}
		}
		require.NoError(t, l.Close())
		for i := range written + 1 {
			require.Positive(t, seen[fmt.Sprint(i)], "line %d of round %d", i, round)
		}
		assert.LessOrEqual(t, damaged, round+1, "one torn line of each kill at most")
	}
}
