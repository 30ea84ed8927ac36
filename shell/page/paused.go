package page

import (
	"net/http"

	"github.com/orrery-go/orrery/effects"
)

const resumeAPI = "/v1/system/resume"

// paused says on each page that the daemon was started paused, with the form that has it go on if the visitor
// may; nil: it is not paused.
func (q *visit) paused() *link {
	since, paused := q.p.o.API.PausedSince()
	if !paused {
		return nil
	}
	l := &link{Text: "The daemon is paused since " + q.at(effects.TimeOf(since)).At.Text + ": it takes every change, and nothing fires and nothing is begun."}
	if q.mayNot(http.MethodPost, resumeAPI) == "" {
		l.Href = q.page("/system/resume")
	}
	return l
}

func pausedActs() []act {
	return []act{{
		on: "/system", name: "resume", method: http.MethodPost, api: resumeAPI, label: "Have the daemon go on", main: true, done: "The daemon goes on.",
		says: "What is due fires, what waits is begun, and what was under way when the last process ended is taken back by its policy, all as after an outage. A daemon that is not paused is left as it is.",
	}}
}
