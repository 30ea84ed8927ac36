package engine

import (
	"encoding/json"
	"strconv"

	"github.com/orrery-go/orrery/core"
)

// MetaAt gives what a small value of the store is to be in a copy of what the store had after an
// earlier batch, whose records stand in the lists of this version; nil: it is not to be there.
// decidedBy is the core of that batch; empty: it is not known.
func MetaAt(name string, value []byte, decidedBy string) []byte {
	switch name {
	case metaCore:
		if decidedBy == "" {
			return nil // the first start begins an epoch
		}
		return []byte(strconv.Quote(decidedBy))
	case metaPresence:
		return nil // the daemon of that batch is gone
	case reindexMeta:
		if raw, err := json.Marshal(indexes{Version: core.IndexVersion, Done: true}); err == nil {
			return raw
		}
		return nil // the lists are built once more
	}
	return value
}
