package audit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/audit"
)

func TestAFullDiskTearsNoLineAndTheLogSaysWhatIsMissing(t *testing.T) {
	disk := t.TempDir()
	err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 2<<20-100<<10), 0o600))

	l := open(t, audit.Options{Dir: filepath.Join(disk, "log")})
	sent := uint64(0)
	for l.Stats().Dropped < 100 { // a line at a time, so that the last one before is cut in its middle
		l.Add(change(fmt.Sprintf("t%d", sent/900), fmt.Sprint(sent)))
		sent++
		_, err := l.Read(t.Context(), audit.Query{Limit: 1})
		require.NoError(t, err)
	}
	p, err := l.Read(t.Context(), audit.Query{Limit: 1000})
	require.NoError(t, err)
	assert.Zero(t, p.Damaged)
	require.NoError(t, os.Remove(ballast))
	l.Add(change("after", "after"))
	sent++
	_, err = l.Read(t.Context(), audit.Query{Limit: 1})
	require.NoError(t, err)
	got, missing := uint64(0), uint64(0)
	for _, e := range all(t, l, audit.Query{}) {
		if e.Operation == audit.Lost {
			missing += e.Count
			assert.Contains(t, e.Reason, "no space left on device")
			continue
		}
		got += e.Count
	}
	assert.Equal(t, sent, got+missing)
	assert.GreaterOrEqual(t, missing, uint64(100))
}
