package httpapi

import (
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// triggerJob starts a run, whatever the schedule says. A token that is bound to tools
// may trigger the jobs that it could have applied.
func (s *Server) triggerJob(w http.ResponseWriter, r *http.Request, c *call, of named, body *wire.JobTriggerRequest) error {
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil {
		return noJob(of, err)
	}
	if err := s.noRunner(); err != nil {
		return err
	}
	if err := s.permitJob(r.Context(), c.token, j.JobSpec); err != nil {
		return err
	}
	made, err := s.engine.Jobs().Trigger(r.Context(), of.Scope, of.name, shell.TriggerOptions{By: c.actor, DedupKey: body.DedupKey})
	if err != nil {
		return noJob(of, err)
	}
	status := http.StatusOK
	if !made.Duplicate {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/runs/"+made.Run.String())
	}
	return writeJSON(w, status, made)
}

// tellJob sends the job an event that says why.
func (s *Server) tellJob(did string, event func(why string) core.JobEvent) func(http.ResponseWriter, *http.Request, *call, named) (core.Job, error) {
	return func(w http.ResponseWriter, r *http.Request, c *call, of named) (j core.Job, err error) {
		why, err := s.reason(w, r, c, did)
		if err != nil {
			return j, err
		}
		return s.engine.Jobs().Send(r.Context(), of.Scope, of.name, event(why))
	}
}

// resumeJob lets the job run at the times of its schedule, which is as much as to trigger it.
func (s *Server) resumeJob(w http.ResponseWriter, r *http.Request, c *call, of named) (core.Job, error) {
	if err := s.noBody(w, r); err != nil {
		return core.Job{}, err
	}
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil {
		return j, err
	}
	if err := s.permitJob(r.Context(), c.token, j.JobSpec); err != nil {
		return j, err
	}
	return s.engine.Jobs().Send(r.Context(), of.Scope, of.name, core.JobResume{})
}

// jobHistory lists what became of the times of a job, newest first.
func (s *Server) jobHistory(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byJob.of(r, c, "limit", "page_token")
	if err != nil {
		return err
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	if _, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name); err != nil {
		return noJob(of, err)
	}
	list, next, err := s.engine.Jobs().History(r.Context(), of.Scope, of.name, p)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.HistoryList{History: append([]core.Occurrence{}, list...), NextPageToken: next})
}

// previewJob shows the next times of a job; of a paused job the times at which it would run.
func (s *Server) previewJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byJob.of(r, c, "n")
	if err != nil {
		return err
	}
	n, err := q.number("n", defaultPreview, maxPreview)
	if err != nil {
		return err
	}
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil {
		return noJob(of, err)
	}
	if j.Schedule == "" {
		return writeJSON(w, http.StatusOK, wire.Preview{Timezone: j.Timezone, Description: "When it is triggered by hand", Times: []effects.Time{}})
	}
	p, err := previewOf(j.Schedule, j.Timezone, j.CreatedAt, effects.TimeOf(s.o.Clock.Now()), n)
	return reply(w, p, err)
}
