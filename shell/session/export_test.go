//go:build unix

package session

// Running gives those of the processes that have not ended.
func Running(ids ...int) ([]int, error) {
	all, err := processes()
	var left []int
	for _, p := range all {
		for _, id := range ids {
			if p.pid == id {
				left = append(left, id)
			}
		}
	}
	return left, err
}

// WithoutEnterDelay lets return follow its text at once.
func (s *Sessions) WithoutEnterDelay() { s.o.EnterDelay = -1 }

// Marked gives the sessions that have processes with the mark, and of which
// nothing may be left when a test has ended.
func (s *Sessions) Marked() ([]string, error) { return markedNames(s.instance) }

// Render gives what a terminal shows.
func Render(columns, rows int, out string) (text, title string) {
	t := newTerminal(columns, rows)
	t.feed([]byte(out))
	return t.text(), t.title
}
