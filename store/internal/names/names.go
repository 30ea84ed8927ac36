// Package names numbers tables, so that what is held of them in memory is found without a look at their names.
package names

import (
	"slices"
	"sync"
)

// Numbers gives each table that was ever written to a number. It is safe for concurrent use; the zero value is empty.
type Numbers struct {
	mu    sync.RWMutex
	byOne map[string]int
	list  []string
}

// Of gives a table's number. A table that has none gets the next one where grow is set;
// else its number is -1.
func (n *Numbers) Of(name string, grow bool) int {
	n.mu.RLock()
	number, ok := n.byOne[name]
	n.mu.RUnlock()
	if ok || !grow {
		if !ok {
			return -1
		}
		return number
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.byOne[name]; ok {
		return number
	}
	if n.byOne == nil {
		n.byOne = make(map[string]int)
	}
	n.list = append(n.list, name)
	n.byOne[name] = len(n.list) - 1
	return len(n.list) - 1
}

// All gives the names, in the order of the numbers.
func (n *Numbers) All() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clone(n.list)
}

// Name gives that of a number that Of has given.
func (n *Numbers) Name(number int) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.list[number]
}
