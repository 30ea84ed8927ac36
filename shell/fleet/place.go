package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Place gives the name of the instance that should have a partition: that with the greatest number in the first eight bytes of the SHA-256 of the partition's number,
// as four bytes, and the name (rendezvous hashing). So each instance knows it without asking, and where one comes or goes no partition moves but those
// that it gets, or had. The rule never changes, since instances of several versions go by it at the same time. Empty: there is no instance.
func Place(partition int, instances []string) string {
	if all := ranked(partition, instances); len(all) > 0 {
		return all[0]
	}
	return ""
}

// ranked has the instances in the order in which they are to have a partition.
func ranked(partition int, instances []string) []string {
	all := slices.Clone(instances)
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(score(partition, b), score(partition, a)), cmp.Compare(a, b))
	})
	return all
}

func score(partition int, name string) uint64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint32(nil, uint32(partition)), name...))
	return binary.BigEndian.Uint64(sum[:8])
}
