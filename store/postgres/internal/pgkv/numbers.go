package pgkv

import (
	"slices"
	"sync"
)

// numbers gives each table that was ever written to a number, for as long as the partition is
// open.
type numbers struct {
	mu    sync.RWMutex
	byOne map[string]int
	list  []string
}

// of gives a table's number. A table that has none gets the next one where grow is set;
// else its number is -1.
func (n *numbers) of(name string, grow bool) int {
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

func (n *numbers) names() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clone(n.list)
}

func (n *numbers) name(number int) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.list[number]
}
