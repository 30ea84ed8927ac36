package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestADatabaseIsDividedIntoAsManyPartitionsAsListsGoOnOver(t *testing.T) {
	for _, n := range []string{"0", "257", "4096"} {
		r := cli(t, nil, "", "cluster", "init", "--database", "postgres://nobody@127.0.0.1:1/x", "--partitions", n)
		assert.Equal(t, exitUsage, r.code, n)
		assert.Contains(t, r.err, "--partitions: "+n+" is not between 1 and 256: the page token of a list over all tenants has a place in each partition, and has to fit into a request")
	}
}
