package browsertest_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

// losing is the cluster three, whose loss is accepted as it was read.
type losing struct {
	mu      sync.Mutex
	cluster wire.Cluster
}

func newLosing() *losing {
	l := &losing{cluster: three}
	l.cluster.Partitions = slices.Clone(three.Partitions)
	return l
}

func (l *losing) options(o *httpapi.Options) {
	o.Partitions = len(l.cluster.Partitions)
	o.Cluster = func(context.Context) (wire.Cluster, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		out := l.cluster
		out.Partitions = slices.Clone(out.Partitions)
		return out, nil
	}
	o.AcceptLoss = func(_ context.Context, partition int, stopped string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		p := &l.cluster.Partitions[partition]
		if p.Stopped != stopped {
			return store.ErrNotLost
		}
		p.Stopped, p.LossCanBeAccepted = "", false
		return nil
	}
}

func TestTheLossOfAPartitionIsReadAndAcceptedWithAndWithoutScript(t *testing.T) {
	for _, script := range []bool{true, false} {
		d := startDaemonWith(t, newLosing().options)
		b := newTab(t, d)
		if !script {
			b.withoutScript()
		}
		b.open("/ui/instances")
		lost := three.Partitions[2].Stopped
		assert.Contains(t, b.text("main [role=alert]"), "Nobody may work on 1 of 3 partitions")
		assert.Contains(t, b.text("#stopped"), lost, "the whole reason")

		b.follow("Accept the loss")
		assert.Equal(t, "/ui/partitions/2/accept-loss", b.path())
		assert.Contains(t, b.text("main"), "a lock may be held twice", "it says what it will do")
		assert.Contains(t, b.text("main [role=alert]"), lost)
		_, told := d.ask("GET", "/v1/cluster", "")
		assert.Contains(t, string(told), lost, "who only reads the form accepts nothing")

		b.follow("Accept the loss")
		assert.Equal(t, "/ui/instances?done=instances.accept-loss", b.path())
		assert.Contains(t, b.text("[role=status].notice"), "The loss is accepted")
		assert.NotContains(t, b.text("main"), lost)
		_, told = d.ask("GET", "/v1/cluster", "")
		assert.NotContains(t, string(told), lost)
		assert.Empty(t, b.complained())
	}
}
