//go:build unix && !race

package clustertest

var raceFlags []string
