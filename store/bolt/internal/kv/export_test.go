package kv

// OnWrite has fn called after each transaction that was written to the file.
func (db *DB) OnWrite(fn func()) { db.file.wrote = fn }
