package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/store"
)

func TestAQueueOfEntriesGivesThemInTheOrderInWhichTheyCame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q entryQueue
		var want []store.DueEntry
		came := uint32(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 3*mostBlock).Draw(t, "many") {
					came++
					q.add(store.DueEntry{Share: came})
					want = append(want, store.DueEntry{Share: came})
				}
			},
			"take": func(t *rapid.T) {
				n := rapid.IntRange(0, 2*mostBlock).Draw(t, "n")
				before := store.DueEntry{Kind: "before"}
				got := q.take([]store.DueEntry{before}, n)
				n = min(n, len(want))
				require.Equal(t, append([]store.DueEntry{before}, want[:n]...), got)
				want = want[n:]
			},
			"": func(t *rapid.T) { require.Equal(t, len(want), q.len()) },
		})
	})
}

func TestAQueueOfEntriesTakesRoomForFewMoreThanItHas(t *testing.T) {
	var q entryQueue
	for range 4 * mostBlock {
		q.add(store.DueEntry{})
		room := 0
		for _, b := range q.blocks {
			room += cap(b)
		}
		require.LessOrEqual(t, room, max(leastBlock, min(2*q.len(), q.len()+mostBlock)))
	}
}
