package core_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func mutate(r *rand.Rand, v any, pool []any) any {
	if r.Intn(12) == 0 {
		switch r.Intn(8) {
		case 0:
			return json.Number("0")
		case 1:
			return json.Number("-1")
		case 2:
			return json.Number("9223372036854775807")
		case 3:
			return json.Number("4294967295")
		case 4:
			return nil
		case 5:
			return "9999-12-31T23:59:59.999Z"
		case 6:
			return "1970-01-01T00:00:00.001Z"
		case 7:
			return pool[r.Intn(len(pool))]
		}
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if r.Intn(30) == 0 {
				continue
			}
			if k == "type" && r.Intn(4) > 0 {
				out[k] = e
				continue
			}
			out[k] = mutate(r, e, pool)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			n := 1
			if r.Intn(10) == 0 {
				n = r.Intn(4)
			}
			for range n {
				out = append(out, mutate(r, e, pool))
			}
		}
		return out
	}
	return v
}

func leaves(v any, pool *[]any) {
	*pool = append(*pool, v)
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			leaves(e, pool)
		}
	case []any:
		for _, e := range v {
			leaves(e, pool)
		}
	}
}

func parse(b []byte) any {
	var v any
	_ = json.Unmarshal(b, &v)
	return v
}

func TestZZHunt(t *testing.T) {
	secs, _ := strconv.Atoi(os.Getenv("HUNT"))
	if secs == 0 {
		t.Skip()
	}
	r := rand.New(rand.NewSource(time.Now().UnixNano()))
	states := map[effects.Kind][]any{}
	events := map[effects.Kind][]any{}
	pools := map[effects.Kind]*[]any{}
	for _, k := range kinds {
		pools[k] = &[]any{}
	}
	for _, s := range goldenStates() {
		k := s.Ref().Kind
		v := parse(s.AppendJSON(nil))
		states[k] = append(states[k], v)
		leaves(v, pools[k])
	}
	for _, k := range kinds {
		for _, e := range goldenEvents()[k] {
			v := parse(e.AppendJSON(nil))
			events[k] = append(events[k], v)
			leaves(v, pools[k])
		}
	}
	end := time.Now().Add(time.Duration(secs) * time.Second)
	n, applied, accepted := 0, 0, 0
	for time.Now().Before(end) {
		k := kinds[r.Intn(len(kinds))]
		if k == core.KindRecurring || k == core.KindAction || k == core.KindDedup || k == core.KindOccurrence {
			continue
		}
		pool := *pools[k]
		sb, _ := json.Marshal(mutate(r, states[k][r.Intn(len(states[k]))], pool))
		s, err := core.DecodeState(k, sb)
		n++
		if err != nil || s == nil {
			continue
		}
		clock := core.Clock{Now: []core.Time{start, start, effects.MaxTime, effects.MinTime, start.Add(time.Hour)}[r.Intn(5)], Step: uint64(r.Intn(3))}
		for range 12 {
			eb, _ := json.Marshal(mutate(r, events[k][r.Intn(len(events[k]))], pool))
			e, err := core.DecodeEvent(k, eb)
			if err != nil {
				continue
			}
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("PANIC %v\nstate %s\nevent %s", p, sb, eb)
					}
				}()
				next, effs := apply(s, e, clock)
				applied++
				if refusal(effs) != nil {
					if encoded(next) != encoded(s) {
						t.Errorf("refused changed %s %s", sb, eb)
					}
					return
				}
				accepted++
				// journal: replaying the stored event on the stored state gives the same
				e2, err := core.DecodeEvent(k, e.AppendJSON(nil))
				if err != nil {
					t.Errorf("event not readable again: %s -> %s: %v", eb, e.AppendJSON(nil), err)
					return
				}
				s2, err := core.DecodeState(k, s.AppendJSON(nil))
				if err != nil {
					return // hostile
				}
				n2, effs2 := apply(s2, e2, clock)
				if encoded(n2) != encoded(next) || len(effs2) != len(effs) {
					t.Errorf("replay differs\nstate %s\nevent %s\n%s\n%s", sb, eb, encoded(next), encoded(n2))
				}
				if exists(next) {
					if _, err := core.DecodeState(k, next.AppendJSON(nil)); err != nil {
						if _, err0 := core.DecodeState(k, s.AppendJSON(nil)); err0 == nil {
							t.Errorf("made unreadable: %v\nstate %s\nevent %s\n%s", err, sb, eb, encoded(next))
						}
						return
					}
				}
				if exists(next) {
					s = next
				}
				if at := s.Deadline(); at != 0 && r.Intn(3) == 0 {
					clock.Now = max(clock.Now, min(at, effects.MaxTime))
				} else {
					clock.Now = clock.Now.Add(time.Duration(r.Intn(3)) * time.Second)
				}
				clock.Step++
			}()
			if t.Failed() {
				return
			}
		}
	}
	fmt.Println("decoded", n, "applied", applied, "accepted", accepted)
}
