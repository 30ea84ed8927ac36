//go:build unix && race

package clustertest

// raceFlags make the daemon look for races where its tests do.
var raceFlags = []string{"-race"}
