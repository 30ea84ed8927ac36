package bolt

import (
	"strings"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// backing gives the record layer a transaction of package kv. It and its tables are one pointer each,
// so that they cost no memory.
type backing struct{ *kv.Tx }

var (
	_ tables.Backing = backing{}
	_ tables.Sizer   = backing{}
)

// Table implements [tables.Backing].
func (b backing) Table(name string) tables.Table { return table{b.Tx.Table(name)} }

// JournalBytes implements [tables.Sizer].
func (b backing) JournalBytes(from, before uint64) int64 { return b.PastBytes(from, before) }

type table struct{ *kv.Table }

// Cursor implements [tables.Table].
func (t table) Cursor() tables.Cursor { return t.Table.Cursor() }

// WarmCursor implements [tables.Table].
func (t table) WarmCursor() tables.Cursor { return t.Table.WarmCursor() }

// guard turns a panic of bbolt into an error: see [tables.Guard].
var guard = tables.Guard

// putSealed puts a value, as [tables.SealJSON] seals it, under a key.
func putSealed(b *bbolt.Bucket, key []byte, v any) error {
	value, err := tables.SealJSON(key, v)
	if err != nil {
		return err
	}
	return b.Put(key, value)
}

// How full a page is left when it splits: nearly full where keys mostly come in
// order, so that the next key goes to a new page. Else bbolt's half. Records come in order
// where we made their ids, which begin with the time; they may grow a little, and where
// their ids are random, it takes no more room nor time than with half.
const (
	fillAppended = 0.95
	fillRecords  = 0.9
	fillMixed    = 0.5
)

func fillPercent(bucket string) float64 {
	switch bucket {
	case tables.NameJournal, tables.NameChanges, tables.NameBases, tables.NameEpochs,
		tables.NameWaiting, tables.NameDue, tables.NameWebhooks, tables.NameWebhooksInfo:
		return fillAppended
	}
	switch {
	case strings.HasPrefix(bucket, tables.ListsPrefix):
		return fillAppended
	case strings.HasPrefix(bucket, tables.RecordsPrefix):
		return fillRecords
	}
	return fillMixed
}
