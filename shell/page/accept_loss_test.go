package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

const (
	lostCommits = `commit 3 was acknowledged, the database's last one is 2, as after a "failover" to a standby that <b>lagged</b> behind`
	beingFilled = "it is being filled with another database's content"
	acceptForm  = "/partitions/2/accept-loss"
)

// An accepted is a loss that the API was asked to accept.
type accepted struct {
	partition int
	stopped   string
}

// losses has four daemons on a database, whose partition 2 has lost commits and whose partition 3 is being filled.
type losses struct {
	wire.Cluster
	asked []accepted
}

func newLosses() *losses {
	l := &losses{Cluster: fourDaemons()}
	l.Partitions[2].Stopped, l.Partitions[2].LossCanBeAccepted = lostCommits, true
	l.Partitions[3].Stopped = beingFilled
	return l
}

func (l *losses) shown(o *httpapi.Options) {
	o.Partitions = len(l.Partitions)
	o.Cluster = func(context.Context) (wire.Cluster, error) { return l.Cluster, nil }
}

func (l *losses) acceptable(o *httpapi.Options) {
	l.shown(o)
	o.AcceptLoss = func(_ context.Context, partition int, stopped string) error {
		l.asked = append(l.asked, accepted{partition, stopped})
		p := &l.Partitions[partition]
		if !p.LossCanBeAccepted || p.Stopped != stopped {
			return fmt.Errorf("%w: it is stopped for %q", store.ErrNotLost, p.Stopped)
		}
		p.Stopped, p.LossCanBeAccepted = "", false
		return nil
	}
}

func TestAPartitionThatHasLostCommitsGoesOnOnceItsLossIsAccepted(t *testing.T) {
	l := newLosses()
	k := newKitWith(t, l.acceptable, admin("ops"))
	k.as = "ops-secret"
	text := k.text("/instances")
	assert.Contains(t, text, "Nobody may work on 2 of 4 partitions")
	assert.Contains(t, text, "Partition Why nobody may work on it 2 "+lostCommits+" Accept the loss 3 "+beingFilled, "the whole reason, and the act")
	assert.Contains(t, text, "2 stopped – – 93 4913 14 –")
	assert.Contains(t, k.read("/instances"), `<a class="button danger" href="/ui/partitions/2/accept-loss">Accept the loss</a>`)
	assert.NotContains(t, k.read("/instances"), "/ui/partitions/3/accept-loss", "what is being filled has lost nothing")

	form := k.text(acceptForm)
	assert.Contains(t, form, "Partition 2 is stopped: "+lostCommits+".")
	for _, says := range []string{
		"What was acknowledged and is gone stays gone.", "An action that a caller was told is queued is not there", "one that has completed may run again",
		"a lock may be held twice, with a token that was given out before", "Look for what callers know first.",
	} {
		assert.Contains(t, form, says)
	}
	assert.Contains(t, k.read(acceptForm), `<button class="danger">Accept the loss</button>`)
	assert.Empty(t, l.asked, "whoever only reads the form accepts nothing")

	to := k.act(acceptForm, nil)
	require.Equal(t, []accepted{{2, lostCommits}}, l.asked)
	assert.Equal(t, "/instances?done=instances.accept-loss", to)
	text = k.text(to)
	assert.Contains(t, text, "The loss is accepted: the partition goes on as soon as a daemon has taken it over.")
	assert.NotContains(t, text, lostCommits)
	assert.Contains(t, text, "2 nobody works on it – – 93 4913 14 –")
}

func TestALossIsAcceptedOnlyAsItsFormShowedIt(t *testing.T) {
	l := newLosses()
	k := newKitWith(t, l.acceptable)
	read := k.filled(acceptForm, nil)
	l.Partitions[2].Stopped = "commit 9 was acknowledged, the database's last one is 2"
	w := k.send("POST", acceptForm, read)
	assert.Equal(t, http.StatusConflict, w.Code)
	shown := words(w.Body.String())
	assert.Contains(t, shown, "Why the partition is stopped has changed since you opened this form, and nothing was done.")
	assert.Contains(t, shown, "Partition 2 is stopped: commit 9 was acknowledged")
	assert.Contains(t, w.Body.String(), `name="stopped" value="commit 9 was acknowledged, the database&#39;s last one is 2"`, "sent again, it is about the loss that is shown")
	assert.NotContains(t, shown, "commit 3 ")
	assert.Equal(t, []accepted{{2, lostCommits}}, l.asked)

	read.Del("stopped")
	w = k.send("POST", acceptForm, read)
	assert.Equal(t, http.StatusBadRequest, w.Code, "a form that does not say what was read")
	assert.NotContains(t, words(w.Body.String()), "has changed since", "nothing has")
	assert.Len(t, l.asked, 1)

	k.act(acceptForm, nil)
	w = k.send("POST", acceptForm, read)
	assert.Equal(t, http.StatusConflict, w.Code, "sent twice")
	assert.Contains(t, words(w.Body.String()), "partition 2 is not stopped: there is no loss to accept")
}

func TestALossIsAcceptedOnlyOfAPartitionThatHasOne(t *testing.T) {
	l := newLosses()
	k := newKitWith(t, l.acceptable)
	for _, row := range []struct {
		number string
		status int
		says   string
	}{
		{"0", http.StatusConflict, "partition 0 is not stopped: there is no loss to accept"},
		{"3", http.StatusConflict, "partition 3 is stopped, and not for a loss of commits: " + beingFilled},
		{"4", http.StatusNotFound, `there is no partition "4"`},
		{"x", http.StatusNotFound, `there is no partition "x"`},
	} {
		for _, method := range []string{"GET", "POST"} {
			w := k.send(method, "/partitions/"+row.number+"/accept-loss", url.Values{"proof": {k.proof()}, "stopped": {beingFilled}})
			assert.Equal(t, row.status, w.Code, "%s %s", method, row.number)
			assert.Contains(t, words(w.Body.String()), row.says, method)
		}
	}
	assert.Empty(t, l.asked)
}

func TestALossIsAcceptedByWhoMayDoSo(t *testing.T) {
	l := newLosses()
	k := newKitWith(t, l.acceptable, admin("ops"), token("reader", func(t *httpapi.Token) { t.ReadOnly = true }))
	k.as = "reader-secret"
	assert.Contains(t, k.text("/instances"), lostCommits+" Accept the loss : Your token ", "the reason is for all who see the page, and the act is refused with why")
	assert.NotContains(t, k.read("/instances"), "/ui"+acceptForm)
	assert.Contains(t, k.read(acceptForm), `<button class="danger" disabled>`)
	assert.Equal(t, http.StatusForbidden, k.try(acceptForm, nil).Code)
	assert.Empty(t, l.asked)
}

func TestWhereNoLossCanBeAcceptedTheReasonIsShownWithoutTheAct(t *testing.T) {
	l := newLosses()
	k := newKitWith(t, l.shown)
	assert.Contains(t, k.text("/instances"), "2 "+lostCommits+" 3 "+beingFilled)
	assert.NotContains(t, k.read("/instances"), "accept-loss")
	w := k.try(acceptForm, nil)
	assert.Equal(t, http.StatusNotImplemented, w.Code)
}

func TestAClusterWithoutAStoppedPartitionHasNoTableOfThem(t *testing.T) {
	l := newLosses()
	l.Partitions = l.Partitions[:2]
	k := newKitWith(t, l.acceptable)
	assert.NotContains(t, k.text("/instances"), "Stopped partitions")
}
