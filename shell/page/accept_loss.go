package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

const acceptLossAPI = "/v1/cluster/accept-loss"

// The form of the act carries the reason that its reader has seen: the API accepts no loss that nobody has read of.
const stoppedField = "stopped"

// stoppedTable has the whole reason of each partition that is stopped, with the act on those whose loss can be accepted; none: no block.
func (q *visit) stoppedTable(r roster) []block {
	t := &table{Caption: "Stopped partitions", Head: []string{"Partition", "Why nobody may work on it"}}
	for _, p := range r.Partitions {
		if p.Stopped == "" {
			continue
		}
		why := cell{Text: p.Stopped, Tone: toneBad, Acts: q.acceptLossLinks(p)}
		t.Rows = append(t.Rows, []cell{number(p.Number), why.wide()})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []block{{Title: "Stopped partitions", ID: "stopped", Table: t}}
}

// acceptLossLinks gives the link to the form by which the loss of a partition is accepted. A partition that is stopped for something else has none.
func (q *visit) acceptLossLinks(p wire.ClusterPartition) []link {
	if !p.LossCanBeAccepted || !q.p.o.API.CanAcceptLoss() {
		return nil
	}
	links := q.actLinks("/instances", "accept-loss")
	for i := range links { // the address of the list does not name a partition
		links[i].Href = q.page(pathOf("partitions", strconv.Itoa(p.Number), "accept-loss"))
	}
	return links
}

func acceptLossActs() []act {
	return []act{{
		on: "/instances", name: "accept-loss", at: "/partitions/{number}/accept-loss", method: http.MethodPost, api: acceptLossAPI, label: "Accept the loss", danger: true,
		says: "The partition goes on with what its database has: that is whole, but older. What was acknowledged and is gone stays gone. " +
			"An action that a caller was told is queued is not there, one that has completed may run again, and a lock may be held twice, with a token that was given out before. " +
			"Look for what callers know first.",
		notes: (*visit).acceptLossNotes, load: (*visit).acceptLossFields, amend: namesLoss,
		stale: "Why the partition is stopped has changed since you opened this form, and nothing was done. Read below why it is stopped now.",
		done:  "The loss is accepted: the partition goes on as soon as a daemon has taken it over.",
	}}
}

// loadLost gives the partition of the address, which must be stopped for a loss that can be accepted.
func (q *visit) loadLost() (wire.ClusterPartition, error) {
	name := q.PathValue("number")
	n, err := strconv.Atoi(name)
	if err != nil {
		return wire.ClusterPartition{}, noPartition(name)
	}
	r, err := q.loadRoster()
	if err != nil {
		return wire.ClusterPartition{}, err
	}
	at := slices.IndexFunc(r.Partitions, func(p wire.ClusterPartition) bool { return p.Number == n })
	if at < 0 {
		return wire.ClusterPartition{}, noPartition(name)
	}
	p := r.Partitions[at]
	switch {
	case p.Stopped == "":
		return p, &apiError{Status: http.StatusConflict, Text: fmt.Sprintf("partition %d is not stopped: there is no loss to accept", n)}
	case !p.LossCanBeAccepted:
		return p, &apiError{Status: http.StatusConflict, Text: fmt.Sprintf("partition %d is stopped, and not for a loss of commits: %s", n, p.Stopped)}
	}
	return p, nil
}

func noPartition(name string) error {
	return &apiError{Status: http.StatusNotFound, Text: "there is no partition " + strconv.Quote(clip(name, 100)) + ": the page of the instances lists them"}
}

func (q *visit) acceptLossFields() ([]field, error) {
	p, err := q.loadLost()
	return []field{{Name: stoppedField, Type: fieldHidden, Value: p.Stopped}}, err
}

// acceptLossNotes say which partition it is, and what it has lost.
func (q *visit) acceptLossNotes() ([]block, error) {
	p, err := q.loadLost()
	return whyNotice(fmt.Sprintf("Partition %d is stopped: %s.", p.Number, p.Stopped), toneBad), err
}

// namesLoss has a request name the partition of the address, and the loss as the form showed it.
func namesLoss(q *visit, body map[string]any, form url.Values) error {
	n, err := strconv.Atoi(q.PathValue("number"))
	if err != nil {
		return noPartition(q.PathValue("number"))
	}
	body["partition"], body[stoppedField] = n, form.Get(stoppedField)
	return nil
}
