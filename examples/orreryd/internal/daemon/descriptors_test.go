package daemon

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHalfOfTheDescriptorsAreLeftForWork(t *testing.T) {
	for name, test := range map[string]struct {
		configured  int
		descriptors uint64
		want        int
	}{
		"a small limit":               {0, 64, 32},
		"a usual limit":               {0, 1024, 512},
		"a large limit":               {0, 1 << 20, 4096},
		"no limit":                    {0, math.MaxUint64, 4096},
		"hardly any":                  {0, 10, 8},
		"fewer by configuration":      {100, 1024, 100},
		"more by configuration":       {20_000, 1 << 20, 20_000},
		"more than half of the limit": {20_000, 1024, 512},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, maxConnections(test.configured, test.descriptors))
		})
	}
}

func TestTheLimitOfDescriptorsIsKnown(t *testing.T) {
	assert.Positive(t, descriptors())
}
