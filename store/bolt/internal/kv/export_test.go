package kv

// OnWrite has fn called after each transaction that was written to the file.
func (db *DB) OnWrite(fn func()) { db.file.wrote = fn }

// Alone ends the goroutine that makes checkpoints: the test makes them.
func (db *DB) Alone() {
	db.stop()
	<-db.stopped
}

// Wrote reports whether it is a commit of its own.
func (s Staged) Wrote() bool { return s.wrote }
