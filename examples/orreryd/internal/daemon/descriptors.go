package daemon

// Bounds of the connections of the API.
const (
	mostConnections   = 4096 // each takes some tens of kilobytes
	fewestConnections = 8
)

// maxConnections is how many connections the API may have open: what the configuration
// says, and never more than half of the descriptors that the process may have. The other
// half is for work: files of the store, pipes of tools, what they connect to.
func maxConnections(configured int, descriptors uint64) int {
	most := mostConnections
	if configured > 0 {
		most = configured
	}
	if half := descriptors / 2; half < uint64(most) {
		most = int(half)
	}
	return max(most, fewestConnections)
}
