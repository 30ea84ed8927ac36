package postgres

import (
	"github.com/orrery-go/orrery/store/internal/tables"
	"github.com/orrery-go/orrery/store/postgres/internal/pgkv"
)

// backing is a transaction as the record layer sees it.
type backing struct{ tx *pgkv.Tx }

var _ tables.Fetcher = backing{}

// number is that of a commit as the record layer counts: the first one of a partition makes it, and leaves it empty.
func number(commit uint64) uint64 { return max(commit, 1) - 1 }

func (b backing) Table(name string) tables.Table { return table{b.tx.Table(name)} }
func (b backing) Names(prefix string) []string   { return b.tx.Names(prefix) }
func (b backing) Drop(name string)               { b.tx.Drop(name) }
func (b backing) Last() uint64                   { return number(b.tx.Last()) }
func (b backing) PastLast(string) []byte         { return nil }
func (b backing) Fetch(keys []tables.Key)        { b.tx.Fetch(keys) }

// table is a table as the record layer sees it.
type table struct{ *pgkv.Table }

func (t table) Cursor() tables.Cursor     { return t.Table.Cursor() }
func (t table) WarmCursor() tables.Cursor { return t.Table.Cursor() }
