package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/store/postgres"
)

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	const nobody = "postgres://orrery@127.0.0.1:1/orrery" // is not asked
	for want, o := range map[string]postgres.Options{
		"partition is -1: want 0 or more":                                     {Partition: -1},
		"ReadOnly with TakeOver, Seen or Fill: who only reads claims nothing": {ReadOnly: true, TakeOver: true},
		"lease -1s, patience 0s, checkpoint 0s: want none of them negative":   {Lease: -time.Second},
		"LogBytes is -1, CacheBytes 0, Views 0: want none of them negative":   {LogBytes: -1},
		"LogBytes is 0, CacheBytes -2, Views 0: want none of them negative":   {CacheBytes: -2},
		"LogBytes is 0, CacheBytes 0, Views -3: want none of them negative":   {Views: -3},
	} {
		_, err := postgres.Open(t.Context(), nobody, o)
		assert.EqualError(t, err, "open the database: "+want)
		_, err = postgres.Connect(t.Context(), nobody, o)
		assert.EqualError(t, err, "connect to the database: "+want)
	}
}
