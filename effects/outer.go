package effects

import (
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/effects/texts"
)

// outerDecoders is the "type" of each outer effect in its stored form, and how the
// rest is read.
var outerDecoders = map[string]func([]byte) (Outer, error){
	"run_tool":          decodeOuterAs[RunTool],
	"spawn":             decodeOuterAs[Spawn],
	"send":              decodeOuterAs[SendInput],
	"kill":              decodeOuterAs[Kill],
	"nudge":             decodeOuterAs[Nudge],
	"worktree_add":      decodeOuterAs[WorktreeAdd],
	"worktree_remove":   decodeOuterAs[WorktreeRemove],
	"merge":             decodeOuterAs[Merge],
	"notify":            decodeOuterAs[Notify],
	"check_constraints": decodeOuterAs[CheckConstraints],
	"take_action":       decodeOuterAs[TakeAction],
	"create_run":        decodeOuterAs[CreateRun],
	"fetch_logs":        decodeOuterAs[FetchLogs],
	"delete_run":        decodeOuterAs[DeleteRun],
}

// DecodeOuter reads the stored form of an outer effect.
func DecodeOuter(b []byte) (Outer, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("decode outer effect: %w", err)
	}
	decode := outerDecoders[head.Type]
	if decode == nil {
		return nil, fmt.Errorf("decode outer effect: unknown type %q", texts.Clip(head.Type, 64))
	}
	return decode(b)
}

func decodeOuterAs[E Outer](b []byte) (Outer, error) {
	var e E
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("decode outer effect: %w", err)
	}
	return e, nil
}

// appendOuter appends {"type":"…", then the fields of e}.
func appendOuter(b []byte, typ string, e any) []byte {
	b = append(b, `{"type":`...)
	b = AppendString(b, typ)
	fields, _ := json.Marshal(e) // strings, numbers and maps of strings always encode
	b = append(b, ',')
	return append(b, fields[1:]...)
}

// Number is the run.
func (e RunTool) Number() uint32 { return e.Run }

// The others have it as N.
func (e Spawn) Number() uint32            { return e.N }
func (e SendInput) Number() uint32        { return e.N }
func (e Kill) Number() uint32             { return e.N }
func (e Nudge) Number() uint32            { return e.N }
func (e WorktreeAdd) Number() uint32      { return e.N }
func (e WorktreeRemove) Number() uint32   { return e.N }
func (e Merge) Number() uint32            { return e.N }
func (e Notify) Number() uint32           { return e.N }
func (e CheckConstraints) Number() uint32 { return e.N }
func (e TakeAction) Number() uint32       { return e.N }
func (e CreateRun) Number() uint32        { return e.N }
func (e FetchLogs) Number() uint32        { return e.N }
func (e DeleteRun) Number() uint32        { return e.N }

// WithNumber gives the same effect under another number.
func (e RunTool) WithNumber(n uint32) Outer          { e.Run = n; return e }
func (e Spawn) WithNumber(n uint32) Outer            { e.N = n; return e }
func (e SendInput) WithNumber(n uint32) Outer        { e.N = n; return e }
func (e Kill) WithNumber(n uint32) Outer             { e.N = n; return e }
func (e Nudge) WithNumber(n uint32) Outer            { e.N = n; return e }
func (e WorktreeAdd) WithNumber(n uint32) Outer      { e.N = n; return e }
func (e WorktreeRemove) WithNumber(n uint32) Outer   { e.N = n; return e }
func (e Merge) WithNumber(n uint32) Outer            { e.N = n; return e }
func (e Notify) WithNumber(n uint32) Outer           { e.N = n; return e }
func (e CheckConstraints) WithNumber(n uint32) Outer { e.N = n; return e }
func (e TakeAction) WithNumber(n uint32) Outer       { e.N = n; return e }
func (e CreateRun) WithNumber(n uint32) Outer        { e.N = n; return e }
func (e FetchLogs) WithNumber(n uint32) Outer        { e.N = n; return e }
func (e DeleteRun) WithNumber(n uint32) Outer        { e.N = n; return e }

// Lane is the tool's own, so that a slow tool delays no other (001).
func (e RunTool) Lane() string { return e.Tool }

// The others share one lane with their like.
func (Spawn) Lane() string            { return LaneSession }
func (SendInput) Lane() string        { return LaneSession }
func (Kill) Lane() string             { return LaneSession }
func (Nudge) Lane() string            { return LaneSession }
func (WorktreeAdd) Lane() string      { return LaneGit }
func (WorktreeRemove) Lane() string   { return LaneGit }
func (Merge) Lane() string            { return LaneGit }
func (Notify) Lane() string           { return LaneNotify }
func (CheckConstraints) Lane() string { return LaneConstraints }
func (TakeAction) Lane() string       { return LaneActions }
func (CreateRun) Lane() string        { return LaneRun }
func (FetchLogs) Lane() string        { return LaneLogs }
func (DeleteRun) Lane() string        { return LaneRun }

// AppendJSON appends {"type":"run_tool","run":1,"tool":"http"}.
func (e RunTool) AppendJSON(b []byte) []byte {
	b = fmt.Appendf(b, `{"type":"run_tool","run":%d,"tool":`, e.Run)
	b = AppendString(b, e.Tool)
	return append(b, '}')
}

// The others append {"type":…, and their fields.
func (e Spawn) AppendJSON(b []byte) []byte            { return appendOuter(b, "spawn", e) }
func (e SendInput) AppendJSON(b []byte) []byte        { return appendOuter(b, "send", e) }
func (e Kill) AppendJSON(b []byte) []byte             { return appendOuter(b, "kill", e) }
func (e Nudge) AppendJSON(b []byte) []byte            { return appendOuter(b, "nudge", e) }
func (e WorktreeAdd) AppendJSON(b []byte) []byte      { return appendOuter(b, "worktree_add", e) }
func (e WorktreeRemove) AppendJSON(b []byte) []byte   { return appendOuter(b, "worktree_remove", e) }
func (e Merge) AppendJSON(b []byte) []byte            { return appendOuter(b, "merge", e) }
func (e Notify) AppendJSON(b []byte) []byte           { return appendOuter(b, "notify", e) }
func (e CheckConstraints) AppendJSON(b []byte) []byte { return appendOuter(b, "check_constraints", e) }
func (e TakeAction) AppendJSON(b []byte) []byte       { return appendOuter(b, "take_action", e) }
func (e CreateRun) AppendJSON(b []byte) []byte        { return appendOuter(b, "create_run", e) }
func (e FetchLogs) AppendJSON(b []byte) []byte        { return appendOuter(b, "fetch_logs", e) }
func (e DeleteRun) AppendJSON(b []byte) []byte        { return appendOuter(b, "delete_run", e) }

func (RunTool) effect()          {}
func (Spawn) effect()            {}
func (SendInput) effect()        {}
func (Kill) effect()             {}
func (Nudge) effect()            {}
func (WorktreeAdd) effect()      {}
func (WorktreeRemove) effect()   {}
func (Merge) effect()            {}
func (Notify) effect()           {}
func (CheckConstraints) effect() {}
func (TakeAction) effect()       {}
func (CreateRun) effect()        {}
func (FetchLogs) effect()        {}
func (DeleteRun) effect()        {}
