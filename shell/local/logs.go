//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/orrery-go/orrery/shell/jobs"
)

// Logs implements [jobs.Runner]: first the init containers, then the others, where
// there are several with their names, see [jobs.Sections]. With o.Follow each is
// followed to its end before the next one.
func (r *Runner) Logs(ctx context.Context, a jobs.Attempt, o jobs.LogOptions, w io.Writer) (calls int, err error) {
	err = r.logs(ctx, r.path(a), o, w)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("local pod %s: %w", a.Name(), jobs.ErrNoPod)
	}
	return 0, err
}

func (r *Runner) logs(ctx context.Context, dir string, o jobs.LogOptions, w io.Writer) error {
	p, err := readPlan(dir)
	if err != nil {
		return err
	}
	var names, all []string
	for _, c := range slices.Concat(p.Init, p.Main) {
		all = append(all, c.Name)
		if o.Container == "" || c.Name == o.Container {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("logs of local pod %s: %w", filepath.Base(dir), &jobs.NoContainerError{Name: o.Container, Names: all})
	}
	if o.Follow && o.Opened != nil {
		defer r.readers.add(filepath.Base(dir))()
		o.Opened()
	}
	sections := jobs.NewSections(w)
	for _, name := range names {
		if len(names) > 1 {
			w = sections.Of(name)
		}
		reader := &logReader{dir: filepath.Join(dir, logDir), container: name, w: w}
		ended := func() (bool, error) { return logIsWhole(dir, name) }
		if !o.Follow {
			ended = func() (bool, error) { return true, nil }
		}
		if err := reader.follow(ctx, ended); err != nil {
			return err
		}
	}
	return nil
}

// logIsWhole reports whether nothing more is written to a container's log.
func logIsWhole(dir, container string) (bool, error) {
	st, started, alive, err := readProgress(dir)
	switch {
	case err != nil:
		return false, err
	case st.Phase == phaseEnded || started && !alive:
		return true, nil
	case !started:
		// It may start yet, or never: then it is deleted.
		_, err := readPlan(dir)
		return false, err
	}
	for _, c := range st.Containers {
		if c.Name == container {
			return c.Ended, nil
		}
	}
	return false, nil
}
