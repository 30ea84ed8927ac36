package shell

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

// stored keeps actions in a store as the engine does.
type stored struct {
	store.Store
	actions map[uuid.UUID]core.Action
	records map[uuid.UUID]store.Prev
}

// put stores actions; one whose status is empty is deleted.
func (s *stored) put(t require.TestingT, actions ...core.Action) {
	require.NoError(t, s.Update(context.Background(), func(tx store.Tx) error {
		seq, err := tx.Seq()
		require.NoError(t, err)
		var writes []store.Write
		for _, a := range actions {
			w := store.Write{Kind: core.KindAction, ID: a.ID, Prev: s.records[a.ID]}
			delete(s.actions, a.ID)
			delete(s.records, a.ID)
			if a.Status.Type != "" {
				w.State, w.Terms = a.AppendJSON(nil), a.Terms()
				s.actions[a.ID] = a
				s.records[a.ID] = store.Prev{Version: w.Prev.Version + 1, Seq: seq + 1, Terms: w.Terms}
			}
			writes = append(writes, w)
		}
		require.NoError(t, tx.Put(seq+1, writes))
		return tx.AppendJournal(seq+1, 1, []byte(`{}`))
	}))
}

// chosen gives what a filter chooses, in the order of the page, by looking at all.
func (s *stored) chosen(f ActionFilter, p Page) (out []uuid.UUID) {
	var found []core.Action
	for _, a := range s.actions {
		of := Scope{Namespace: a.Namespace, Tenant: a.Tenant}
		if (f.Scope == nil || of == *f.Scope) && (f.Scope != nil || len(p.Scopes) == 0 || slices.Contains(p.Scopes, of)) && (p.Visible == nil || p.Visible(a)) &&
			(p.From == 0 || a.CreatedAt >= p.From) && (p.To == 0 || a.CreatedAt < p.To) &&
			(f.Status == "" || f.Status == a.Status.Type) && (f.Tool == "" || f.Tool == a.ToolName) && hasLabels(a.Labels, f.Labels) &&
			(!f.Webhook || a.Trigger.Route != "") && (f.Route == "" || f.Route == a.Trigger.Route) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b core.Action) int {
		return -cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	if p.OldestFirst {
		slices.Reverse(found)
	}
	for _, a := range found {
		out = append(out, a.ID)
	}
	return out
}

func drawAction(t *rapid.T, id uuid.UUID) core.Action {
	a := core.Action{ActionSpec: core.ActionSpec{
		ID: id, Tenant: rapid.SampledFrom([]string{"", "t", "tt"}).Draw(t, "tenant"), ToolName: rapid.SampledFrom([]string{"a", "ab"}).Draw(t, "tool"),
		Labels: map[string]string{},
	}, CreatedAt: effects.Time(rapid.IntRange(1, 4).Draw(t, "at"))}
	a.Status.Type = rapid.SampledFrom([]core.StatusType{"pending", "failed", "completed", ""}).Draw(t, "status")
	if route := rapid.SampledFrom([]string{"", "r", "rr"}).Draw(t, "route"); route != "" {
		a.Trigger = core.Trigger{Type: core.TriggerWebhook, Route: route}
	}
	for n := range rapid.SampledFrom([]int{0, 1, 2, core.MaxListedLabels + 1}).Draw(t, "labels") {
		a.Labels[fmt.Sprint("k", n)] = rapid.SampledFrom([]string{"v", "w", "un\nlisted"}).Draw(t, "value")
	}
	return a
}

func drawActionFilter(t *rapid.T) (f ActionFilter, p Page) {
	scope := Scope{Tenant: rapid.SampledFrom([]string{"", "t", "tt", "none"}).Draw(t, "of")}
	switch rapid.SampledFrom([]string{"all", "one", "some"}).Draw(t, "tenants") {
	case "one":
		f.Scope = &scope
	case "some":
		p.Scopes = []Scope{{Tenant: ""}, scope}[rapid.IntRange(0, 1).Draw(t, "first"):]
		if len(p.Scopes) == 2 && scope.Tenant == "" {
			p.Scopes = p.Scopes[1:]
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "among") == 0 {
		p.Among = func(s Scope) bool { return s.Tenant != "t" }
		p.Visible = func(s core.State) bool { return p.Among(core.ScopeOf(s)) }
	}
	f.Status = rapid.SampledFrom([]core.StatusType{"", "", "pending", "failed", "running"}).Draw(t, "status")
	f.Tool = rapid.SampledFrom([]string{"", "", "a", "ab", "b"}).Draw(t, "tool")
	f.Webhook = rapid.IntRange(0, 2).Draw(t, "webhook") == 0
	f.Route = rapid.SampledFrom([]string{"", "", "r", "rr", "none"}).Draw(t, "of route")
	f.Labels = map[string]string{}
	for range rapid.IntRange(0, 2).Draw(t, "labels") {
		f.Labels[rapid.SampledFrom([]string{"k0", "k1", "k8"}).Draw(t, "key")] = rapid.SampledFrom([]string{"v", "w", "un\nlisted"}).Draw(t, "value")
	}
	p.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
	p.From, p.To = effects.Time(rapid.SampledFrom([]int{0, 0, 2, 3}).Draw(t, "from")), effects.Time(rapid.SampledFrom([]int{0, 0, 2, 4, 5}).Draw(t, "to"))
	p.OldestFirst = rapid.Bool().Draw(t, "oldest first")
	return f, p
}

func TestAListGivesWhatItsFilterChoosesInFullPages(t *testing.T) {
	for name, open := range map[string]func(path string) (store.Store, error){
		"memory": func(string) (store.Store, error) { return memory.New(), nil },
		"bolt":   func(path string) (store.Store, error) { return bolt.Open(path, bolt.Options{NoSync: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			n, dir := 0, t.TempDir()
			rapid.Check(t, func(t *rapid.T) {
				n++
				st, err := open(filepath.Join(dir, fmt.Sprint(n)))
				require.NoError(t, err)
				s := &stored{Store: st, actions: map[uuid.UUID]core.Action{}, records: map[uuid.UUID]store.Prev{}}
				defer func() { require.NoError(t, s.Close()) }()
				e, err := New(Options{Store: s})
				require.NoError(t, err)
				require.NoError(t, e.loop.Indexed(context.Background()), "it is empty")
				for range rapid.IntRange(0, 3).Draw(t, "batches") {
					var batch []core.Action
					for id := range 12 {
						if rapid.Bool().Draw(t, "changes") {
							batch = append(batch, drawAction(t, uuid.UUID{0: byte(id), 15: 255 - byte(id)}))
						}
					}
					s.put(t, batch...)
				}
				for range 4 {
					f, p := drawActionFilter(t)
					want := s.chosen(f, p)
					var got []uuid.UUID
					for more := true; more; more = p.Token != "" {
						var page []core.Action
						page, p.Token, err = e.Actions().List(context.Background(), f, p)
						require.NoError(t, err)
						require.True(t, len(page) == p.Limit || p.Token == "", "a page that is not the last one is full")
						for _, a := range page {
							got = append(got, a.ID)
						}
					}
					require.Equal(t, want, got, "%+v", f)
				}
			})
		})
	}
}

func TestAPageTokenIsBoundToTheOrderAndTheTimesOfItsList(t *testing.T) {
	s := &stored{Store: memory.New(), actions: map[uuid.UUID]core.Action{}, records: map[uuid.UUID]store.Prev{}}
	defer func() { require.NoError(t, s.Close()) }()
	e, err := New(Options{Store: s})
	require.NoError(t, err)
	require.NoError(t, e.loop.Indexed(t.Context()), "it is empty")
	for i := range 3 {
		s.put(t, core.Action{ActionSpec: core.ActionSpec{ID: uuid.UUID{15: byte(i + 1)}, ToolName: "a"}, CreatedAt: effects.Time(i + 1), Status: core.Status{Type: "pending"}})
	}
	for _, made := range []Page{{}, {OldestFirst: true}, {From: 1}, {To: 9}} {
		made.Limit = 1
		_, token, err := e.Actions().List(t.Context(), ActionFilter{}, made)
		require.NoError(t, err)
		require.NotEmpty(t, token)
		for _, used := range []Page{{}, {OldestFirst: true}, {From: 1}, {To: 9}} {
			used.Limit, used.Token = 1, token
			_, _, err := e.Actions().List(t.Context(), ActionFilter{}, used)
			if used.OldestFirst == made.OldestFirst && used.From == made.From && used.To == made.To {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrPageToken)
			}
		}
	}
}

func TestATokenOfTheVersionBeforeGoesOnWhereItWas(t *testing.T) {
	s := &stored{Store: memory.New(), actions: map[uuid.UUID]core.Action{}, records: map[uuid.UUID]store.Prev{}}
	e, err := New(Options{Store: s})
	require.NoError(t, err)
	require.NoError(t, e.loop.Indexed(t.Context()))
	for n := range byte(3) {
		s.put(t, core.Action{ActionSpec: core.ActionSpec{ID: uuid.UUID{15: n + 1}, Namespace: "ns", Tenant: "t"}, Status: core.Status{Type: core.StatusFailed}, CreatedAt: effects.Time(n)})
	}
	scope := &Scope{Namespace: "ns", Tenant: "t"}
	for term, f := range map[string]ActionFilter{
		"all": {}, "status:failed": {Status: core.StatusFailed}, "scope:ns\x1ft": {Scope: scope, Status: core.StatusFailed},
	} {
		// The version before read one list, and bound its tokens to its name.
		token := index{kind: core.KindAction, names: []string{term}}.token(store.Cursor{At: 1, ID: uuid.UUID{15: 2}})
		page, _, err := e.Actions().List(t.Context(), f, Page{Token: token})
		require.NoError(t, err, "%s", term)
		require.Len(t, page, 1)
		assert.Equal(t, uuid.UUID{15: 1}, page[0].ID)
	}
	_, _, err = e.Actions().List(t.Context(), ActionFilter{}, Page{Token: index{kind: core.KindAction, names: []string{"status:failed"}}.token(store.Cursor{At: 1})})
	assert.ErrorIs(t, err, ErrPageToken)
}

func TestAListOfADatabaseOfAnEarlierVersionIsRefusedUntilItIsBuilt(t *testing.T) {
	st := memory.New()
	a := core.Action{ActionSpec: core.ActionSpec{ID: uuid.UUID{1}, ToolName: "x"}, Status: core.Status{Type: core.StatusFailed}, CreatedAt: 5}
	all := store.Term{Name: core.TermAll, At: 5, Counted: true}
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		w := store.Write{Kind: core.KindAction, ID: a.ID, State: a.AppendJSON(nil), Terms: append(core.FormerTerms(a), all)}
		require.NoError(t, tx.Put(1, []store.Write{w}))
		return tx.AppendJournal(1, 1, []byte(`{}`))
	}))
	e, err := New(Options{Store: st, ActionRetention: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, _, err = e.Actions().List(t.Context(), ActionFilter{}, Page{})
	require.ErrorIs(t, err, ErrReindexing)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	_, err = e.Actions().Cancel(t.Context(), uuid.UUID{9}, "")
	require.Error(t, err, "there is no such action; the loop answers once all is built")
	list, _, err := e.Actions().List(t.Context(), ActionFilter{Status: core.StatusFailed, Tool: "x", Scope: &Scope{}}, Page{})
	require.NoError(t, err)
	assert.Len(t, list, 1)
	cancel()
	require.NoError(t, <-ended)
}

func TestThePlaceBeforeACursorStandsBetweenItAndAllBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := index{newest: rapid.Bool().Draw(t, "newest")}
		part := rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})
		c := store.Cursor{At: effects.Time(rapid.IntRange(-2, 2).Draw(t, "at"))}
		fill := part.Draw(t, "fill")
		for i := range c.ID {
			c.ID[i] = fill
		}
		c.ID[15], c.ID[7] = part.Draw(t, "last"), part.Draw(t, "middle")
		if c.ID == uuid.Nil {
			return
		}
		b := x.justBefore(c)
		require.NotZero(t, b)
		require.True(t, x.before(b, c), "%v before %v", b, c)
		if back := (&index{newest: !x.newest}).justBefore(b); back != c {
			require.Zero(t, c.At*(c.At+1), "only beside the zero cursor: %v, %v, %v", b, c, back)
		}
	})
}
