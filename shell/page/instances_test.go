package page_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

// fourDaemons work on one database: two of them on partitions, one stands by, and one is silent.
func fourDaemons() wire.Cluster {
	return wire.Cluster{
		Instance: "ada", Database: "postgres://orrery@db.example/orrery",
		Instances: []wire.ClusterInstance{
			{Name: "ada", Address: "https://ada.example:7460", Version: "v2.34.1", Core: "41", SilentSeconds: 0.25, Alive: true, Able: "aaaa1111"},
			{Name: "bo", Address: "https://bo.example:7460", Version: "v2.33.7", Core: "40", SilentSeconds: 1.5, Alive: true, Able: "bbbb2222"},
			{Name: "cy/2", Address: "https://cy.example:7460", Version: "v2.34.1", Core: "41", SilentSeconds: 0.75, Alive: true, Able: "aaaa1111"},
			{Name: "<b>di</b>", Address: "https://di.example:7460", Version: "v2.34.1", Core: "41", SilentSeconds: 62, Able: "aaaa1111"},
		},
		Partitions: []wire.ClusterPartition{
			{Number: 0, Owner: "ada", Address: "https://ada.example:7460", Token: 71, Commit: 4711, Behind: 12},
			{Number: 1, Owner: "bo", Address: "https://bo.example:7460", Token: 82, Commit: 4812, Behind: 13, FormerOwners: []wire.ClusterFormerOwner{{Instance: "cy/2", Running: 3}, {Instance: "ada", Running: 1}}},
			{Number: 2, Token: 93, Commit: 4913, Behind: 14, Stopped: "its last <i>commit</i> is gone"},
			{Number: 3, Token: 94, Commit: 5014, Behind: 15},
		},
	}
}

// withCluster has the API tell of four daemons on one database.
func withCluster(o *httpapi.Options) {
	o.Cluster = func(context.Context) (wire.Cluster, error) { return fourDaemons(), nil }
}

// A drained is what was asked of the cluster.
type drained struct {
	instance string
	on       bool
}

// withDrain has the API tell of four daemons, and drain them.
func withDrain(asked *[]drained) func(*httpapi.Options) {
	c := fourDaemons()
	return func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return c, nil }
		o.Drain = func(_ context.Context, name string, on bool) error {
			for i := range c.Instances {
				if c.Instances[i].Name == name {
					c.Instances[i].Draining = on
					*asked = append(*asked, drained{name, on})
					return nil
				}
			}
			return store.ErrNotFound
		}
	}
}

func TestThePageOfInstancesShowsEachDaemonAndWhoWorksOnWhichPartition(t *testing.T) {
	k := newKitWith(t, withCluster)
	text := k.text("/instances")
	for _, row := range []string{
		"Database postgres://orrery@db.example/orrery This page was answered by ada Partitions 4",
		"ada works 1 1 https://ada.example:7460 v2.34.1 41 250 ms aaaa1111",
		"bo works 1 0 https://bo.example:7460 v2.33.7 40 1.5 s bbbb2222 differ",
		"cy/2 stands by 0 3 https://cy.example:7460 v2.34.1 41 750 ms aaaa1111",
		"<b>di</b> silent 0 0 https://di.example:7460",
		"0 works ada https://ada.example:7460 71 4711 12 –",
		"1 works bo https://bo.example:7460 82 4812 13 cy/2: 3 ada: 1",
		"2 its last <i>commit</i> is gone", "2 stopped – – 93 4913 14 –",
		"3 nobody works on it – – 94 5014 15 –",
		"Nobody may work on 1 of 4 partitions", "Nobody works on 1 of 4 partitions",
	} {
		assert.Contains(t, text, row)
	}
	assert.Contains(t, k.read("/instances"), `href="/ui/instances/cy%2F2"`)

	text = k.text("/instances/bo")
	assert.Contains(t, text, "Instance bo works")
	assert.Contains(t, text, "1 works bo https://bo.example:7460 82 4812 13 cy/2: 3 ada: 1")
	assert.Contains(t, k.text("/instances/cy%2F2"), "Runs left 3")
	assert.NotContains(t, text, "4711", "a partition of another daemon")
	assert.Contains(t, k.text("/instances/cy%2F2"), "It works on no partition.")
	w := k.send("GET", "/instances/eve", nil)
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.Contains(t, words(w.Body.String()), `no daemon of the name "eve" is on the database`)
}

func TestTheMenuHasInstancesOnlyWhereSeveralDaemonsMayWorkOnTheDatabase(t *testing.T) {
	const entry = `href="/ui/instances"`
	alone := newKit(t)
	assert.NotContains(t, alone.read("/"), entry)
	w := alone.send("GET", "/instances", nil)
	assert.Equal(t, http.StatusNotImplemented, w.Code)
	assert.Contains(t, words(w.Body.String()), "the database of this server is its own")

	k := newKitWith(t, withCluster, admin("ops"), token("plain", func(t *httpapi.Token) { t.Tenants = []string{"default"} }))
	k.as = "ops-secret"
	assert.Contains(t, k.read("/"), entry)
	k.as = "plain-secret"
	shown := k.read("/")
	assert.NotContains(t, shown, entry)
	assert.Contains(t, shown, `>Instances<span class="hidden">: Your token `)
	w = k.send("GET", "/instances", nil)
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.NotContains(t, w.Body.String(), "ada")
}

func TestADaemonIsDrainedAndTakesPartAgainFromItsPage(t *testing.T) {
	var asked []drained
	k := newKitWith(t, withDrain(&asked), admin("ops"), token("reader", func(t *httpapi.Token) { t.ReadOnly = true }))
	k.as = "reader-secret"
	assert.Contains(t, k.text("/instances/bo"), "Drain : Your token")
	k.as = "ops-secret"
	assert.Contains(t, k.text("/instances/bo/drain"), "Partitions on which it works: 1.")
	assert.Equal(t, "/instances/bo?done=instances.drain", k.act("/instances/bo/drain", nil))
	text := k.text("/instances/bo?done=instances.drain")
	assert.Contains(t, text, "The daemon gives its partitions away.")
	assert.Contains(t, text, "Instance bo gives its partitions away")
	k.act("/instances/cy%2F2/drain", nil)
	assert.Contains(t, k.text("/instances/cy%2F2"), "Instance cy/2 drained")
	assert.Contains(t, k.text("/instances/ada/drain"), "No other daemon takes partitions now", "di is silent, and the others are drained")
	k.act("/instances/bo/undrain", nil)
	assert.Contains(t, k.text("/instances/bo"), "Instance bo works")
	require.Equal(t, []drained{{"bo", true}, {"cy/2", true}, {"bo", false}}, asked)

	w := k.send("POST", "/instances/eve/undrain", map[string][]string{"proof": {k.proof()}})
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.Len(t, asked, 3)
}

func TestADaemonOfAnUndividedDatabaseCannotBeDrained(t *testing.T) {
	k := newKitWith(t, withCluster)
	assert.NotContains(t, k.read("/instances/ada"), "/ui/instances/ada/drain")
	w := k.send("POST", "/instances/ada/drain", map[string][]string{"proof": {k.proof()}})
	assert.Equal(t, http.StatusNotImplemented, w.Code)
	assert.Contains(t, words(w.Body.String()), "the database has one partition")
}

func TestThePageOfInstancesTellsOfAPartitionWhoseOwnerIsSilent(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) {
		c := fourDaemons()
		c.Instances[1].Alive = false
		o.Cluster = func(context.Context) (wire.Cluster, error) { return c, nil }
	})
	text := k.text("/instances")
	assert.Contains(t, text, "0 works ada ")
	assert.Contains(t, text, "1 its owner is silent bo ")
}

func TestADaemonWhoseCoreIsNotTheOneThatCountsTakesNoPartitions(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) {
		c := fourDaemons()
		c.Instances[0].Draining, c.Instances[1].Core, c.Instances[2].Core = true, "41", "40" // bo and cy/2 are counted
		o.Cluster = func(context.Context) (wire.Cluster, error) { return c, nil }
		o.Drain = func(context.Context, string, bool) error { return nil }
	})
	assert.Contains(t, k.text("/instances"), "cy/2 takes no partition The rules of its core are 40, and half of the daemons or more have 41.")
	assert.Contains(t, k.text("/instances/bo/drain"), "No other daemon takes partitions now", "cy/2 would not")
	assert.NotContains(t, k.text("/instances/cy%2F2/drain"), "No other daemon takes partitions now", "bo would")
}
