// Package coreversion says which version of the core the instances of a cluster go by.
package coreversion

import "strconv"

// Counts gives the greatest of the versions that half of the instances or more have reached: they have it, or a greater one. An instance
// with another version claims nothing. What a newer core has decided, too few of the others could take over; an older core would decide by rules that
// the others follow no longer. The versions are those of the instances that are alive, and do not drain.
func Counts(versions []string) (counts int) {
	for _, v := range versions {
		n, have := Number(v), 0
		for _, o := range versions {
			if Number(o) >= n {
				have++
			}
		}
		if 2*have >= len(versions) {
			counts = max(counts, n)
		}
	}
	return counts
}

// Number gives the number of a version; 0: it is none.
func Number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return 0
	}
	return n
}
