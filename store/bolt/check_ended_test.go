package bolt_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// asked is a context that does something when it is asked for the nth time whether it has ended.
type asked struct {
	context.Context
	n  int
	do func()
}

func (a *asked) Err() error {
	if a.n--; a.n == 0 {
		a.do()
	}
	return a.Context.Err()
}

// TestACheckThatIsEndedSaysSoAndFindsNothingWrong ends it at each of the moments at which it asks
// for its context.
func TestACheckThatIsEndedSaysSoAndFindsNothingWrong(t *testing.T) {
	ctx := context.Background()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{NoSync: true, ViewBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	run, attempt := uuid.New(), uint32(0)
	write := func() {
		for range 8 {
			attempt++
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
				return tx.PutRunLog(run, attempt%40, []byte(strings.Repeat("log ", 64<<10)))
			}))
		}
		require.NoError(t, bolt.Checkpoint(s))
	}
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		for range 300 { // so each is asked within
			_, err := tx.Acquire(uuid.NewString(), "holder", time.Minute, 1)
			err = errors.Join(err, tx.PutWebhook(store.Webhook{ID: uuid.New(), Route: "r", Header: []byte(`{}`), Body: []byte(`{}`)}))
			if err != nil {
				return err
			}
		}
		return nil
	}))
	write()
	ended := 0
	for n := 2; ; n++ { // the first time nobody can write
		c := &asked{Context: ctx, n: n, do: write}
		found, err := s.Check(c)
		require.Empty(t, found)
		if c.n > 0 {
			require.NoError(t, err)
			break
		}
		if err != nil {
			require.ErrorIs(t, err, store.ErrViewTooOld)
			ended++
		}
	}
	require.Positive(t, ended)
}
