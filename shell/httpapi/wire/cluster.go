package wire

// Cluster is the answer to GET /v1/cluster: the daemons on one database, and which of them works.
type Cluster struct {
	Instance   string             `json:"instance"` // that answers: the one that works
	Database   string             `json:"database"` // without a password
	Partitions []ClusterPartition `json:"partitions"`
	// PartitionCount is into how many the database is divided; 1: it is not. Partitions lacks those on which nobody has worked yet.
	PartitionCount int               `json:"partition_count"`
	Instances      []ClusterInstance `json:"instances"`
}

// ClusterDrain is the body of POST /v1/cluster/drain.
type ClusterDrain struct {
	Instance string `json:"instance"`       // its name
	Undo     bool   `json:"undo,omitempty"` // it takes part again
}

// ClusterAcceptLoss is the body of POST /v1/cluster/accept-loss.
type ClusterAcceptLoss struct {
	Partition *int `json:"partition"` // its number
	// Stopped is what GET /v1/cluster says of why nobody may work on it: so nobody accepts a loss that they have not read of.
	Stopped string `json:"stopped"`
}

// ClusterPlacing is the answer to POST /v1/cluster/rebalance.
type ClusterPlacing struct {
	Partitions []ClusterPlace `json:"partitions"`
}

// ClusterPlace is where a partition is, and where it should be.
type ClusterPlace struct {
	Number int    `json:"number"`
	Owner  string `json:"owner"`  // empty: nobody works on it
	Should string `json:"should"` // who should; empty: nobody can
	Keeps  string `json:"keeps"`  // what keeps it where it is; empty: it is where it should be
}

// ClusterPartition is what one daemon at a time works on.
type ClusterPartition struct {
	Number  int    `json:"number"`
	Owner   string `json:"owner"` // empty: nobody works on it
	Address string `json:"address"`
	Token   uint64 `json:"token"`   // grows with each change of the owner
	Commit  uint64 `json:"commit"`  // number of the last one
	Behind  uint64 `json:"behind"`  // commits that a takeover has to read
	Stopped string `json:"stopped"` // why nobody may work on it; empty: somebody may
	// LossCanBeAccepted: it is stopped since the database has lost commits, and goes on once somebody accepts that.
	LossCanBeAccepted bool `json:"loss_can_be_accepted"`
	// FormerOwners have given it back, and go on with runs of tools that they had begun.
	FormerOwners []ClusterFormerOwner `json:"former_owners"`
}

// ClusterFormerOwner is a daemon that has given a partition back, and goes on with runs of tools that it had begun there.
type ClusterFormerOwner struct {
	Instance string `json:"instance"` // its name
	Running  int    `json:"running"`  // how many these are, as it has told last
}

// ClusterInstance is a daemon of the cluster.
type ClusterInstance struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Core is the version of the rules by which its engines decide.
	Core string `json:"core"`
	// SilentSeconds is for how long it has given no sign of life, as the instance that answers has seen.
	SilentSeconds float64 `json:"silent_seconds"`
	// Alive is false once that is longer than a lease.
	Alive bool `json:"alive"`
	// Draining: it gives its partitions to others, and takes none.
	Draining bool `json:"draining"`
	// Able is a hash of the tools, routes and runners that it has: two that differ are able to do different work.
	Able string `json:"able"`
}
