//go:build unix && !race

package crashtest

var raceFlags []string
