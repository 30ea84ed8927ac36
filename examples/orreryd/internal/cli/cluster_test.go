package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestTheStatusOfAClusterTellsInWhatDaemonsDiffer(t *testing.T) {
	of := func(name, core, able string) wire.ClusterInstance {
		return wire.ClusterInstance{Name: name, Address: "http://" + name, Version: "v1", Alive: true, Core: core, Able: able}
	}
	says := map[string]string{}
	for _, f := range clusterView(wire.Cluster{Instance: "ada", Instances: []wire.ClusterInstance{
		of("ada", "16", "aa"), of("bo", "16", "aa"), of("cy", "15", "aa"), of("di", "16", "bb"), of("ed", "15", "bb"), of("fay", "", ""),
	}}).fields {
		says[f[0]] = f[1]
	}
	const rules, able = "; decides by the rules 15, and ada by 16", "; its tools, webhook routes, runners or channels are not those of ada"
	for name, want := range map[string]string{"ada": "", "bo": "", "cy": rules, "di": able, "ed": rules + able, "fay": ""} {
		assert.Equal(t, "stands by, at http://"+name+", version v1"+want, says[name])
	}
}

func TestTheStatusOfAClusterSaysWhatToDoAboutALoss(t *testing.T) {
	says := map[string]string{}
	for _, f := range clusterView(wire.Cluster{Partitions: []wire.ClusterPartition{
		{Number: 3, Commit: 5, Stopped: "commit 7 is gone", LossCanBeAccepted: true}, {Number: 4, Commit: 6, Stopped: "it is being filled"},
	}}).fields {
		says[f[0]] = f[1]
	}
	assert.Equal(t, "stopped: commit 7 is gone; commit 5; look for what callers know of what is gone, then: orreryd cluster accept-loss 3", says["partition 3"])
	assert.Equal(t, "stopped: it is being filled; commit 6", says["partition 4"], "it has lost nothing")
}
