package storetest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

func stepReindex(t *rapid.T, m *model, tx store.Tx) {
	r := ref(t)
	old, ok := m.records[r]
	former, terms := termsGen.Draw(t, "former"), termsGen.Draw(t, "terms")
	if rapid.Bool().Draw(t, "of its own") {
		former = old.terms
	}
	if rapid.Bool().Draw(t, "keeps them") {
		terms = old.terms
	}
	stays := slices.DeleteFunc(slices.Clone(old.terms), func(x store.Term) bool { return slices.Contains(former, x) || slices.Contains(terms, x) })
	if slices.ContainsFunc(stays, func(x store.Term) bool { return named(terms, x.Name) }) {
		return // no record stands twice under a name
	}
	err := tx.Reindex(r.Kind, r.ID, former, terms)
	if !ok {
		require.ErrorIs(t, err, store.ErrNotFound)
		return
	}
	require.NoError(t, err)
	old.terms = slices.Concat(terms, stays)
	m.records[r] = old
}

func named(terms []store.Term, name string) bool {
	return slices.ContainsFunc(terms, func(x store.Term) bool { return x.Name == name })
}

func compareLists(t *rapid.T, m *model, tx store.ReadTx) {
	for _, kind := range []effects.Kind{"action", "recurring"} {
		compareNames(t, m, tx, kind)
		for _, name := range append([]string{"never"}, modelTerms[:]...) {
			want := []store.Cursor{}
			for _, r := range m.records {
				for _, term := range r.terms {
					if r.Kind == kind && term.Name == name {
						want = append(want, store.Cursor{At: term.At, ID: r.ID})
					}
				}
			}
			slices.SortFunc(want, func(a, b store.Cursor) int { return cmp.Or(cmp.Compare(a.At, b.At), bytes.Compare(a.ID[:], b.ID[:])) })
			for _, desc := range []bool{false, true} {
				got := []store.Cursor{}
				var from store.Cursor
				for { // in pages of 3
					page := must(tx.Scan(kind, name, from, desc, 3))(t)
					got = append(got, page...)
					if len(page) < 3 {
						break
					}
					from = page[2]
				}
				require.Equal(t, want, got, "%s %q desc=%t", kind, name, desc)
				slices.Reverse(want)
			}
		}
	}
}

// compareNames compares the names of the lists, and the totals.
func compareNames(t *rapid.T, m *model, tx store.ReadTx, kind effects.Kind) {
	names, totals := map[string]bool{}, map[string]uint64{}
	for _, r := range m.records {
		for _, term := range r.terms {
			if r.Kind == kind {
				names[term.Name] = true
				if term.Counted {
					totals[term.CountName()]++
				}
			}
		}
	}
	for _, name := range []string{"all", "status:pending", "status:pending\x1fns", "never"} {
		require.Equal(t, totals[name], must(tx.Count(kind, name))(t), "total of %q", name)
	}
	for _, prefix := range []string{"", "a", "al", "all", "all\x00", "status:pending\x1f", "status:pending\x1fnsx", "b"} {
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(n string) bool { return !strings.HasPrefix(n, prefix) })
		got := must(tx.TermNames(kind, prefix, 99))(t)
		require.Equal(t, append([]string{}, want...), append([]string{}, got...), "names with %q", prefix)
		require.Len(t, must(tx.TermNames(kind, prefix, 1))(t), min(len(want), 1))
	}
}
