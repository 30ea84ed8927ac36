package core

// This file stands in for the events of core/task.go and core/strategy.go until
// those are merged; then it is to be deleted.

// TaskCreate is a stub.
type TaskCreate struct {
	Spec TaskSpec `json:"spec"`
}

// TaskCancel is a stub.
type TaskCancel struct {
	Reason string `json:"reason"`
}

// StrategyCreate is a stub.
type StrategyCreate struct {
	Spec StrategySpec `json:"spec"`
}

// StrategyCancel is a stub.
type StrategyCancel struct {
	Reason string `json:"reason"`
}

func (TaskCreate) EventType() string                { return typeCreate }
func (TaskCancel) EventType() string                { return typeCancel }
func (StrategyCreate) EventType() string            { return typeCreate }
func (StrategyCancel) EventType() string            { return typeCancel }
func (e TaskCreate) AppendJSON(b []byte) []byte     { return appendEvent(b, e.EventType(), e) }
func (e TaskCancel) AppendJSON(b []byte) []byte     { return appendEvent(b, e.EventType(), e) }
func (e StrategyCreate) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }
func (e StrategyCancel) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }
func (e TaskCreate) owner() Owner                   { return e.Spec.Owner }
func (e StrategyCreate) owner() Owner               { return e.Spec.Owner }
