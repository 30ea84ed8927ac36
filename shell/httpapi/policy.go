package httpapi

import (
	"fmt"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// policyRequest reads [core.RunPolicy] as strictly as the rest, and tells the
// bounds of its numbers: their types alone know how many bits they have.
type policyRequest struct{ core.RunPolicy }

func (p *policyRequest) UnmarshalJSON(b []byte) error {
	var v struct {
		OnInterrupt core.OnInterrupt `json:"on_interrupt"`
		MaxAttempts maxAttempts      `json:"max_attempts"`
		TimeoutMS   timeoutMS        `json:"timeout_ms"`
	}
	if err := strictjson.Decode(b, &v); err != nil {
		return err
	}
	p.RunPolicy = core.RunPolicy{OnInterrupt: v.OnInterrupt, MaxAttempts: uint32(v.MaxAttempts), TimeoutMS: int64(v.TimeoutMS)}
	return nil
}

// policy gives what was asked for; nil: the defaults.
func (p *policyRequest) policy() core.RunPolicy { return or(p, policyRequest{}).RunPolicy }

type (
	maxAttempts uint32
	timeoutMS   int64
)

func (n *maxAttempts) UnmarshalJSON(b []byte) error {
	v, err := integer(b, core.MaxAttemptsEver, strconv.Itoa(core.DefaultMaxAttempts))
	*n = maxAttempts(v)
	return err
}

func (n *timeoutMS) UnmarshalJSON(b []byte) error {
	v, err := integer(b, core.MaxTimeout.Milliseconds(), "the tool's own limit")
	*n = timeoutMS(v)
	return err
}

func integer(b []byte, most int64, zero string) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("want an integer from 0 to %d (0 means %s), got %s", most, zero, clip(string(b)))
	}
	return n, nil
}
