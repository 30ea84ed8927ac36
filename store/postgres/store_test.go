package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
	"github.com/orrery-go/orrery/store/storetest"
)

var ctx = context.Background()

func open(t testing.TB, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(ctx, url, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var schemas atomic.Int64

// schema names one that nobody has used in this process.
func schema() string { return fmt.Sprintf("s%d", schemas.Add(1)) }

func TestTheStoreKeepsWhatTheInterfacePromises(t *testing.T) {
	url := postgrestest.Database(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for name, o := range map[string]postgres.Options{
		"as it is":                            {},
		"with a checkpoint after each commit": {LogBytes: 1, CacheBytes: 4 << 10, Checkpoint: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store {
				o := o
				o.Schema = schema()
				s, err := postgres.Open(ctx, url, o)
				require.NoError(t, err)
				return s
			})
		})
	}
}
