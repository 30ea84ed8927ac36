package effects

// What follows decides for each outer effect whether it is [Outer.Repeatable], and why.

// Repeatable is false: a tool may do anything, and the action's policy decides.
func (RunTool) Repeatable() bool { return false }

// Repeatable is false for sessions: a program that the dead process had started, tmux
// say, may still be at work on the session, and what is typed twice is read twice.
func (Spawn) Repeatable() bool { return false }

// Repeatable is false: see [Spawn.Repeatable].
func (SendInput) Repeatable() bool { return false }

// Repeatable is false: see [Spawn.Repeatable].
func (Kill) Repeatable() bool { return false }

// Repeatable is false: see [Spawn.Repeatable].
func (Nudge) Repeatable() bool { return false }

// Repeatable is false for git: one that the dead process had started may still be at work
// in the repository, and holds its locks.
func (WorktreeAdd) Repeatable() bool { return false }

// Repeatable is false: see [WorktreeAdd.Repeatable].
func (WorktreeRemove) Repeatable() bool { return false }

// Repeatable is false: see [WorktreeAdd.Repeatable].
func (Merge) Repeatable() bool { return false }

// Repeatable is false: whoever is told twice has read it twice.
func (Notify) Repeatable() bool { return false }

// Repeatable is true: it reads, and takes locks in the run's name alone, which has them
// already the second time.
func (CheckConstraints) Repeatable() bool { return true }

// Repeatable is false: an action reaches others, by a web request say.
func (TakeAction) Repeatable() bool { return false }

// Repeatable is true: the name of what is created follows from run and attempt, and a
// cluster has one thing under a name. A call of a process that has died ends with its
// connection.
func (CreateRun) Repeatable() bool { return true }

// Repeatable is true: it reads, and what it stores of an attempt replaces what was stored.
func (FetchLogs) Repeatable() bool { return true }

// Repeatable is true: what is gone already is no error, and an attempt that was deleted is
// never created again.
func (DeleteRun) Repeatable() bool { return true }
