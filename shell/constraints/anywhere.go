package constraints

import "github.com/orrery-go/orrery/shell/jobs"

// ValidateAnywhere is [Checker.Validate] without what a daemon must be configured
// with: tools of hooks, secrets and notifications. So a job file can be checked
// where there is no daemon.
func (c *Checker) ValidateAnywhere(job *jobs.Job) error {
	_, err := c.plan(job)
	return err
}
