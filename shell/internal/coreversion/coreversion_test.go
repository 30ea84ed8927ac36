package coreversion_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/internal/coreversion"
)

func TestTheGreatestVersionThatHalfOfTheInstancesHaveCounts(t *testing.T) {
	for _, row := range []struct {
		versions []string
		counts   int
	}{
		{nil, 0}, {[]string{"16"}, 16}, {[]string{"16", "17"}, 17}, {[]string{"16", "16", "17"}, 16}, {[]string{"16", "17", "18"}, 17}, {[]string{"x", "16", "x"}, 0}, {[]string{"9", "10"}, 10},
	} {
		assert.Equal(t, row.counts, coreversion.Counts(row.versions), row.versions)
	}
}
