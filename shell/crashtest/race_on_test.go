//go:build unix && race

package crashtest

// raceFlags make the daemon look for races where its tests do.
var raceFlags = []string{"-race"}
