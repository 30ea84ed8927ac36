package shell

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// put stores a record in one list index.
func put(t require.TestingT, st store.Store, id uuid.UUID, term string, at effects.Time) {
	require.NoError(t, st.Update(context.Background(), func(tx store.Tx) error {
		seq, err := tx.Seq()
		if err != nil {
			return err
		}
		w := store.Write{Kind: "thing", ID: id, State: []byte(`{}`), Terms: []store.Term{{Name: term, At: at}}}
		if err := tx.Put(seq+1, []store.Write{w}); err != nil {
			return err
		}
		return tx.AppendJournal(seq+1, 1, []byte(`{}`))
	}))
}

func TestSeveralIndexesAreReadAsOneFromEachPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := memory.New()
		defer func() { _ = st.Close() }()
		terms := []string{"a", "b", "c"}
		newest := rapid.Bool().Draw(t, "newest first")
		var all []store.Cursor
		for i := range rapid.IntRange(0, 30).Draw(t, "records") {
			c := store.Cursor{At: effects.Time(rapid.IntRange(1, 5).Draw(t, "at")), ID: uuid.UUID{15: byte(i + 1)}}
			put(t, st, c.ID, rapid.SampledFrom(append(terms, "of others")).Draw(t, "term"), c.At)
			all = append(all, c)
		}
		mine := all[:0:0]
		of := index{kind: "thing", groups: [][]string{terms}, newest: newest}
		require.NoError(t, st.View(context.Background(), func(tx store.ReadTx) error {
			for _, term := range terms {
				found, err := tx.Scan("thing", term, store.Cursor{}, false, 100)
				require.NoError(t, err)
				mine = append(mine, found...)
			}
			slices.SortFunc(mine, func(x, y store.Cursor) int {
				order := cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.ID.String(), y.ID.String()))
				if newest {
					return -order
				}
				return order
			})
			start := rapid.IntRange(0, len(mine)).Draw(t, "start")
			m := merge{tx: tx, of: &of, terms: terms, ahead: rapid.IntRange(1, 5).Draw(t, "ahead")}
			var at store.Cursor
			if start > 0 {
				at = mine[start-1]
			}
			var got []store.Cursor
			for {
				c, ok, err := m.next(at)
				require.NoError(t, err)
				if !ok {
					break
				}
				got = append(got, c)
				at = c
			}
			require.Equal(t, slices.Concat(mine[start:]), got)
			return nil
		}))
	})
}
