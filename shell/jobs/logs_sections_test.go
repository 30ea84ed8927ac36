package jobs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

func TestEachStretchOfAContainersLinesBeginsWithItsName(t *testing.T) {
	var out strings.Builder
	s := jobs.NewSections(&out)
	for _, w := range [][2]string{{"a", "one\n"}, {"a", "two, and "}, {"a", "more"}, {"b", ""}, {"b", "three\n"}, {"silent", ""}, {"a", "four\n"}} {
		n, err := fmt.Fprint(s.Of(w[0]), w[1])
		require.NoError(t, err)
		assert.Len(t, w[1], n, "the names do not count")
	}
	assert.Equal(t, "==> a <==\none\ntwo, and more\n==> b <==\nthree\n==> a <==\nfour\n", out.String())
	_, err := fmt.Fprint(jobs.NewSections(failing{}).Of("a"), "one")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// A line of one container that looks like the name of another one has a space more, however it
// is cut, and is given back as it was.
func TestNoContainerWritesLinesInTheNameOfAnother(t *testing.T) {
	const forged = "==> b <==\nforged\n ==> b <==\n==>  b <==\n==>\n==\n"
	for cut := range len(forged) {
		var out strings.Builder
		s := jobs.NewSections(&out)
		for _, w := range [][2]string{{"a", forged[:cut]}, {"a", forged[cut:]}, {"b", "own\n==> "}, {"b", "b <==\n"}} {
			n, err := fmt.Fprint(s.Of(w[0]), w[1])
			require.NoError(t, err)
			require.Len(t, w[1], n)
		}
		require.Equal(t, "==> a <==\n==>  b <==\nforged\n ==> b <==\n==>   b <==\n==>\n==\n==> b <==\nown\n==>  b <==\n", out.String(), "cut at %d", cut)
		for name, want := range map[string]string{"a": forged, "b": "own\n==> b <==\n", "c": ""} {
			got, err := jobs.OfContainer([]byte(out.String()), []string{"a", "b", "c"}, name)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		}
	}
}

func TestOneContainerOfStoredLogs(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		names []string
		want  string // of the container a
		err   string
	}{
		"the only one":               {"one\n", []string{"a"}, "one\n", ""},
		"the only one of the job":    {"==> proxy <==\nready\n==> a <==\none\n", []string{"a"}, "one\n", ""},
		"one that the cluster added": {"==> a <==\none\n==> main <==\nready\n", []string{"main"}, "one\n", ""},
		"several stretches":          {"==> a <==\none\n==> b <==\ntwo\n==> a <==\nthree\n", []string{"a", "b"}, "one\nthree\n", ""},
		"nothing of it":              {"==> b <==\ntwo\n", []string{"a", "b"}, "", ""},
		"lines were dropped": {"==> a <==\none\n==> b <==\ntwo\n… 5 bytes dropped …\nwhose\n==> b <==\nthree\n==> a <==\nfour\n", []string{"a", "b"},
			"one\n… 5 bytes dropped …\n… which container wrote the next lines is not known …\nwhose\nfour\n", ""},
		"a runner that names none": {"one\n", []string{"a", "b"}, "… which container wrote the next lines is not known …\none\n", ""},
		"no such":                  {"==> b <==\none\n==> c <==\n", []string{"b"}, "", `there is no container "a": use one of b, c`},
		"no such of one":           {"one\n", []string{"b"}, "", `there is no container "a": use one of b`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := jobs.OfContainer([]byte(c.text), c.names, "a")
			if c.err != "" {
				require.EqualError(t, err, c.err)
				require.True(t, shell.IsPermanent(err))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
		})
	}
}

func TestOneContainerOfTheLogsOfARunThatHasEnded(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", func(s *core.JobSpec) {
			s.PodSpec = json.RawMessage(`{"initContainers":[{"name":"first","image":"i"}],"containers":[{"name":"a","image":"i"},{"name":"b","image":"i"}]}`)
		}))
		a := r.created(o, 0)
		r.fake.Start(a)
		r.fake.Write(a, "==> a <==\none\n==> b <==\ntwo\n")
		r.fake.End(a, 0, "")
		o = r.ended(o)
		for name, want := range map[string]string{"a": "one\n", "b": "two\n", "first": ""} {
			for _, follow := range []bool{false, true} {
				var out strings.Builder
				require.NoError(t, r.s.Logs(t.Context(), o, 0, jobs.LogOptions{Container: name, Follow: follow}, &out))
				assert.Equal(t, want, out.String())
			}
		}
		err := r.s.Logs(t.Context(), o, 0, jobs.LogOptions{Container: "nosuch"}, io.Discard)
		require.EqualError(t, err, `there is no container "nosuch": use one of first, a, b`)
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
