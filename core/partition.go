package core

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// PartitionRule is the version of the rule by which [Partition] places tenants. Who keeps tenants in
// several partitions stores it beside their number, and uses no other one for them: a tenant that
// is looked for in another partition is not found.
const PartitionRule = 1

// MaxPartitions bounds the number of partitions: their numbers stand in 12 bits of ids, see [Batch.Partition].
const MaxPartitions = 1 << 12

// Partition gives the partition of a tenant, from 0 on, by [PartitionRule] 1: the first eight bytes of the
// SHA-256 of namespace and tenant, each behind its length in bytes as four bytes, as one number, modulo the
// number of partitions. All numbers are big-endian. The namespace "" and the tenant "" are names as others are.
//
// With one partition, or a number below, it is 0.
func Partition(of Scope, partitions int) int {
	if partitions <= 1 {
		return 0
	}
	b := make([]byte, 0, 128)
	for _, part := range []string{of.Namespace, of.Tenant} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(partitions))
}

// CheckPartition refuses a number that no partition can have.
func CheckPartition(n int) error {
	if n < 0 || n >= MaxPartitions {
		return fmt.Errorf("%d is not between 0 and %d", n, MaxPartitions-1)
	}
	return nil
}

// CheckPartitions refuses a number of partitions that there cannot be if n is one of them. 0 is right: it is not known how many there are.
func CheckPartitions(partitions, n int) error {
	if partitions < 0 || partitions > MaxPartitions || partitions > 0 && n >= partitions {
		return fmt.Errorf("%d, of which this one is %d: want 0 if it is not known how many there are, else more than %d and %d at most", partitions, n, n, MaxPartitions)
	}
	return nil
}

// putPartition puts the number of a partition into the twelve bits of an id behind its version. 0 leaves
// the id as it is, if these bits are zero.
func putPartition(id *uuid.UUID, n uint16) {
	id[6] |= byte(n >> 8 & 0x0f)
	id[7] |= byte(n)
}
